"""The checks of a release's rules: that one decides for all facts, the places in vLLM's lists, and the runners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from policy.errors import Fault
from policy.facts.facts import defaults
from policy.facts.vocabulary import FACTS, VARIABLE, VARIABLE_INDEX
from policy.messages import quoted
from policy.rules.conditions import leaves
from policy.rules.effects import Layer, Runner
from policy.rules.operators import Comparison
from policy.rules.release_list import RELEASES_FILE
from policy.rules.releases import series
from policy.rules.releases import spans as spans_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policy.parser.fields import ReleaseRange
    from policy.rules.release_rule import ReleaseRule
    from policy.rules.rule import Rule

RulesByRelease: TypeAlias = "Mapping[str, tuple[ReleaseRule, ...]]"
RULES_ABOUT_VARIABLE: Final[dict[Any, str]] = {
    False: f"a `not-default` rule with `when: {{{VARIABLE}: false}}`",
    True: f"an `override-v2` rule with `when: {{{VARIABLE}: true}}`",
    Comparison.MALFORMED: f"an `invalid` rule with `when: {{{VARIABLE}: malformed}}`",
}
"""The rule that decides for each value of the operator's variable, in releases where unset means false."""


def duplicate_orders(rules_by_release: RulesByRelease) -> Iterator[Fault]:
    """A fault for each rule with the same `order` as another one with the same effect in the same release."""
    for rules in rules_by_release.values():
        by_order: dict[tuple[int, int], Rule] = {}
        for item in rules:
            rule = item.rule
            if rule.effect.ordered:
                earlier = by_order.setdefault((rule.effect.rank, rule.order), rule)
                if earlier is not rule:
                    yield Fault(
                        rule.path,
                        *rule.place,
                        f"order {rule.order} of `{rule.effect.name}` is already used by {earlier.path}; choose another",
                    )


def undecided_releases(rules_by_release: RulesByRelease, known: Sequence[str]) -> Iterator[Fault]:
    """A fault for all releases in which no rule may decide and the same rules are missing."""
    found: dict[str, list[str]] = {}
    for release, rules in rules_by_release.items():
        if not is_decided(release, rules):
            found.setdefault(_missing_rules(release, rules), []).append(release)
    for missing, releases in found.items():
        where = spans_of(releases, known)
        yield Fault(RELEASES_FILE, 1, 1, f"no rule decides in {where} if no other rule fires; add {missing}")


def _missing_rules(release: str, rules: Iterable[ReleaseRule]) -> str:
    """The rules with which those of a release would decide for all facts, by their effects and conditions."""
    if defaults(series(release))[VARIABLE_INDEX] is not None:
        decided = _decided_values(rules)
        return " and ".join(rule for value, rule in RULES_ABOUT_VARIABLE.items() if value not in decided)
    ((first_with_v2, _, _),) = FACTS[VARIABLE].other_defaults
    return f"a `{'not-default' if series(release) < first_with_v2 else 'default-v2'}` rule with `when: always`"


def forced_without_v2(rules_by_release: RulesByRelease, known: Sequence[str]) -> Iterator[Fault]:
    """A fault for each range of a house rule that chooses V2 in releases that have no V2."""
    without = [release for release, rules in rules_by_release.items() if _has_v1_alone(rules)]
    found: dict[tuple[str, ReleaseRange], list[str]] = {}
    for release in without:
        for item in rules_by_release[release]:
            if item.rule.layer is Layer.HOUSE and item.rule.effect.runner is Runner.V2:
                found.setdefault((item.rule.path, item.range.span), []).append(release)
    for (path, span), releases in found.items():
        start = next((release for release in known[known.index(releases[-1]) :] if release not in without), None)
        advice = "remove it" if start is None else f"begin it at {start} or later, or remove it"
        yield Fault(
            path,
            *span.place,
            f"the range {quoted(span.text)} has releases without V2, which no house rule can choose there: "
            f"{spans_of(releases, known)}; {advice}",
        )


def _has_v1_alone(rules: Iterable[ReleaseRule]) -> bool:
    """Whether a release has no V2: an upstream rule always decides for V1, and none chooses V2."""
    upstream = [item for item in rules if item.rule.layer is Layer.UPSTREAM]
    runners = {item.rule.effect.runner for item in upstream if item.rule.effect.decides}
    return Runner.V2 not in runners and any(
        _always_decides(item) and item.rule.effect.runner is Runner.V1 for item in upstream
    )


def is_decided(release: str, rules: Iterable[ReleaseRule]) -> bool:
    """Whether the rules of a release decide for all facts."""
    return any(map(_always_decides, rules)) or _variable_decides(release, rules)


def _always_decides(item: ReleaseRule) -> bool:
    """Whether an upstream rule decides whenever no rule before it does, as V1 does in releases that have nothing else.

    ``when`` of a rule that always holds is absent, and no other rule excludes it by ``unless``.
    """
    effect = item.rule.effect
    decides = effect.layer is Layer.UPSTREAM and effect.decides and effect.runner is not None
    return decides and item.when is None and not item.range.unless


def _variable_decides(release: str, rules: Iterable[ReleaseRule]) -> bool:
    """Whether the rules about the variable decide for each of its values: true, false and malformed.

    They do from 0.12 to 0.21. In later releases the variable has no default, so none of them fires if it is not set.
    """
    if defaults(series(release))[VARIABLE_INDEX] is None:
        return False
    return _decided_values(rules) >= RULES_ABOUT_VARIABLE.keys()


def _decided_values(rules: Iterable[ReleaseRule]) -> set[Any]:
    """The values of the variable for which a rule about it alone decides."""
    decided: set[Any] = set()
    for item in rules:
        if item.rule.effect.name in {"invalid", "override-v2", "not-default"} and item.when is not None:
            comparisons = leaves(item.when)
            if len(comparisons) == 1 and comparisons[0].fact == VARIABLE and not comparisons[0].negated:
                is_malformed = comparisons[0].test is Comparison.MALFORMED
                decided.add(Comparison.MALFORMED if is_malformed else comparisons[0].operand)
    return decided
