"""What is known to go wrong with the decided runner and with the other one.

Owns the types of their JSON, the comparison of two lists, and the warning about a choice of the worse one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from policy.facts.vocabulary import VARIABLE
from policy.rules.effects import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policy.decision.ruling import Ruling
    from policy.rules.rule import Rule

P = TypeVar("P")
VARIABLE_NAME: Final = VARIABLE.partition(".")[2]


class KnownProblem(Struct, frozen=True, gc=False):
    """Something that is known to go wrong with a deployment; ``runner`` is ``None`` if both runners have it."""

    rule: str
    runner: str | None
    symptom: str
    certainty: str
    message: str
    remedy: str | None
    fixed_in: str | None
    references: tuple[str, ...]


class OtherRunner(Struct, frozen=True, gc=False):
    """What the runner that was not decided would do with the deployment, if the operator's variable selected it."""

    runner: str
    starts: bool
    startup_errors: list[str]
    unsupported_features: list[str]
    known_problems: list[KnownProblem]


def choice_warning(rules: Sequence[Rule], ruling: Ruling, other: Ruling) -> str:
    """The warning that the variable or a house rule chose the runner with the worse known problems; empty otherwise.

    ``other`` is the ruling with the variable that selects the other runner, which starts. ``rules`` are the release's.
    """
    runner = ruling.runner
    of_other = [rules[n] for n in other.problems]
    worse = worse_than([rules[n] for n in ruling.problems], of_other, lambda rule: rule.place_among_its_effect)
    if not worse or runner is None:
        return ""
    chooser = f"`{VARIABLE_NAME}`" if ruling.effect.outcome is Outcome.OVERRIDE else "a house rule"
    names = ", ".join(f"`{each.id}` ({each.problem.symptom})" for each in worse if each.problem is not None)
    return (
        f"{chooser} chooses {runner.upper()}, of which worse problems are known than of {runner.other.upper()}: {names}"
    )


def worse_than(problems: Sequence[P], other: Sequence[P], rank: Callable[[P], Any]) -> list[P]:
    """The problems that only the first list has, if it is the worse one; ``[]`` if it is not.

    Both lists are ordered by ``rank``, the worst problem first. The first place at which their ranks differ decides; of
    two lists with the same beginning, the longer one is worse.
    """
    own = [each for each in problems if each not in other]
    left = [each for each in other if each not in problems]
    for mine, theirs in zip(own, left, strict=False):
        if rank(mine) != rank(theirs):
            return own if rank(mine) < rank(theirs) else []
    return own if len(own) > len(left) else []
