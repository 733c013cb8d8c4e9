"""What would help a deployment: remedies in its release, a later release, and the path to V2.

Owns which of these are looked for. ``changes`` has what can be changed, ``search`` finds the smallest sets of changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from policy.decision.remedies import Change, Remedy, V2By, V2Path
from policy.errors import RequestInvalid
from policy.facts.facts import defaults
from policy.intake.refused_arguments import ArgumentsRefused
from policy.remedies.changes import candidates, is_selection_of_v2, refused_options, unknown_flags, with_changes
from policy.remedies.search import RemedySearch, State, remedies
from policy.rules.effects import Runner
from policy.rules.releases import Resolution, series

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.intake.result import IntakeResult
    from policy.remedies.changes import Candidate
    from policy.request.request import Request
    from policy.rules.releases import Releases


class Advice(Struct, frozen=True):
    """What would help: ``v2_from`` is the first later release that gives V2 without a change.

    ``v2_path`` is set for a deployment on V1.
    """

    remedies: list[Remedy]
    v2_from: str | None
    v2_path: V2Path | None


class Adviser:
    """Finds what would help a deployment, in the ``state`` of its decision; each change is decided again.

    ``decide`` decides a request; it returns ``None`` if vLLM refuses it before it chooses a runner. Where a house rule
    decided (``by_house_rule``), it is not bypassed by the operator's variable.
    """

    def __init__(
        self,
        request: Request,
        state: State,
        releases: Releases,
        decide: Callable[[Request], State | None],
        read: Callable[[Request], IntakeResult],
        *,
        by_house_rule: bool,
    ) -> None:
        """``read`` derives the facts of a deployment in the release of its request.

        It raises ``RequestInvalid`` for one that cannot be read, and ``ArgumentsRefused`` for one that vLLM refuses.
        """
        self._request, self._state, self._releases = request, state, releases
        self._decide, self._read, self._by_house_rule = decide, read, by_house_rule
        self._release = request.release.decided_as
        self._by_release: dict[str, State | None] = {}
        self._search, self._tried = self._search_in(request)

    def remedies(self) -> list[Remedy]:
        """The smallest changes for each purpose in the release of the request, and the later releases that help."""
        if self._has_own_runner:
            return []
        return remedies(self._state, self._tried, self._search, self._first_release)

    def advice(self) -> Advice:
        """The remedies, the first later release with V2, and the path to V2."""
        state, found = self._state, self.remedies()
        if self._has_own_runner or _is_on_v2(state):
            return Advice(found, None, None)
        upgrade = self._first_release(_is_on_v2)
        v2_from = None if upgrade is None else upgrade[0].to
        if state.runner != Runner.V1:
            return Advice(found, v2_from, None)
        newest = self._releases.known[-1]
        removal = self._releases.removal_of(Runner.V1)
        is_newest = self._release == newest
        newest_state = state if is_newest else self._state_in(newest)
        if newest_state is not None and _is_on_v2(newest_state):
            return Advice(found, v2_from, V2Path(newest, V2By.UPGRADE, v2_from, [], removal))
        search, tried = (self._search, self._tried) if is_newest else self._search_in(in_release(self._request, newest))
        changes = search.smallest(tried, _is_on_v2)
        by = V2By.CHANGE if changes else V2By.NONE
        changed = [each.change for each in changes[0][0]] if changes else []
        return Advice(found, v2_from, V2Path(newest, by, v2_from, changed, removal))

    @property
    def _has_own_runner(self) -> bool:
        return self._state.runner is None and self._state.starts

    def _search_in(self, request: Request) -> tuple[RemedySearch, list[Candidate]]:
        """The search for changes of a request, with those that all sets need in its release, and what is tried."""
        intake, needed = self._needed(request)
        search = RemedySearch(lambda changes: self._decide(with_changes(request, changes)), needed)
        if request.deployment is not None and intake is None:
            return search, []
        found = candidates(request, intake, defaults(series(request.release.decided_as)))
        return search, [each for each in found if not (self._by_house_rule and is_selection_of_v2(each))]

    def _needed(self, request: Request) -> tuple[IntakeResult | None, list[Candidate]]:
        """The derived facts, ``None`` if there are none, and the changes without which vLLM refuses the arguments."""
        if request.deployment is None:
            return None, []
        try:
            intake = self._read(request)
        except ArgumentsRefused as error:
            return None, refused_options(error)
        except RequestInvalid:
            return None, []
        return intake, unknown_flags(intake)

    def _state_in(self, release: str) -> State | None:
        if release not in self._by_release:
            self._by_release[release] = self._decide(in_release(self._request, release))
        return self._by_release[release]

    def _first_release(self, helps: Callable[[State], bool]) -> tuple[Change, State] | None:
        known = self._releases.known
        for each in known[known.index(self._release) + 1 :]:
            found = self._state_in(each)
            if found is not None and helps(found):
                return Change(field="vllm_version", from_=self._release, to=each), found
        return None


def in_release(request: Request, release: str) -> Request:
    """The same request for another known release, which certainly runs unless the deployment shows another vLLM."""
    deployment, facts = request.deployment, request.facts
    if deployment is None:
        facts = facts.in_series(series(release))
    elif deployment.release_is_assumed:
        deployment = replace(deployment, release_is_assumed=False)
    return replace(
        request,
        vllm_version=release,
        facts=facts,
        deployment=deployment,
        release=Resolution(release, verified=True, defaulted=False),
    )


def _is_on_v2(state: State) -> bool:
    return state.starts and state.runner == Runner.V2
