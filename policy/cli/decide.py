"""The command ``decide``: one deployment, or each container of a manifest.

Owns its options and how they are merged into the input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from policy.cli.commands import command_app
from policy.cli.console import (
    FOUND,
    DefaultOption,
    JsonOption,
    RulesOption,
    decision_table,
    err,
    out,
    show,
    show_answer,
)
from policy.cli.folder import FolderContents, read_source
from policy.cli.report_options import PlatformOption, RecursiveOption, RenderOption
from policy.cli.requests import (
    REMEDIES,
    FolderOption,
    HubOption,
    ModelOption,
    NearestOption,
    VersionOption,
    as_request,
    decide_request,
    fail_request,
    load_policy,
    models_of,
    print_missing,
    print_warnings,
    read_request,
    today,
    with_nearest,
    with_version,
    with_warnings,
)
from policy.decision.decision import Decision, encode
from policy.errors import RequestInvalid
from policy.intake.model_lookup import ModelConfigNeeded
from policy.problems import Problem, request_problem
from policy.request.items import ignored_objects, item_of
from policy.request.manifest import name_of, requests_of
from policy.request.request import Request
from policy.rules.loader import default_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.intake.deployment import Platform
    from policy.intake.unused_models import ModelUse
    from policy.policy import Policy
    from policy.request.request import Manifest

app = command_app()


@app.command()
def decide(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A request, a manifest or a chart's values, as JSON or YAML, a shell script (.sh) or systemd service "
            "(.service), or a folder with these; "
            "`-` reads standard input.",
        ),
    ],
    recursive: RecursiveOption = False,  # noqa: FBT002  # a typer flag
    runs_renderer: RenderOption = False,  # noqa: FBT002  # a typer flag
    rules: RulesOption = None,
    default_release: DefaultOption = None,
    vllm_version: VersionOption = None,
    nearest: NearestOption = False,  # noqa: FBT002  # a typer flag
    platform: PlatformOption = None,
    model_configs: ModelOption = None,
    model_folder: FolderOption = None,
    hub: HubOption = False,  # noqa: FBT002  # a typer flag
    explain: Annotated[  # noqa: FBT002  # a typer flag
        bool,
        typer.Option("--explain", help="Show every rule with its first failed condition, and the assumptions."),
    ] = False,
    exit_code: Annotated[  # noqa: FBT002  # a typer flag
        bool,
        typer.Option(
            "--exit-code",
            help="Exit with 1 if an engine would not start (`starts` is false); without this option with 0.",
        ),
    ] = False,
    as_json: JsonOption = False,  # noqa: FBT002  # a typer flag
) -> None:
    """Decide one deployment, or each vLLM container of a manifest.

    Examples: `echo '{"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}}' | runner-policy decide -`,
    `kubectl get deploy -A -o yaml | runner-policy decide -`
    """
    models = models_of(model_configs or [], context, hub=hub, folder=model_folder)
    _, policy = load_policy(rules or default_folder(), default_release, models.find, compile_all=False)
    source = read_source(file, recursive=recursive, render=runs_renderer)
    document, folder, warnings = with_options(policy, source, vllm_version, platform, nearest=nearest)
    request = read_request(policy, document, explain=explain, overrides=vllm_version is not None)
    if isinstance(request, Request):
        answer = with_warnings(decide_request(policy, request, today(), models.use), warnings)
        show_answer(answer, lambda: decision_table(answer), as_json=as_json)
        raise typer.Exit(FOUND if exit_code and not answer.starts else 0)
    ignored: list[str] = []
    missing: dict[str, None] = {}
    rows = _decide_each(policy, request, warnings, ignored, models.use, missing)
    if folder is not None:
        rows = [(path, folder.placed_problem(path, it) if isinstance(it, Problem) else it) for path, it in rows]
    if as_json or not out.is_terminal:
        for path, found in rows:
            item = item_of(request, path, found)
            typer.echo(encode(item if folder is None else folder.placed(item)).decode())
    else:
        from policy import render  # noqa: PLC0415  # JSON in a pipe needs no rich

        show(render.engines([(_name(request, path, folder), found) for path, found in rows]))
    if not rows:
        err.print("no vLLM container found", markup=False)
    print_missing([*missing])
    if ignored:
        err.print(ignored_objects([_name(request, path, folder) for path in ignored]), markup=False)
    unread = [] if folder is None else folder.messages
    for line in unread:
        err.print(line, markup=False)
    is_undecided = any(isinstance(found, Problem) or (exit_code and not found.starts) for _, found in rows)
    raise typer.Exit(FOUND if is_undecided or unread else 0)


def _name(manifest: Manifest, path: str, folder: FolderContents | None) -> str:
    """An engine's name for a table; in a folder, with its file."""
    return name_of(manifest.document, path) if folder is None else folder.name_of(path)


