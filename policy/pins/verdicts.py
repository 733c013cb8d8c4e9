"""What a pin does in a release: the answer with it compared with the answer without it.

Owns the verdicts and their order, the worst first. It reads two answers and no facts: whatever the variable does in a
release is decided by that release's rules.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.decision.known_problems import worse_than
from policy.impact.answers import ReleaseAnswer, Undecided
from policy.rules.effects import Outcome, Runner
from policy.rules.known_problems import Certainty, Symptom

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from policy.impact.answers import ProblemSummary
    from policy.impact.changes import Answer


class PinVerdict(StrEnum):
    """What a pin does; of several that fit, the first counts."""

    FATAL = "fatal"
    HARMFUL = "harmful"
    UNDECIDED = "undecided"
    UNEXPLAINED = "unexplained"
    REDUNDANT = "redundant"
    NEEDED = "needed"


VERDICTS: Final = tuple(PinVerdict)
SYMPTOMS: Final = [*map(str, Symptom)]
CERTAINTIES: Final = [*map(str, Certainty)]
MEANINGS: Final = {
    PinVerdict.FATAL: "vLLM will not start with it",
    PinVerdict.HARMFUL: "it chooses the worse runner",
    PinVerdict.UNDECIDED: "the release cannot be decided, or the value is not known",
    PinVerdict.UNEXPLAINED: "it keeps V1, and nothing known speaks for that",
    PinVerdict.REDUNDANT: "without it the decision is the same",
    PinVerdict.NEEDED: "without it the decision is another, for a known reason",
}
NEVER_STARTS: Final = "vLLM does not start, with it or without it"
NO_CHOICE: Final = "the release has only V2, whatever the variable says"
NO_V1: Final = "the release has no V1, and V2 does not start"


class WithoutPin(Struct, frozen=True, gc=False):
    """What a release does without the pin."""

    runner: str | None
    starts: bool


class PinAnswer(Struct, frozen=True, gc=False):
    """What a pin does in a release.

    ``rules`` are the rules and known problems that cause the verdict, and ``why`` is the reason in words. ``runner``
    and ``starts`` are with the pin; ``without`` is ``None`` if one of the two answers is undecided.
    """

    verdict: PinVerdict
    rules: list[str]
    why: str
    runner: str | None = None
    starts: bool | None = None
    without: WithoutPin | None = None


def verdict_of(pinned: Answer, free: Answer, *, without_v1: bool, house: Collection[str]) -> PinAnswer:
    """What a pin does, by the answers with it and without it.

    ``without_v1``: whether the release has no V1. ``house`` has the ids of the organisation's own rules.
    """
    for answer in (pinned, free):
        if isinstance(answer, Undecided):
            return undecided(answer.problem.detail)
        if answer.is_refused:
            return undecided("; ".join(answer.launch_errors))
    assert isinstance(pinned, ReleaseAnswer)
    assert isinstance(free, ReleaseAnswer)
    verdict, rules, why = _verdict(pinned, free, without_v1=without_v1, house=house)
    if verdict is PinVerdict.REDUNDANT and without_v1:
        why = NO_CHOICE
    elif verdict is not PinVerdict.FATAL and not pinned.starts and not free.starts:
        why = f"{NEVER_STARTS}: {'; '.join(_errors(pinned))}; {why}"
    return PinAnswer(verdict, rules, why, pinned.runner, pinned.starts, WithoutPin(free.runner, free.starts))


def undecided(why: str) -> PinAnswer:
    """The answer for a pin whose effect is not known."""
    return PinAnswer(PinVerdict.UNDECIDED, [], why)


def worst(verdicts: Iterable[PinVerdict]) -> PinVerdict | None:
    """The worst verdict; ``None`` without any."""
    return min(verdicts, key=VERDICTS.index, default=None)


def _verdict(
    pinned: ReleaseAnswer, free: ReleaseAnswer, *, without_v1: bool, house: Collection[str]
) -> tuple[PinVerdict, list[str], str]:
    errors, other_errors = _errors(pinned), _errors(free)
    own = [each for each in errors if each not in other_errors]
    if own or (free.starts and not pinned.starts):
        return PinVerdict.FATAL, _new(pinned.refusals, free.refusals), "; ".join(own or errors)
    if without_v1 and pinned.startup_errors:
        return PinVerdict.FATAL, pinned.refusals, f"{NO_V1}: {'; '.join(pinned.startup_errors)}"
    left = [each for each in other_errors if each not in errors]
    if left or (pinned.starts and not free.starts):
        why = f"without it vLLM does not start: {'; '.join(left or other_errors)}"
        return PinVerdict.NEEDED, _new(free.refusals, pinned.refusals), why
    if worse := worse_than(pinned.known_problems, free.known_problems, _rank):
        return PinVerdict.HARMFUL, [each.rule for each in worse], f"it chooses {_named(pinned)}: {_problems(worse)}"
    by_house = [rule for rule in _decisive(free) if rule in house]
    if by_house and pinned.runner != free.runner:
        return PinVerdict.HARMFUL, by_house, f"a house rule chooses {_named(free)}: {_reasons(free)}"
    if pinned.set_env and not free.set_env:
        return PinVerdict.HARMFUL, _decisive(pinned), f"vLLM would not do as decided: {_reasons(pinned)}"
    if better := worse_than(free.known_problems, pinned.known_problems, _rank):
        return PinVerdict.NEEDED, [each.rule for each in better], f"it avoids {_named(free)}: {_problems(better)}"
    if pinned.runner != free.runner:
        return _of_choice(pinned, free)
    if free.set_env and not pinned.set_env:
        return PinVerdict.NEEDED, _decisive(free), f"vLLM alone would not choose {_named(free)}: {_reasons(free)}"
    return PinVerdict.REDUNDANT, _decisive(free), f"without it: {_reasons(free)}"


def _of_choice(pinned: ReleaseAnswer, free: ReleaseAnswer) -> tuple[PinVerdict, list[str], str]:
    """The verdict of a pin that changes the runner, if neither runner has worse known problems."""
    if pinned.runner == Runner.V1 and pinned.v1_unsupported_features:
        rules = _decisive(free)
        return PinVerdict.HARMFUL, rules, f"V1 does not support {'; '.join(pinned.v1_unsupported_features)}"
    if free.outcome == Outcome.REQUIRED:
        return PinVerdict.HARMFUL, _decisive(free), f"{_named(free)} is required: {_reasons(free)}"
    if pinned.runner == Runner.V1 and free.runner == Runner.V2:
        return (
            PinVerdict.UNEXPLAINED,
            _decisive(free),
            f"without it V2: {_reasons(free)}; no worse problem of V2 is known",
        )
    return PinVerdict.NEEDED, _decisive(free), f"without it {_named(free)}: {_reasons(free)}"


def _errors(answer: ReleaseAnswer) -> list[str]:
    return [*answer.startup_errors, *answer.launch_errors]


def _new(rules: list[str], others: list[str]) -> list[str]:
    return [each for each in rules if each not in others] or rules


def _decisive(answer: ReleaseAnswer) -> list[str]:
    return [each.rule for each in answer.reasons if each.decisive]


def _reasons(answer: ReleaseAnswer) -> str:
    return "; ".join([each.message for each in answer.reasons if each.decisive])


def _problems(problems: list[ProblemSummary]) -> str:
    return ", ".join(f"{each.symptom} ({each.rule}, {each.certainty})" for each in problems)


def _rank(problem: ProblemSummary) -> tuple[int, int]:
    """How bad a problem is, then how certain; a worse one has lower numbers."""
    return SYMPTOMS.index(problem.symptom), CERTAINTIES.index(problem.certainty)


def _named(answer: ReleaseAnswer) -> str:
    return "a runner of its own" if answer.runner is None else answer.runner.upper()
