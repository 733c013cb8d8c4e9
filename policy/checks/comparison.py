"""Comparisons of decisions by the loaded and by candidate rules, and the results that the processes exchange."""

from __future__ import annotations

from datetime import date  # noqa: TC003  # msgspec reads the annotations
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from policy.decision.decision import Decision, Reason  # noqa: TC001  # msgspec reads the annotations
from policy.decision.known_problems import KnownProblem
from policy.errors import INVALID_REQUEST, Fault, RequestFault, RequestInvalid, RulesInvalid

COMPARED_FIELDS: Final = (
    "runner",
    "outcome",
    "starts",
    "startup_errors",
    "unsupported_features",
    "v1_unsupported_features",
    "upstream",
    "set_env",
    "warnings",
)
MESSAGE: Final = "message"
"""The field of a change of a reason: its rule fires in both decisions, with different messages."""
KNOWN_PROBLEMS: Final = "known_problems"
PROBLEM_FIELDS: Final = ("symptom", "certainty", "fixed_in")
"""The fields of a change of a known problem that both decisions have."""
CHANGED_MEMBERS: Final = (*COMPARED_FIELDS, MESSAGE, KNOWN_PROBLEMS, *PROBLEM_FIELDS)
"""The possible fields of changes."""


class ClassOutcome(Struct, frozen=True):
    """The decision on a class of deployments: runner, outcome, start, and the rules that are reasons.

    ``upstream`` is the decision of vLLM alone, if it is another one that changes.
    """

    runner: str | None
    outcome: str | None
    starts: bool
    reasons: list[dict[str, str]]
    upstream: ClassOutcome | UnsetType = UNSET


class AffectedClass(Struct, frozen=True):
    """A class of deployments that the candidate rules affect in these releases; ``facts`` are its smallest example.

    ``since`` is set if the class is affected only from a later day, because a house rule ends.
    """

    releases: list[str]
    rule: str
    rules: list[str]
    facts: dict[str, Any]
    from_: ClassOutcome = msgspec.field(name="from")
    to: ClassOutcome
    since: date | UnsetType = UNSET


class RunnerVerdict(Struct, frozen=True):
    """What becomes of a request with one runner, and the rules about requests that fire."""

    verdict: str
    rules: list[str]


class RunnerVerdicts(Struct, frozen=True):
    """What becomes of a request with each runner."""

    v1: RunnerVerdict
    v2: RunnerVerdict


class AffectedRequests(Struct, frozen=True):
    """A class of requests that the candidate rules affect in these releases; ``facts`` are its smallest example."""

    releases: list[str]
    rule: str
    rules: list[str]
    facts: dict[str, Any]
    from_: RunnerVerdicts = msgspec.field(name="from")
    to: RunnerVerdicts


class CaseOutcome(Struct, frozen=True):
    """A case in one release: whether its claim is true of the candidate rules, and what happened instead."""

    rule: str
    name: str
    vllm_version: str
    fires: bool
    passed: bool
    found: str | None
    file: str
    line: int


class CasesReport(Struct, frozen=True):
    """The results of the cases that were sent, and the required kinds of case that their rules lack, in words."""

    results: list[CaseOutcome]
    missing: list[str]


class SandboxResult(Struct, frozen=True):
    """The result of a dry run in the sandbox: a decision, or why there is none.

    ``answer`` is the encoded comparison, if the job has a ``current`` decision. A large answer is instead in the file
    named to the process, and has ``spooled`` bytes. ``problem`` is the kind of the ``request_faults``, ``failed`` the
    reason why the rules cannot be used.
    """

    decision: Decision | None = None
    answer: str | None = None
    spooled: int | None = None
    affected: list[AffectedClass] | None = None
    requests: list[AffectedRequests] = []
    known_problems: list[str] = []
    cases: CasesReport | None = None
    rules: list[str] = []
    faults: list[Fault] = []
    request_faults: list[RequestFault] = []
    problem: str | None = None
    failed: str | None = None


