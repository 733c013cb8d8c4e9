"""The command line of everything that needs no server: decide, dry-run, and the rules' own commands.

Owns flags, exit codes and where output goes: results on standard output, a table on a terminal and
JSON in a pipe; diagnostics on standard error. ``service.cli`` adds ``serve``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn
from xml.etree import ElementTree as ET

import typer
from msgspec.structs import replace as with_members
from rich.console import Console

from policy import candidate, render
from policy.cases import read_cases, run_cases
from policy.catalogue import load, unused_conditions
from policy.decision import encode
from policy.errors import EngineFailed, Fault, Misfit, PolicyError, RequestInvalid, RulesInvalid, nearest, quoted
from policy.folder import default_folder, read_folder
from policy.jsontext import NotJson, read_json
from policy.policy import Policy
from policy.published import rule_document
from policy.request import read_request
from policy.source import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import RenderableType

    from policy.cases import Result
    from policy.catalogue import Catalogue
    from policy.folder import Sources

FOUND, USAGE, INVALID = 1, 2, 3
CANDIDATE_SECONDS = 10.0

app = typer.Typer(
    name="runner-policy",
    help="Which vLLM model runner (V1 or V2) a deployment gets, why, and whether vLLM will start.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="markdown",
)
rules_app = typer.Typer(help="Check, test and show the rules.", no_args_is_help=True)
app.add_typer(rules_app, name="rules")

out = Console(soft_wrap=True)
err = Console(stderr=True, soft_wrap=True, highlight=False)

RulesOption = Annotated[
    Path | None, typer.Option("--rules", envvar="RUNNER_POLICY_RULES", help="The rules folder; by default `rules/` here, else the one that came along.")
]
FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="The request as JSON or YAML; `-` reads standard input.")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on a terminal, too.")]
DefaultOption = Annotated[
    str | None, typer.Option("--default-release", envvar="RUNNER_POLICY_DEFAULT_RELEASE", help="The release that decides where a request names none.")
]


class Format(StrEnum):
    """How the rules' commands report."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    GITHUB = "github"


FormatOption = Annotated[Format, typer.Option("--format", help="For people, programs, test reports, or GitHub's annotations.")]


@app.command()
def decide(
    file: FileArgument,
    rules: RulesOption = None,
    default_release: DefaultOption = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show every rule with its first condition that failed, and what was assumed.")] = False,  # noqa: FBT002  # typer's flags
    as_json: JsonOption = False,  # noqa: FBT002  # typer's flags
) -> None:
    """Decide one deployment.

    Example: `echo '{"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}}' | runner-policy decide -`
    """
    _, policy = _policy(rules or default_folder(), default_release)
    answer = _decided(policy, _document(file), explain=explain)
    _show(answer, render.decision(answer), as_json=as_json)


@app.command("dry-run")
def dry_run(
    file: FileArgument,
    rules: RulesOption = None,
    default_release: DefaultOption = None,
    candidates: Annotated[list[Path] | None, typer.Option("--candidate", help="A rule file to lay over the rules; may be repeated.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", help="The id of a rule to take away; may be repeated.")] = None,
    as_json: JsonOption = False,  # noqa: FBT002  # typer's flags
) -> None:
    """Explain a decision, and with candidate rules say what they would change."""
    sources, policy = _policy(rules or default_folder(), default_release)
    document = _document(file)
    current = _decided(policy, document, explain=True)
    if not candidates and not remove:
        _show(current, render.decision(current), as_json=as_json)
        return
    texts = [_read_text(path) for path in candidates or []]
    today = datetime.now(UTC).date()
    job = candidate.Job(sources.rules, texts, remove or [], {**document, "explain": True}, policy.releases.default, today, int(CANDIDATE_SECONDS))
    try:
        done = subprocess.run(  # noqa: S603  # our own module, by our own interpreter
            candidate.COMMAND, input=candidate.encode(job), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=CANDIDATE_SECONDS, check=True
        )
    except subprocess.TimeoutExpired:
        _fail(INVALID, candidate.too_slow(CANDIDATE_SECONDS))
    except subprocess.CalledProcessError as error:
        _fail(INVALID, candidate.stopped(error.returncode, CANDIDATE_SECONDS))
    try:
        compared = candidate.compare(current, candidate.read_tried(done.stdout))
    except RulesInvalid as error:
        _fail(INVALID, *map(str, error.faults))
    except RequestInvalid as error:
        _fail(USAGE, *_misfits(error))
    _show(compared, render.comparison(compared), as_json=as_json)


