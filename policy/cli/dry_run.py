"""The command ``dry-run``: explains a decision, or shows what candidate rules would change in it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from msgspec import structs

from policy.checks import candidate, report
from policy.checks.comparison import DryRunComparison, compare, read_result
from policy.cli.commands import command_app
from policy.cli.console import (
    INVALID,
    USAGE,
    DefaultOption,
    JsonOption,
    RulesOption,
    decision_table,
    err,
    fail,
    show_answer,
)
from policy.cli.requests import (
    FolderOption,
    HubOption,
    ModelOption,
    NearestOption,
    VersionOption,
    decide_request,
    load_policy,
    models_of,
    read_document,
    read_request,
    read_text,
    today,
    with_nearest,
    with_version,
    with_warnings,
)
from policy.errors import RequestInvalid, RulesInvalid
from policy.parser.yamltree import MAX_BYTES as MAX_RULE_FILE
from policy.request.request import Manifest
from policy.rules.loader import default_folder

CANDIDATE_SECONDS = 10
"""The processor time that candidate rules may take."""
CANDIDATE_WAIT = 60
"""Seconds after which the process of candidate rules is ended, even if it waits for a processor."""

app = command_app()

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="The request as JSON or YAML; `-` reads standard input.")
]


@app.command("dry-run")
def dry_run(
    context: typer.Context,
    file: FileArgument,
    rules: RulesOption = None,
    default_release: DefaultOption = None,
    vllm_version: VersionOption = None,
    nearest: NearestOption = False,  # noqa: FBT002  # a typer flag
    model_configs: ModelOption = None,
    model_folder: FolderOption = None,
    hub: HubOption = False,  # noqa: FBT002  # a typer flag
    candidates: Annotated[
        list[Path] | None,
        typer.Option("--candidate", metavar="FILE", help="A rule file to overlay on the rules; may be repeated."),
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="ID", help="The id of a rule to remove; may be repeated.")
    ] = None,
    as_json: JsonOption = False,  # noqa: FBT002  # a typer flag
) -> None:
    """Explain a decision, or show what candidate rules would change."""
    models = models_of(model_configs or [], context, hub=hub, folder=model_folder)
    sources, policy = load_policy(rules or default_folder(), default_release, models.find)
    document, warnings = with_version(policy, with_nearest(policy, read_document(file), nearest=nearest), vllm_version)
    request = read_request(policy, document, explain=True)
    if isinstance(request, Manifest):
        fail(USAGE, f"{file}: expected one deployment, got a manifest; `decide --explain` explains each")
    day = today()
    current = decide_request(policy, request, day, models.use)
    if not candidates and not remove:
        explained = with_warnings(current, warnings)
        show_answer(explained, lambda: decision_table(explained), as_json=as_json)
        return
    if request.deployment is not None:
        document = candidate.with_models(document, policy.intake(request).found)
    texts = [read_text(path, MAX_RULE_FILE, pipes=False) for path in candidates or []]
    job = candidate.CandidateJob(
        sources.rules,
        texts,
        remove or [],
        {**document, "explain": True},
        policy.releases.default,
        day,
        CANDIDATE_SECONDS,
    )
    try:
        with err.working("evaluating the candidate rules"):
            done = subprocess.run(  # noqa: S603  # our own module, by our own interpreter
                candidate.COMMAND,
                input=candidate.encode(job),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=CANDIDATE_WAIT,
                check=True,
            )
    except subprocess.TimeoutExpired:
        fail(INVALID, candidate.timeout_message(CANDIDATE_WAIT))
    except subprocess.CalledProcessError as error:
        fail(INVALID, candidate.exit_reason(error.returncode, CANDIDATE_SECONDS))
    try:
        compared = compare(current, read_result(done.stdout))
    except RulesInvalid as error:
        files = {f"rules[{number}]": str(path) for number, path in enumerate(candidates or [])}
        fail(INVALID, *(str(replace(fault, path=files.get(fault.path, fault.path))) for fault in error.faults))
    except RequestInvalid as error:
        fail(USAGE, *(f"--remove: {fault.message}" for fault in error.faults))
    # INVARIANT: only a request to the service can compare for all deployments; on the command line `rules diff` does.
    assert isinstance(compared, DryRunComparison)
    compared = structs.replace(
        compared,
        current=with_warnings(compared.current, warnings),
        candidate=with_warnings(compared.candidate, warnings),
    )
    show_answer(compared, lambda: report.comparison(compared), as_json=as_json)
