"""The commands ``rules check``, ``rules test`` and ``rules show``.

Owns their reports: text, JSON, JUnit and GitHub annotations.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from xml.etree import ElementTree as ET

import typer

from policy import render
from policy.checks import report
from policy.checks.cases import read_accepted_mutants, read_cases, run_cases
from policy.checks.check import CheckResult, check
from policy.checks.image_cases import read_image_cases, run_image_cases
from policy.checks.mutants import mutate
from policy.checks.request_cases import read_request_cases, run_request_cases
from policy.cli.commands import command_app
from policy.cli.console import (
    FOUND,
    INVALID,
    USAGE,
    JsonOption,
    RulesOption,
    annotation,
    err,
    fail,
    show_answer,
    show_text,
)
from policy.cli.proof import diff, prove
from policy.cli.requests import load_policy, today
from policy.errors import Fault, PolicyError, RulesInvalid
from policy.escaping import escape_lines
from policy.messages import counted, nearest, quoted
from policy.rules.documents import rule_document
from policy.rules.loader import default_folder, read_folder
from policy.sampling.check import RequestChecker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policy.checks.cases import AcceptedMutant, CaseResult, Claim
    from policy.checks.mutants import Mutant, Trial
    from policy.rules.catalogue import Catalogue
    from policy.rules.request_rule import RequestRule
    from policy.rules.rule import Rule

app = command_app("rules", "Check, test, show, prove and compare the rules.")


class CheckFormat(StrEnum):
    """The output formats of ``rules check`` and ``rules test``."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    GITHUB = "github"


FormatOption = Annotated[CheckFormat, typer.Option("--format", help="Text, JSON, JUnit, or GitHub annotations.")]


@app.command("check")
def check_rules(
    folder: Annotated[Path | None, typer.Argument(metavar="FOLDER", help="The rules folder.")] = None,
    rules: RulesOption = None,
    form: FormatOption = CheckFormat.TEXT,
) -> None:
    """Validate every file and report all faults as `file:line:column: message`."""
    rules_folder = folder or rules or default_folder()
    try:
        with err.working(f"checking the rules of {rules_folder}"):
            found = check(read_folder(rules_folder))
    except RulesInvalid as error:
        found = CheckResult(error.faults)
    faults, catalogue = RulesInvalid(found.faults).under(rules_folder).faults, found.catalogue
    warnings = RulesInvalid(_past_dates(catalogue)).under(rules_folder).faults if catalogue else ()
    _report_check(faults, warnings, form)
    if not faults and catalogue and form is CheckFormat.TEXT:
        rules_count = counted(len(catalogue.rules) + len(catalogue.request_rules), "rule", "rules")
        releases_count = counted(len(catalogue.releases.known), "release", "releases")
        typer.echo(f"{rules_count}, {releases_count}, {catalogue.revision}: ok")
    raise typer.Exit(INVALID if faults else 0)


def _past_dates(catalogue: Catalogue) -> Iterator[Fault]:
    """A warning for each house rule that is overdue for review or has ended."""
    day = today()
    for rule in catalogue.rules:
        if rule.has_ended(day):
            yield Fault(
                rule.path,
                *rule.place,
                f"warning: held until {rule.until}, and no longer applies; remove the rule with its cases, "
                f"or ask {rule.owner} for a later date",
            )
        if rule.is_overdue(day):
            yield Fault(
                rule.path,
                *rule.place,
                f"warning: to be reviewed by {rule.review_by}; ask {rule.owner} whether {rule.blocked_by} is done, "
                "then remove the rule or move the date",
            )


