"""What an engine did beside what was decided for it: agreed, or what differed and what explains it.

Owns the verdict and the explanations. Not here: reading the log (``reader``), and which engine of a deployment it is
(``matching``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Struct, UnsetType

from policy.errors import PolicyError
from policy.observation.explanations import (
    ERRORS,
    RELEASE,
    RUNNER,
    STARTS,
    Alternatives,
    Explanation,
    explanations,
    is_unrelated,
)
from policy.observation.lines import checked_releases
from policy.observation.observed import ObservedEngine  # noqa: TC001  # msgspec reads the annotations
from policy.problems import Problem  # noqa: TC001  # as above

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policy.decision.decision import Decision
    from policy.rules.releases import Releases

FAILED_LATER: Final = "it was ready, and ended later: "
NOT_SHOWN: Final = "the log does not show the runner; vLLM logs it with the level INFO, when its workers start"
UNCHECKED: Final = "the texts of this log were read as those of other releases; those of vLLM {} were not compared"
UNKNOWN: Final = "the log is of vLLM {}, which is no known release; decided for {}"
CUT_OFF: Final = "the log ends before the engine is ready or has failed"


class LogVerdict(StrEnum):
    """The result of a comparison.

    ``UNRELATED``: nothing but an exception differs, and it has nothing to do with the runner or the configuration.
    """

    AGREED = "agreed"
    DIFFERED = "differed"
    UNRELATED = "unrelated"
    UNDECIDED = "undecided"


class Prediction(Struct, frozen=True):
    """What was decided for an engine; the fields are those of the decision."""

    vllm_version: str
    runner: str | None
    outcome: str | None
    starts: bool
    startup_errors: list[str]
    launch_errors: list[str]
    summary: str
    set_env: dict[str, str]
    warnings: list[str]


class LogDifference(Struct, frozen=True):
    """A field of the decision that the log contradicts, and what may explain it."""

    member: str
    predicted: Any
    observed: Any
    explanations: list[Explanation]


class LogComparison(Struct, frozen=True):
    """One engine of a log, with what was decided for it.

    ``engine`` is its name in the deployment. Instead of ``predicted`` there is a ``problem`` if nothing was decided.
    """

    verdict: LogVerdict
    engine: str | None
    observed: ObservedEngine
    predicted: Prediction | None
    differences: list[LogDifference]
    notes: list[str]
    problem: Problem | UnsetType = UNSET


def compare(
    observed: ObservedEngine,
    decision: Decision,
    releases: Releases,
    engine: str | None,
    explain: Callable[[], tuple[Decision, Alternatives]],
) -> LogComparison:
    """The comparison of an engine with its decision; ``explain`` decides again with assumptions if they differ."""
    differing = list(_differences(observed, decision, releases))
    found: list[LogDifference] = []
    if differing:
        explained, alternatives = explain()
        found = [
            LogDifference(member, predicted, actual, list(explanations(member, observed, explained, alternatives)))
            for member, predicted, actual in differing
        ]
    notes = _notes(observed)
    shown = observed.release and decided_as(observed.release, releases)
    if observed.release and shown is None:
        notes.append(UNKNOWN.format(observed.release, decision.release.decided_as))
    elif shown and shown not in checked_releases():
        notes.append(UNCHECKED.format(shown))
    return LogComparison(_verdict(observed, found), engine, observed, _prediction(decision), found, notes)


def without_decision(
    observed: ObservedEngine, engine: str | None, problem: Problem | None, notes: list[str]
) -> LogComparison:
    """The comparison of an engine for which nothing was decided, with the reason."""
    return LogComparison(
        LogVerdict.UNDECIDED,
        engine,
        observed,
        None,
        [],
        [*notes, *_notes(observed)],
        UNSET if problem is None else problem,
    )


def _prediction(decision: Decision) -> Prediction:
    return Prediction(**{name: getattr(decision, name) for name in Prediction.__struct_fields__})


def _verdict(observed: ObservedEngine, differences: list[LogDifference]) -> LogVerdict:
    if differences:
        causes = {each.cause for difference in differences for each in difference.explanations}
        return LogVerdict.UNRELATED if is_unrelated(causes, observed.failure) else LogVerdict.DIFFERED
    is_shown = observed.runner is not None or observed.starts is False
    return LogVerdict.AGREED if is_shown else LogVerdict.UNDECIDED


def _notes(observed: ObservedEngine) -> list[str]:
    notes = [*observed.warnings]
    if observed.starts and observed.failure is not None:
        notes.append(FAILED_LATER + observed.failure.text)
    if observed.starts is None:
        notes.append(CUT_OFF)
    if observed.runner is None and observed.starts is not False and not observed.warnings:
        notes.append(NOT_SHOWN)
    return notes


def _differences(observed: ObservedEngine, decision: Decision, releases: Releases) -> Iterator[tuple[str, Any, Any]]:
    """The fields that the log contradicts, with both values."""
    if not _is_release(observed, decision, releases):
        yield RELEASE, decision.vllm_version, observed.release or observed.releases
    if observed.runner is not None and observed.runner != decision.runner:
        yield RUNNER, decision.runner, observed.runner
    if observed.starts is not None and observed.starts != decision.starts:
        yield STARTS, decision.starts, observed.starts
    elif observed.starts is False and decision.startup_errors and observed.failure is not None:
        text = _plain(observed.failure.text)
        if not any(_plain(error) in text for error in (*decision.startup_errors, *decision.launch_errors)):
            yield ERRORS, decision.startup_errors, observed.failure.text


def _plain(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def _is_release(observed: ObservedEngine, decision: Decision, releases: Releases) -> bool:
    """Whether the log may be that of the release that decided."""
    decided = decision.release.decided_as
    if observed.release is None:
        return not observed.releases or decided in observed.releases
    shown = decided_as(observed.release, releases)
    return shown is None or shown == decided


def decided_as(version: str, releases: Releases, *, nearest: bool = False) -> str | None:
    """The known release that decides for a version of a log, with ``nearest`` the closest; None if there is none."""
    try:
        return releases.resolve(version, nearest=nearest).decided_as
    except PolicyError:
        return None
