"""Collect dotted options (`--option.key value`), merge them, and set each option as one JSON value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from policy.intake.command.flag_values import InvalidValue, convert_fields, parse_human_int
from policy.intake.command.flags import with_dashes
from policy.intake.command.parse_result import UNKNOWN
from policy.intake.command.relevant_options import RELEVANT_OPTIONS
from policy.intake.command.unknown_flags import report_unknown
from policy.intake.command.word_places import FILE_PREFIX
from policy.intake.command.words import Unknown
from policy.intake.command_line import UnknownFlag
from policy.masking import HIDDEN, masked
from policy.messages import listed, quoted
from policy.parser.jsontext import NotJson, read_json
from policy.secret_names import is_secret

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.command.flags import Flag, Flags
    from policy.intake.command.parse_result import ParseResult

MAX_KEYS: Final = 64
_JSON_STARTS: Final = frozenset('{["-0123456789tfn+')

DottedOptions: TypeAlias = dict[str, tuple[dict[str, Any], dict[str, str]]]
"""The merged value of each dotted option, and the place of each of its keys."""


def read_dotted(
    words: Sequence[str], places: Sequence[str], at: int, options: DottedOptions, result: ParseResult
) -> int:
    """Collect `--option.key value`, which `set_dotted` sets at the end, and return the position of the next word."""
    word, place = words[at], places[at]
    name, equals, text = word.partition("=")
    following = at + 1
    if not equals:
        if following == len(words):
            result.refuse(place, f"{quoted(word)} takes a value, but nothing follows it")
            return following
        text = words[following]
        following += 1
    if type(text) is Unknown or type(word) is Unknown:
        shown = HIDDEN if is_secret(name) else text
        result.fault(
            place,
            f"{quoted(name)} is set to {quoted(shown)}, whose value is not known; write the value, or set the variable",
        )
        return following
    listing = name.endswith("+")
    option, *keys = name.removesuffix("+").split(".")
    if len(keys) > MAX_KEYS:
        result.fault(place, f"{quoted(name)} is nested more than {MAX_KEYS} deep")
        return following
    value: Any = list(text.split(",")) if listing else _dotted_value(text)
    for key in reversed(keys):
        value = {key: value}
    tree, where = options.setdefault(with_dashes(option) if option.startswith("--") else option, ({}, {}))
    _merge(tree, value)
    where[".".join(keys)] = place
    return following


def set_dotted(options: DottedOptions, table: Flags, result: ParseResult) -> None:
    """Set each option's dotted keys as one JSON value, which replaces any value given before."""
    for option, (tree, where) in options.items():
        first = next(iter(where.values()))
        flag, _, short = table.find(option)
        shown = [f"{option}.{key}" for key in where]
        if flag is None and short:
            result.refuse(
                first,
                f"{quoted(shown[0])} is ambiguous: it could be {listed(short[:8])}; write one of them in full",
            )
        elif flag is None:
            _report_unknown(option, shown, first, tree, table, result)
        elif flag.dest not in RELEVANT_OPTIONS:
            result.add_ignored(*([f"{option}.{HIDDEN}"] if flag.secret else map(masked, shown)))
            result.others[flag.dest] = (UNKNOWN if flag.secret else tree), first
        elif flag.kind not in {"json", "object", "object-or-level", "overrides", "json-or-text"}:
            result.refuse(
                first, f"`{flag.name}` has no fields, so {quoted(shown[0])} is refused; write `{flag.name} VALUE`"
            )
        else:
            _set_tree(flag, option, tree, where, result)


def _report_unknown(
    option: str, shown: Sequence[str], place: str, tree: dict[str, Any], table: Flags, result: ParseResult
) -> None:
    """Report the keys of an option that the release does not have; they are dropped together."""
    omitted = result.omitted
    flag = report_unknown(option, shown[0], place, table, result)
    ignored = masked(shown[0])
    result.add_ignored(ignored)
    # as in `skip_unknown`, a name that may hold a secret has no remedy
    if result.omitted == omitted and option.startswith("--") and ignored == shown[0]:
        is_hidden = flag is None or flag.secret or any(map(is_secret, shown))
        value = HIDDEN if is_hidden else masked(json.dumps(tree, ensure_ascii=False))
        name = option[2:].replace("-", "_")
        result.unknown_flags.append(UnknownFlag(name, place, value, result.launch_errors[-1], ignored))


def _set_tree(flag: Flag, option: str, tree: dict[str, Any], where: dict[str, str], result: ParseResult) -> None:
    first = next(iter(where.values()))
    try:
        value = tree if flag.members is None else convert_fields(flag.members, tree)
    except InvalidValue as error:
        bad = next((place for key, place in where.items() if f"`{key}`" in str(error)), first)
        is_hidden = flag.secret or any(is_secret(f"{option}.{key}") for key in where)
        shown = HIDDEN if is_hidden else masked(json.dumps(tree, ensure_ascii=False))
        result.refuse(bad, f"`{option}.…`: {error}", flag.dest, shown)
        return
    dest = flag.dest
    before = result.found_at.get(dest)
    if before is not None and not before.startswith(FILE_PREFIX):
        result.warn(
            f"`{option}.…` replaces the whole `{flag.name}` at {before}; vLLM does not merge them, "
            "so use one form for all keys"
        )
    result.values[dest] = value
    result.found_at[dest] = first
    result.members[dest] = where


def _dotted_value(text: str) -> Any:
    """The text parsed as JSON if possible, else as a number such as `80g`, else unchanged."""
    if text[:1] in _JSON_STARTS or text[:1].isspace():
        try:
            return read_json(text.encode())
        except (NotJson, UnicodeEncodeError):
            pass
        try:
            return parse_human_int(text)
        except InvalidValue:
            pass
    return str(text)


def _merge(tree: dict[str, Any], update: dict[str, Any]) -> None:
    """Merge `update` into `tree`: maps are merged, lists joined, anything else is replaced."""
    for key, value in update.items():
        before = tree.get(key)
        if type(value) is dict and type(before) is dict:
            _merge(before, value)
        elif type(value) is list and type(before) is list:
            before += value
        else:
            tree[key] = value
