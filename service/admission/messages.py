"""The messages for decisions: warnings, the reason for a denial, audit annotations.

Owns their text and limits. The API server drops a warning with control characters, and truncates one of more than 256
characters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.errors import RequestInvalid
from policy.escaping import escape_line
from policy.messages import quoted
from policy.problems import and_more
from policy.rules.known_problems import Symptom
from service.admission.annotations import REMEDIES, SET_ENV, annotation_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policy.decision.decision import Decision
    from policy.errors import PolicyError
    from service.admission.engines import AdmissionOptions, EngineUnderReview

MAX_WARNING: Final = 256
MAX_WARNINGS: Final = 10
MAX_PATH: Final = 96
MAX_ERROR: Final = 512
MAX_MESSAGE: Final = 8192
MAX_NOTE: Final = 1024
WARNED_SYMPTOMS: Final = frozenset({Symptom.NO_START, Symptom.CRASH, Symptom.WRONG_OUTPUT})
"""The symptoms of known problems that are worth a warning to everybody who applies an object."""


class EngineDecision(Struct, frozen=True):
    """An engine's decision, or why there is none."""

    engine: EngineUnderReview
    decision: Decision | None
    why: str = ""


def undecided_reason(error: PolicyError) -> str:
    """Why there is no decision, in one line."""
    if not isinstance(error, RequestInvalid) or not error.faults:
        return str(error)
    return f"{error.faults[0].worded(REMEDIES)}{and_more(len(error.faults))}"


def warnings_of(engine_decision: EngineDecision, options: AdmissionOptions) -> Iterator[tuple[int, str]]:
    """The warnings for an engine, each with its rank, without the reason for a denial."""
    path, decision = engine_decision.engine.path, engine_decision.decision
    if decision is None:
        if options.fail == "open":
            yield 1, _line(path, f"not decided: {engine_decision.why}")
        return
    errors = [*decision.launch_errors, *decision.startup_errors]
    if errors and not options.deny:
        yield 0, _line(path, f"vLLM will not start{_with_variable(decision)}: {errors[0]}{_more(errors)}")
    if not errors and decision.set_env:
        alone, decided = _runner(decision.upstream.runner), _runner(decision.runner)
        wanted = ", ".join(f"{name}={value}" for name, value in decision.set_env.items())
        reason = next(reason for reason in decision.reasons if reason.decisive)
        why = f"rule {quoted(reason.rule)}: {reason.message}"
        yield 2, _line(path, f"vLLM alone would use {alone}, the policy decided {decided}; set {wanted}; {why}")
    text = annotation_of(engine_decision.engine.nodes, SET_ENV)
    if options.set_env != "off" and text not in {None, "true", "false"}:
        yield 3, _line(path, f'the annotation `{SET_ENV}` is {quoted(text)}; write "true" or "false"')
    for warning in decision.warnings:
        yield 4, _line(path, warning)
    known_problems = [problem for problem in decision.known_problems if problem.symptom in WARNED_SYMPTOMS]
    if known_problems:
        worst, more = known_problems[0], _more(known_problems)
        known = f"known problem of vLLM {decision.release.decided_as} ({worst.symptom}, {worst.certainty}){more}"
        yield 5, _line(path, f"{known}: {worst.message}")


def unread_warning(path: str, kind: str) -> str:
    """The warning about vLLM in an object that is allowed because its kind is not read."""
    return _line(path, f"vLLM was found in a kind that is not read, {quoted(kind)}; it is allowed without a decision")


def _with_variable(decision: Decision) -> str:
    """A note that the policy chose the runner, if it is not the one that vLLM would choose."""
    return f" on {_runner(decision.runner)}, which the policy decided" if decision.set_env else ""


def shorten(ranked: Sequence[tuple[int, str]]) -> list[str]:
    """The most important warnings without duplicates, at most as many as every client shows."""
    lines = list(dict.fromkeys(line for _, line in sorted(ranked, key=lambda each: each[0])))
    if len(lines) <= MAX_WARNINGS:
        return lines
    kept = lines[: MAX_WARNINGS - 1]
    return [
        *kept,
        f"{len(lines) - len(kept)} more warnings are not shown; `POST /v1/decisions` with the object returns all",
    ]


def denial(refused: Sequence[EngineDecision], undecided_engines: Sequence[EngineDecision]) -> str:
    """Why an object is denied: each engine with its errors, and what to do."""
    parts = []
    for engine_decision in refused:
        assert engine_decision.decision is not None  # INVARIANT: a refused engine has a decision
        decision = engine_decision.decision
        errors = "; ".join(_clean(error, MAX_ERROR) for error in (*decision.launch_errors, *decision.startup_errors))
        variable = _with_variable(engine_decision.decision)
        parts.append(f"{_prefix(engine_decision.engine.path)}vLLM will not start{variable}: {errors}")
    remedies = ["correct the arguments or variables that are named; `POST /v1/dry-run` explains"] if refused else []
    if undecided_engines:
        parts += [
            f"{_prefix(engine_decision.engine.path)}not decided: {_clean(engine_decision.why, MAX_ERROR)}"
            for engine_decision in undecided_engines
        ]
        remedies.append("objects that cannot be decided are denied here; add what is missing")
    return f"{_cut(' | '.join(parts), MAX_MESSAGE)} ({'; '.join(remedies)})"


def audit_annotations(engine_decisions: Sequence[EngineDecision]) -> dict[str, str]:
    """The audit annotations; the API server prefixes each key with the webhook's name."""
    engines = [
        (engine_decision.engine.path or "object", engine_decision.decision) for engine_decision in engine_decisions
    ]
    decisions = [(path, decision) for path, decision in engines if decision is not None]
    runners = " ".join(
        f"{path}={'undecided' if decision is None else decision.runner or decision.outcome or 'none'}"
        for path, decision in engines
    )
    if not decisions:
        return {"runner": _clean(runners, MAX_NOTE)}
    ids = " ".join(f"{path}={decision.decision_id}" for path, decision in decisions)
    return {
        "runner": _clean(runners, MAX_NOTE),
        "decision-id": _clean(ids, MAX_NOTE),
        "revision": decisions[0][1].policy.revision,
    }


def _runner(runner: str | None) -> str:
    return "no runner" if runner is None else runner.upper()


def _more(errors: Sequence[object]) -> str:
    return f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""


def _line(path: str, text: str) -> str:
    return _clean(f"{_prefix(path)}{text}", MAX_WARNING)


def _prefix(path: str) -> str:
    """The path as a prefix of a message; a long one is shortened in the middle."""
    text = _clean(path, MAX_MESSAGE)
    return (
        f"{text if len(text) <= MAX_PATH else f'{text[: MAX_PATH // 2 - 1]}…{text[-MAX_PATH // 2 :]}'}: "
        if path
        else ""
    )


def _clean(text: str, limit: int) -> str:
    """A text as one line of limited length, without control characters."""
    words = " ".join(text[: 4 * limit].split())
    return _cut(escape_line(words), limit)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
