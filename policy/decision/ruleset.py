"""The compiled rules of one release: a row of facts → fired rules → a ruling.

Owns what one release needs: its rules in the engine, what they show, and what follows from them.
"""

from __future__ import annotations

from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import finalize

import msgspec

from policy.decision.decision import RuleView, encode
from policy.decision.ruling import RuleCombiner
from policy.engine.cache import memoize
from policy.engine.compiler import compile_rules
from policy.engine.rete import Engine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policy.decision.decision import Reason
    from policy.facts.facts import Facts
    from policy.rules.catalogue import ReleaseRule


KEPT_RULINGS: Final = 512
NO_LISTS: Final[dict[str, list[str]]] = {}
KEPT_FACTS: Final = 512


ReasonFragment: TypeAlias = tuple[bytes, bytes, bytes]
"""A rule's reason as JSON, and its message and feature escaped for JSON."""

decode = msgspec.json.Decoder(str).decode


class Ruleset:
    """A release's rules in the engine; ``shown`` has what each shows, by its place in ``rules``.

    ``reviewed`` are the places of rules with a date of review, ``first_review`` is the first such date.
    ``both`` are the rulings on the rules that fired; those of late are kept.
    """

    def __init__(self, rules: Sequence[ReleaseRule], series: tuple[int, int]) -> None:
        self.rules = tuple(rules)
        self.shown = tuple(RuleView(item) for item in rules)
        self.reviewed = frozenset(place for place, item in enumerate(rules) if item.rule.review_by is not None)
        self.first_review = min(
            (item.rule.review_by for item in rules if item.rule.review_by is not None), default=date.max
        )
        self.definition = compile_rules(rules, series)
        self.engine = Engine(self.definition)
        finalize(self, self.engine.close).atexit = False  # a ruleset that nobody asks any more gives its memory back
        self._encode = self.definition.encoder.encode
        self._kept: list[tuple[str, tuple[int, ...]]] = [("", ())] * KEPT_FACTS
        self._values = tuple(shown.values for shown in self.shown)
        self._told: dict[tuple[int, bool, Any], ReasonFragment] = {}
        self._number = self.definition.numbers.__getitem__
        self.rulings = RuleCombiner(self.rules, self.definition.always)
        self.both = lru_cache(maxsize=KEPT_RULINGS)(self.rulings.both)

    def fired(self, facts: Facts) -> tuple[int, ...]:
        """The places of the rules whose conditions hold for a deployment's facts, in the release's order.

        Rules without a condition are not among them; ``~place`` says that what lifts the rule holds.
        The engine's last answers are kept by what it was told, one at each place.
        """
        fact = self._encode(facts)
        place = hash(fact) % KEPT_FACTS
        kept, fired = self._kept[place]
        if kept != fact:
            fired = tuple(dict.fromkeys(map(self._number, self.engine.fired(fact))))
            self._kept[place] = fact, fired
        return fired

    def told(self, place: int, decisive: bool, facts: Facts) -> ReasonFragment:  # noqa: FBT001  # called for each reason of each answer
        """What the rule at ``place`` adds to an answer on facts that ``usual`` has read; a rule shows few facts, so it comes again."""
        values = self._values[place](facts.read)
        key = (place, decisive, values)
        return self._told.get(key) or memoize(
            self._told, key, _reason_fragment(self.shown[place].reason(facts.row, NO_LISTS, decisive)), values
        )

    def told_of(self, place: int, lists: Mapping[str, Sequence[bytes]], facts: Facts) -> ReasonFragment:
        """The same of a rule that may show the ``lists``; their texts are escaped for JSON."""
        shown = self.shown[place]
        if not shown.lists:
            return self.told(place, False, facts)
        texts = {name: [decode(b'"%b"' % text) for text in lists[name]] for name in shown.lists}
        return _reason_fragment(shown.reason(facts.row if shown.evidence or shown.words.facts else (), texts, False))

    def close(self) -> None:
        """Free the engine's memory; the ruleset is not to be used any more."""
        self.engine.close()


def _reason_fragment(reason: Reason) -> ReasonFragment:
    return encode(reason), encode(reason.message)[1:-1], encode(reason.feature or "")[1:-1]
