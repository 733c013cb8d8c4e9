"""Format proofs and edits: tables, Markdown for a pull request, annotations for GitHub.

Owns their texts. It does not import the solver, which is slow to import.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from policy.cli.console import annotation
from policy.cli.markdown import code_cell, code_span
from policy.errors import Fault
from policy.escaping import escape_line
from policy.messages import counted
from policy.render import BAD, GOOD, QUIET, STRONG, escape_control
from policy.rules.releases import spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from policy.proof.claims import Proof
    from policy.proof.difference import Difference, ProofOutcome
    from policy.proof.edit import Edit, EditEffect, FleetCount
    from policy.rules.catalogue import Catalogue

UNAFFECTED = "no deployment is affected (proved)"


def steps(proof: Proof) -> RenderableType:
    """The steps from release to release with their differences, and the equivalent releases."""
    lines: list[Text] = []
    for step in proof.steps:
        if step.changes:
            lines += [
                Text(f"{step.before} to {step.after}", STRONG),
                *(line for change in step.changes for line in _lines(change)),
            ]
    lines += [Text(f"{' = '.join(group)}: equivalent (proved)", GOOD) for group in proof.equivalent if len(group) > 1]
    return Group(*lines)


def _lines(change: Difference) -> list[Text]:
    """A change in three lines: the rule and what it does, the reasons, the smallest deployment."""
    return [
        Text.assemble("  ", (change.rule, STRONG), f": {transition(change)}"),
        Text(f"    {', '.join(reasons(change)) or 'the same reasons with other texts'}", QUIET),
        Text.assemble("    ", escape_control(json.dumps(change.facts, ensure_ascii=False))),
    ]


def verdict(faults: Sequence[Fault]) -> str:
    """The result of a proof, in one line."""
    return (
        f"claims that do not hold: {len(faults)}"
        if faults
        else "no unreachable or redundant rule, every deployment decided (proved)"
    )


def edit(found: Edit, fleet: FleetCount | None) -> RenderableType:
    """An edit's changes by the releases in which they are the same, and a summary."""
    lines: list[Text] = []
    for effect in found.effects:
        lines += [Text(_where(effect, found), STRONG), *_lines(effect.change)]
    return Group(*lines, *(Text(line, BAD if found.changes_something else GOOD) for line in summary(found, fleet)))


def summary(found: Edit, fleet: FleetCount | None, show_name: Callable[[str], str] = escape_line) -> Iterator[str]:
    """The summary of an edit, in sentences; ``show_name`` formats the names of deployments, which users chose."""
    if not found.effects:
        yield UNAFFECTED
    else:
        rules = dict.fromkeys(effect.change.rule for effect in found.effects)
        affected = [
            release for release in found.compared if any(release in effect.releases for effect in found.effects)
        ]
        yield (
            f"{counted(len(found.effects), 'class of deployments is', 'classes of deployments are')} affected, "
            f"by {', '.join(rules)}, in {len(affected)} of {counted(len(found.compared), 'release', 'releases')}"
        )
    for release in found.gone:
        yield f"{release} is no longer known"
    for release, before in found.compared.items():
        if release != before:
            yield f"{release} is new, and compared with {before}"
    if fleet is not None:
        yield (
            f"of {counted(fleet.deployments, 'deployment', 'deployments')}, "
            f"{counted(fleet.changed, 'changes', 'change')} (runner: {fleet.runner}, start: {fleet.starts}), "
            f"and {fleet.undecided} could not be decided"
        )
        if fleet.first:
            yield f"first changed: {', '.join(map(show_name, fleet.first))}"
        for name, why in fleet.first_undecided.items():
            yield f"not decided: {show_name(f'{name}: {why}')}"


def _where(effect: EditEffect, found: Edit) -> str:
    """The releases of an effect, and its first day if that is a later one."""
    releases = spans(effect.releases, list(found.compared))
    return releases if effect.since is None else f"{releases}, from {effect.since} on"


def transition(change: Difference) -> str:
    """The change of a deployment: ``V1 → V2``, or ``V1 (unchanged, other reasons)``."""
    before, after = outcome(change.before), outcome(change.after)
    return f"{before} → {after}" if before != after else f"{before} (unchanged, other reasons)"


def outcome(answer: ProofOutcome) -> str:
    """The runner and whether it starts: ``V2``, ``V1 (fails to start)``, ``no runner``."""
    if answer.runner is None:
        return "no runner"
    return answer.runner.upper() if answer.starts else f"{answer.runner.upper()} (fails to start)"


def reasons(change: Difference) -> list[str]:
    """The rules removed from and added to the reasons: ``- rule (effect)``, ``+ rule (effect)``."""
    gone = [
        f"- {rule} ({effect})" for rule, effect in change.before.reasons if (rule, effect) not in change.after.reasons
    ]
    return gone + [
        f"+ {rule} ({effect})" for rule, effect in change.after.reasons if (rule, effect) not in change.before.reasons
    ]


def markdown(found: Edit, fleet: FleetCount | None) -> Iterator[str]:
    """The lines of a Markdown report of an edit, for a pull request."""
    yield "## What this edit of the rules changes"
    yield ""
    for line in summary(found, fleet, code_span):
        yield f"- {line}"
    if found.effects:
        yield ""
        yield "| vLLM | rule | what it does | reasons | smallest deployment |"
        yield "|---|---|---|---|---|"
    for effect in found.effects:
        change = effect.change
        cells = (_where(effect, found), f"`{change.rule}`", transition(change), "<br>".join(reasons(change)))
        facts = code_cell(json.dumps(change.facts, ensure_ascii=False))
        yield f"| {' | '.join(cells)} | {facts} |"


def notices(found: Edit, place: Path, after: Catalogue, before: Catalogue) -> Iterator[str]:
    """A notice at each responsible rule, at its position after the edit, or else before it."""
    for effect in found.effects:
        change = effect.change
        rule = after.rule(change.rule) or before.rule(change.rule)
        if rule is not None:
            facts = json.dumps(change.facts, ensure_ascii=False)
            message = f"{_where(effect, found)}: {transition(change)} for {facts}"
            yield annotation("notice", Fault(str(place / rule.path), *rule.place, message))
    if not found.changes_something:
        yield f"::notice::{UNAFFECTED}"