def _report_check(faults: Iterable[Fault], warnings: Iterable[Fault], form: CheckFormat) -> None:
    match form:
        case CheckFormat.TEXT:
            for fault in (*warnings, *faults):
                err.print(str(fault), markup=False)
        case CheckFormat.JSON:
            listed = [{"path": f.path, "line": f.line, "column": f.column, "message": f.message} for f in faults]
            typer.echo(
                json.dumps({"faults": listed, "warnings": [str(warning) for warning in warnings]}, ensure_ascii=False)
            )
        case CheckFormat.GITHUB:
            for level, found in (("warning", warnings), ("error", faults)):
                for fault in found:
                    typer.echo(annotation(level, fault))
        case CheckFormat.JUNIT:
            _junit(
                "rules check",
                [(str(fault.path), f"{fault.line}:{fault.column}", fault.message) for fault in faults]
                or [("rules", "check", None)],
            )


@app.command("test")
def run_tests(
    folder: Annotated[Path | None, typer.Argument(metavar="FOLDER", help="The rules folder.")] = None,
    rules: RulesOption = None,
    form: FormatOption = CheckFormat.TEXT,
    mutants: Annotated[  # noqa: FBT002  # a typer flag
        bool,
        typer.Option(
            "--mutate", help="Also run mutants: each change of a condition, bound or list item must make a case fail."
        ),
    ] = False,
) -> None:
    """Run the cases of the rules."""
    rules_folder = folder or rules or default_folder()
    sources, policy = load_policy(rules_folder, None)
    try:
        cases = [
            replace(case, path=str(rules_folder / case.path)) for case in read_cases(sources.cases, policy.catalogue)
        ]
        images = policy.releases.images
        image_cases = [
            replace(case, path=str(rules_folder / case.path)) for case in read_image_cases(sources.cases, images)
        ]
        request_cases = [
            replace(case, path=str(rules_folder / case.path))
            for case in read_request_cases(sources.cases, policy.catalogue)
        ]
    except RulesInvalid as error:
        fail(INVALID, str(error.under(rules_folder)))
    with err.working("running the cases"):
        found: list[CaseResult[Claim]] = [
            *run_cases(cases, policy),
            *run_image_cases(image_cases, images),
            *run_request_cases(request_cases, RequestChecker(policy)),
        ]
    failed = [result for result in found if not result.passed]
    if failed or not mutants:
        _report_test(found, failed, form)
        raise typer.Exit(FOUND if failed else 0)
    with err.status("mutating") as status:
        trial = mutate(
            policy.catalogue,
            cases,
            request_cases,
            read_accepted_mutants(sources.cases),
            lambda name: status.update(f"mutating {name}"),
        )
    faults = (
        RulesInvalid([*map(_survivor_fault, trial.survivors), *map(_outdated_fault, trial.outdated)])
        .under(rules_folder)
        .faults
    )
    _report_trial(trial, faults, form)
    raise typer.Exit(FOUND if faults else 0)


def _survivor_fault(mutant: Mutant) -> Fault:
    message = (
        f"`{mutant.range}`: {mutant.change}: no case fails; "
        "add one that does, or explain the mutant under `accepted_mutants` in the file of cases"
    )
    return Fault(mutant.item.path, *mutant.item.place, message)


def _outdated_fault(mutant: AcceptedMutant) -> Fault:
    return Fault(
        mutant.path,
        mutant.line,
        1,
        f"`{mutant.vllm}`: {mutant.change}: a case kills it, or {mutant.item} has no such mutant; remove the entry",
    )


def _report_trial(trial: Trial, faults: tuple[Fault, ...], form: CheckFormat) -> None:
    match form:
        case CheckFormat.TEXT:
            for fault in faults:
                err.print(str(fault), markup=False)
            killed = trial.mutants - len(trial.survivors) - len(trial.accepted)
            typer.echo(
                f"{counted(trial.mutants, 'mutant', 'mutants')}: {killed} killed, {len(trial.accepted)} accepted, "
                f"{len(trial.survivors)} survived"
            )
        case CheckFormat.JSON:
            survived = [
                {"item": mutant.item.id, "vllm": mutant.range, "change": mutant.change} for mutant in trial.survivors
            ]
            accepted, outdated = ([asdict(mutant) for mutant in found] for found in (trial.accepted, trial.outdated))
            document = {
                "mutants": trial.mutants,
                "survived": survived,
                "accepted": accepted,
                "outdated": outdated,
            }
            typer.echo(json.dumps(document, ensure_ascii=False))
        case CheckFormat.GITHUB:
            for fault in faults:
                typer.echo(annotation("error", fault))
        case CheckFormat.JUNIT:
            _junit(
                "rules test --mutate",
                [(fault.path, str(fault.line), fault.message) for fault in faults] or [("rules", "mutate", None)],
            )


