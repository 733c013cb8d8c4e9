"""The commands that need no server: ``decide`` and ``dry-run``; the commands for rules are in ``policy.cli.rules``.

Owns the flags of these commands and how a file becomes requests. ``service.cli.app`` adds ``serve``.
"""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import track

from policy import render
from policy.checks import candidate, report
from policy.checks.comparison import DryRunComparison, compare, read_result
from policy.cli.console import (
    FOUND,
    INVALID,
    USAGE,
    DefaultOption,
    JsonOption,
    RulesOption,
    err,
    fail,
    loaded,
    out,
    read_document,
    read_text,
    show_answer,
)
from policy.cli.rules import rules_app
from policy.cli.verify import verify_releases
from policy.decision.decision import Decision, encode
from policy.errors import PolicyError, RequestFault, RequestInvalid, RulesInvalid
from policy.intake.deployment import Platform
from policy.intake.manifests import is_manifest
from policy.intake.model_finder import ModelFinder
from policy.messages import quoted
from policy.parser.yamltree import MAX_BYTES as MAX_RULE_FILE
from policy.request.manifest import name_of, requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest, with_explanation
from policy.rules.loader import default_folder

if TYPE_CHECKING:
    from policy.policy import Policy

CANDIDATE_SECONDS = 10.0

app = typer.Typer(
    name="runner-policy",
    help="Which vLLM model runner (V1 or V2) a deployment gets, why, and whether vLLM will start.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="markdown",
)
app.add_typer(rules_app, name="rules")
app.command("verify")(verify_releases)


FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="The request as JSON or YAML; `-` reads standard input.")
]


VersionOption = Annotated[
    str | None, typer.Option("--vllm-version", help="The release to decide for, if the input names none.")
]
PlatformOption = Annotated[
    Platform | None, typer.Option("--platform", help="Where the engine runs; defaults to `cuda`.")
]
ModelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model-config",
        metavar="NAME=FILE",
        help="A model's config.json or folder; may be repeated. Not needed for a local path.",
    ),
]
HubOption = Annotated[
    bool,
    typer.Option(
        "--hub/--no-hub",
        envvar="RUNNER_POLICY_HUB",
        help="Look for a model's config.json on the hub (HF_ENDPOINT, HF_TOKEN).",
    ),
]


@app.command()
def decide(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A request, a manifest or a chart's values, as JSON or YAML; `-` reads standard input."
        ),
    ],
    rules: RulesOption = None,
    default_release: DefaultOption = None,
    vllm_version: VersionOption = None,
    platform: PlatformOption = None,
    model_configs: ModelOption = None,
    hub: HubOption = False,  # noqa: FBT002  # typer's flags
    explain: Annotated[  # noqa: FBT002  # typer's flags
        bool,
        typer.Option("--explain", help="Show every rule with its first failed condition, and the assumptions."),
    ] = False,
    as_json: JsonOption = False,  # noqa: FBT002  # typer's flags
) -> None:
    """Decide one deployment, or each vLLM container of a manifest.

    Examples: `echo '{"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}}' | runner-policy decide -`,
    `kubectl get deploy -A -o yaml | runner-policy decide -`
    """
    _, policy = loaded(rules or default_folder(), default_release, _models(model_configs or [], hub=hub).find)
    request = _read_request(policy, _with_flags(read_document(file), vllm_version, platform), explain=explain)
    if isinstance(request, Request):
        answer = _decide(policy, request)
        show_answer(answer, render.decision(answer), as_json=as_json)
        return
    rows = _decide_each(policy, request)
    if as_json or not out.is_terminal:
        for path, found in rows:
            typer.echo(
                encode(
                    {"path": path, "decision": found}
                    if isinstance(found, Decision)
                    else {"path": path, "problem": _fault_lines(found)}
                ).decode()
            )
    else:
        lines = [
            (name_of(request.document, path), found if isinstance(found, Decision) else "; ".join(_fault_lines(found)))
            for path, found in rows
        ]
        Console().print(render.containers(lines))
    if not rows:
        err.print("no vLLM container found", markup=False)
    raise typer.Exit(FOUND if any(isinstance(found, RequestInvalid) for _, found in rows) else 0)


