"""Report the flags that a release does not have, and skip them with their values."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from policy.intake.command.deprecated_flags import use_instead
from policy.intake.command.flag_arguments import may_be_secret
from policy.intake.command.flags import flags, in_other_release, with_dashes
from policy.intake.command_line import UnknownFlag
from policy.masking import HIDDEN, masked
from policy.messages import MAX_QUOTED, nearest, quoted
from policy.secret_names import is_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policy.intake.command.flags import Flag, Flags
    from policy.intake.command.parse_result import ParseResult
    from policy.secret_values import SecretValues

MIN_SIMILARITY: Final = 0.75
KEYWORDS: Final = "engine_kwargs."
"""The beginning of the place of an argument that Python code gives to `AsyncEngineArgs`, without a parser of flags."""


def skip_unknown(
    words: Sequence[str], places: Sequence[str], at: int, table: Flags, result: ParseResult, *, may_be_model: bool
) -> int:
    """Skip a flag that the release does not have, with as many values as it takes in other releases, or one.

    The last word is left for the model if it may be the model.
    """
    key, equals, text = words[at].partition("=")
    name = with_dashes(key) if key.startswith("--") and table.takes_underscores else key
    omitted = result.omitted
    flag = report_unknown(name, key, places[at], table, result)
    shown_key = masked(key)
    result.add_ignored(shown_key)
    end = _end_of_values(words, at, key, equals, flag, table, result, may_be_model=may_be_model)
    is_reported = result.omitted == omitted and name.startswith("--") and name[2:]
    if is_reported and shown_key == key:  # a remedy names the flag, so one that may hold a secret has none
        value: str | bool = text if equals else " ".join(words[at + 1 : end]) if end > at + 1 else True
        shown = value
        if value and type(value) is str:  # a flag that no release has may have a secret, whatever its name
            shown = HIDDEN if flag is None or is_secret(key) else masked(value)
        option = name[2:].replace("-", "_")
        result.unknown_flags.append(UnknownFlag(option, places[at], shown, result.launch_errors[-1], shown_key))
    return end


def _end_of_values(
    words: Sequence[str],
    at: int,
    key: str,
    equals: str,
    flag: Flag | None,
    table: Flags,
    result: ParseResult,
    *,
    may_be_model: bool,
) -> int:
    """The position after an unknown flag and its values; ``flag`` is the one of another release."""
    at += 1
    if equals or (flag is not None and flag.constant is not None):
        return at
    most = len(words) if flag is not None and flag.nargs == "+" else 1
    hidden = result.after_secret = is_secret(key)
    if hidden and words[at : at + 1] == ["--"]:
        return len(words)  # any of them may be the secret, so none is used as the model
    if hidden and at < len(words) and not table.is_value(words[at]):
        return at + may_be_secret(words, at, table)
    needs_model = flag is None and not hidden and result.serve and may_be_model and "model" not in result.values
    while most and at < len(words) and table.is_value(words[at]) and not (needs_model and at + 1 == len(words)):
        most -= 1
        at += 1
    return at


def false_keyword(place: str, table: Flags) -> Flag | None:
    """The flag of a keyword argument at the place of a ``--no-…``; the release may have no negation of it.

    None for any other place, and for an argument that the release does not have.
    """
    if not place.startswith(KEYWORDS):
        return None
    flag = table.by_name.get(place.removeprefix(KEYWORDS))
    return flag if flag is not None and flag.kind in {"bool", "boolean"} else None


def report_unknown(key: str, shown: str, place: str, table: Flags, result: ParseResult) -> Flag | None:
    """Report a flag that the release does not have, and return it from the nearest release that has it."""
    release = table.release
    other = in_other_release(key, release)
    if other is None and key[2:] and key[0] == "-" != key[1] and key[:3].rstrip("0123456789") in table.exact:
        short = key.rstrip("0123456789")
        result.refuse(place, f"unknown flag {quoted(shown)}; write `{short} {key[len(short) :]}`")
        return None
    if len(result.launch_errors) >= result.max_messages:
        result.omitted += 1
        return None if other is None else other[0]
    if other is not None:
        flag, clause, is_earlier = other
        # what a flag of a later release replaces is no advice for an earlier one
        instead = use_instead(flag.dest, release) if is_earlier else ""
        result.add_launch_error(
            f"vLLM {release} has no flag {quoted(shown)} ({place}) and would not start; {clause}{instead}"
        )
        return flag
    near = _suggestion(key[:MAX_QUOTED], release)
    result.add_launch_error(f"vLLM {release} has no flag {quoted(shown)} ({place}) and would not start{near}")
    return None


def without_secrets(found: Iterable[UnknownFlag], secrets: SecretValues) -> list[UnknownFlag]:
    """The flags that a remedy may drop, with secret values hidden; a flag that contains one is left out."""
    return [
        each if each.value is True else replace(each, value=secrets.hidden(str(each.value)))
        for each in found
        if secrets.hidden(each.ignored) == each.ignored
    ]


@lru_cache(maxsize=1024)
def _suggestion(beginning: str, release: str) -> str:
    """The flag of a release that was meant; an explanation derives the same command a hundred times."""
    return nearest(beginning, flags(release).spellings, MIN_SIMILARITY)
