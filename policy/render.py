"""Format decisions and rules as tables and sentences, for a terminal and for ``Accept: text/plain``.

Owns the layout of a decision and of a rule's history. Rich adds colours only on a terminal.
"""

from __future__ import annotations

import io
import json
from typing import IO, TYPE_CHECKING, Any, Final

from msgspec import UNSET
from rich.console import Console, Group
from rich.text import Text

from policy.decision.decision import NO_RUNNER, OWN_RUNNER, Decision
from policy.decision.remedies import V2By
from policy.decision.remedy_text import change_text, changes_text, purpose_text
from policy.decision.trace_text import LEGEND, failed_text, nearness
from policy.escaping import escape_line, escape_lines
from policy.problems import fault_lines
from policy.render_rows import LongTable, table_of
from policy.rules.effects import Outcome
from policy.rules.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.table import Table

    from policy.decision.decision import RuleTrace
    from policy.decision.known_problems import KnownProblem, OtherRunner
    from policy.problems import Problem
    from policy.rules.catalogue import Catalogue
    from policy.rules.releases import Removal
    from policy.rules.request_rule import RequestRule

WIDTH: Final = 120
GOOD, BAD, QUIET, STRONG = "green", "bold red", "dim", "bold"


class EscapingConsole(Console):
    """A console that escapes control characters in every text, except those of rich itself.

    Texts should be escaped before the layout, so that rich measures their width; this console is the safeguard.
    """

    @property  # type: ignore[misc]  # without a setter, which nothing uses
    def file(self) -> IO[str]:
        """The file itself: a live display wraps it a second time, and rich unwraps it only once."""
        file = super().file
        return getattr(file, "rich_proxied_file", file)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of rich, with escaped texts."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escape_lines(segment.text))


def as_text(renderable: RenderableType) -> str:
    """The output for a terminal with 120 columns, without colours and trailing blanks."""
    out = io.StringIO()
    EscapingConsole(file=out, width=WIDTH, color_system=None, force_terminal=False).print(renderable)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def decision(answer: Decision) -> RenderableType:
    """A decision: the runner, the reasons, and what to do."""
    parts: list[RenderableType] = [_headline(answer), Text(escape_line(answer.summary))]
    if answer.reasons:
        parts += [Text(), _reasons(answer), *_legend(answer), *_remedies(answer)]
    parts += _known_problems(answer.known_problems)
    for error in (*answer.launch_errors, *answer.startup_errors):
        parts.append(Text.assemble(("refuses to start: ", BAD), escape_line(error)))
    for name, value in answer.set_env.items():
        parts.append(
            Text.assemble(("set ", STRONG), (f"{name}={value}", STRONG), "  so that vLLM follows this decision")
        )
    up = answer.upstream
    parts.append(
        Text(
            f"vLLM alone: {runner_name(up.runner, up.outcome)}, {up.outcome or 'no outcome'}, {start_text(up.starts)}",
            QUIET,
        )
    )
    parts += [Text.assemble(("warning: ", "yellow"), escape_line(warning)) for warning in answer.warnings]
    if answer.alternative is not UNSET and answer.alternative is not None:
        parts += _alternative(answer.alternative)
    parts += _advice(answer)
    if answer.trace is not UNSET and answer.trace:
        parts += [Text(), _trace(answer.trace)]
    if answer.assumptions is not UNSET:
        parts += _assumptions(answer)
    return Group(*parts)


