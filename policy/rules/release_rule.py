"""A rule in one release, and the order of a release's rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policy.rules.conditions import Condition, Leaf, leaves

if TYPE_CHECKING:
    from policy.rules.rule import Range, Rule


@dataclass(frozen=True, slots=True)
class ReleaseRule:
    """A rule in one release with its named conditions resolved; ``cleared`` is its ``cleared_at_startup``.

    ``when`` includes the condition of the range's ``known_problem``.
    """

    rule: Rule
    range: Range
    when: Condition | None
    cleared: Condition | None

    def __hash__(self) -> int:
        """The hash of the rule's id and range, without the conditions.

        A policy looks up the rulesets of all releases by their rules. If an earlier policy has all of them, that takes
        25 ms of processor time with the conditions, and 5 ms without them (``Policy``, 83 releases).
        """
        return hash((self.rule.id, self.range.span.text))

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The comparisons of both conditions."""
        return tuple(leaf for each in (self.when, self.cleared) if each is not None for leaf in leaves(each))


def precedence(item: ReleaseRule) -> tuple[int, int, str]:
    """The sort key of rules: their precedence, then their place among rules with the same effect, then their id."""
    return item.rule.effect.rank, item.rule.place_among_its_effect, item.rule.id
