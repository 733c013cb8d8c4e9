"""The compiled rules of one release: a row of facts → fired rules → a ruling.

Owns what one release needs: its rules in the engine, what they show, and what follows from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policy.compile import compile_rules
from policy.decision import Shown
from policy.engine import Engine
from policy.ruling import Rulings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.catalogue import ReleaseRule


class Ruleset:
    """A release's rules in the engine; ``shown`` has what each shows, by its place in ``rules``."""

    def __init__(self, rules: Sequence[ReleaseRule], series: tuple[int, int]) -> None:
        self.rules = tuple(rules)
        self.shown = tuple(Shown(item) for item in rules)
        self.definition = compile_rules(rules, series)
        self.engine = Engine(self.definition)
        self._encode = self.definition.encoder.encode
        self._number = self.definition.numbers.__getitem__
        self.rulings = Rulings(self.rules, self.definition.always)

    def fired(self, row: Sequence[Any]) -> tuple[int, ...]:
        """The places of the rules whose conditions hold, in the release's order.

        Rules without a condition are not among them; ``~place`` says that what lifts the rule holds.
        """
        actions = self.engine.fired(self._encode(row))
        return tuple(dict.fromkeys(map(self._number, actions)))

    def close(self) -> None:
        """Free the engine's memory; the ruleset is not to be used any more."""
        self.engine.close()