def engines(rows: Iterable[tuple[str, Decision | Problem]]) -> RenderableType:
    """The engines of a manifest: a row each with the decision and its summary, and below them all problems.

    Below these are the remedies of each decision, or all of it if it is explained. Nothing is cut: names and summaries
    are in the last column, which wraps.
    """
    table = table_of("runner", "outcome", "starts", "vLLM", "engine, and why")
    for column in table.columns[:-1]:
        column.no_wrap = True
    problems: list[RenderableType] = []
    details: list[RenderableType] = []
    for name, found in rows:
        shown = Text(escape_line(name), STRONG)
        if isinstance(found, Decision):
            starts = Text("yes", GOOD) if found.starts else Text("no", BAD)
            why = Text.assemble(shown, "\n", escape_line(found.summary))
            table.add_row(
                runner_name(found.runner, found.outcome), found.outcome or "-", starts, found.vllm_version, why
            )
            if found.trace is not UNSET:
                details += [Text(), shown, decision(found)]
            elif remedies := _remedies(found):
                details += [Text(), shown, *remedies]
        else:
            table.add_row("-", "-", "-", "-", Text.assemble(shown, "\n", ("not decided, see below", BAD)))
            problems += [Text.assemble(shown, ": ", line) for line in fault_lines(found)]
    return Group(table, *([Text(), *problems] if problems else []), *details)


def escape_control(text: str) -> Text:
    """A text of several lines that may contain user input, with control characters escaped."""
    return Text(escape_lines(text))


def runner_name(runner: str | None, outcome: str | None) -> str:
    """``V1``, ``V2``, ``own runner``, or ``no runner``."""
    return runner.upper() if runner else OWN_RUNNER if outcome == Outcome.NOT_APPLICABLE else NO_RUNNER


def start_text(starts: bool) -> str:  # noqa: FBT001  # formats the value
    """``starts`` or ``does not start``."""
    return "starts" if starts else "does not start"


def _headline(answer: Decision) -> Text:
    release = answer.release
    asked = (
        "the default release"
        if release.defaulted
        else "verified"
        if release.verified
        else f"decided as {release.decided_as}"
    )
    return Text.assemble(
        (runner_name(answer.runner, answer.outcome), STRONG),
        f"  {answer.outcome or 'no outcome'}  ",
        (start_text(answer.starts), GOOD if answer.starts else BAD),
        (f"  vLLM {answer.vllm_version} ({asked})", QUIET),
    )


def _reasons(answer: Decision) -> Table:
    table = table_of("", "rule", "layer", "effect", "reason", "facts")
    for reason in answer.reasons:
        facts = "\n".join(escape_line(f"{name} = {compact(value)}") for name, value in reason.facts.items())
        table.add_row(
            "*" if reason.decisive else "",
            reason.rule,
            reason.layer,
            reason.effect,
            Text(escape_line(reason.message)),
            Text(facts),
        )
    return table


def _legend(answer: Decision) -> list[Text]:
    """The meaning of the mark for decisive reasons, if there are any."""
    return [Text("* decided", QUIET)] if any(reason.decisive for reason in answer.reasons) else []


def _remedies(answer: Decision) -> list[Text]:
    """The remedy of each reason that has one, below the table: a column for them would be only a few letters wide.

    V2 by default is what vLLM is meant to do and needs none.
    """
    return [
        Text.assemble((f"remedy ({reason.rule}): ", STRONG), escape_line(reason.remedy))
        for reason in answer.reasons
        if reason.remedy and reason.effect != "default-v2"
    ]


def _known_problems(problems: Sequence[KnownProblem], indent: str = "") -> list[Text]:
    """A line for each known problem, and one for its remedy."""
    lines = []
    for problem in problems:
        known = f"{problem.symptom}, {problem.certainty}"
        fixed = f", fixed in {problem.fixed_in}" if problem.fixed_in else ""
        lines.append(
            Text.assemble(
                indent,
                ("known problem ", "yellow"),
                (f"({problem.rule}; {known}{fixed}): ", STRONG),
                escape_line(problem.message),
            )
        )
        if problem.remedy:
            lines.append(Text.assemble(indent, (f"remedy ({problem.rule}): ", STRONG), escape_line(problem.remedy)))
    return lines


