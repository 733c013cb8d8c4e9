"""Values that a flag takes in other releases only: `--enable-chunked-prefill=false`, `--compilation-config 3`.

vLLM's parser refuses them in the release that is decided for, as it refuses a flag that this release does not have. If
nothing states the release, an image of another one may run, and the engine is decided all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.intake.command.flag_values import InvalidField, InvalidValue, parse_value
from policy.intake.command.flags import flag_history, flag_of_row, releases_clause, spans
from policy.intake.command.parse_result import INVALID
from policy.intake.command.relevant_options import RELEVANT_OPTIONS
from policy.intake.model.tables import releases_with_flags
from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.command.flags import Flag
    from policy.intake.command.parse_result import ParseResult

ANY_TEXT: Final = frozenset({"text", "json-or-text", "text-none-unsets"})
"""The kinds that take any text, so that a release with one shows nothing about a value."""
COMPILATION_OPTION: Final = "compilation_config"
MAX_LEVEL: Final = 64
"""The length of the longest text that may be a level of compilation, such as `{"level": 3}`."""
LEVEL: Final = "level"
MODE: Final = "mode"


def read_in_other_release(flag: Flag, text: str, place: str, result: ParseResult) -> Any:
    """Add a launch error for a value that the release refuses and another takes, and return it; otherwise `INVALID`.

    The value of an option that facts depend on is known only if it means the same in both releases. That is so for a
    boolean flag, and for a level of compilation, whose successor is the mode with the same number. No release has a
    value for the negation of a flag.
    """
    if result.assumed is None or flag.constant is False:
        return INVALID
    is_relevant = flag.dest in RELEVANT_OPTIONS and flag.constant is None
    if is_relevant and (flag.dest != COMPILATION_OPTION or len(text) > MAX_LEVEL):
        return INVALID
    found = _value_in_other_release(flag, text, result.assumed)
    if found is None:
        return INVALID
    value, first, last = found
    if is_relevant:
        if type(value) is not dict or value.keys() != {LEVEL}:
            return INVALID
        value = {MODE if MODE in (flag.members or ()) else LEVEL: value[LEVEL]}
    shown = "this value" if flag.secret else quoted(text)
    result.add_launch_error(
        f"vLLM {result.assumed} refuses {shown} for `{flag.name}` ({place}) and would not start; "
        f"{releases_clause(first, last, 'takes', 'take')}"
    )
    return value


def _value_in_other_release(flag: Flag, text: str, release: str) -> tuple[Any, str, str] | None:
    """The value in the nearest earlier release that takes the text, else in the first later one, and its releases.

    The text is parsed once in each form that the flag has had, and no more as a kind that cannot read it.
    """
    order = releases_with_flags()
    here = order.index(release)
    others = [span for span in spans(flag_history()[flag.dest]) if not span[0] <= here < span[1]]
    others.sort(key=lambda span: (span[0] > here, abs(span[0] - here)))
    refused = [_form(flag)]
    unreadable = set(ANY_TEXT)
    for start, end, row in others:
        other = None if row is None else flag_of_row(flag.dest, row, order[start])
        if other is None or other.constant is not None or other.kind in unreadable or _form(other) in refused:
            continue
        if flag.constant is not None and other.kind != "boolean":
            continue
        try:
            return parse_value(other, text), order[start], order[end - 1]
        except InvalidValue as error:
            refused.append(_form(other))
            if other.choices is None and not isinstance(error, InvalidField):
                unreadable.add(other.kind)
    return None


def _form(flag: Flag) -> tuple[object, ...]:
    """What decides the value of a text."""
    return flag.constant, flag.kind, flag.optional, flag.choices, flag.members