class MemberChange(Struct, frozen=True):
    """A field of the decision, or of one of its reasons or known problems, that the candidate rules change.

    ``rules`` change it.
    """

    member: str
    from_: Any = msgspec.field(name="from")
    to: Any = None
    rules: list[str] = []


class DryRunComparison(Struct, frozen=True):
    """The answer of a dry run with candidate rules."""

    current: Decision
    candidate: Decision
    changes: list[MemberChange]
    cases: CasesReport | UnsetType = UNSET


class DryRunComparisonOfAll(Struct, frozen=True):
    """The answer of a dry run for all possible deployments; an empty ``changes`` is a proof that there are none.

    ``requests`` is set if requests to engines are affected too, ``known_problems`` if the symptom, certainty or fix of
    these rules changes, which answers with them show.
    """

    current: Decision
    candidate: Decision
    changes: list[AffectedClass]
    requests: list[AffectedRequests] | UnsetType = UNSET
    known_problems: list[str] | UnsetType = UNSET
    cases: CasesReport | UnsetType = UNSET


read_result = msgspec.json.Decoder(SandboxResult).decode


def answer_of(result: SandboxResult) -> bytes:
    """The encoded comparison of a job with a ``current`` decision; empty if it is in a file.

    Raises:
        RulesInvalid, RequestInvalid: the candidate was refused.
    """
    _refuse(result)
    if result.spooled is not None:
        return b""
    # INVARIANT: an accepted candidate has an answer if the job has a ``current`` decision.
    assert result.answer is not None
    return result.answer.encode()


def compare(current: Decision, result: SandboxResult) -> DryRunComparison | DryRunComparisonOfAll:
    """Both decisions and their differences.

    Each change names the edited rules that apply in either decision, else all rules whose reasons differ; a change of
    a reason or a known problem names its rule.

    Raises:
        RulesInvalid, RequestInvalid: the candidate was refused.
    """
    _refuse(result)
    assert result.decision is not None  # INVARIANT: it has a decision if the job has no ``current`` decision
    candidate = result.decision
    cases = UNSET if result.cases is None else result.cases
    if result.affected is not None:
        return DryRunComparisonOfAll(
            current, candidate, result.affected, result.requests or UNSET, result.known_problems or UNSET, cases
        )
    before, after = (_by_rule(decision) for decision in (current, candidate))
    differing = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    rules = [name for name in dict.fromkeys(result.rules) if name in before or name in after] or differing
    changes = [
        MemberChange(member, getattr(current, member), getattr(candidate, member), rules)
        for member in COMPARED_FIELDS
        if getattr(current, member) != getattr(candidate, member)
    ] + [
        MemberChange(MESSAGE, before[name].message, reason.message, [name])
        for name, reason in after.items()
        if name in before and before[name].message != reason.message
    ]
    problems = [[each.rule for each in decision.known_problems] for decision in (current, candidate)]
    if current.runner == candidate.runner and problems[0] != problems[1]:  # another runner has others anyway
        changes.append(MemberChange(KNOWN_PROBLEMS, problems[0], problems[1], rules))
    changes += [
        MemberChange(field, getattr(before[name], field), getattr(problem, field), [name])
        for name, problem in after.items()
        if isinstance(problem, KnownProblem) and isinstance(before.get(name), KnownProblem)
        for field in PROBLEM_FIELDS
        if getattr(before[name], field) != getattr(problem, field)
    ]
    return DryRunComparison(current, candidate, changes, cases)


def _by_rule(decision: Decision) -> dict[str, Reason | KnownProblem]:
    """The reasons and known problems of a decision by the rule's id."""
    found: list[Reason | KnownProblem] = [*decision.reasons, *decision.known_problems]
    return {each.rule: each for each in found}


def _refuse(result: SandboxResult) -> None:
    if result.faults:
        raise RulesInvalid(result.faults)
    if result.request_faults:
        raise RequestInvalid(result.request_faults, result.problem or INVALID_REQUEST)
    if result.failed is not None:
        raise RulesInvalid([Fault("rules", 1, 1, result.failed)])