def _alternative(other: OtherRunner) -> list[Text]:
    """The other runner: whether vLLM starts with it, and what is known to go wrong."""
    count = len(other.known_problems)
    known = f"{count or 'no'} known problem{'' if count == 1 else 's'}"
    return [
        Text(f"the alternative: {other.runner.upper()}, {start_text(other.starts)}, {known}", QUIET),
        *(Text.assemble(("  refuses to start: ", BAD), escape_line(error)) for error in other.startup_errors),
        *_known_problems(other.known_problems, "  "),
    ]


def _advice(answer: Decision) -> list[Text]:
    """A line for each remedy, and one for the path from V1 to V2."""
    lines = [
        Text.assemble((f"{purpose_text(remedy)}: ", STRONG), escape_line(changes_text(remedy)))
        for remedy in answer.remedies or []
    ]
    path = answer.v2_path
    if path is not UNSET and path is not None:
        ways = {
            V2By.UPGRADE: f"this deployment gets V2 as it is from {path.upgrade_to} on",
            V2By.CHANGE: f"in {path.release}: {' and '.join(change_text(change) for change in path.change)}",
            V2By.NONE: f"no change that was tried gives V2 in {path.release}, the newest release",
        }
        lines.append(Text.assemble(("path to V2: ", STRONG), escape_line(ways[V2By(path.by)])))
        if path.removal is not None:
            lines.append(Text(f"the end of V1: {_removal(path.removal, path.release)}", QUIET))
    return lines


def _removal(removal: Removal, newest: str) -> str:
    said = f"deprecated in {removal.deprecated_in}, its removal announced for {removal.announced_for}"
    return f"{said}; {newest} still has it"


def _trace(trace: Sequence[RuleTrace]) -> RenderableType:
    """Every rule; those that came closest to firing are first."""
    header = ("rule", "effect", "fired", "first condition that does not hold")
    rows = [
        (item.rule, item.effect, "yes" if item.fired else "no", failed_text(item))
        for item in sorted(trace, key=nearness)
    ]
    return Group(LongTable(header, rows), Text(f"order: {LEGEND}", QUIET))


def _assumptions(answer: Decision) -> list[RenderableType]:
    changing = [item for item in answer.assumptions or [] if item.would_change]
    count = len(answer.assumptions or [])
    parts: list[RenderableType] = [
        Text(),
        Text(f"{count} facts were not stated; another value of {len(changing)} of them would change the answer", QUIET),
    ]
    if changing:
        table = table_of("fact", "assumed", "otherwise")
        for item in changing:
            values: dict[str, list[str]] = {}
            for value, to in item.would_change.items():
                runner = OWN_RUNNER if to.is_own_runner else runner_name(to.runner, None)
                values.setdefault(f"{runner}, {start_text(to.starts)}", []).append(str(value))
            lines = [f"{', '.join(same)}: {answer}" for answer, same in values.items()]
            table.add_row(item.fact, compact(item.assumed), Text("\n".join(lines)))
        parts.append(table)
    return parts


def history_of(rule: Rule | RequestRule, catalogue: Catalogue) -> RenderableType:
    """One rule's history as a table of its release ranges; the rule may be one about requests."""
    return _history(rule, catalogue) if isinstance(rule, Rule) else _request_history(rule, catalogue)


def _request_history(rule: RequestRule, catalogue: Catalogue) -> RenderableType:
    lines = [
        Text.assemble((rule.id, STRONG), f"  {rule.layer}  {rule.effect}  ", (rule.path, QUIET)),
        Text(rule.title),
        Text(),
        Text(rule.why),
        Text(f"parameter {rule.parameter}{f', fixed in {rule.fixed_in}' if rule.fixed_in else ''}"),
    ]
    if rule.remedy:
        lines.append(Text.assemble(("remedy: ", STRONG), rule.remedy))
    table = table_of("releases", "known releases in it", "text", "when")
    for body, part in zip(rule.document["releases"], rule.ranges, strict=True):
        known = [release for release in catalogue.releases.known if rule.range_of(release) is part]
        when = body.get("when", rule.document.get("when"))
        asked = [*([] if when is None else spelled(when)), *([] if part.runner is None else [f"runner: {part.runner}"])]
        table.add_row(part.span.text, ", ".join(known), Text(part.template.text), Text("\n".join(asked)))
    for gap, why in rule.gaps:
        table.add_row(gap.text, "", Text(f"not in force: {why}", QUIET), "")
    return Group(*lines, Text(), table, *(Text(link, QUIET) for link in rule.references))


