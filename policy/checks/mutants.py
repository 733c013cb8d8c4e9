"""Mutation tests of the rules: change each condition, bound and list item in turn, and check whether a case fails.

Owns the mutants and their trial. A mutant for which no case fails is a survivor: the changed part is not tested, or the
change has no effect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.version import Version

from policy.checks.cases import by_rule, run_cases
from policy.checks.request_cases import failure
from policy.checks.variants import condition_variants, range_variants, request_range_variants
from policy.policy import Policy
from policy.rules.catalogue import Catalogue, problem_range
from policy.rules.completeness import is_decided
from policy.rules.conditions import resolve
from policy.rules.release_rule import ReleaseRule, precedence
from policy.rules.releases import Releases, series
from policy.rules.request_rule import ReleaseRequestRule, RequestRule
from policy.rules.rule import NamedCondition, Rule
from policy.sampling.check import RequestRuleset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from policy.checks.cases import AcceptedMutant, Case
    from policy.checks.request_cases import RequestCase
    from policy.rules.conditions import Condition


class NotLoadable(Exception):
    """A mutant's rules could not be loaded."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule or named condition with one change in ``range``; ``change`` describes it."""

    item: Rule | RequestRule | NamedCondition
    range: str
    change: str


@dataclass(frozen=True, slots=True)
class Trial:
    """The number of mutants, and the survivors.

    ``accepted`` are survivors that a file of cases accepts, which are not in ``survivors``. ``outdated`` are accepted
    mutants that were killed or do not exist.
    """

    mutants: int
    survivors: tuple[Mutant, ...]
    accepted: tuple[AcceptedMutant, ...]
    outdated: tuple[AcceptedMutant, ...]


def mutate(
    catalogue: Catalogue,
    cases: Sequence[Case],
    request_cases: Sequence[RequestCase] = (),
    accepted: Sequence[AcceptedMutant] = (),
    on_rule: Callable[[str], None] = lambda _: None,
) -> Trial:
    """Run every mutant of a checked catalogue against the cases of the rules that it changes.

    ``on_rule`` is called with the id of each rule and named condition before its mutants run.
    """
    cases_of, request_cases_of = by_rule(cases), by_rule(request_cases)
    total = 0
    survivors = []
    items: list[Rule | RequestRule | NamedCondition] = [
        *catalogue.in_order(),
        *catalogue.conditions.values(),
        *catalogue.request_rules_in_order(),
    ]
    for item in items:
        on_rule(item.id)
        for mutant in mutants(item, catalogue.releases):
            total += 1
            is_killed = (
                _is_killed_by_requests(item, mutant.item, request_cases_of.get(item.id, ()))
                if isinstance(item, RequestRule) and isinstance(mutant.item, RequestRule)
                else _is_killed(mutant, catalogue, cases_of)
            )
            if not is_killed:
                survivors.append(mutant)
    by_key = {(mutant.item, mutant.vllm, mutant.change): mutant for mutant in accepted}
    accepted_survivors = {
        key: mutant for mutant in survivors if (key := (mutant.item.id, mutant.range, mutant.change)) in by_key
    }
    return Trial(
        total,
        tuple(mutant for mutant in survivors if mutant not in accepted_survivors.values()),
        tuple(mutant for key, mutant in by_key.items() if key in accepted_survivors),
        tuple(mutant for key, mutant in by_key.items() if key not in accepted_survivors),
    )


def mutants(item: Rule | RequestRule | NamedCondition, releases: Releases) -> Iterator[Mutant]:
    """Every mutant of a rule or a named condition."""
    if isinstance(item, NamedCondition):
        for place, (span, condition) in enumerate(item.ranges):
            for changed, change in condition_variants(condition):
                ranges = [*item.ranges[:place], *([(span, changed)] if changed else []), *item.ranges[place + 1 :]]
                yield Mutant(replace(item, ranges=tuple(ranges)), span.text, change)
        return
    spans = [part.span for part in item.ranges]
    if isinstance(item, RequestRule):
        for place, about in enumerate(item.ranges):
            for changed_range, change in request_range_variants(about, releases, spans):
                others = (*item.ranges[:place], changed_range, *item.ranges[place + 1 :])
                yield Mutant(replace(item, ranges=others), about.span.text, change)
        return
    for place, part in enumerate(item.ranges):
        for other, change in range_variants(part, item.effect, releases, spans):
            yield Mutant(
                replace(item, ranges=(*item.ranges[:place], other, *item.ranges[place + 1 :])), part.span.text, change
            )


def _is_killed_by_requests(rule: RequestRule, mutant: RequestRule, cases: Sequence[RequestCase]) -> bool:
    """Whether a case of a rule about requests fails for its mutant, which is tried alone."""
    for release in dict.fromkeys(release for case in cases for release in case.releases):
        part = mutant.range_of(release)
        if part == rule.range_of(release):
            continue
        rules = [] if part is None else [ReleaseRequestRule(mutant, part, part.when)]
        ruleset = RequestRuleset(rules, series(release))
        if any(failure(case, release, ruleset) is not None for case in cases if release in case.releases):
            return True
    return False


def _is_killed(mutant: Mutant, catalogue: Catalogue, cases: Mapping[str, Sequence[Case]]) -> bool:
    item = mutant.item
    rules = [rule for rule in catalogue.rules if rule.id == item.id] or [
        rule for rule in catalogue.rules if rule.uses_named(item.id)
    ]
    policies: dict[str, Policy | None] = {}
    for case in (case for rule in rules for case in cases.get(rule.id, ())):
        for release in case.releases:
            if release not in policies:
                try:
                    policies[release] = _policy(mutant, catalogue, release)
                except NotLoadable:  # the rules would not load
                    return True
            policy = policies[release]
            if policy is not None and not all(
                result.passed for result in run_cases([replace(case, releases=(release,))], policy)
            ):
                return True
    return False


def _policy(mutant: Mutant, catalogue: Catalogue, release: str) -> Policy | None:
    """The policy of a mutant's rules in one release; ``None`` if the mutant changes nothing there.

    Raises:
        NotLoadable: a named condition has no range for the release, or its rules do not decide for all facts.
    """
    version = Version(release)
    changed = mutant.item
    items = [
        changed if isinstance(changed, NamedCondition) and named.id == changed.id else named
        for named in catalogue.conditions.values()
    ]
    named = {
        item.id: next((condition for span, condition in item.ranges if span.holds(version)), None) for item in items
    }
    rules = [changed if isinstance(changed, Rule) and rule.id == changed.id else rule for rule in catalogue.rules]
    try:
        found = tuple(sorted(_release_rules(rules, named, release), key=precedence))
    except KeyError as error:
        raise NotLoadable from error
    if found == catalogue.rules_of(release):
        return None
    if not is_decided(release, found):
        raise NotLoadable
    return Policy(Catalogue(Releases((release,), release), tuple(rules), {}, catalogue.revision, {release: found}))


def _release_rules(rules: Iterable[Rule], named: Mapping[str, Condition | None], release: str) -> Iterator[ReleaseRule]:
    known = {name: body for name, body in named.items() if body is not None}
    by_id = {rule.id: rule for rule in rules}
    for rule in by_id.values():
        part = rule.range_of(release)
        problem = None if part is None else problem_range(part, by_id, release)
        if part is not None and (part.known_problem is None or problem is not None):
            when, cleared = (
                None if condition is None else resolve(condition, known)
                for condition in (part.when_with(problem), part.cleared_at_startup)
            )
            yield ReleaseRule(rule, part, when, cleared)
