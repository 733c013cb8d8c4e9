"""The effects of an edit of the rules: for each release, the deployments whose decision changes.

Owns the pairing of releases, the merging of equal changes in several releases, and the counting of a fleet. ``groups``
groups the effects for readers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from policy.errors import RequestInvalid
from policy.problems import REMEDIES, request_problem
from policy.proof.difference import differences, meaning
from policy.proof.replay import PolicyPair
from policy.proof.requests import RequestReplay, request_differences, request_meaning
from policy.rules.changes import PROBLEM_FIELDS, catalogue_changes
from policy.rules.effects import Runner
from policy.rules.releases import series
from policy.rules.rule import LONG_AGO, Rule
from policy.sampling.check import RequestChecker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from policy.decision.decision import Decision
    from policy.errors import Remedies
    from policy.policy import Policy
    from policy.proof.difference import Difference
    from policy.proof.requests import RequestDifference
    from policy.request.request import Request
    from policy.rules.changes import ItemChange
    from policy.rules.images import ImageTable
    from policy.rules.release_rule import ReleaseRule
    from policy.rules.releases import Releases

MAX_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class EditEffect:
    """A change and the releases in which it is the same; ``since`` is its first day, or ``None`` for today.

    A change begins later if a house rule ends.
    """

    releases: tuple[str, ...]
    change: Difference
    since: date | None = None


@dataclass(frozen=True, slots=True)
class RequestEffect:
    """A change of what becomes of requests, and the releases in which it is the same."""

    releases: tuple[str, ...]
    change: RequestDifference


@dataclass(frozen=True, slots=True)
class FleetOutcome:
    """The compared part of a deployment's decision that readers see first."""

    runner: str | None
    starts: bool


@dataclass(frozen=True, slots=True)
class FleetCount:
    """The number of a fleet's deployments whose decision, runner or start an edit changes.

    ``first`` has the first of them by name, each with its runner and start before and after.

    ``undecided`` deployments could not be decided under both sets of rules; ``first_undecided`` has some of them by
    name, with the reason.
    """

    deployments: int
    changed: int
    runner: int
    starts: int
    undecided: int
    first: dict[str, tuple[FleetOutcome, FleetOutcome]]
    first_undecided: dict[str, str]


@dataclass(frozen=True, slots=True)
class Edit:
    """The effects of an edit.

    ``compared`` maps each release after the edit to the one that decided for it before; ``gone`` are releases that are
    no longer known. ``effects`` on the runner come first, ``request_effects`` are those on requests to an engine; a
    release without effects is proved to be unaffected, today and later. ``changes`` are those of the rules themselves,
    ``default_releases`` the default release before and after, if it differs. ``images`` has the ids of the rows of the
    table of images that differ, each with what happened to it.

    ``published`` has the releases known before and after whose day of publication differs, ``removals`` the runners
    whose announced removal differs, and ``problems`` the ids of the known problems whose symptom, certainty or fix
    differs. No effect shows these.
    """

    compared: dict[str, str]
    gone: tuple[str, ...]
    effects: tuple[EditEffect, ...]
    changes: tuple[ItemChange, ...] = ()
    default_releases: tuple[str, str] | None = None
    images: tuple[tuple[str, str], ...] = ()
    request_effects: tuple[RequestEffect, ...] = ()
    published: tuple[str, ...] = ()
    removals: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def changes_something(self) -> bool:
        """Whether a deployment or a request gets another answer, or may get one by what no effect shows."""
        return bool(self.effects or self.request_effects or self.gone or self.changes_releases or self.changes_texts)

    @property
    def changes_releases(self) -> bool:
        """Whether a deployment may be decided for another release, by the default one, its image or its day."""
        return bool(self.default_releases or self.images or self.published)

    @property
    def changes_texts(self) -> bool:
        """Whether a deployment may get other known problems or warnings, with the same runner, start and reasons."""
        return bool(self.removals or self.problems)


def edit_of(
    base: Policy, head: Policy, progress: Callable[[str], None] = lambda _: None, today: date = LONG_AGO
) -> Edit:
    """The changes from ``base`` to ``head``; a new release is compared with the previous one in ``base``.

    Both are compared by the rules in force ``today``, and by those in force after each end of a rule. By default, all
    ends are in the future.

    Raises:
        ProofFailed: the policy decides a witness differently from the solver.
    """
    compared = {release: base.releases.resolve(release, nearest=True).decided_as for release in head.releases.known}
    ends = {day for policy in (base, head) for day in policy.catalogue.days_after_ends() if day > today}
    found: dict[tuple[date | None, str], tuple[Difference, list[str]]] = {}
    proved: dict[Any, list[Difference]] = {}
    for after, before in compared.items():
        both = series(before), series(after)
        earlier: tuple[tuple[ReleaseRule, ...], tuple[ReleaseRule, ...]] | None = None
        for day in (today, *sorted(ends)):
            rules = base.catalogue.rules_on(before, day), head.catalogue.rules_on(after, day)
            key = *map(meaning, rules, both), *(() if earlier is None else map(meaning, earlier, both))
            if key not in proved:
                progress(after)
                proved[key] = differences(*rules, both, PolicyPair((base, before), (head, after), day), earlier)
            for change in proved[key]:
                since = None if day == today else day
                found.setdefault((since, repr(change)), (change, []))[1].append(after)
            earlier = rules
    gone = tuple(release for release in base.releases.known if release not in compared)
    effects = [EditEffect(tuple(releases), change, since) for (since, _), (change, releases) in found.items()]
    changes = catalogue_changes(base.catalogue, head.catalogue, compared)
    defaults = base.releases.default, head.releases.default
    return Edit(
        compared,
        gone,
        tuple(sorted(effects, key=_sort_key)),
        changes,
        None if defaults[0] == defaults[1] else defaults,
        _changed_images(base.releases.images, head.releases.images),
        _request_effects(base, head, compared),
        _changed_days(base.releases, head.releases),
        _changed_removals(base.releases, head.releases),
        tuple(
            change.item.id
            for change in changes
            if any(field.field in PROBLEM_FIELDS for field in change.fields) and isinstance(change.item, Rule)
        ),
    )


