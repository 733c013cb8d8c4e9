"""What is known to go wrong with the decided runner and with the other one.

Owns the types of their JSON, and the comparison of two lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.rules.known_problems import Certainty, Symptom

if TYPE_CHECKING:
    from collections.abc import Sequence

SYMPTOMS: Final = list(Symptom)
CERTAINTIES: Final = list(Certainty)


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

    @property
    def severity(self) -> tuple[int, int]:
        """The places on the scales of symptoms and certainties: a worse or more certain problem has lower ones."""
        return SYMPTOMS.index(Symptom(self.symptom)), CERTAINTIES.index(Certainty(self.certainty))


class OtherRunner(Struct, frozen=True, gc=False):
    """What the runner that was not decided would do with the deployment, if the operator's variable selected it."""

    runner: str
    starts: bool
    startup_errors: list[str]
    unsupported_features: list[str]
    known_problems: list[KnownProblem]


def worse_than(problems: Sequence[KnownProblem], other: Sequence[KnownProblem]) -> list[KnownProblem]:
    """The problems that only the first list has, if it is the worse one; ``[]`` if it is not.

    Both lists are ordered, the worst first. The first place at which they differ decides; of two lists with the same
    beginning, the longer one is worse.
    """
    rules, others = {each.rule for each in problems}, {each.rule for each in other}
    own = [each for each in problems if each.rule not in others]
    left = [each for each in other if each.rule not in rules]
    for mine, theirs in zip(own, left, strict=False):
        if mine.severity != theirs.severity:
            return own if mine.severity < theirs.severity else []
    return own if len(own) > len(left) else []
