"""A decision by the loaded rules beside one by candidate rules: the messages of a trial, and what differs."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from policy.decision.decision import Decision  # noqa: TC001  # msgspec reads the annotations
from policy.errors import Fault, RequestFault, RequestInvalid, RulesInvalid


class RuleFault(Struct, frozen=True):
    """A fault in a rule, as the process reports it."""

    path: str
    line: int
    column: int
    message: str


class ClassOutcome(Struct, frozen=True):
    """Where a class of deployments stands: its runner, outcome and start, and by which rules."""

    runner: str | None
    outcome: str | None
    starts: bool
    reasons: list[dict[str, str]]


class AffectedClass(Struct, frozen=True):
    """A class of deployments that the candidate rules affect in these releases, and the smallest of them, by its facts."""

    releases: list[str]
    rule: str
    rules: list[str]
    facts: dict[str, Any]
    from_: ClassOutcome = msgspec.field(name="from")
    to: ClassOutcome


class SandboxResult(Struct, frozen=True):
    """The answer: a decision, or why there is none. ``misfits`` are (pointer, message).

    ``answer`` is the comparison, encoded, where the job asked for one.
    """

    decision: Decision | None = None
    answer: str | None = None
    affected: list[AffectedClass] | None = None
    rules: list[str] = []
    faults: list[RuleFault] = []
    misfits: list[tuple[str, str]] = []
    problem: str = ""
    failed: str = ""


class MemberChange(Struct, frozen=True):
    """A member of the decision that the candidate rules change, and the rules that do it."""

    member: str
    from_: Any = msgspec.field(name="from")
    to: Any = None
    rules: list[str] = []


class DryRunComparison(Struct, frozen=True):
    """What a dry run with candidate rules answers."""

    current: Decision
    candidate: Decision
    changes: list[MemberChange]


class DryRunComparisonOfAll(Struct, frozen=True):
    """The same where the changes are asked of all deployments that there can be; none is a proof."""

    current: Decision
    candidate: Decision
    changes: list[AffectedClass]


COMPARED: Final = (
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

read_result = msgspec.json.Decoder(SandboxResult).decode


def answer_of(tried: SandboxResult) -> bytes:
    """The comparison that a job with a ``current`` decision asked for, encoded.

    Raises:
        RulesInvalid, RequestInvalid: the candidate was refused.
    """
    _refuse(tried)
    if tried.answer is None:
        raise RulesInvalid([Fault("rules", 1, 1, tried.failed)])
    return tried.answer.encode()


def compare(current: Decision, tried: SandboxResult) -> DryRunComparison | DryRunComparisonOfAll:
    """Both decisions and what differs; each change names the touched rules that stand in either, or else all whose reasons differ.

    Raises:
        RulesInvalid, RequestInvalid: the candidate was refused.
    """
    _refuse(tried)
    if tried.decision is None:
        raise RulesInvalid([Fault("rules", 1, 1, tried.failed)])
    candidate = tried.decision
    if tried.affected is not None:
        return DryRunComparisonOfAll(current, candidate, tried.affected)
    before = {reason.rule: reason for reason in current.reasons}
    after = {reason.rule: reason for reason in candidate.reasons}
    differing = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    rules = [name for name in dict.fromkeys(tried.rules) if name in before or name in after] or differing
    changes = [
        MemberChange(member, getattr(current, member), getattr(candidate, member), rules)
        for member in COMPARED
        if getattr(current, member) != getattr(candidate, member)
    ]
    return DryRunComparison(current, candidate, changes)


def _refuse(tried: SandboxResult) -> None:
    if tried.faults:
        raise RulesInvalid(Fault(fault.path, fault.line, fault.column, fault.message) for fault in tried.faults)
    if tried.misfits:
        raise RequestInvalid([RequestFault(*misfit) for misfit in tried.misfits], tried.problem)
