"""The compiled rules of one release: from a row of facts to the fired rules and their rulings."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import finalize

import msgspec

from policy.cache import RecentCache, memoize
from policy.decision.dates import quiet_until
from policy.decision.decision import RuleView, encode
from policy.decision.known_problems import choice_warning
from policy.decision.ruling import NO_RULES, RuleCombiner, Ruling
from policy.engine.compiler import compile_rules
from policy.engine.fact_encoder import variable_code
from policy.engine.rete import Engine
from policy.facts.facts import defaults
from policy.facts.vocabulary import VARIABLE_INDEX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date

    from policy.decision.decision import Reason
    from policy.facts.facts import Facts
    from policy.facts.vocabulary import Tristate
    from policy.rules.release_rule import ReleaseRule


MAX_CACHED_RULINGS: Final = 4096
"""How many recent rulings are cached, of all releases together; a ruling takes about 1 kB.

With 8192 a decision takes 0.2 of 40 µs less, and the process up to 4 MB more."""
MAX_CACHED_MATCHES: Final = 256
"""How many recent matches that derivations asked for are cached, of all releases together; one takes about 0.5 kB."""
MAX_CACHED_REASONS: Final = 64
"""How many reasons with a list are cached for a release; one takes about 1 kB, and few of them repeat."""
NO_LISTS: Final[dict[str, list[str]]] = {}


ReasonFragment: TypeAlias = tuple[bytes, bytes, bytes]
"""A rule's reason as JSON, and its message and feature escaped for JSON."""

Matches: TypeAlias = tuple[int, ...]
"""The conditions that hold for a deployment's facts without the operator's variable, by their places in the engine."""

Rulings: TypeAlias = "Callable[[Matches, int], tuple[Ruling, Ruling]]"
"""Maps matches and the code of the variable's value to two rulings: by upstream alone, and by both layers."""

decode = msgspec.json.Decoder(str).decode
# A cached ruling saves 6 of 54 µs of a decision in process where all requests differ. The releases share the cache, as
# most of a fleet runs one release; caches of 512 rulings for each release take 38 instead of 33 µs for a stream's line.
_recent_rulings: Final[RecentCache[tuple[int, Matches, int], tuple[Ruling, Ruling]]] = RecentCache(MAX_CACHED_RULINGS)
"""Rulings by a number for the rules in force, the matches and the variable; they do not refer to the rules."""
_recent_matches: Final[RecentCache[tuple[int, str], Matches]] = RecentCache(MAX_CACHED_MATCHES)
"""Matches by a number for the rules and the encoded facts, which have no text of a user."""
_numbers: Final = count()


