"""The compiled rules of one release: a row of facts → a ruling.

Owns the engine of a release and a bounded memory of rulings, which depend on the fired rules alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from policy.compile import compile_rules
from policy.decision import Shown
from policy.engine import Engine
from policy.ruling import BOTH_LAYERS, UPSTREAM_ONLY, Ruling, rule_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policy.catalogue import ReleaseRule

KEPT_RULINGS = 1024


class Ruleset:
    """A release's rules in the engine; ``shown`` has what each shows, by its place in ``rules``."""

    def __init__(self, rules: Sequence[ReleaseRule], series: tuple[int, int]) -> None:
        self.rules = tuple(rules)
        self.shown = tuple(Shown(item) for item in rules)
        self.definition = compile_rules(rules, series)
        self.engine = Engine(self.definition)
        self._encode = self.definition.encoder.encode
        self._number = self.definition.numbers.__getitem__
        self._rulings = lru_cache(maxsize=KEPT_RULINGS)(self._rule_on)

    def fired(self, row: Sequence[Any], changed: Iterable[int]) -> tuple[int, ...]:
        """The places of the rules whose conditions hold, in the release's order.

        ``changed`` are the facts' places that may differ from the defaults.

        Rules without a condition are not among them; ``~place`` says that what lifts the rule holds.
        """
        actions = self.engine.fired(self._encode(row, changed))
        return tuple(dict.fromkeys(map(self._number, actions)))

    def ruling(self, fired: tuple[int, ...], *, upstream_only: bool = False) -> Ruling:
        """What follows from the fired rules, by all layers or by upstream's alone."""
        return self._rulings(fired, upstream_only)

    def _rule_on(self, fired: tuple[int, ...], upstream_only: bool) -> Ruling:  # noqa: FBT001  # lru_cache keys are positional
        return rule_on(self.rules, (*fired, *self.definition.always), UPSTREAM_ONLY if upstream_only else BOTH_LAYERS)

    def close(self) -> None:
        """Free the engine's memory; the ruleset is not to be used any more."""
        self.engine.close()