def _request_effects(base: Policy, head: Policy, compared: Mapping[str, str]) -> tuple[RequestEffect, ...]:
    """The changes of what becomes of requests, each with its releases, changes of a verdict first."""
    checkers = RequestChecker(base), RequestChecker(head)
    found: dict[str, tuple[RequestDifference, list[str]]] = {}
    proved: dict[Any, list[RequestDifference]] = {}
    for after, before in compared.items():
        rules = base.catalogue.request_rules_of(before), head.catalogue.request_rules_of(after)
        key = request_meaning(rules[0], before), request_meaning(rules[1], after)
        if key not in proved:
            replay = RequestReplay((checkers[0], before), (checkers[1], after))
            proved[key] = request_differences(*rules, (before, after), replay)
        for change in proved[key]:
            found.setdefault(repr(change), (change, []))[1].append(after)
    effects = [RequestEffect(tuple(releases), change) for change, releases in found.values()]
    return tuple(sorted(effects, key=lambda effect: not effect.change.transitions))


def _changed_images(base: ImageTable, head: ImageTable) -> tuple[tuple[str, str], ...]:
    """The ids of the rows that differ, each with ``new``, ``changed`` or ``removed``."""
    before, after = ({row.id: row.document for row in table.rows} for table in (base, head))
    return tuple(
        (row, "removed" if row not in after else "new" if row not in before else "changed")
        for row in sorted({**before, **after})
        if before.get(row) != after.get(row)
    )


def _changed_days(base: Releases, head: Releases) -> tuple[str, ...]:
    """The releases that both know and whose day of publication differs, or is known to one only."""
    return tuple(
        release
        for release in head.known
        if release in base.known and base.published.get(release) != head.published.get(release)
    )


def _changed_removals(base: Releases, head: Releases) -> tuple[str, ...]:
    """The runners of whose removal something else is announced."""
    return tuple(runner for runner in Runner if base.removal_of(runner) != head.removal_of(runner))


def _sort_key(effect: EditEffect) -> tuple[bool, bool, date]:
    """The sort key of effects: changes of the runner, then of the start, then of the reasons; earlier ones first."""
    before, after = effect.change.before, effect.change.after
    return before.runner == after.runner, before.starts == after.starts, effect.since or date.min


def count(
    fleet: Iterable[tuple[str, Request | RequestInvalid | None, Request | RequestInvalid | None]],
    base: Policy,
    head: Policy,
    today: date,
    remedies: Remedies = REMEDIES,
) -> FleetCount:
    """Count the deployments that the edit changes; each has a name and its requests as read by ``base`` and ``head``.

    A request is ``None`` if only the other policy found the deployment. Reasons why deployments are not decided use
    the interface's ``remedies``.
    """
    total = changed = runner = starts = undecided = 0
    first: dict[str, tuple[FleetOutcome, FleetOutcome]] = {}
    reasons: dict[str, str] = {}
    for name, *requests in fleet:
        total += 1
        before, after = (
            _decide(policy, request, today, remedies) for policy, request in zip((base, head), requests, strict=True)
        )
        if isinstance(before, str) or isinstance(after, str):
            undecided += 1
            if len(reasons) < MAX_NAMED:
                reasons[name] = before if isinstance(before, str) else str(after)
            continue
        runner += before.runner != after.runner
        starts += before.starts != after.starts
        if _compared_fields(before) != _compared_fields(after):
            changed += 1
            if len(first) < MAX_NAMED:
                first[name] = _outcome(before), _outcome(after)
    return FleetCount(total, changed, runner, starts, undecided, first, reasons)


def _decide(
    policy: Policy, request: Request | RequestInvalid | None, today: date, remedies: Remedies
) -> Decision | str:
    """The decision, or why there is none."""
    if request is None:
        return "it is read under the other rules only"
    try:
        if isinstance(request, RequestInvalid):
            raise request
        return policy.decide(request, today)
    except RequestInvalid as error:
        return request_problem(error, remedies=remedies).detail


def _outcome(decision: Decision) -> FleetOutcome:
    return FleetOutcome(decision.runner, decision.starts)


def _compared_fields(decision: Decision) -> tuple[Any, ...]:
    return (
        decision.runner,
        decision.outcome,
        decision.starts,
        decision.startup_errors,
        decision.unsupported_features,
        [(reason.rule, reason.effect, reason.message) for reason in decision.reasons],
        [(problem.rule, problem.message) for problem in decision.known_problems],
        decision.upstream,
        decision.set_env,
    )
