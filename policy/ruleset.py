"""The compiled rules of one release: a row of facts → fired rules → a ruling.

Owns what one release needs: its rules in the engine, what they show, and what follows from them.
"""

from __future__ import annotations

from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from policy.compile import compile_rules
from policy.decision import Shown
from policy.engine import Engine
from policy.recent import Recent
from policy.ruling import Ruling, Rulings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policy.catalogue import ReleaseRule


KEPT_RULINGS: Final = 128
KEPT_SHOWS: Final = 256
KEPT_FACTS: Final = 256


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
        self._shows: dict[tuple[int, ...], Callable[[Sequence[Any]], tuple[Any, ...]]] = {}
        self._number = self.definition.numbers.__getitem__
        self.rulings = Rulings(self.rules, self.definition.always)
        self.both = lru_cache(maxsize=KEPT_RULINGS)(self.rulings.both)

    def fired(self, row: Sequence[Any]) -> tuple[int, ...]:
        """The places of the rules whose conditions hold for a row, in the release's order.

        Rules without a condition are not among them; ``~place`` says that what lifts the rule holds.
        The engine's last answers are kept by what it was told, once that was asked for a second time.
        """
        fact = self._encode(row)
        fired = self._kept.get(fact)
        if fired is None:
            fired = tuple(dict.fromkeys(map(self._number, self.engine.fired(fact))))
            self._kept.keep(fact, fired)
        return fired

    def shows(self, ruling: Ruling) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        """What takes from a row the values that an answer with this ruling shows."""
        key = tuple(ruling.holding)
        found = self._shows.get(key)
        if found is None:
            indices = sorted({index for n in ruling.holding for index in self.shown[n].indices})
            found = itemgetter(*indices) if len(indices) > 1 else _taking(indices)
            if len(self._shows) < KEPT_SHOWS:
                self._shows[key] = found
        return found

    def close(self) -> None:
        """Free the engine's memory; the ruleset is not to be used any more."""
        self.engine.close()


def _taking(indices: list[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    return lambda row: tuple(row[index] for index in indices)
