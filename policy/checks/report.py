"""Format comparisons of decisions and results of cases as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType
from rich.console import Group
from rich.text import Text

from policy.escaping import escape_line
from policy.render import GOOD, compact, decision, escape_control, runner_name, start_text
from policy.render_rows import table_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import RenderableType

    from policy.checks.cases import CaseResult, Claim
    from policy.checks.comparison import (
        AffectedRequests,
        CasesReport,
        ClassOutcome,
        DryRunComparison,
        DryRunComparisonOfAll,
    )


def comparison(answer: DryRunComparison) -> RenderableType:
    """A dry run with candidate rules: what changes, then the candidate's decision."""
    if not answer.changes:
        head: RenderableType = Text("the candidate rules change nothing for this deployment", GOOD)
    else:
        table = table_of("field", "from", "to", "rules")
        for change in answer.changes:
            table.add_row(change.member, Text(compact(change.from_)), Text(compact(change.to)), ", ".join(change.rules))
        head = table
    return Group(head, *_cases(answer.cases), Text(), decision(answer.candidate))


def comparison_of_all(answer: DryRunComparisonOfAll) -> RenderableType:
    """A dry run for all deployments: the affected classes, each with its smallest deployment, then the decision."""
    if answer.changes:
        table = table_of("releases", "rule", "from", "to", "smallest deployment")
        for change in answer.changes:
            outcomes = map(_outcome, (change.from_, change.to))
            since = "" if change.since is UNSET else f", from {change.since} on"
            table.add_row(
                ", ".join(change.releases) + since, change.rule, *outcomes, escape_control(compact(change.facts))
            )
        head: RenderableType = table
    elif isinstance(answer.known_problems, UnsetType):
        head = Text("the candidate rules change nothing for any deployment (proved)", GOOD)
    else:
        head = Text("the candidate rules change no runner, start or reason of any deployment (proved)", GOOD)
    problems = [] if isinstance(answer.known_problems, UnsetType) else answer.known_problems
    lines = (Text(f"the known problem {name} is changed; answers with it differ") for name in problems)
    return Group(head, *lines, *_requests(answer.requests), *_cases(answer.cases), Text(), decision(answer.candidate))


def _outcome(answer: ClassOutcome) -> str:
    """The runner and start, and those of vLLM alone if it is another decision that changes."""
    text = f"{runner_name(answer.runner, answer.outcome)}, {start_text(answer.starts)}"
    return text if isinstance(answer.upstream, UnsetType) else f"{text} (vLLM alone: {_outcome(answer.upstream)})"


def _requests(found: list[AffectedRequests] | UnsetType) -> Iterator[RenderableType]:
    """The affected classes of requests, each with its smallest request."""
    if isinstance(found, UnsetType):
        return
    table = table_of("releases", "rule", "with V1", "with V2", "smallest request")
    for change in found:
        before, after = change.from_, change.to
        sides = (_step(before.v1.verdict, after.v1.verdict), _step(before.v2.verdict, after.v2.verdict))
        table.add_row(", ".join(change.releases), change.rule, *sides, escape_control(compact(change.facts)))
    yield Text()
    yield table


def _step(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _cases(found: CasesReport | UnsetType) -> Iterator[RenderableType]:
    """How many cases passed, those that failed, and what is missing."""
    if isinstance(found, UnsetType):
        return
    failed = [case for case in found.results if not case.passed]
    yield Text(f"\ncases: {len(found.results) - len(failed)} passed, {len(failed)} failed", "" if failed else GOOD)
    if failed:
        table = table_of("case", "vllm", "what happened")
        for case in failed:
            name = Text(f"{case.file}:{case.line}\n{escape_line(case.name)}")
            table.add_row(name, case.vllm_version, Text(case.found or ""))
        yield table
    yield from (Text(text) for text in found.missing)


def results(found: Iterable[CaseResult[Claim]]) -> RenderableType:
    """The cases that failed, with what happened instead."""
    table = table_of("case", "vllm", "what happened")
    for result in found:
        table.add_row(
            Text(f"{result.case.path}:{result.case.line}\n{escape_line(result.case.name)}"),
            result.release,
            Text(result.found or ""),
        )
    return table