@app.command("dry-run")
def dry_run(
    file: FileArgument,
    rules: RulesOption = None,
    default_release: DefaultOption = None,
    model_configs: ModelOption = None,
    hub: HubOption = False,  # noqa: FBT002  # typer's flags
    candidates: Annotated[
        list[Path] | None, typer.Option("--candidate", help="A rule file to overlay on the rules; may be repeated.")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", help="The id of a rule to remove; may be repeated.")
    ] = None,
    as_json: JsonOption = False,  # noqa: FBT002  # typer's flags
) -> None:
    """Explain a decision, or show what candidate rules would change."""
    sources, policy = loaded(rules or default_folder(), default_release, _models(model_configs or [], hub=hub).find)
    document = read_document(file)
    request = _read_request(policy, document, explain=True)
    if isinstance(request, Manifest):
        fail(USAGE, f"{file}: expected one deployment, got a manifest; `decide --explain` explains each")
    current = _decide(policy, request)
    if not candidates and not remove:
        show_answer(current, render.decision(current), as_json=as_json)
        return
    if request.deployment is not None:
        document = candidate.with_models(document, policy.intake(request).found)
    texts = [read_text(path, MAX_RULE_FILE, pipes=False) for path in candidates or []]
    today = datetime.now(UTC).date()
    job = candidate.CandidateJob(
        sources.rules,
        texts,
        remove or [],
        {**document, "explain": True},
        policy.releases.default,
        today,
        int(CANDIDATE_SECONDS),
    )
    try:
        done = subprocess.run(  # noqa: S603  # our own module, by our own interpreter
            candidate.COMMAND,
            input=candidate.encode(job),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=CANDIDATE_SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired:
        fail(INVALID, candidate.timeout_message(CANDIDATE_SECONDS))
    except subprocess.CalledProcessError as error:
        fail(INVALID, candidate.exit_reason(error.returncode, CANDIDATE_SECONDS))
    try:
        compared = compare(current, read_result(done.stdout))
    except RulesInvalid as error:
        fail(INVALID, *map(str, error.faults))
    except RequestInvalid as error:
        fail(USAGE, *_fault_lines(error))
    # INVARIANT: only a request to the service can compare for all deployments; on the command line `rules diff` does.
    assert isinstance(compared, DryRunComparison)
    show_answer(compared, report.comparison(compared), as_json=as_json)


def _models(named: list[str], *, hub: bool) -> ModelFinder:
    """Where models are looked up: in what the flags name, in local folders, and on the hub if enabled."""
    faults = [f"--model-config {quoted(each)}: write NAME=FILE" for each in named if "=" not in each.strip("=")]
    if faults:
        fail(USAGE, *faults)
    places = dict(each.split("=", 1) for each in named)
    try:
        return ModelFinder({name.rstrip("/"): Path(place) for name, place in places.items()}, hub=hub)
    except PolicyError as error:
        fail(USAGE, str(error))


def _with_flags(document: Any, vllm_version: str | None, platform: Platform | None) -> Any:
    """The document of a request or a bare manifest, with the values of the flags added."""
    if vllm_version is None and platform is None:
        return document
    if is_manifest(document):
        document = {"manifest": document}
    if type(document) is not dict:
        return document
    whole = _with(document, "vllm_version", vllm_version)
    if platform is None:
        return whole
    if type(whole.get("deployment")) is dict:
        return {**whole, "deployment": _on(platform, whole["deployment"])}
    return _on(platform, whole)


def _on(platform: Platform, holder: dict[str, Any]) -> dict[str, Any]:
    """A deployment, or a request with a manifest, with the platform if it has none; an invalid environment is kept."""
    environment = holder.get("environment", {})
    return (
        {**holder, "environment": _with(environment or {}, "platform", platform.value)}
        if isinstance(environment, dict | None)
        else holder
    )


def _with(document: dict[str, Any], name: str, value: str | None) -> dict[str, Any]:
    """The object with the field added, unless it has one or ``value`` is ``None``."""
    return document if value is None or document.get(name) is not None else {**document, name: value}


def _read_request(policy: Policy, document: Any, *, explain: bool) -> Request | Manifest:
    try:
        request = read_request_or_manifest(document, policy.releases)
    except RequestInvalid as error:
        fail(USAGE, *_fault_lines(error))
    return with_explanation(request) if explain else request


def _decide(policy: Policy, request: Request) -> Decision:
    try:
        return policy.decide(request, datetime.now(UTC).date())
    except RequestInvalid as error:
        fail(USAGE, *_fault_lines(error))


def _decide_each(policy: Policy, manifest: Manifest) -> list[tuple[str, Decision | RequestInvalid]]:
    """Each container's path, with its decision or the error."""
    try:
        requests = requests_of(manifest, policy.releases)
    except RequestInvalid as error:
        fail(USAGE, *_fault_lines(error))
    today = datetime.now(UTC).date()
    rows: list[tuple[str, Decision | RequestInvalid]] = []
    for path, request in track(requests, "deciding", console=err, transient=True, disable=not err.is_terminal):
        try:
            rows.append((path, request if isinstance(request, RequestInvalid) else policy.decide(request, today)))
        except RequestInvalid as error:
            rows.append((path, error))
    return rows


def _fault_lines(error: RequestInvalid) -> list[str]:
    return [_fault_line(fault) for fault in error.faults]


def _fault_line(fault: RequestFault) -> str:
    return f"{fault.pointer or '/'}: {fault.message}"
