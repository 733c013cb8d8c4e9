"""What would help a deployment: remedies in its release, a later release, and the path to V2.

Owns which of these are looked for. ``changes`` has what can be changed, ``search`` finds the smallest sets of changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from policy.decision.remedies import Change, Remedy, V2By, V2Path
from policy.facts.facts import defaults
from policy.remedies.changes import applied, candidates, is_selection_of_v2
from policy.remedies.search import Search, State, remedies
from policy.rules.effects import Runner
from policy.rules.releases import Resolution, series

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.intake.intake import IntakeResult
    from policy.remedies.changes import Candidate
    from policy.request.request import Request
    from policy.rules.releases import Releases


class Advice(Struct, frozen=True):
    """What would help: ``v2_from`` is the first later release in which the deployment gets V2 as it is.

    ``v2_path`` is set for a deployment on V1.
    """

    remedies: list[Remedy]
    v2_from: str | None
    v2_path: V2Path | None


def advice(
    request: Request,
    intake: IntakeResult | None,
    state: State,
    releases: Releases,
    decide: Callable[[Request], State | None],
    *,
    by_house_rule: bool,
) -> Advice:
    """What would help a decided deployment, in the ``state`` of its decision; each change is decided again.

    ``decide`` decides a request; it returns ``None`` if vLLM
    refuses it before it chooses a runner. Where a house rule decided (``by_house_rule``), it is not bypassed by the
    operator's variable.
    """
    if state.runner is None and state.starts:
        return Advice([], None, None)  # a runner of its own
    known = releases.known
    release = request.release.decided_as
    later = known[known.index(release) + 1 :]
    by_release: dict[str, State | None] = {}

    def state_in(release: str) -> State | None:
        if release not in by_release:
            by_release[release] = decide(in_release(request, release))
        return by_release[release]

    def first_release(helps: Callable[[State], bool]) -> tuple[Change, State] | None:
        for each in later:
            found = state_in(each)
            if found is not None and helps(found):
                return Change(field="vllm_version", from_=release, to=each), found
        return None

    def search_in(request: Request) -> Search:
        return Search(lambda changes: decide(applied(request, changes)))

    def tried(request: Request, intake: IntakeResult | None) -> list[Candidate]:
        found = candidates(request, intake, defaults(series(request.release.decided_as)))
        return [each for each in found if not (by_house_rule and is_selection_of_v2(each))]

    search = search_in(request)
    found = remedies(state, tried(request, intake), search, first_release)
    if state.runner == Runner.V2 and state.starts:
        return Advice(found, None, None)
    upgrade = first_release(_is_on_v2)
    v2_from = None if upgrade is None else upgrade[0].to
    if state.runner != Runner.V1:
        return Advice(found, v2_from, None)
    newest = known[-1]
    removal = releases.removal_of(Runner.V1)
    at_newest = in_release(request, newest)
    newest_state = state if release == newest else state_in(newest)
    if newest_state is not None and _is_on_v2(newest_state):
        return Advice(found, v2_from, V2Path(newest, V2By.UPGRADE, v2_from, [], removal))
    search = search if release == newest else search_in(at_newest)
    changes = search.smallest(tried(at_newest, intake), _is_on_v2)
    by = V2By.CHANGE if changes else V2By.NONE
    changed = [each.change for each in changes[0][0]] if changes else []
    return Advice(found, v2_from, V2Path(newest, by, v2_from, changed, removal))


def in_release(request: Request, release: str) -> Request:
    """The same request for another known release."""
    facts = request.facts.in_series(series(release)) if request.deployment is None else request.facts
    return replace(request, facts=facts, release=Resolution(release, verified=True, defaulted=False))


def _is_on_v2(state: State) -> bool:
    return state.starts and state.runner == Runner.V2
