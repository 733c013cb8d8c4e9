"""The compiled rules of one release: a row of facts → fired rules → a ruling.

Owns what one release needs: its rules in the engine, what they show, and what follows from them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from policy.compile import compile_rules
from policy.decision import Shown
from policy.engine import Engine
from policy.recent import Recent, remember
from policy.ruling import Rulings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.catalogue import ReleaseRule
    from policy.decision import Reason
    from policy.facts import Sections


KEPT_RULINGS: Final = 512
NO_LISTS: Final[dict[str, list[str]]] = {}
KEPT_FACTS: Final = 512


class Ruleset:
    """A release's rules in the engine; ``shown`` has what each shows, by its place in ``rules``.

    ``reviewed`` are the places of rules with a date of review; ``both`` are the rulings on the rules that fired; those of late are kept.
    """

    def __init__(self, rules: Sequence[ReleaseRule], series: tuple[int, int]) -> None:
        self.rules = tuple(rules)
        self.shown = tuple(Shown(item) for item in rules)
        self.reviewed = frozenset(place for place, item in enumerate(rules) if item.rule.review_by is not None)
        self.definition = compile_rules(rules, series)
        self.engine = Engine(self.definition)
        self._encode = self.definition.encoder.encode
        self._kept: Recent[str, tuple[int, ...]] = Recent(KEPT_FACTS)
        self._reasons: dict[tuple[int, bool, Any], Reason] = {}
        self._number = self.definition.numbers.__getitem__
        self.rulings = Rulings(self.rules, self.definition.always)
        self.both = lru_cache(maxsize=KEPT_RULINGS)(self.rulings.both)

    def fired(self, sections: Sections) -> tuple[int, ...]:
        """The places of the rules whose conditions hold for a row's sections, in the release's order.

        Rules without a condition are not among them; ``~place`` says that what lifts the rule holds.
        The engine's last answers are kept by what it was told, once that was asked for a second time.
        """
        fact = self._encode(sections)
        fired = self._kept.get(fact)
        if fired is None:
            fired = tuple(dict.fromkeys(map(self._number, self.engine.fired(fact))))
            self._kept.keep(fact, fired)
        return fired

    def reason(self, place: int, row: Sequence[Any], decisive: bool) -> Reason:  # noqa: FBT001  # called for each reason of each answer
        """The rule at ``place`` as a reason, for a rule that shows no list. A rule shows few facts, so its reasons come again."""
        shown = self.shown[place]
        values = shown.values
        if values is None:
            return shown.reason(row, NO_LISTS, decisive)
        found = values(row)
        key = (place, decisive, found)
        reason = self._reasons.get(key)
        return reason or remember(self._reasons, key, shown.reason(row, NO_LISTS, decisive), found)

    def close(self) -> None:
        """Free the engine's memory; the ruleset is not to be used any more."""
        self.engine.close()