def _report_test(results: list[CaseResult[Claim]], failed: list[CaseResult[Claim]], form: CheckFormat) -> None:
    match form:
        case CheckFormat.TEXT:
            if failed:
                show_text(report.results(failed))
                typer.echo()
            typer.echo(f"{len(results) - len(failed)} passed, {len(failed)} failed")
        case CheckFormat.JSON:
            typer.echo(
                json.dumps(
                    {"passed": len(results) - len(failed), "failed": [_result(result) for result in failed]},
                    ensure_ascii=False,
                )
            )
        case CheckFormat.GITHUB:
            for result in failed:
                typer.echo(
                    annotation(
                        "error",
                        Fault(
                            result.case.path,
                            result.case.line,
                            0,
                            f"{result.case.name} ({result.release}): {result.found}",
                        ),
                    )
                )
        case CheckFormat.JUNIT:
            _junit(
                "rules test",
                [(result.case.rule, f"{result.case.name} [{result.release}]", result.found) for result in results],
            )


def _result(result: CaseResult[Claim]) -> dict[str, Any]:
    case = result.case
    return {
        "rule": case.rule,
        "case": case.name,
        "path": case.path,
        "line": case.line,
        "vllm": result.release,
        "found": result.found,
    }


def _junit(name: str, cases: list[tuple[str, str, str | None]]) -> None:
    """Print a JUnit report of (class, name, failure); XML has no control characters."""
    suite = ET.Element("testsuite", name=name, tests=str(len(cases)), failures=str(sum(1 for case in cases if case[2])))
    for class_name, title, failure in cases:
        element = ET.SubElement(suite, "testcase", classname=escape_lines(class_name), name=escape_lines(title))
        if failure:
            ET.SubElement(element, "failure", message=escape_lines(failure))
    typer.echo(ET.tostring(suite, encoding="unicode", xml_declaration=True))


@app.command("show")
def show(
    rule_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The rule's id; without it, all rules are listed.")
    ] = None,
    rules: RulesOption = None,
    vllm_version: Annotated[
        str | None,
        typer.Option("--vllm-version", "--release", metavar="VERSION", help="Show only the range of this release."),
    ] = None,
    as_json: JsonOption = False,  # noqa: FBT002  # a typer flag
) -> None:
    """Show one rule's history as a table over the releases, or list all rules, those about requests last."""
    catalogue = load_policy(rules or default_folder(), None)[1].catalogue
    try:
        release = catalogue.releases.resolve(vllm_version).decided_as if vllm_version else None
    except PolicyError as error:
        fail(USAGE, str(error))
    if rule_id is None:
        all_rules: list[Rule | RequestRule] = [*catalogue.in_order(), *catalogue.request_rules_in_order()]
        chosen = [rule for rule in all_rules if release is None or rule.range_of(release)]
        show_answer(
            [rule_document(rule, release) for rule in chosen], lambda: render.rule_list(chosen), as_json=as_json
        )
        return
    rule = catalogue.any_rule(rule_id)
    if rule is None:
        fail(USAGE, f"unknown rule {quoted(rule_id)}{nearest(rule_id, catalogue.ids())}")
    if release is not None and rule.range_of(release) is None:
        fail(USAGE, f"the rule {quoted(rule_id)} is not in force in {release}")
    show_answer(rule_document(rule, release), lambda: render.history_of(rule, catalogue), as_json=as_json)


app.command()(prove)
app.command()(diff)