@rules_app.command("check")
def check(folder: Annotated[Path | None, typer.Argument(help="The rules folder.")] = None, rules: RulesOption = None, form: FormatOption = Format.TEXT) -> None:
    """Validate every file and report all faults as `file:line:column: message`."""
    faults: tuple[Fault, ...] = ()
    catalogue = None
    place = folder or rules or default_folder()
    try:
        sources = read_folder(place)
        catalogue = load(sources)
        faults = tuple(unused_conditions(catalogue))
        read_cases(sources.cases, catalogue)
        Policy(catalogue)
    except RulesInvalid as error:
        faults = (*faults, *error.faults)
    except EngineFailed as error:
        faults = (Fault("", 1, 1, str(error)),)
    faults = RulesInvalid(faults).under(place).faults
    warnings = RulesInvalid(_overdue(catalogue)).under(place).faults if catalogue else ()
    _report_check(faults, warnings, form)
    if not faults and catalogue and form is Format.TEXT:
        typer.echo(f"{len(catalogue.rules)} rules, {len(catalogue.releases.known)} releases, {catalogue.revision}: all well")
    raise typer.Exit(INVALID if faults else 0)


def _overdue(catalogue: Catalogue) -> Iterator[Fault]:
    today = datetime.now(UTC).date()
    for rule in catalogue.rules:
        if rule.is_overdue(today):
            yield Fault(
                rule.path,
                *rule.place,
                f"warning: to be reviewed by {rule.review_by}; ask {rule.owner} whether {rule.waits_for} is done, then remove the rule or move the date",
            )


def _report_check(faults: Iterable[Fault], warnings: Iterable[Fault], form: Format) -> None:
    match form:
        case Format.TEXT:
            for fault in (*warnings, *faults):
                err.print(str(fault), markup=False)
        case Format.JSON:
            listed = [{"path": f.path, "line": f.line, "column": f.column, "message": f.message} for f in faults]
            typer.echo(json.dumps({"faults": listed, "warnings": [str(warning) for warning in warnings]}, ensure_ascii=False))
        case Format.GITHUB:
            for level, found in (("warning", warnings), ("error", faults)):
                for fault in found:
                    typer.echo(f"::{level} file={fault.path},line={fault.line},col={fault.column}::{_escaped(fault.message)}")
        case Format.JUNIT:
            _junit("rules check", [(str(fault.path), f"{fault.line}:{fault.column}", fault.message) for fault in faults] or [("rules", "check", None)])


@rules_app.command("test")
def run_tests(
    folder: Annotated[Path | None, typer.Argument(help="The rules folder.")] = None, rules: RulesOption = None, form: FormatOption = Format.TEXT
) -> None:
    """Run the cases beside the rules."""
    place = folder or rules or default_folder()
    sources, policy = _policy(place, None)
    try:
        cases = [replace(case, path=str(place / case.path)) for case in read_cases(sources.cases, policy.catalogue)]
    except RulesInvalid as error:
        _fail(INVALID, str(error.under(place)))
    found = list(run_cases(cases, policy))
    failed = [result for result in found if not result.passed]
    _report_test(found, failed, form)
    raise typer.Exit(FOUND if failed else 0)


def _report_test(found: list[Result], failed: list[Result], form: Format) -> None:
    match form:
        case Format.TEXT:
            if failed:
                typer.echo(render.as_text(render.results(failed)))
            typer.echo(f"{len(found) - len(failed)} passed, {len(failed)} failed")
        case Format.JSON:
            typer.echo(json.dumps({"passed": len(found) - len(failed), "failed": [_result(result) for result in failed]}, ensure_ascii=False))
        case Format.GITHUB:
            for result in failed:
                typer.echo(f"::error file={result.case.path},line={result.case.line}::{_escaped(f'{result.case.name} ({result.release}): {result.found}')}")
        case Format.JUNIT:
            _junit("rules test", [(result.case.rule, f"{result.case.name} [{result.release}]", result.found) for result in found])


