"""The command ``observe``: what engines did, read from a log, beside what is decided for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from policy.cli.commands import command_app
from policy.cli.console import FOUND, USAGE, DefaultOption, JsonOption, RulesOption, err, fail, out, show
from policy.cli.decide import with_options
from policy.cli.folder import FolderContents, read_source
from policy.cli.report_options import PlatformOption
from policy.cli.requests import (
    MAX_FILE,
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
    print_warnings,
    read_request,
    read_text,
    today,
)
from policy.decision.decision import encode
from policy.errors import RequestInvalid
from policy.escaping import escape_line
from policy.observation.comparison import LogVerdict
from policy.observation.matching import CandidateEngine
from policy.observation.prediction import Predictor
from policy.observation.reader import MAX_ENGINES, TooManyEngines, read_log
from policy.problems import request_problem
from policy.request.manifest import name_of, requests_of
from policy.request.request import Request
from policy.rules.loader import default_folder

if TYPE_CHECKING:
    from policy.observation.observed import LoggedEngine
    from policy.policy import Policy
    from policy.problems import Problem

app = command_app()


@app.command("observe")
def observe(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="LOG",
            help="What vLLM logged, as `kubectl logs`, `docker compose logs` or a file has it; `-` is standard input.",
        ),
    ],
    deployment: Annotated[
        str | None,
        typer.Option(
            "--deployment",
            metavar="FILE",
            help="The deployment or manifest, as for `decide`; without it the arguments in the log are decided.",
        ),
    ] = None,
    rules: RulesOption = None,
    default_release: DefaultOption = None,
    vllm_version: VersionOption = None,
    nearest: NearestOption = False,  # noqa: FBT002  # a typer flag
    platform: PlatformOption = None,
    model_configs: ModelOption = None,
    model_folder: FolderOption = None,
    hub: HubOption = False,  # noqa: FBT002  # a typer flag
    as_json: JsonOption = False,  # noqa: FBT002  # a typer flag
) -> None:
    """Compare what engines did, as their log shows it, with the decision.

    Shows for each start of an engine which release ran, which runner it had, whether it started, and if that is not
    what is decided, what explains it. Exits with 1 if something differs or cannot be compared.

    Examples: `kubectl logs deploy/qwen3 --prefix | runner-policy observe - --deployment qwen3.yaml`,
    `runner-policy observe vllm.log --model-config Qwen/Qwen3-8B=config.json`
    """
    if file == "-" == deployment:
        fail(USAGE, "the log and the deployment cannot both be read from standard input; name a file for one of them")
    models = models_of(model_configs or [], context, hub=hub, folder=model_folder)
    _, policy = load_policy(rules or default_folder(), default_release, models.find, compile_all=False)
    engines = _read(file)
    # without a deployment this fails too if the version is unknown
    source = {"facts": {}} if deployment is None else read_source(deployment, recursive=False, render=False)
    document, folder, warnings = with_options(policy, source, vllm_version, platform, nearest=nearest)
    print_warnings(warnings)
    candidates = None
    if deployment is not None:
        candidates = _candidates(policy, document, folder, overrides=vllm_version is not None)
    environment: dict[str, Any] = {} if platform is None else {"platform": platform.value}
    predictor = Predictor(policy, today(), _problem, candidates, vllm_version, environment, nearest=nearest)
    with err.working("comparing"):
        rows = [predictor.compare(engine) for engine in engines]
    if as_json or not out.is_terminal:
        for row in rows:
            typer.echo(encode(row).decode())
    else:
        from policy import render_observations  # noqa: PLC0415  # JSON in a pipe needs no rich

        show(render_observations.comparisons(rows))
    raise typer.Exit(0 if all(row.verdict in {LogVerdict.AGREED, LogVerdict.UNRELATED} for row in rows) else FOUND)


def _read(file: str) -> list[LoggedEngine]:
    """The engines in a log; the command fails if there is none."""
    with err.working(f"reading {escape_line(file)}"):
        text = read_text(file, MAX_FILE, errors="replace")
        try:
            engines = read_log(text)
        except TooManyEngines:
            fail(USAGE, f"{escape_line(file)}: more than {MAX_ENGINES} starts of engines; split the log")
    if not engines:
        fail(
            USAGE,
            f"{escape_line(file)}: no start of vLLM found; expected its log from the start of the container, with "
            "lines such as `INFO 11-22 01:00:00 [core.py:113] Initializing a V1 LLM engine (v0.23.0) with config: …`",
        )
    return engines


def _candidates(
    policy: Policy, document: Any, folder: FolderContents | None, *, overrides: bool
) -> list[CandidateEngine]:
    """The engines of a deployment, a manifest, or a folder with manifests, whose unreadable files are reported."""
    for line in [] if folder is None else folder.messages:
        err.print(line, markup=False)
    request = read_request(policy, as_request(policy, document), explain=False, overrides=overrides)
    if isinstance(request, Request):
        return [CandidateEngine("", "", request)]
    try:
        found = requests_of(request, policy.releases, REMEDIES)
    except RequestInvalid as error:
        fail_request(error)
    names = {path: name_of(request.document, path) if folder is None else folder.name_of(path) for path, _ in found}
    return [CandidateEngine(names[path], path, each) for path, each in found]


def _problem(error: RequestInvalid) -> Problem:
    return request_problem(error, remedies=REMEDIES)
