"""What an engine did beside what was decided for it: agreed, or what differed and what explains it.

Owns the verdict and the explanations. Not here: reading the log (``reader``), and which engine of a deployment it is
(``matching``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Struct, UnsetType

from policy.decision.decision import NO_RUNNER, OWN_RUNNER
from policy.errors import PolicyError
from policy.observation.observed import ObservedEngine  # noqa: TC001  # msgspec reads the annotations
from policy.problems import Problem  # noqa: TC001  # as above
from policy.rules.template import format_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policy.decision.decision import Alternative, Decision
    from policy.rules.releases import Releases

RUNNER, STARTS, RELEASE, ERRORS = "runner", "starts", "vllm_version", "startup_errors"
NO_EXPLANATION: Final = "no assumption of the decision explains it"
NOT_DECIDED: Final = (
    "the exception names no model runner; `starts` says whether the runner or an argument stops vLLM, and nothing "
    "about memory, drivers, packages and files"
)
STOPPING: Final = frozenset({"no-start", "crash", "out-of-memory"})
"""The symptoms of known problems with which an engine may end at its start."""
EARLIER: Final = "another exception stopped vLLM before it refused the runner"
FAILED_LATER: Final = "it was ready, and ended later: "
NOT_SHOWN: Final = "the log does not show the runner; vLLM logs it with the level INFO, when its workers start"
CUT_OFF: Final = "the log ends before the engine is ready or has failed"


class Verdict(StrEnum):
    """What came of a comparison."""

    AGREED = "agreed"
    DIFFERED = "differed"
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


class Explanation(Struct, frozen=True):
    """What may explain a difference.

    ``cause`` is `assumption` (with its ``fact``, the value ``assumed``, and the one with which the decision is what the
    log shows), `set_env`, `release`, `arguments`, `model`, `known-problem`, `log` (what vLLM itself says), or
    `not-decided`.
    """

    cause: str
    message: str
    fact: str | UnsetType = UNSET
    assumed: Any | UnsetType = UNSET
    value: str | UnsetType = UNSET


class Difference(Struct, frozen=True):
    """A field of the decision that the log contradicts, and what may explain it."""

    member: str
    predicted: Any
    observed: Any
    explanations: list[Explanation]


class Comparison(Struct, frozen=True):
    """One engine of a log, with what was decided for it.

    ``engine`` is its name in the deployment. Instead of ``predicted`` there is a ``problem`` if nothing was decided.
    """

    verdict: Verdict
    engine: str | None
    observed: ObservedEngine
    predicted: Prediction | None
    differences: list[Difference]
    notes: list[str]
    problem: Problem | UnsetType = UNSET


class Alternatives(Struct, frozen=True):
    """The decisions for the same engine under what the log shows, as far as they were made.

    ``at_release`` is the one for the log's release, ``with_arguments`` the one with the log's arguments.
    """

    at_release: Decision | None = None
    with_arguments: Decision | None = None


def compare(
    observed: ObservedEngine,
    decision: Decision,
    releases: Releases,
    engine: str | None,
    explain: Callable[[], tuple[Decision, Alternatives]],
) -> Comparison:
    """The comparison of an engine with its decision; ``explain`` decides again with assumptions if they differ."""
    differing = list(_differences(observed, decision, releases))
    found: list[Difference] = []
    if differing:
        explained, alternatives = explain()
        found = [
            Difference(member, predicted, actual, list(_explanations(member, observed, explained, alternatives)))
            for member, predicted, actual in differing
        ]
    return Comparison(_verdict(observed, found), engine, observed, _prediction(decision), found, _notes(observed))


def without_decision(
    observed: ObservedEngine, engine: str | None, problem: Problem | None, notes: list[str]
) -> Comparison:
    """The comparison of an engine for which nothing was decided, with the reason."""
    return Comparison(
        Verdict.UNDECIDED,
        engine,
        observed,
        None,
        [],
        [*notes, *_notes(observed)],
        UNSET if problem is None else problem,
    )


def _prediction(decision: Decision) -> Prediction:
    return Prediction(**{name: getattr(decision, name) for name in Prediction.__struct_fields__})


def _verdict(observed: ObservedEngine, differences: list[Difference]) -> Verdict:
    if differences:
        return Verdict.DIFFERED
    is_shown = observed.runner is not None or observed.starts is False
    return Verdict.AGREED if is_shown else Verdict.UNDECIDED


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


def decided_as(version: str, releases: Releases) -> str | None:
    """The known release that decides for a version of a log; None if there is none."""
    try:
        return releases.resolve(version).decided_as
    except PolicyError:
        return None


def _explanations(
    member: str, observed: ObservedEngine, decision: Decision, alternatives: Alternatives
) -> Iterator[Explanation]:
    if member == RELEASE:
        other = alternatives.at_release
        if other is not None:
            yield Explanation("release", f"for vLLM {other.vllm_version} the decision is {_answer(other)}")
        return
    found = list(_of_member(member, observed, decision, alternatives))
    yield from found or [Explanation("unknown", NO_EXPLANATION)]


def _of_member(
    member: str, observed: ObservedEngine, decision: Decision, alternatives: Alternatives
) -> Iterator[Explanation]:
    """What makes the decision the same as the log, the most certain first."""
    failure = observed.failure
    if member in {STARTS, ERRORS} and failure is not None and failure.runner is None:
        found = decision.known_problems if decision.starts else []
        yield from (
            Explanation("known-problem", f"{each.rule}: {each.message}") for each in found if each.symptom in STOPPING
        )
        yield Explanation("not-decided", NOT_DECIDED if decision.starts else EARLIER)
        return
    if member == RUNNER:
        yield from (Explanation("log", f"vLLM logs: {text}") for text in observed.fallbacks)
    for cause, other, words in (
        ("release", alternatives.at_release, "for the release of the log"),
        ("arguments", alternatives.with_arguments, "with the arguments that the log shows"),
    ):
        if other is not None and _is_as_observed(member, observed, other):
            yield Explanation(cause, f"{words} the decision is {_answer(other)}")
    if decision.set_env and _is_as_observed(member, observed, decision.upstream):
        assignments = " ".join(f"{name}={value}" for name, value in decision.set_env.items())
        yield Explanation(
            "set_env", f"vLLM alone does this; it follows the decision only if {assignments} is set", value=assignments
        )
    for assumption in decision.assumptions or []:
        for value, alternative in assumption.would_change.items():
            if _is_as_observed(member, observed, alternative):
                shown = format_value(assumption.assumed)
                message = f"{assumption.fact} was assumed to be {shown} ({assumption.why}); with {value} it agrees"
                yield Explanation("assumption", message, assumption.fact, assumption.assumed, value)
    yield from _of_model(observed, decision)


def _of_model(observed: ObservedEngine, decision: Decision) -> Iterator[Explanation]:
    """That the engine resolved an architecture which the decision's model does not have."""
    fact = decision.facts.get("model_config.architectures") if decision.facts else None
    decided = fact.value if fact is not None else None
    if isinstance(decided, list) and observed.architectures and observed.architectures[0] not in decided:
        shown = observed.architectures[0]
        yield Explanation("model", f"the log resolved the architecture {shown}, and the decision has {decided}")


def _is_as_observed(member: str, observed: ObservedEngine, other: Decision | Alternative | Any) -> bool:
    """Whether another decision is what the log shows, in this field and, as far as it is shown, in the runner."""
    if member == RUNNER:
        return bool(other.runner == observed.runner)
    is_runner = observed.runner is None or other.runner == observed.runner
    return bool(is_runner and other.starts == observed.starts)


def _answer(decision: Decision) -> str:
    runner = decision.runner.upper() if decision.runner else OWN_RUNNER if decision.starts else NO_RUNNER
    return f"{runner}, {'starts' if decision.starts else 'does not start'}"
