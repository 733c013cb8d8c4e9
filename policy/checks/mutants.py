"""Mutation tests of the rules: change each condition, bound and list item in turn, and check whether a case fails.

Owns the mutants and their trial. A mutant for which no case fails is a survivor: the changed part is not tested, or the
change has no effect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from packaging.version import Version

from policy.checks.cases import run_cases
from policy.parser.fields import ReleaseRange
from policy.policy import Policy
from policy.rules.catalogue import Catalogue, ReleaseRule, is_decided, precedence, problem_range
from policy.rules.conditions import And, Condition, Leaf, Or, Ref, resolve
from policy.rules.releases import Releases
from policy.rules.rule import NamedCondition, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from policy.checks.cases import AcceptedMutant, Case
    from policy.rules.effects import Effect
    from policy.rules.rule import Range

CONDITIONS: Final = ("when", "cleared_at_startup")
SCOPES: Final = ("requires_any", "unless", "decided_by")


class NotLoadable(Exception):
    """A mutant's rules could not be loaded."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule or named condition with one change in ``range``; ``change`` describes it."""

    item: Rule | NamedCondition
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
    accepted: Sequence[AcceptedMutant] = (),
    on_rule: Callable[[str], None] = lambda _: None,
) -> Trial:
    """Run every mutant of a checked catalogue against the cases of the rules that it changes.

    ``on_rule`` is called with the id of each rule and named condition before its mutants run.
    """
    by_rule: dict[str, list[Case]] = {}
    for case in cases:
        by_rule.setdefault(case.rule, []).append(case)
    total = 0
    survivors = []
    items: list[Rule | NamedCondition] = [*catalogue.in_order(), *catalogue.conditions.values()]
    for item in items:
        on_rule(item.id)
        for mutant in mutants(item, catalogue.releases):
            total += 1
            if not _is_killed(mutant, catalogue, by_rule):
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


def mutants(item: Rule | NamedCondition, releases: Releases) -> Iterator[Mutant]:
    """Every mutant of a rule or a named condition."""
    if isinstance(item, NamedCondition):
        for place, (span, condition) in enumerate(item.ranges):
            for changed, change in _condition_variants(condition):
                ranges = [*item.ranges[:place], *([(span, changed)] if changed else []), *item.ranges[place + 1 :]]
                yield Mutant(replace(item, ranges=tuple(ranges)), span.text, change)
        return
    for place, part in enumerate(item.ranges):
        for other, change in _range_variants(part, item.effect, releases, [each.span for each in item.ranges]):
            yield Mutant(
                replace(item, ranges=(*item.ranges[:place], other, *item.ranges[place + 1 :])), part.span.text, change
            )


def _range_variants(
    part: Range, effect: Effect, releases: Releases, spans: Sequence[ReleaseRange]
) -> Iterator[tuple[Range, str]]:
    """The variants of a rule's range with one change each."""
    for name in CONDITIONS:
        condition = getattr(part, name)
        for changed, change in _condition_variants(condition) if condition is not None else ():
            yield _with(part, name, changed), f"{name}: {change}"
    for name in SCOPES:
        names = getattr(part, name)
        for removed in names:
            yield _with(part, name, tuple(other for other in names if other != removed)), f"{name}: without `{removed}`"
    if part.known_problem is not None:
        yield replace(part, known_problem=None), f"known_problem: without `{part.known_problem}`"
    if part.runner is not None and not effect.refuses:
        yield replace(part, runner=None), f"runner: without `{part.runner}`"
    yield from _bound_variants(part, releases, spans)


def _with(part: Range, name: str, value: Any) -> Range:
    return replace(part, **{name: value})


def _bound_variants(part: Range, releases: Releases, spans: Sequence[ReleaseRange]) -> Iterator[tuple[Range, str]]:
    """The variants of a range that begin or end one known release earlier or later, without overlaps."""
    known = [Version(release) for release in releases.known]
    held = [version for version in known if part.span.holds(version)]
    before, after = (known.index(held[0]) - 1, known.index(held[-1]) + 1)
    for place in (before, after):
        if 0 <= place < len(known) and not any(span.holds(known[place]) for span in spans):
            yield _from_first_to_last(part, [*held, known[place]]), f"vllm: {known[place]} as well"
    if len(held) > 1:
        yield _from_first_to_last(part, held[1:]), f"vllm: without {held[0]}"
        yield _from_first_to_last(part, held[:-1]), f"vllm: without {held[-1]}"


def _from_first_to_last(part: Range, held: Sequence[Version]) -> Range:
    """The range from the first to the last of these releases; its exclusive end is right after the last."""
    first, last = min(held), max(held)
    end = f"{last}.post0" if last.post is None else f"{last.base_version}.post{last.post + 1}.dev0"
    return replace(part, span=ReleaseRange(part.span.text, first, Version(end)))


def _condition_variants(condition: Condition) -> Iterator[tuple[Condition | None, str]]:
    """The variants of a condition with one change each; ``None`` if nothing is left of it."""
    match condition:
        case And(parts) | Or(parts):
            for place, part in enumerate(parts):
                for changed, change in _condition_variants(part):
                    rest = (*parts[:place], *([] if changed is None else [changed]), *parts[place + 1 :])
                    yield (rest[0] if len(rest) == 1 else type(condition)(rest)), change
        case Ref(name):
            yield None, f"without `uses: {name}`"
        case Leaf():
            yield None, f"without `{condition.fact}: {_expected(condition)}`"
            yield from _operand_variants(condition)


def _operand_variants(leaf: Leaf) -> Iterator[tuple[Leaf, str]]:
    match leaf.operand:
        case tuple(texts) if len(texts) > 1:
            for text in texts:
                yield (
                    replace(leaf, operand=tuple(other for other in texts if other != text)),
                    f"`{leaf.fact}` without `{text}`",
                )
        case int(number) if not isinstance(number, bool):
            for other in (number - 1, number + 1):
                yield replace(leaf, operand=other), f"`{leaf.fact}: {_expected(leaf)}` with {other}"


def _expected(leaf: Leaf) -> str:
    return str(leaf.expected)


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
