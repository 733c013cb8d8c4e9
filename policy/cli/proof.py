"""The commands ``rules prove`` and ``rules diff``: properties of the rules, and what an edit of them changes.

Owns their options and the loading of rules and fleets; ``proof_report`` and ``edit_report`` format their output.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from policy.cli import edit_report
from policy.cli import proof_report as report
from policy.cli.console import FOUND, INVALID, USAGE, RulesOption, annotation, err, fail, show_text
from policy.cli.fleet import FleetOptions, entries_of
from policy.cli.fleet_sources import documents_of
from policy.cli.requests import (
    REMEDIES,
    FolderOption,
    HubOption,
    ModelOption,
    load_policy,
    models_of,
    today,
)
from policy.errors import EngineFailed, RemedyKind, RequestInvalid, RulesInvalid
from policy.messages import counted
from policy.policy import Policy
from policy.proof import documents
from policy.rules.catalogue import load
from policy.rules.loader import default_folder, read_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import date

    from policy.cli.fleet_sources import Found
    from policy.errors import Remedies
    from policy.intake.model_lookup import Find
    from policy.proof.edit import FleetCount
    from policy.request.request import Request
    from policy.rules.releases import Releases


FLEET_REMEDIES: Final[Remedies] = {
    **REMEDIES,
    RemedyKind.KNOWN_RELEASE: "name one of them in the file",
    RemedyKind.VERSION: "state it in the file",
}
"""The remedies as ``rules diff`` words them; it has no ``--vllm-version``."""


class ProofFormat(StrEnum):
    """The output formats of ``rules prove``."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