def _history(rule: Rule, catalogue: Catalogue) -> RenderableType:
    lines = [
        Text.assemble((rule.id, STRONG), f"  {rule.layer}  {rule.effect.name}  ", (rule.path, QUIET)),
        Text(rule.title),
        Text(),
        Text(rule.why),
    ]
    if rule.remedy:
        lines.append(Text.assemble(("remedy: ", STRONG), rule.remedy))
    if rule.problem is not None:
        fixed = f", fixed in {rule.problem.fixed_in}" if rule.problem.fixed_in else ""
        lines.append(Text(f"symptom {rule.problem.symptom}, certainty {rule.problem.certainty}{fixed}"))
    if rule.owner:
        end = f", holds until {rule.until}" if rule.until else ""
        lines.append(Text(f"owner {rule.owner}, to be reviewed by {rule.review_by}, blocked by {rule.blocked_by}{end}"))
    table = table_of("releases", "known releases in it", str(rule.effect.says), "when")
    for body, part in zip(rule.document["releases"], rule.ranges, strict=True):
        known = [release for release in catalogue.releases.known if rule.range_of(release) is part]
        scope = {
            name: body.get(name, rule.document.get(name))
            for name in ("known_problem", "requires_any", "unless", "runner", "decided_by", "cleared_at_startup")
        }
        when = body.get("when", rule.document.get("when"))
        asked = [
            *([] if when is None else spelled(when)),
            *(f"{name}: {compact(value)}" for name, value in scope.items() if value),
        ]
        table.add_row(part.span.text, ", ".join(known), Text(part.template.text), Text("\n".join(asked)))
    for gap, why in rule.gaps:
        table.add_row(gap.text, "", Text(f"not in force: {why}", QUIET), "")
    proof = dict.fromkeys(f"{part.span.text}: {line}" for part in rule.ranges for line in part.evidence)
    evidence = [Text(f"evidence {escape_line(line)}", QUIET) for line in proof]
    return Group(*lines, Text(), table, *evidence, *(Text(link, QUIET) for link in rule.references))


def rule_list(rules: Iterable[Rule | RequestRule]) -> RenderableType:
    """Rules as a table; those with an end have their last day."""
    table = table_of("rule", "layer", "effect", "title", "releases")
    for rule in rules:
        effect, until = (rule.effect.name, rule.until) if isinstance(rule, Rule) else (rule.effect, None)
        spans = " ".join(part.span.text for part in rule.ranges)
        table.add_row(rule.id, str(rule.layer), effect, Text(rule.title), spans + (f", until {until}" if until else ""))
    return table


def spelled(when: Any, depth: int = 0) -> list[str]:
    """The lines of a condition, as a rule file has them."""
    pad = "  " * depth
    if isinstance(when, dict):
        lines = []
        for key, value in when.items():
            if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, dict) for item in value)):
                lines += [f"{pad}{key}:", *spelled(value, depth + 1)]
            else:
                lines.append(f"{pad}{key}: {compact(value)}")
        return lines
    if isinstance(when, list):
        return [line for item in when for line in _dashed(spelled(item, depth + 1), depth)]
    return [f"{pad}{compact(when)}"]


def _dashed(lines: list[str], depth: int) -> list[str]:
    pad = "  " * depth
    return [f"{pad}- {lines[0].strip()}", *lines[1:]]


def compact(value: Any) -> str:
    """A value on one line: strings without quotes, everything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=_members)


def _members(value: Any) -> dict[str, Any]:
    """The members of a part of an answer."""
    return {name: getattr(value, name) for name in value.__struct_fields__}
