"""Parallel sizes with unknown values: whether another size would change the decision."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from policy.errors import RequestFault, RequestInvalid
from policy.intake.command.flag_arguments import UNKNOWN_VALUE
from policy.intake.command.word_places import word_pointer
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.intake.command_line import ParsedOptions
    from policy.intake.provenance import Provenance

TRIAL_SIZES: Final = (2, 8)
"""The sizes that are tried besides 1, for a few and for all GPUs of a node."""


def check_sizes(
    options: ParsedOptions,
    derive_with: Callable[[ParsedOptions], Provenance],
    decide: Callable[[Provenance], tuple[str | None, bool]],
    pointer: str,
) -> list[str]:
    """A warning for each size with an unknown value, if 1 and ``TRIAL_SIZES`` lead to the same decision.

    ``derive_with`` derives the facts with other options, and ``decide`` decides them: (runner, starts). The options are
    tried alone and all together. Sizes that vLLM would refuse are not considered, unless it refuses all.

    Raises:
        RequestInvalid: another size would change the decision.
    """
    unknown = options.unknown_sizes
    places = options.places | {name: place for name, (_, _, place) in unknown.items()}
    trials = [{name: 1} for name in unknown]
    trials += [{name: size} for name in unknown for size in TRIAL_SIZES] if len(unknown) > 1 else []
    trials += [dict.fromkeys(unknown, size) for size in TRIAL_SIZES]
    accepted: set[tuple[str | None, bool]] = set()
    refused: set[tuple[str | None, bool]] = set()
    refusals: dict[int, None] = {}
    for sizes in trials:
        with suppress(RequestInvalid):
            derived = derive_with(replace(options, values=options.values | sizes, places=places))
            (accepted if derived.refusal is None else refused).add(decide(derived))
            if derived.refusal is not None:
                refusals.update(dict.fromkeys(sizes.values()))
    if len(accepted or refused) > 1:
        raise RequestInvalid(
            [
                RequestFault(word_pointer(pointer, place), UNKNOWN_VALUE.format(flag, quoted(text)))
                for flag, text, place in unknown.values()
            ]
        )
    same = "the decision is the same with 2 and 8"
    if refusals and accepted:
        named = " and ".join(map(str, sorted(refusals)))
        same = f"{same} where vLLM accepts them; it refuses {named} for this model and these arguments"
    return [
        f"`{flag}` is set to {quoted(text)}, whose value is not known; it is assumed to be 1, and {same}"
        for flag, text, _ in unknown.values()
    ]
