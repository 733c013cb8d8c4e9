"""Prove claims about the rules of every release for all facts, and find equivalent releases.

Owns the claims. Ids, ranges and gaps, and that some rule decides for all facts, are checked when the rules are loaded
(``catalogue``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import z3

from policy.errors import Fault
from policy.proof.difference import differences, differing_condition, meaning
from policy.proof.replay import PolicyPair
from policy.proof.requests import RequestClaims, request_meaning
from policy.proof.search import solver_of
from policy.proof.space import Space, any_of
from policy.proof.symbolic import SymbolicRules
from policy.rules.releases import series, spans
from policy.rules.rule import LONG_AGO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import date

    from policy.policy import Policy
    from policy.proof.steps import Step, Steps
    from policy.rules.catalogue import Catalogue
    from policy.rules.release_rule import ReleaseRule


@dataclass(frozen=True, slots=True)
class Proof:
    """The proof of a catalogue: violated claims, groups of equivalent releases, and steps between neighbours."""

    faults: tuple[Fault, ...]
    equivalent: tuple[tuple[str, ...], ...]
    steps: tuple[Step, ...]


def prove(policy: Policy, steps: Steps, progress: Callable[[str], None] = lambda _: None) -> Proof:
    """Check every claim for every release of a loaded policy; ``steps`` are that policy's.

    A rule must matter on some day on which it is in force, together with the house rules that have not ended by then,
    or for vLLM alone.
    Releases are compared by all their rules. ``progress`` is called with the name of each release and step before its
    proof.

    Raises:
        ProofFailed: the policy decides a witness differently from the solver.
    """
    catalogue = policy.catalogue
    known = catalogue.releases.known
    days = [LONG_AGO, *catalogue.days_after_ends()]
    faults: dict[Fault, list[str]] = {}
    proved: dict[tuple[Any, ...], tuple[Fault, ...]] = {}

    def prove_on(release: str, day: date) -> tuple[Fault, ...]:
        rules = catalogue.rules_on(release, day)
        key = meaning(rules, series(release))
        if key not in proved:
            progress(release)
            proved[key] = tuple(_faults(rules, release))
        return proved[key]

    for release in known:
        for fault in _permanent(catalogue, days, [prove_on(release, day) for day in days]):
            faults.setdefault(fault, []).append(release)
    for fault, release in request_faults(catalogue):
        faults.setdefault(fault, []).append(release)
    found = tuple(steps.all(progress))
    return Proof(tuple(_in_releases(faults, known)), _equivalent_groups(policy, found), found)


def request_faults(catalogue: Catalogue) -> Iterator[tuple[Fault, str]]:
    """The faults of the rules about requests, each with its release; releases with the same rules are proved once."""
    rules = {release: catalogue.request_rules_of(release) for release in catalogue.releases.known}
    claims = RequestClaims(rules.values())
    proved: dict[tuple[Any, ...], tuple[Fault, ...]] = {}
    for release, of_release in rules.items():
        key = request_meaning(of_release, release)
        if key not in proved:
            proved[key] = tuple(claims.faults(of_release, release))
        yield from ((fault, release) for fault in proved[key])


def _permanent(catalogue: Catalogue, days: Sequence[date], faults: Sequence[tuple[Fault, ...]]) -> Iterator[Fault]:
    """The faults that rules have on every day on which they are in force; ``faults`` has those of each day."""
    held = {rule.path: sum(not rule.has_ended(day) for day in days) for rule in catalogue.rules}
    counts = Counter(fault for each in faults for fault in each)
    return (fault for fault, count in counts.items() if count == held[str(fault.path)])


def _faults(rules: Sequence[ReleaseRule], release: str) -> Iterator[Fault]:
    """The faults of a release's rules: unreachable or redundant rules."""
    space = Space([condition for item in rules for condition in (item.when, item.cleared) if condition is not None])
    whole = SymbolicRules(rules, space, series(release))
    solver = solver_of(space.laws)
    included = [z3.Bool(f"{item.rule.id} is included") for item in rules]
    differing = differing_condition(whole, SymbolicRules(rules, space, series(release), included))
    for n, item in enumerate(rules):
        rule = item.rule
        if solver.check(whole.both.holds[n]) != z3.sat:
            yield Fault(
                rule.path,
                *rule.place,
                "unreachable rule: no facts meet its condition; correct it, or remove the range",
            )
        elif not _matters(solver, whole, n, included, differing):
            yield Fault(
                rule.path,
                *rule.place,
                "redundant rule: the answers are always the same without it; remove the range",
            )


def _matters(
    solver: Any, whole: SymbolicRules, n: int, included: Sequence[Any], differing: Callable[[str | None], Any]
) -> bool:
    """Whether the rule changes any answer, by all rules or by vLLM alone.

    A rule that lists, refuses or advises changes the answer whenever it applies. A rule that decides changes it if the
    answer differs without the rule: if ``differing`` holds where all other rules are ``included``.
    """
    rule = whole.rules[n].rule
    if rule.effect.lists is not None or not (rule.effect.decides or rule.effect.exclusive):
        reasons = [*whole.decision.reasons.items(), *whole.alone.reasons.items()]
        when = any_of(when for (rule_id, *_), when in reasons if rule_id == rule.id)
        return bool(solver.check(when) == z3.sat)
    solver.push()
    solver.add(differing(rule.id), *(z3.Not(each) if m == n else each for m, each in enumerate(included)))
    found = solver.check()
    solver.pop()
    return bool(found == z3.sat)


def _in_releases(faults: dict[Fault, list[str]], known: Sequence[str]) -> Iterator[Fault]:
    """The faults, each with the releases that have it."""
    for fault, releases in faults.items():
        yield Fault(fault.path, fault.line, fault.column, f"in {spans(releases, known)}, {fault.message}")


def _equivalent_groups(policy: Policy, steps: Sequence[Step]) -> tuple[tuple[str, ...], ...]:
    """Groups of equivalent releases: each release is proved equivalent to the first of its group.

    For each two groups there is a deployment with different decisions.
    """
    groups = [[steps[0].before]] if steps else [[policy.catalogue.releases.known[0]]]
    witnesses = [change.facts for step in steps for change in step.changes]
    for step in steps:
        if not step.changes:
            groups[-1].append(step.after)
            continue
        same = next((group for group in groups if _is_equivalent(policy, group[0], step.after, witnesses)), None)
        if same is None:
            groups.append([step.after])
        else:
            same.append(step.after)
    return tuple(map(tuple, groups))


def _is_equivalent(policy: Policy, one: str, other: str, witnesses: Sequence[dict[str, Any]]) -> bool:
    replay = PolicyPair((policy, one), (policy, other))
    if any(len(set(replay(facts))) > 1 for facts in witnesses):
        return False
    rules = [policy.catalogue.rules_of(release) for release in (one, other)]
    return not differences(rules[0], rules[1], (series(one), series(other)), replay)
