"""Read a flag's values from the words after it, and report missing and invalid ones.

Not here: converting the text of one value (`flag_values`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.intake.command.flag_values import InvalidField, InvalidValue, parse_value
from policy.intake.command.other_values import read_in_other_release
from policy.intake.command.parse_result import INVALID
from policy.intake.command.relevant_options import RELEVANT_OPTIONS, SIZE_OPTIONS
from policy.intake.command.words import PLACEHOLDER, Unknown
from policy.masking import HIDDEN
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.command.flags import Flag, Flags
    from policy.intake.command.parse_result import ParseResult

UNKNOWN_VALUE: Final = "`{}` is set to {}, whose value is not known; write the value, or set the variable"
PLACEHOLDER_VALUE: Final = (
    "`{}` is set to {}, which vLLM refuses as it stands; it is taken as a value that a tool such as `envsubst` sets"
)


def read_value(flag: Flag, text: str, place: str, result: ParseResult) -> Any:
    """Convert a flag's text to its value, and report a fault; `INVALID` after one, and if the value is not known."""
    if type(text) is Unknown:
        return _read_unknown(flag, text, place, result)
    if len(result.faults) >= result.max_faults:
        return INVALID
    if result.late_faults:
        result.late_faults.pop(flag.dest, None)
    try:
        return parse_value(flag, text)
    except InvalidValue as error:
        if PLACEHOLDER.search(text) is not None:
            result.warn(PLACEHOLDER_VALUE.format(flag.name, quoted(text)))
            result.reported.add(flag.dest)
            return _read_unknown(flag, text, place, result)
        if (value := read_in_other_release(flag, text, place, result)) is not INVALID:
            return value
        shown = "its value is not shown" if flag.secret else str(error)
        result.fault_of(flag, text, place, f"`{flag.name}`: {shown}", is_late=isinstance(error, InvalidField))
        return INVALID


def _read_unknown(flag: Flag, text: str, place: str, result: ParseResult) -> Any:
    """The text of an unknown model; otherwise `INVALID`, after a fault if a fact depends on the value."""
    if flag.dest == "model":
        return result.note_unknown_model(text)
    if flag.dest in SIZE_OPTIONS:
        result.set_unknown_size(flag, text, place)
    elif flag.dest in RELEVANT_OPTIONS:
        result.fault(place, UNKNOWN_VALUE.format(flag.name, quoted(text)))
    return INVALID


def read_values(
    flag: Flag, words: Sequence[str], places: Sequence[str], at: int, table: Flags, result: ParseResult
) -> tuple[int, Any]:
    """Read the values of a flag with `nargs`: the position after them, and a list, or a single value for `?`."""
    start = at
    most = {"+": len(words), "?": 1}.get(flag.nargs, flag.nargs) if isinstance(flag.nargs, str) else flag.nargs
    assert isinstance(most, int)
    while at < len(words) and at - start < most and table.is_value(words[at]):
        at += 1
    if flag.nargs == "?" and flag.secret and at == start and may_be_secret(words, at, table):
        _report_unexpected(flag, words[at], places[at], result)
        return at + 1, True
    for index in range(start + (flag.nargs != "?"), at):
        if type(words[index]) is Unknown:
            result.ignore_unknown(HIDDEN if flag.secret else words[index], places[index])
    if flag.nargs == "?":
        return at, read_value(flag, words[start], places[start], result) if at > start else True
    found = [read_value(flag, words[index], places[index], result) for index in range(start, at)]
    if at == start or (flag.nargs != "+" and at - start < most):
        return report_missing(flag, words, places, at, table, result, start - 1), INVALID
    return at, INVALID if any(item is INVALID for item in found) else found


def _report_unexpected(flag: Flag, word: str, place: str, result: ParseResult) -> None:
    """Report a word after a secret's flag that may be the secret, but is read as an option."""
    if type(word) is Unknown:
        result.ignore_unknown(HIDDEN, place)
    else:
        result.refuse(
            place,
            f"unexpected argument {quoted(HIDDEN)}: it begins with a dash, so `{flag.name}` does not take it; write "
            f"`{flag.name}=VALUE` if it is the value, or remove it",
        )


def report_missing(
    flag: Flag,
    words: Sequence[str],
    places: Sequence[str],
    at: int,
    table: Flags,
    result: ParseResult,
    flag_at: int | None = None,
) -> int:
    """Report a flag without a value, and return the position of the next word.

    The next word is skipped if it may be a secret that begins with a dash.
    """
    result.after_secret = flag.secret
    following = words[at] if at < len(words) else None
    followed = ", but nothing follows it"
    if following is not None and not flag.secret:
        followed = f"; {quoted(following)} is read as an option, so write `{flag.name}=VALUE` if it is the value"
    result.refuse(
        places[at - 1 if flag_at is None else flag_at],
        f"`{flag.name}` takes a value{'' if flag.secret and following else followed}",
    )
    return at + may_be_secret(words, at, table) if flag.secret else at


def may_be_secret(words: Sequence[str], at: int, table: Flags) -> bool:
    """Whether the word after a secret's flag may be the secret, because it is not a flag."""
    word = words[at] if at < len(words) else "--"
    if word == "--" or word in table.exact or table.is_level_or_key(word):
        return False
    return table.find(word)[0] is None
