"""The command ``check-request``: whether the runner of a deployment takes a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from policy.cli.commands import command_app
from policy.cli.console import FOUND, DefaultOption, JsonOption, RulesOption, err, out, show, show_answer
from policy.cli.requests import (
    REMEDIES,
    FolderOption,
    HubOption,
    ModelOption,
    NearestOption,
    VersionOption,
    as_request,
    fail_request,
    load_policy,
    models_of,
    read_document,
    read_request,
    today,
    with_nearest,
    with_version,
)
from policy.decision.decision import encode
from policy.errors import RequestInvalid
from policy.problems import Problem, request_problem
from policy.request.manifest import name_of
from policy.request.request import Manifest
from policy.rules.loader import default_folder
from policy.rules.request_rule import Verdict
from policy.sampling.check import MEMBER, CheckRequest, RequestCheck, RequestChecker, size_of
from policy.sampling.manifest import check_request

if TYPE_CHECKING:
    from policy.errors import PolicyError

app = command_app()


@app.command("check-request")
def check_request_command(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="DEPLOYMENT", help="A deployment or a manifest, as for `decide`; `-` is standard input."
        ),
    ],
    request_file: Annotated[
        str | None,
        typer.Option(
            "--request",
            metavar="FILE",
            help="Sampling parameters, or the body of a request to the engine; `-` reads standard input.",
        ),
    ] = None,
    rules: RulesOption = None,
    default_release: DefaultOption = None,
    vllm_version: VersionOption = None,
    nearest: NearestOption = False,  # noqa: FBT002  # a typer flag
    model_configs: ModelOption = None,
    model_folder: FolderOption = None,
    hub: HubOption = False,  # noqa: FBT002  # a typer flag
    exit_code: Annotated[  # noqa: FBT002  # a typer flag
        bool, typer.Option("--exit-code", help="Exit with 1 if the verdict is not `fine`; without this option with 0.")
    ] = False,
    as_json: JsonOption = False,  # noqa: FBT002  # a typer flag
) -> None:
    """Show whether a deployment's runner takes a request.

    Example: `echo '{"temperature": 0.7, "logit_bias": {"42": 5}}' | runner-policy check-request deployment.json
    --request -`
    """
    models = models_of(model_configs or [], context, hub=hub, folder=model_folder)
    _, policy = load_policy(rules or default_folder(), default_release, models.find, compile_all=False)
    whole = as_request(policy, read_document(file))
    stated = type(whole) is dict and MEMBER in whole
    parameters = whole[MEMBER] if stated else {}
    if request_file is not None:
        parameters = read_document(request_file)
    elif not stated:
        raise typer.BadParameter("needed, unless the deployment's file has a member `request`", param_hint="--request")
    rest = {name: value for name, value in whole.items() if name != MEMBER} if stated else whole
    document, warnings = with_version(policy, with_nearest(policy, rest, nearest=nearest), vllm_version)
    deployment = read_request(policy, document, explain=False, overrides=vllm_version is not None)
    for warning in warnings:
        err.print(f"warning: {warning}", markup=False)
    try:
        request = CheckRequest(deployment, parameters, f"/{MEMBER}", size_of(parameters), document)
        answer = check_request(RequestChecker(policy), request, today(), _problem)
    except RequestInvalid as error:
        fail_request(error)
    from policy import render_requests  # noqa: PLC0415  # JSON in a pipe needs no rich

    if isinstance(answer, RequestCheck):
        show_answer(answer, lambda: render_requests.request_check(answer), as_json=as_json)
        raise typer.Exit(FOUND if exit_code and answer.verdict is not Verdict.FINE else 0)
    assert isinstance(deployment, Manifest)  # INVARIANT: only a manifest has several engines
    found = [(item.path, item.check if isinstance(item.check, RequestCheck) else item.problem) for item in answer.items]
    rows = [(path, it) for path, it in found if isinstance(it, RequestCheck | Problem)]
    if as_json or not out.is_terminal:
        for item in answer.items:
            typer.echo(encode(item).decode())
    else:
        show(render_requests.engine_checks([(name_of(deployment.document, path), it) for path, it in rows]))
    if not rows:
        err.print("no vLLM container found", markup=False)
    is_problem = any(isinstance(it, Problem) or (exit_code and it.verdict is not Verdict.FINE) for _, it in rows)
    raise typer.Exit(FOUND if is_problem else 0)


def _problem(error: PolicyError) -> Problem:
    assert isinstance(error, RequestInvalid)  # INVARIANT: nothing else is wrong with one engine
    return request_problem(error, remedies=REMEDIES)