class EditFormat(StrEnum):
    """The output formats of ``rules diff``."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    GITHUB = "github"


def prove(
    folder: Annotated[Path | None, typer.Argument(metavar="FOLDER", help="The rules folder.")] = None,
    rules: RulesOption = None,
    form: Annotated[
        ProofFormat, typer.Option("--format", help="Text, JSON, or GitHub annotations.")
    ] = ProofFormat.TEXT,
) -> None:
    """Prove, for each release and all facts, that no rule is unreachable or redundant and that some rule decides.

    Also shows which releases are equivalent, and for adjacent releases that differ, a smallest deployment for each
    difference, confirmed by the rule engine.
    """
    from policy.processes import available_cores  # noqa: PLC0415  # as below
    from policy.proof.claims import prove as proof_of  # noqa: PLC0415  # the solver takes a third of a second to import
    from policy.proof.steps import Steps  # noqa: PLC0415

    rules_folder = folder or rules or default_folder()
    sources, policy = load_policy(rules_folder, None)
    with _proving("proving") as progress, Steps(policy, sources, available_cores()) as steps:
        proof = proof_of(policy, steps, progress)
    faults = RulesInvalid(proof.faults).under(rules_folder).faults
    match form:
        case ProofFormat.TEXT:
            for fault in faults:
                err.print(str(fault), markup=False)
            show_text(report.steps(proof))
            typer.echo(
                f"{counted(len(policy.catalogue.ids()), 'rule', 'rules')}, "
                f"{counted(len(policy.releases.known), 'release', 'releases')}: {report.verdict(faults)}"
            )
        case ProofFormat.JSON:
            typer.echo(json.dumps(documents.proof_document(proof, faults), ensure_ascii=False))
        case ProofFormat.GITHUB:
            for fault in faults:
                typer.echo(annotation("error", fault))
    raise typer.Exit(FOUND if faults else 0)


def diff(
    context: typer.Context,
    base: Annotated[
        str, typer.Argument(metavar="BASE", help="The rules before: a git revision, or a folder such as `./rules`.")
    ],
    head: Annotated[
        str | None, typer.Argument(metavar="HEAD", help="The rules after; defaults to the current rules folder.")
    ] = None,
    rules: RulesOption = None,
    form: Annotated[
        EditFormat, typer.Option("--format", help="Text, JSON, Markdown for a pull request, or GitHub annotations.")
    ] = EditFormat.TEXT,
    fleet: Annotated[
        str | None,
        typer.Option(
            "--fleet",
            metavar="FILE",
            help="Deployments to count: what `impact` reads; `-` reads standard input.",
        ),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            "--markdown",
            metavar="FILE",
            help="Also append the Markdown to this file, whatever the format; `-` prints it on standard output.",
        ),
    ] = None,
    model_configs: ModelOption = None,
    model_folder: FolderOption = None,
    hub: HubOption = False,  # noqa: FBT002  # a typer flag
    full: Annotated[  # noqa: FBT002  # a typer flag
        bool, typer.Option("--full", help="List every class of deployments by release, and every value of a list.")
    ] = False,
    exit_code: Annotated[  # noqa: FBT002  # a typer flag
        bool,
        typer.Option(
            "--exit-code",
            help="Exit with 1 if the answer for a deployment or a request may differ, or a release is removed.",
        ),
    ] = False,
) -> None:
    """Show what an edit changes: the rules in words, then the deployments whose start, runner or reasons change.

    Deployments are grouped by rule and transition, each group with a smallest example and its releases. If no
    deployment is affected, that is proved.
    Examples: `runner-policy rules diff main`, `runner-policy rules diff v1.4 HEAD --format markdown`
    """
    from policy.proof.edit import edit_of  # noqa: PLC0415  # the solver takes a third of a second to import

    rules_folder = rules or default_folder()
    find = models_of(model_configs or [], context, hub=hub, folder=model_folder).find
    before = _policy(base, rules_folder, find)
    after = _policy(head, rules_folder, find, before)
    with _proving("comparing") as progress:
        day = today()
        edit = edit_of(before, after, progress, day)
    count = _fleet_count(fleet, before, after, day) if fleet else None
    if markdown is not None:
        _append(markdown, edit_report.markdown(edit, count, full=full))
    match form:
        case EditFormat.TEXT:
            show_text(edit_report.edit(edit, count, full=full))
        case EditFormat.JSON:
            typer.echo(json.dumps(documents.edit_document(edit, count), ensure_ascii=False))
        case EditFormat.MARKDOWN:
            typer.echo(edit_report.markdown(edit, count, full=full))
        case EditFormat.GITHUB:
            for line in edit_report.notices(edit, rules_folder, after.catalogue, before.catalogue):
                typer.echo(line)
    if count is not None and count.undecided == count.deployments > 0:
        fail(FOUND, f"{fleet}: no deployment could be decided, so none was compared")
    raise typer.Exit(FOUND if exit_code and edit.changes_something else 0)


def _append(file: Path, text: str) -> None:
    """Append a text to a file, or print it for ``-``; the command fails if the file cannot be written."""
    if str(file) == "-":
        typer.echo(text)
        return
    try:
        with file.open("a", encoding="utf-8") as target:
            target.write(f"{text}\n")
    except OSError as error:
        fail(USAGE, f"{file}: cannot be written: {error.strerror or error}")


@contextmanager
def _proving(task: str) -> Iterator[Callable[[str], None]]:
    """Show progress on a terminal; the command fails if the solver and the engine disagree."""
    from policy.proof.search import ProofFailed  # noqa: PLC0415  # as above

    try:
        with err.status(task) as status:
            yield lambda what: status.update(f"{task} {what}")
    except ProofFailed as error:
        fail(FOUND, str(error))


def _policy(name: str | None, rules_folder: Path, find: Find, before: Policy | None = None) -> Policy:
    """The rules that a name refers to; the command fails if they cannot be read or are invalid.

    What is the same in a policy ``before`` is taken from it.
    """
    from policy.rules.git import AmbiguousRevision, RevisionNotFound, read_revision  # noqa: PLC0415  # only this command needs git

    try:
        with err.working(f"loading the rules of {name or rules_folder}"):
            sources = read_folder(rules_folder) if name is None else read_revision(name, rules_folder)
            catalogue = load(sources, before=None if before is None else before.catalogue)
            return Policy(catalogue, find=find, before=before)
    except (AmbiguousRevision, RevisionNotFound) as error:
        fail(USAGE, str(error))
    except RulesInvalid as error:
        fail(INVALID, f"the rules of {name or rules_folder}:", str(error))
    except EngineFailed as error:
        fail(INVALID, f"the rules of {name or rules_folder}: {error}")


def _fleet_count(file: str, before: Policy, after: Policy, day: date) -> FleetCount:
    from policy.proof.edit import count  # noqa: PLC0415  # as above

    documents = [*documents_of(file, recursive=False, render=False, command="rules diff --fleet")]
    if all(found.fault is not None for found in documents):
        fail(USAGE, *(f"{found.file}: {found.fault}" for found in documents))
    pairs = _pairs(documents, before.releases, after.releases)
    with err.working("deciding the fleet"):
        return count(pairs, before, after, day, FLEET_REMEDIES)


def _pairs(
    documents: list[Found], before: Releases, after: Releases
) -> list[tuple[str, Request | RequestInvalid | None, Request | RequestInvalid | None]]:
    """The name of each deployment of a fleet, with its request before and after the edit."""
    sides = [_requests(documents, releases) for releases in (before, after)]
    names = dict.fromkeys(name for side in sides for name in side)
    return [(name[0], sides[0].get(name), sides[1].get(name)) for name in names]


def _requests(documents: list[Found], releases: Releases) -> dict[tuple[str, str], Request | RequestInvalid]:
    """The deployments of a fleet by their names and places."""
    options = FleetOptions(remedies=FLEET_REMEDIES)
    return {
        (entry.name, f"{number} {entry.place.line} {entry.place.path} {count}"): entry.request
        for number, found in enumerate(documents)
        for count, entry in enumerate(entries_of(found, releases, options, []))
    }
