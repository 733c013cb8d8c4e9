"""The command line of everything that needs no server: decide, dry-run, and the rules' own commands.

Owns flags, exit codes and where output goes: results on standard output, a table on a terminal and
JSON in a pipe; diagnostics on standard error. ``service.cli`` adds ``serve``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn
from xml.etree import ElementTree as ET

import typer
from rich.console import Console
from rich.progress import track

from policy import candidate, render
from policy.cases import read_cases, run_cases
from policy.catalogue import load, unused_conditions
from policy.containers import name_of, requests_of
from policy.decision import Decision, encode
from policy.errors import EngineFailed, Fault, Misfit, PolicyError, RequestInvalid, RulesInvalid, nearest, quoted
from policy.folder import default_folder, read_folder
from policy.intake.deployment import Platform
from policy.intake.intake import found_nowhere
from policy.intake.lookup import Models
from policy.intake.manifests import is_manifest
from policy.jsontext import NotJson, read_json
from policy.policy import Policy
from policy.published import rule_document
from policy.request import Manifest, Request, read_asked, with_explanation
from policy.source import read_documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import RenderableType

    from policy.cases import Result
    from policy.catalogue import Catalogue
    from policy.folder import Sources
    from policy.intake.intake import Find

FOUND, USAGE, INVALID = 1, 2, 3
MAX_FILE = 32 << 20
MAX_VALUES = 2_000_000
SLOW = 1 << 19
"""From so many characters on, reading YAML takes seconds."""
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


VersionOption = Annotated[str | None, typer.Option("--vllm-version", help="The release to decide for, where the input names none.")]
PlatformOption = Annotated[Platform | None, typer.Option("--platform", help="Where the engine runs; by itself `cuda` is assumed.")]
ModelOption = Annotated[
    list[str] | None,
    typer.Option("--model-config", metavar="NAME=FILE", help="A model's config.json or folder; may be repeated. A local path needs none."),
]
HubOption = Annotated[
    bool, typer.Option("--hub/--no-hub", envvar="RUNNER_POLICY_HUB", help="Look for a model's config.json on the hub (HF_ENDPOINT, HF_TOKEN).")
]


@app.command()
def decide(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A request, a manifest or a chart's values, as JSON or YAML; `-` reads standard input.")],
    rules: RulesOption = None,
    default_release: DefaultOption = None,
    vllm_version: VersionOption = None,
    platform: PlatformOption = None,
    model_configs: ModelOption = None,
    hub: HubOption = False,  # noqa: FBT002  # typer's flags
    explain: Annotated[bool, typer.Option("--explain", help="Show every rule with its first condition that failed, and what was assumed.")] = False,  # noqa: FBT002  # typer's flags
    as_json: JsonOption = False,  # noqa: FBT002  # typer's flags
) -> None:
    """Decide one deployment, or each vLLM container of a manifest.

    Examples: `echo '{"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}}' | runner-policy decide -`,
    `kubectl get deploy -A -o yaml | runner-policy decide -`
    """
    _, policy = _policy(rules or default_folder(), default_release, _models(model_configs or [], hub=hub).find)
    asked = _asked(policy, _completed(_document(file), vllm_version, platform), explain=explain)
    if isinstance(asked, Request):
        answer = _decided(policy, asked)
        _show(answer, render.decision(answer), as_json=as_json)
        return
    rows = _each(policy, asked)
    if as_json or not out.is_terminal:
        for path, found in rows:
            typer.echo(encode({"path": path, "decision": found} if isinstance(found, Decision) else {"path": path, "problem": _misfits(found)}).decode())
    else:
        lines = [(name_of(asked.document, path), found if isinstance(found, Decision) else "; ".join(_misfits(found))) for path, found in rows]
        Console().print(render.containers(lines))
    if not rows:
        err.print("no vLLM container in there", markup=False)
    raise typer.Exit(FOUND if any(isinstance(found, RequestInvalid) for _, found in rows) else 0)


@app.command("dry-run")
def dry_run(
    file: FileArgument,
    rules: RulesOption = None,
    default_release: DefaultOption = None,
    model_configs: ModelOption = None,
    hub: HubOption = False,  # noqa: FBT002  # typer's flags
    candidates: Annotated[list[Path] | None, typer.Option("--candidate", help="A rule file to lay over the rules; may be repeated.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", help="The id of a rule to take away; may be repeated.")] = None,
    as_json: JsonOption = False,  # noqa: FBT002  # typer's flags
) -> None:
    """Explain a decision, and with candidate rules say what they would change."""
    models = _models(model_configs or [], hub=hub)
    sources, policy = _policy(rules or default_folder(), default_release, models.find)
    document = _document(file)
    asked = _asked(policy, document, explain=True)
    if isinstance(asked, Manifest):
        _fail(USAGE, f"{file}: a manifest has any number of deployments; `decide --explain` explains each")
    current = _decided(policy, asked)
    if not candidates and not remove:
        _show(current, render.decision(current), as_json=as_json)
        return
    if type(document.get("deployment")) is dict:
        document["deployment"]["model_configs"] = {**models.found, **(document["deployment"].get("model_configs") or {})}
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


def _models(named: list[str], *, hub: bool) -> Models:
    """Where models are looked for: what the flags name, folders of this machine, the hub where it is switched on."""
    faults = [f"--model-config {quoted(each)}: write NAME=FILE" for each in named if "=" not in each.strip("=")]
    if faults:
        _fail(USAGE, *faults)
    places = dict(each.split("=", 1) for each in named)
    try:
        return Models({name.rstrip("/"): Path(place) for name, place in places.items()}, hub=hub)
    except PolicyError as error:
        _fail(USAGE, str(error))


def _policy(folder: Path, default_release: str | None, find: Find = found_nowhere) -> tuple[Sources, Policy]:
    """The rules of a folder, ready to decide."""
    try:
        sources = read_folder(folder)
        return sources, Policy(load(sources), default_release, find)
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
        with err.status(f"reading {file}") if err.is_terminal and len(text) > SLOW else nullcontext():
            documents = read_documents(text, file, MAX_FILE, MAX_VALUES)
    except RulesInvalid as error:
        _fail(USAGE, *map(str, error.faults))
    return documents[0] if len(documents) == 1 else documents


def _completed(document: Any, vllm_version: str | None, platform: Platform | None) -> Any:
    """A request's document, or a bare manifest's, with what the flags say besides."""
    if vllm_version is None and platform is None:
        return document
    if is_manifest(document):
        document = {"manifest": document}
    if type(document) is not dict:
        return document
    whole: dict[str, Any] = {} if vllm_version is None else {"vllm_version": vllm_version}
    whole |= document
    if platform is not None:
        inner = whole.get("deployment")
        holder: dict[str, Any] = dict(inner) if type(inner) is dict else whole
        holder["environment"] = {"platform": platform.value, **(holder.get("environment") or {})}
        if holder is not whole:
            whole["deployment"] = holder
    return whole


def _asked(policy: Policy, document: Any, *, explain: bool) -> Request | Manifest:
    try:
        asked = read_asked(document, policy.releases)
    except RequestInvalid as error:
        _fail(USAGE, *_misfits(error))
    return with_explanation(asked) if explain else asked


def _decided(policy: Policy, request: Request) -> Decision:
    try:
        return policy.decide(request, datetime.now(UTC).date())
    except RequestInvalid as error:
        _fail(USAGE, *_misfits(error))


def _each(policy: Policy, manifest: Manifest) -> list[tuple[str, Decision | RequestInvalid]]:
    """Each container's path, with its decision or why there is none."""
    try:
        requests = requests_of(manifest, policy.releases)
    except RequestInvalid as error:
        _fail(USAGE, *_misfits(error))
    today = datetime.now(UTC).date()
    rows: list[tuple[str, Decision | RequestInvalid]] = []
    for path, request in track(requests, "deciding", console=err, transient=True, disable=not err.is_terminal):
        try:
            rows.append((path, request if isinstance(request, RequestInvalid) else policy.decide(request, today)))
        except RequestInvalid as error:
            rows.append((path, error))
    return rows


def _misfits(error: RequestInvalid) -> list[str]:
    return [_misfit(fault) for fault in error.faults]


def _misfit(fault: Misfit) -> str:
    return f"{fault.pointer or '/'}: {fault.message}"