def _result(result: Result) -> dict[str, Any]:
    case = result.case
    return {"rule": case.rule, "case": case.name, "path": case.path, "line": case.line, "vllm": result.release, "found": result.found}


def _junit(name: str, cases: list[tuple[str, str, str | None]]) -> None:
    """A JUnit report of (class, name, failure)."""
    suite = ET.Element("testsuite", name=name, tests=str(len(cases)), failures=str(sum(1 for case in cases if case[2])))
    for class_name, title, failure in cases:
        element = ET.SubElement(suite, "testcase", classname=class_name, name=title)
        if failure:
            ET.SubElement(element, "failure", message=failure)
    typer.echo(ET.tostring(suite, encoding="unicode", xml_declaration=True))


def _escaped(message: str) -> str:
    """A message as GitHub's workflow commands take it."""
    return message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


@rules_app.command("show")
def show(
    rule_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="The rule's id; without it, all rules are listed.")] = None,
    rules: RulesOption = None,
    vllm: Annotated[str | None, typer.Option("--vllm", help="Only as this release has it.")] = None,
    as_json: JsonOption = False,  # noqa: FBT002  # typer's flags
) -> None:
    """Show one rule's history as a table over the releases, or list all rules."""
    catalogue = _policy(rules or default_folder(), None)[1].catalogue
    try:
        release = catalogue.releases.resolve(vllm).decided_as if vllm else None
    except PolicyError as error:
        _fail(USAGE, str(error))
    if rule_id is None:
        chosen = [rule for rule in catalogue.in_order() if release is None or rule.range_of(release)]
        _show([rule_document(rule, release) for rule in chosen], render.rule_list(chosen), as_json=as_json)
        return
    rule = catalogue.rule(rule_id)
    if rule is None:
        _fail(USAGE, f"no rule is called {quoted(rule_id)}{nearest(rule_id, [item.id for item in catalogue.rules])}")
    if release is not None and rule.range_of(release) is None:
        _fail(USAGE, f"the rule {quoted(rule_id)} is not in force in {release}")
    _show(rule_document(rule, release), render.history(rule, catalogue), as_json=as_json)


def _show(answer: Any, picture: RenderableType, *, as_json: bool) -> None:
    """A table on a terminal, JSON in a pipe or on demand."""
    if as_json or not out.is_terminal:
        typer.echo(encode(answer).decode())
    else:
        Console().print(picture)


def _fail(code: int, *lines: str) -> NoReturn:
    for line in lines:
        err.print(line, markup=False)
    raise typer.Exit(code)


def _policy(folder: Path, default_release: str | None) -> tuple[Sources, Policy]:
    """The rules of a folder, ready to decide."""
    try:
        sources = read_folder(folder)
        return sources, Policy(load(sources), default_release)
    except RulesInvalid as error:
        _fail(INVALID, str(error.under(folder)))
    except EngineFailed as error:
        _fail(INVALID, str(error))
    except PolicyError as error:
        _fail(USAGE, f"--default-release: {error}")


def _read_text(path: Path | str) -> str:
    try:
        return sys.stdin.buffer.read().decode() if str(path) == "-" else Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        _fail(USAGE, f"{path}: cannot be read: {error}")


def _document(file: str) -> Any:
    """A request's document: JSON is YAML to the reader, but for its bounds, so YAML is tried where JSON fails."""
    text = _read_text(file)
    try:
        return read_json(text.encode())
    except NotJson as no_json:
        if text.lstrip().startswith(("{", "[")):
            _fail(USAGE, f"{file}: {no_json}")
    try:
        return read_yaml(text, file).plain()
    except RulesInvalid as error:
        _fail(USAGE, *map(str, error.faults))


def _decided(policy: Policy, document: Any, *, explain: bool) -> Any:
    try:
        request = read_request(document, policy.releases)
    except RequestInvalid as error:
        _fail(USAGE, *_misfits(error))
    return policy.decide(with_members(request, explain=explain or request.explain), datetime.now(UTC).date())


def _misfits(error: RequestInvalid) -> list[str]:
    return [_misfit(fault) for fault in error.faults]


def _misfit(fault: Misfit) -> str:
    return f"{fault.pointer or '/'}: {fault.message}"
