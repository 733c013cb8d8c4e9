"""Values that a flag takes in other releases only: `--enable-chunked-prefill=false`, `--compilation-config 3`.

vLLM's parser refuses them in the release that is decided for, as it refuses a flag that this release does not have. If
nothing states the release, an image of another one may run, and the engine is decided all the same.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from policy.intake.command.flag_values import InvalidValue, parse_value
from policy.intake.command.flags import flag_history, flag_of_row
from policy.intake.command.parse_result import INVALID
from policy.intake.command.relevant_options import RELEVANT
from policy.intake.model.tables import releases_with_flags
from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.command.flags import Flag
    from policy.intake.command.parse_result import ParseResult

ANY_TEXT: Final = frozenset({"text", "json-or-text", "text-none-unsets"})
"""The kinds that take any text, so that a release with one shows nothing about a value."""
LEVEL: Final = "level"
MODE: Final = "mode"


def read_in_other_release(flag: Flag, text: str, place: str, result: ParseResult) -> Any:
    """The value of a text that the release refuses and another takes, after a launch error; otherwise `INVALID`.

    The value of an option that facts depend on is known only if it means the same in both releases: that of a boolean
    flag, and a level of compilation, whose successor is the mode of the same number.
    """
    found = None if result.assumed is None else _other_release(flag, text, result.assumed)
    if found is None:
        return INVALID
    value, first, last = found
    if flag.dest in RELEVANT and flag.constant is None:
        if type(value) is not dict or value.keys() != {LEVEL}:
            return INVALID
        value = {MODE if MODE in (flag.members or ()) else LEVEL: value[LEVEL]}
    span = f"only {first} takes it" if first == last else f"{first} to {last} take it"
    shown = "this value" if flag.secret else quoted(text)
    result.add_launch_error(
        f"vLLM {result.assumed} refuses {shown} for `{flag.name}` ({place}) and would not start; {span}"
    )
    return value


def _other_release(flag: Flag, text: str, release: str) -> tuple[Any, str, str] | None:
    """The value in the nearest earlier release that takes the text, else in the first later one, and its releases."""
    order = releases_with_flags()
    since = flag_history()[flag.dest]
    starts = [*sorted(order.index(each) for each in since), len(order)]
    here = order.index(release)
    spans = [(start, end) for start, end in pairwise(starts) if not start <= here < end]
    spans.sort(key=lambda span: (span[0] > here, abs(span[0] - here)))
    for start, end in spans:
        row = since[order[start]]
        other = None if row is None else flag_of_row(flag.dest, row, order[start])
        if other is None or other.kind in ANY_TEXT or other.constant is not None:
            continue
        if flag.constant is not None and other.kind != "boolean":
            continue
        try:
            value = parse_value(other, text)
        except InvalidValue:
            continue
        return value, order[start], order[end - 1]
    return None
