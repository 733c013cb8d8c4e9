"""Format what becomes of a request as a table, for a terminal and for ``Accept: text/plain``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.text import Text

from policy.escaping import escape_line
from policy.problems import Problem, fault_lines
from policy.render import BAD, GOOD, QUIET, STRONG
from policy.render_rows import table_of
from policy.rules.request_rule import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from policy.sampling.check import Finding, RequestCheck, RunnerCheck

STYLES: Final[dict[str, str]] = {Verdict.FINE: GOOD, Verdict.IGNORED: STRONG}


def request_check(answer: RequestCheck) -> RenderableType:
    """The runner and the verdict, a row for each finding, and what the other runner does."""
    parts: list[RenderableType] = [_headline(answer)]
    if answer.findings:
        parts += [Text(), _findings(answer.findings), *_remedies(answer.findings)]
    other = answer.alternative
    if other is not None:
        parts += [Text(), Text.assemble("with ", _runner(other), ": ", _verdict(other.verdict))]
        shown = {finding.rule for finding in answer.findings}
        if any(finding.rule not in shown for finding in other.findings):
            parts.append(_findings(other.findings))
    parts += [Text(escape_line(f"warning: {warning}")) for warning in answer.warnings]
    return Group(*parts)


def engine_checks(rows: Iterable[tuple[str, RequestCheck | Problem]]) -> RenderableType:
    """The engines of a manifest, a row each, and below them what was found."""
    table = table_of("runner", "verdict", "vLLM", "engine")
    details: list[RenderableType] = []
    for name, found in rows:
        shown = Text(escape_line(name), STRONG)
        if isinstance(found, Problem):
            table.add_row("-", Text("problem", BAD), "-", shown)
            details += [Text(), shown, *map(Text, fault_lines(found))]
            continue
        table.add_row(_runner(found), _verdict(found.verdict), found.vllm_version, shown)
        if found.findings or found.warnings:
            details += [Text(), shown, request_check(found)]
    return Group(table, *details)


def _headline(answer: RequestCheck) -> Text:
    starts = () if answer.starts else ("  the engine does not start",)
    return Text.assemble(
        _runner(answer), "  ", _verdict(answer.verdict), *starts, (f"  vLLM {answer.vllm_version}", QUIET)
    )


def _runner(answer: RequestCheck | RunnerCheck) -> Text:
    return Text(answer.runner.upper() if answer.runner else "no runner", STRONG)


def _verdict(verdict: str) -> Text:
    return Text(verdict, STYLES.get(verdict, BAD))


def _findings(findings: Iterable[Finding]) -> RenderableType:
    table = table_of("verdict", "parameter", "rule", "why")
    for finding in findings:
        table.add_row(_verdict(finding.verdict), finding.parameter, finding.rule, Text(escape_line(finding.message)))
    return table


def _remedies(findings: Iterable[Finding]) -> list[Text]:
    return [
        Text.assemble((f"remedy ({finding.rule}): ", STRONG), escape_line(finding.remedy))
        for finding in findings
        if finding.remedy
    ]