def with_options(
    policy: Policy, source: Any, version: str | None, platform: Platform | None, *, nearest: bool
) -> tuple[Any, FolderContents | None, list[str]]:
    """The document of a source with what the options state, the folder if it is one, and warnings.

    The command fails if the version is invalid or unknown.
    """
    folder = source if isinstance(source, FolderContents) else None
    document = source if folder is None else {"manifest": folder.documents}
    document, warnings = with_version(policy, with_nearest(policy, document, nearest=nearest), version)
    return _with_platform(policy, document, platform), folder, warnings


def _with_platform(policy: Policy, document: Any, platform: Platform | None) -> Any:
    """The document with the platform of the flag, unless it states one; a bare manifest becomes a request."""
    if platform is None:
        return document
    whole = as_request(policy, document)
    if type(whole) is not dict:
        return document
    if type(whole.get("deployment")) is dict:
        return {**whole, "deployment": _with_environment(platform, whole["deployment"])}
    return _with_environment(platform, whole)


def _with_environment(platform: Platform, holder: dict[str, Any]) -> dict[str, Any]:
    """A deployment or request with the platform, unless it states one or its environment is invalid."""
    environment = holder.get("environment", {})
    return (
        {**holder, "environment": {"platform": platform.value} | _without_null_platform(environment or {})}
        if isinstance(environment, dict | None)
        else holder
    )


def _without_null_platform(environment: dict[str, Any]) -> dict[str, Any]:
    """The environment without a null platform."""
    return {name: value for name, value in environment.items() if name != "platform" or value is not None}


def _decide_each(
    policy: Policy,
    manifest: Manifest,
    warnings: list[str],
    ignored: list[str],
    models: ModelUse,
    missing: dict[str, None],
) -> list[tuple[str, Decision | Problem]]:
    """The path of each container with its decision, to which ``warnings`` are added, or its problem.

    The paths of ignored objects are appended to ``ignored``, and the models of the containers are added to ``models``,
    those whose configurations are missing to ``missing``.
    """
    try:
        requests = requests_of(manifest, policy.releases, REMEDIES, ignored)
    except RequestInvalid as error:
        fail_request(error)
    day = today()
    rows: list[tuple[str, Decision | Problem]] = []
    for path, request in _track(requests) if err.is_terminal else requests:
        try:
            if isinstance(request, RequestInvalid):
                raise request
            result = policy.evaluate(request, day)
            if result.intake is not None:
                models.add(result.intake.models)
            rows.append((path, with_warnings(policy.assemble(result), warnings)))
        except RequestInvalid as error:
            models.add_undecided(error)
            missing.update(dict.fromkeys(error.names if isinstance(error, ModelConfigNeeded) else ()))
            rows.append((path, request_problem(error, remedies=REMEDIES)))
    print_warnings(models.warnings(manifest.model_configs, "model_configs"))
    return rows


def _track(
    requests: Iterable[tuple[str, Request | RequestInvalid]],
) -> Iterable[tuple[str, Request | RequestInvalid]]:
    from rich.progress import track  # noqa: PLC0415  # as above

    return track(requests, "deciding", console=err.console, transient=True)
