"""What several releases do with a deployment, and what changes from each to the next.

Owns the comparison of one deployment, which is decided once for each release, and once for releases with the same
rules if its facts are stated.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from policy.decision.remedies import Remedy  # noqa: TC001  # msgspec reads the annotations
from policy.errors import RequestInvalid
from policy.impact.answers import ReleaseAnswer, Undecided, answer_of, refused, without_v1
from policy.impact.changes import ChangeKind, ReleaseChange, change_of, worst
from policy.intake.served_models import UNSUPPORTED_MODEL
from policy.policy import key_of
from policy.problems import REMEDIES, request_problem
from policy.remedies.advice import Adviser
from policy.remedies.search import State, purposes
from policy.rules.effects import Layer, Runner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date

    from policy.errors import Remedies
    from policy.impact.targets import TargetRelease
    from policy.policy import Policy
    from policy.problems import Problem
    from policy.request.request import Request


MAX_REMEDIED: Final = 8
"""The most releases for which remedies of a deployment are searched."""


class ReleaseComparison(Struct, frozen=True, gc=False, rename={"from_": "from"}):
    """What the releases do with a deployment.

    ``from_`` is the release that it runs, if that is compared with the others; ``releases`` has the answers in
    ascending order, ``changes`` those between neighbours, ``kind`` the worst of them. ``remedies`` has the smallest
    changes that help, if they are asked for, by releases in ascending order: for the newest ``MAX_REMEDIED`` in which
    there is something to help, and ``[]`` for a release if no changes were found.
    """

    from_: str | None
    releases: dict[str, ReleaseAnswer | Undecided]
    changes: list[ReleaseChange]
    kind: ChangeKind | None
    remedies: dict[str, list[Remedy]] | UnsetType = UNSET


class Impact:
    """Compares deployments: each with the ``targets``, and with the release that it runs if ``from_own``.

    Each comparison has the remedies for the targets ``explained``, unless there are none.
    """

    def __init__(
        self,
        policy: Policy,
        targets: Sequence[TargetRelease],
        today: date,
        *,
        from_own: bool = False,
        explained: Sequence[TargetRelease] = (),
        remedies: Remedies = REMEDIES,
        problem_of: Callable[[RequestInvalid], Problem] | None = None,
    ) -> None:
        """``problem_of`` makes the problem of a release that cannot decide; by default one with the ``remedies``."""
        self._policy, self._targets, self._today = policy, tuple(targets), today
        self._from_own, self._explained, self.remedies = from_own, tuple(explained), remedies
        self._problem_of = problem_of or (lambda error: request_problem(error, remedies=remedies))

    def key(self, request: Request) -> bytes:
        """A key that is equal only for equal deployments."""
        own = (request.release, request.vllm_version) if self._from_own else None
        what = request.deployment or (request.facts.row, request.facts.stated)
        return key_of((own, request.upstream_only, request.manifest is not None, what))

    def compare(self, request: Request) -> ReleaseComparison:
        """What the releases do with a deployment; equal ones, by ``key``, get equal comparisons."""
        answers: dict[str, ReleaseAnswer | Undecided] = {}
        by_ruleset: dict[int, ReleaseAnswer | Undecided] = {}
        own = request.vllm_version.removeprefix("v") if self._from_own else None
        # a target of the same name has an answer of its own: for an image it may be less certain which release runs
        if own is not None and all(target.name != own for target in self._targets):
            answers[own] = self._answer(request)
        for target in self._targets:
            ruleset = id(self._policy.ruleset(target.release))
            shared = request.deployment is None and not target.without_v1
            if shared and ruleset in by_ruleset:
                answers[target.name] = by_ruleset[ruleset]
                continue
            other = target.request(request)
            answers[target.name] = found = self._answer(other, without=target.without_v1)
            if shared:
                by_ruleset[ruleset] = found
        steps = list(answers.items())
        changes = [
            change
            for (before, answer), (after, other_answer) in pairwise(steps)
            if (change := change_of(before, answer, after, other_answer)) is not None
        ]
        helping = self._helping(request, answers) if self._explained else UNSET
        return ReleaseComparison(own, answers, changes, worst(change.kind for change in changes), helping)

    def answer(self, request: Request, target: TargetRelease | None = None) -> ReleaseAnswer | Undecided:
        """What a target does with a deployment; without one, what its own release does."""
        if target is None:
            return self._answer(request)
        return self._answer(target.request(request), without=target.without_v1)

    def _helping(self, request: Request, answers: Mapping[str, ReleaseAnswer | Undecided]) -> dict[str, list[Remedy]]:
        """The remedies for the newest explained targets in which there is something to help, by their names."""
        bad = [
            (target, answer, state)
            for target in self._explained
            if isinstance(answer := answers[target.name], ReleaseAnswer) and purposes(state := _state(answer))
        ]
        return {
            target.name: self._remedies(request, target, answer, state) for target, answer, state in bad[-MAX_REMEDIED:]
        }

    def _remedies(self, request: Request, target: TargetRelease, answer: ReleaseAnswer, state: State) -> list[Remedy]:
        """The remedies for a deployment with this answer in a target; each is decided again as the target decides."""
        request = target.request(request)
        house = {rule.id for rule in self._policy.catalogue.rules if rule.layer is Layer.HOUSE}
        adviser = Adviser(
            request,
            state,
            self._policy.releases,
            lambda other: _known_state(self._answer(other, without=target.without_v1)),
            self._policy.intake,
            by_house_rule=any(each.decisive and each.rule in house for each in answer.reasons),
        )
        return adviser.remedies()

    def _answer(self, request: Request, *, without: bool = False) -> ReleaseAnswer | Undecided:
        """The answer of a request's release; if it is ``without`` V1, only V2 can be selected."""
        try:
            if not without:
                return answer_of(self._policy.evaluate(request, self._today))
            result = self._policy.evaluate(replace(request, upstream_only=True), self._today)
            if result.evaluation.ruling.effect.runner is Runner.V1:
                result = self._policy.with_v2_selected(result)
            # whether the launch fails does not depend on who asks
            result = replace(result, request=replace(result.request, upstream_only=request.upstream_only))
            return without_v1(answer_of(result))
        except RequestInvalid as error:
            if error.problem == UNSUPPORTED_MODEL:
                return refused([fault.worded(self.remedies) for fault in error.faults])
            if errors := self._policy.launch_errors_of(request, error):
                return refused(errors)
            return Undecided(self._problem_of(error))


def _known_state(answer: ReleaseAnswer | Undecided) -> State | None:
    return None if isinstance(answer, Undecided) else _state(answer)


def _state(answer: ReleaseAnswer) -> State:
    return State(answer.runner, answer.starts, frozenset(each.rule for each in answer.known_problems))
