"""The commands that need no server; ``service.cli.app`` adds ``serve`` and others."""

from __future__ import annotations

from typing import Annotated

import typer

from policy.cli.commands import CommandList, add_command

app = typer.Typer(
    name="runner-policy",
    cls=CommandList,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="markdown",
)


def _show_version(value: bool) -> None:  # noqa: FBT001  # a typer flag
    if value:
        from importlib.metadata import version  # noqa: PLC0415  # only this option needs metadata

        typer.echo(f"runner-policy {version('runner-policy')}")
        raise typer.Exit


@app.callback()
def runner_policy(
    version: Annotated[  # noqa: FBT002  # a typer flag, which the callback reads
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Which vLLM model runner (V1 or V2) a deployment gets, why, and whether vLLM will start."""


add_command("decide", "policy.cli.decide", "Decide one deployment, or each vLLM container of a manifest.")
add_command(
    "impact",
    "policy.cli.impact",
    "Show what another vLLM release changes for everything that you run, the worst first.",
)
add_command(
    "fix", "policy.cli.fix", "Show the smallest changes that let engines start or avoid known problems, and write them."
)
add_command(
    "lint", "policy.cli.lint", "Print a line for each engine in files that would not start, with file, line and column."
)
add_command(
    "compare",
    "policy.cli.compare",
    "Show what an edit of manifests, charts or rules changes for the deployments in them, the worst first.",
)
add_command(
    "pins",
    "policy.cli.pins",
    "Find every `VLLM_USE_V2_MODEL_RUNNER`, and say whether it is needed, redundant, harmful or fatal.",
)
add_command("dry-run", "policy.cli.dry_run", "Explain a decision, or show what candidate rules would change.")
add_command("check-request", "policy.cli.check_request", "Show whether a deployment's runner takes a request.")
add_command("observe", "policy.cli.observe", "Compare what engines did, as their log shows it, with the decision.")
add_command("rules", "policy.cli.rules", "Check, test, show, prove and compare the rules.")
add_command("args", "policy.cli.args", "vLLM's flags and environment variables, by release.")
add_command("verify", "policy.cli.verify", "Compare the upstream layer with what vLLM itself decides.")
