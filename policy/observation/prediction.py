"""What is decided for the engines of a log: by a deployment, or by the arguments that the log shows.

Owns which request is decided for an engine. Not here: reading the log (``reader``), the comparison (``comparison``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from policy.errors import RequestInvalid
from policy.intake.model.tables import releases_with_flags
from policy.observation.arguments import read_arguments
from policy.observation.comparison import LogComparison, compare, decided_as, without_decision
from policy.observation.explanations import Alternatives
from policy.observation.matching import NoMatch, match_engine
from policy.observation.python_value import NotAValue
from policy.request.request import NEAREST, read_request, with_explanation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    from policy.decision.decision import Decision
    from policy.observation.matching import CandidateEngine
    from policy.observation.observed import LoggedEngine, ObservedEngine
    from policy.policy import Policy
    from policy.problems import Problem
    from policy.request.request import Request

NO_ARGUMENTS: Final = (
    "the log shows no arguments (`non-default args`), so nothing was decided for it; state the deployment with "
    "`--deployment`"
)
UNKNOWN_RELEASE: Final = "the log does not show vLLM's release; decided for {}, the default release"
SERIES: Final = "the log's line numbers are those of {}; decided for {}"
PLATFORMS: Final = frozenset({"cpu", "xpu"})
"""The devices that are those of one platform."""


class LoggedRequest(NamedTuple):
    """The request that a log's own arguments make, and what could not be read of them."""

    request: Request
    notes: list[str]


class Predictor:
    """Decides for the engines of a log, and compares.

    ``candidates`` are the engines of the deployment, None without one. ``version`` is the release that a flag states.
    ``environment`` is that of a request for the log's own arguments; with ``nearest`` the closest known release decides
    for one that is not known.
    """

    def __init__(
        self,
        policy: Policy,
        day: date,
        problem_of: Callable[[RequestInvalid], Problem],
        candidates: Sequence[CandidateEngine] | None = None,
        version: str | None = None,
        environment: dict[str, Any] | None = None,
        *,
        nearest: bool = False,
    ) -> None:
        self._policy = policy
        self._day = day
        self._problem_of = problem_of
        self._candidates = candidates
        self._version = version
        self._environment = environment or {}
        self._nearest = nearest

    def compare(self, logged: LoggedEngine) -> LogComparison:
        """What the engine did, beside its decision."""
        observed = logged.observed
        name: str | None = None
        notes: list[str] = []
        try:
            if self._candidates is None:
                if logged.arguments is None:
                    return without_decision(observed, None, None, [NO_ARGUMENTS])
                request, notes = self._logged_request(logged, logged.arguments)
                return self._with_notes(self._compared(request, observed, None, Alternatives), notes)
            match = match_engine(observed, self._candidates)
            if isinstance(match, NoMatch):
                return without_decision(observed, None, None, [match.message])
            name = match.name or None
            if isinstance(match.request, RequestInvalid):
                raise match.request
            request = self._at_release_of(match.request, observed)
            return self._compared(request, observed, name, lambda: self._alternatives(request, logged))
        except RequestInvalid as error:
            return without_decision(observed, name, self._problem_of(error), notes)
        except NotAValue as error:
            return without_decision(observed, name, None, [f"the log's arguments (`non-default args`): {error}"])

    def _compared(
        self, request: Request, observed: ObservedEngine, name: str | None, alternatives: Callable[[], Alternatives]
    ) -> LogComparison:
        decision = self._decide(request)
        explained = with_explanation(request)
        return compare(
            observed,
            decision,
            self._policy.releases,
            name,
            lambda: (self._decide(explained), alternatives()),  # type: ignore[arg-type]  # a request stays one
        )

    @staticmethod
    def _with_notes(found: LogComparison, notes: list[str]) -> LogComparison:
        return replace(found, notes=[*notes, *found.notes]) if notes else found

    def _decide(self, request: Request) -> Decision:
        return self._policy.assemble(self._policy.evaluate(request, self._day))

    def _at_release_of(self, request: Request, observed: ObservedEngine) -> Request:
        """The request for the log's release, unless it states one itself."""
        shown = self._shown_release(observed)
        return request if shown is None or not request.release.defaulted else self._at(request, shown)

    def _at(self, request: Request, version: str) -> Request:
        resolution = self._policy.releases.resolve(version, nearest=self._nearest)
        return replace(request, vllm_version=version, release=resolution)

    def _decided_as(self, version: str | None) -> str | None:
        """The known release that decides for a version, if there is one."""
        return version and decided_as(version, self._policy.releases, nearest=self._nearest)

    def _shown_release(self, observed: ObservedEngine) -> str | None:
        """The release that the log shows; None if it shows none, or one that no known release decides."""
        shown = observed.release or (observed.releases[-1] if observed.releases else None)
        return shown if self._decided_as(shown) else None

    def _alternatives(self, request: Request, logged: LoggedEngine) -> Alternatives:
        """The decisions for the log's release and with the log's arguments, where they are not those of the request."""
        shown = self._shown_release(logged.observed)
        other = None
        if shown is not None and self._decided_as(shown) != request.release.decided_as:
            other = self._decided(self._at(request, shown))
        if logged.arguments is None or request.deployment is None:
            return Alternatives(other)
        release = self._decided_as(shown or request.vllm_version) or request.release.decided_as
        try:
            words = read_arguments(logged.arguments, release).words
        except (NotAValue, KeyError):
            return Alternatives(other)
        deployment = replace(request.deployment, args=words, places=None)
        return Alternatives(other, self._decided(replace(request, deployment=deployment)))

    def _decided(self, request: Request) -> Decision | None:
        try:
            return self._decide(request)
        except RequestInvalid:
            return None

    def _logged_request(self, logged: LoggedEngine, arguments: str) -> LoggedRequest:
        """The request for the arguments of the log, at the log's release or the one of the flag.

        Raises:
            NotAValue: the arguments cannot be read.
            RequestInvalid: the release is unknown.
        """
        observed, notes = logged.observed, []
        version = self._version or observed.release or (observed.releases[-1] if observed.releases else None)
        if version is None:
            version = self._policy.releases.default
            notes.append(UNKNOWN_RELEASE.format(version))
        elif self._version is None and observed.release is None:
            notes.append(SERIES.format(" or ".join(observed.releases), version))
        release = self._decided_as(version) or releases_with_flags()[-1]
        read = read_arguments(arguments, release)
        environment = self._environment
        if observed.device in PLATFORMS and not environment:
            environment = {"platform": observed.device}
        deployment = {"args": read.words, "environment": environment}
        document = {
            "vllm_version": version,
            "beyond_verified": NEAREST if self._nearest else None,
            "deployment": deployment,
        }
        return LoggedRequest(read_request(document, self._policy.releases), [*notes, *read.warnings])
