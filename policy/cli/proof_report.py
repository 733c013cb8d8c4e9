"""Format proofs, and the classes of deployments that two sets of rules decide differently.

Owns their texts; ``edit_report`` formats edits. It does not import the solver, which is slow to import.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from policy.decision.decision import NO_RUNNER, OWN_RUNNER
from policy.proof.groups import upstream_change
from policy.render import GOOD, QUIET, STRONG, escape_control

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from policy.errors import Fault
    from policy.proof.claims import Proof
    from policy.proof.difference import Difference, ProofOutcome
    from policy.proof.groups import Change
    from policy.proof.requests import RequestDifference


def steps(proof: Proof) -> RenderableType:
    """The differences from each release to the next, and the equivalent releases."""
    lines: list[RenderableType] = []
    for step in proof.steps:
        if step.changes or step.requests:
            lines += [
                Text(f"{step.before} to {step.after}", STRONG),
                *(line for change in step.changes for line in class_lines(change)),
                *(line for change in step.requests for line in request_lines(change)),
            ]
    lines += [Text(f"{' = '.join(group)}: equivalent (proved)", GOOD) for group in proof.equivalent if len(group) > 1]
    return Group(*lines)


def class_lines(change: Difference) -> list[RenderableType]:
    """A difference in three lines: the rule and the transition, the reasons, the smallest deployment."""
    return [
        indent(Text.assemble((change.rule, STRONG), f": {transition(change)}"), 2),
        indent(Text(", ".join(reasons(change)) or "the same reasons with other texts", QUIET), 4),
        indent(escape_control(json.dumps(change.facts, ensure_ascii=False)), 4),
    ]


def request_lines(change: RequestDifference) -> list[RenderableType]:
    """A difference in what becomes of requests in two lines: the rule and the transition, the smallest request."""
    return [
        indent(Text.assemble((change.rule, STRONG), f": {request_transition(change)}"), 2),
        indent(escape_control(json.dumps(change.facts, ensure_ascii=False)), 4),
    ]


def request_transition(change: RequestDifference) -> str:
    """The change of a request: ``fine → refused``, for one runner ``fine → refused with V2``, or ``other findings``."""
    texts = {runner: f"{old} → {new}" for runner, (old, new) in change.transitions.items()}
    if len(texts) > 1 and len(set(texts.values())) == 1:
        return f"request {next(iter(texts.values()))}"
    parts = ", ".join(f"{text} with {runner.upper()}" for runner, text in texts.items())
    return f"request {parts}" if parts else "request with the same verdict, other findings"


def indent(text: Text, by: int) -> RenderableType:
    """Indent all lines of a text, including wrapped ones."""
    return Padding(text, (0, 0, 0, by))


def verdict(faults: Sequence[Fault]) -> str:
    """The result of a proof, in one line."""
    return (
        f"claims that do not hold: {len(faults)}"
        if faults
        else "no unreachable or redundant rule, every deployment decided (proved)"
    )


def transition(change: Difference) -> str:
    """How the decision for a deployment changes: ``V1 → V2``, or ``V1 (unchanged, other reasons)``.

    If only the decision of vLLM alone changes, it is ``V1 (vLLM alone: V1 → V2)``.
    """
    before, after = outcome(change.before), outcome(change.after)
    if before != after:
        return f"{before} → {after}"
    upstream = upstream_change(change)
    return f"{before} (unchanged, other reasons)" if upstream is None else f"{before} ({alone(upstream)})"


def alone(change: Change) -> str:
    """The change of what vLLM alone does: ``vLLM alone: V1 → V2``."""
    before, after = change
    return f"vLLM alone: {state(*before)} → {state(*after)}"


def outcome(answer: ProofOutcome) -> str:
    """The runner and whether it starts, as ``state`` formats them."""
    return state(answer.runner, answer.starts)


def state(runner: str | None, starts: bool) -> str:  # noqa: FBT001  # formats two values
    """A runner and whether it starts: ``V2``, ``V1 (fails to start)``, ``own runner``, ``no runner``."""
    if runner is None:
        return OWN_RUNNER if starts else NO_RUNNER
    return runner.upper() if starts else f"{runner.upper()} (fails to start)"


def reasons(change: Difference) -> list[str]:
    """The rules removed from and added to the reasons: ``- rule (effect)``, ``+ rule (effect)``.

    If they are the same, it is the reasons of vLLM alone that differ.
    """
    sides = (change.before, change.after)
    if change.before.reasons == change.after.reasons:
        sides = (change.before.alone, change.after.alone)
    before, after = (side.reasons for side in sides)
    gone = [f"- {rule} ({effect})" for rule, effect in before if (rule, effect) not in after]
    return gone + [f"+ {rule} ({effect})" for rule, effect in after if (rule, effect) not in before]