class Ruleset:
    """A release's rules in the engine; ``views`` has their prepared reasons, by index in ``rules``.

    ``dated`` are the indexes of rules with a review or end date; no such date causes a warning up to the day
    ``quiet_until``. ``rulings`` maps matches to the rulings by upstream alone and by both layers, without regard to end
    dates. If ``has_ends``, call ``rulings_on``, which returns the same function without the rules that have ended.
    """

    def __init__(self, rules: Sequence[ReleaseRule], series: tuple[int, int]) -> None:
        self.rules = tuple(rules)
        self.views = tuple(RuleView(item) for item in rules)
        self.dated = frozenset(index for index, item in enumerate(rules) if item.rule.review_by or item.rule.until)
        self.quiet_until = quiet_until(item.rule for item in rules)
        self._ends = sorted((until, index) for index, item in enumerate(rules) if (until := item.rule.until))
        self.has_ends = bool(self._ends)
        self.unset: Tristate = defaults(series)[VARIABLE_INDEX]
        """The value of the operator's variable if it is not set."""
        self.definition = compile_rules(rules, series)
        self.engine = Engine(self.definition)
        finalize(self, self.engine.close).atexit = False  # an unused ruleset frees its memory
        self._encode = self.definition.encoder.encode
        self._number = next(_numbers)
        self._values = tuple(view.values for view in self.views)
        self._fragments: dict[tuple[int, bool, Any], ReasonFragment] = {}
        self._problem_fragments: dict[tuple[int, Any], bytes] = {}
        self._fragments_with: dict[tuple[Any, ...], ReasonFragment] = {}
        self._choice_warnings: dict[tuple[Any, ...], str] = {}
        self.combiner = RuleCombiner(self.rules, self.definition.always)
        self.rulings = self._rulings_without(NO_RULES)
        self._rulings = {0: self.rulings}

    @cached_property
    def texts(self) -> frozenset[str]:
        """The texts that the rules compare facts with."""
        operands = [leaf.operand for item in self.rules for leaf in item.leaves]
        listed = [each if isinstance(each, tuple) else (each,) for each in operands]
        return frozenset(text for texts in listed for text in texts if isinstance(text, str))

    def fired(self, facts: Facts) -> tuple[int, ...]:
        """The indexes of the rules whose conditions hold for a deployment's facts, in the release's order.

        Rules without a condition are not included. ``~index`` means that the rule's ``cleared_at_startup`` holds.
        """
        return self.definition.fired(self.matches(facts), variable_code(facts.row[VARIABLE_INDEX]))

    def matches(self, facts: Facts) -> Matches:
        """The conditions that hold for a deployment's facts, whatever the operator's variable is."""
        return self.definition.matches(self.engine.fired(self._encode(facts.row)))

    def recent_matches(self, facts: Facts) -> Matches:
        """The same as ``matches``, but cached, because derivations for a fleet ask about much the same facts.

        From the cache it takes 9 instead of 23 µs; the derivation for a model with the name of an embedding model asks
        twice.
        """
        key = (self._number, self._encode(facts.row))
        found = _recent_matches.get(key)
        if found is None:
            found = self.definition.matches(self.engine.fired(key[1]))
            _recent_matches.put(key, found)
        return found

    def rulings_on(self, today: date) -> Rulings:
        """The function ``rulings`` without the rules that have ended by ``today``."""
        number = bisect_left(self._ends, (today, -1))
        if number not in self._rulings:
            ended = frozenset(index for _, index in self._ends[:number])
            self._rulings[number] = self._rulings_without(ended)
        return self._rulings[number]

    def _rulings_without(self, ended: frozenset[int]) -> Rulings:
        """The function ``rulings`` without the rules in ``ended``."""
        combine, number, fired = self.combiner.rulings, next(_numbers), self.definition.fired

        def rulings(matches: Matches, variable: int) -> tuple[Ruling, Ruling]:
            key = (number, matches, variable)
            found = _recent_rulings.get(key)
            if found is None:
                found = combine(fired(matches, variable), ended)
                _recent_rulings.put(key, found)
            return found

        return rulings

    def reason_fragment(self, index: int, decisive: bool, facts: Facts) -> ReasonFragment:  # noqa: FBT001  # called for each reason of each answer
        """The reason of the rule at ``index``; it is cached, because a reason shows few facts.

        The cache saves 9 of 57 µs of a decision in process.
        """
        values = self._values[index](facts.row)
        key = (index, decisive, values)
        return self._fragments.get(key) or memoize(
            self._fragments, key, _encode_reason(self.views[index].reason(facts.row, NO_LISTS, decisive))
        )

    def problem_fragment(self, index: int, facts: Facts) -> bytes:
        """The known problem of the rule at ``index`` as JSON; it is cached too."""
        values = self._values[index](facts.row)
        key = (index, values)
        return self._problem_fragments.get(key) or memoize(
            self._problem_fragments, key, encode(self.views[index].known_problem(facts.row))
        )

    def choice_warning(self, ruling: Ruling, other: Ruling) -> str:
        """``known_problems.choice_warning`` for these rules; it is cached too."""
        key = (ruling.effect.rank, ruling.problems, other.problems)
        found = self._choice_warnings.get(key)
        if found is None:
            found = memoize(
                self._choice_warnings, key, choice_warning([item.rule for item in self.rules], ruling, other)
            )
        return found

    def reason_fragment_with(self, index: int, lists: Mapping[str, Sequence[bytes]], facts: Facts) -> ReasonFragment:
        """The reason of a rule whose message may contain ``lists``, which are escaped for JSON; it is cached too."""
        view = self.views[index]
        if not view.lists:
            return self.reason_fragment(index, False, facts)
        key = (index, self._values[index](facts.row), *[tuple(lists[name]) for name in view.lists])
        return self._fragments_with.get(key) or memoize(
            self._fragments_with, key, self._encode_with(view, lists, facts), MAX_CACHED_REASONS
        )

    def _encode_with(self, view: RuleView, lists: Mapping[str, Sequence[bytes]], facts: Facts) -> ReasonFragment:
        texts = {name: [decode(b'"%b"' % text) for text in lists[name]] for name in view.lists}
        return _encode_reason(view.reason(facts.row, texts, False))

    def close(self) -> None:
        """Free the engine's memory; the ruleset must not be used afterwards."""
        self.engine.close()


def _encode_reason(reason: Reason) -> ReasonFragment:
    return encode(reason), encode(reason.message)[1:-1], encode(reason.feature or "")[1:-1]
