"""Format the effects of an edit: text for a terminal, Markdown for a pull request, annotations for GitHub.

Owns their texts: the changes of the rules in words, then the deployments, grouped by consequence, rule and transition.
It does not import the solver, which is slow to import.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, TypeVar

from rich.console import Group
from rich.text import Text

from policy.cli.console import annotation
from policy.cli.markdown import bounded, code_cell, code_span, details
from policy.cli.proof_report import alone, class_lines, indent, reasons, request_transition, state, transition
from policy.errors import Fault
from policy.escaping import escape_line
from policy.messages import counted
from policy.proof.groups import Consequence, groups_of
from policy.render import BAD, GOOD, QUIET, STRONG, escape_control
from policy.rules.change_texts import entry, range_text
from policy.rules.wording import Wording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from policy.proof.edit import Edit, EditEffect, FleetCount, FleetOutcome
    from policy.proof.groups import EffectGroup
    from policy.rules.catalogue import Catalogue

T = TypeVar("T")
UNAFFECTED: Final = "no deployment is affected (proved)"
UNAFFECTED_BY_RULES: Final = "no deployment of a remaining release is affected (proved)"
"""As ``UNAFFECTED``, if a release is removed, or what changes decides for which release a deployment is decided."""
SAME_DECISION: Final = "no deployment gets another runner, start or reason (proved)"
"""As ``UNAFFECTED``, if known problems or announcements change, which are in answers too."""
TITLES: Final = {
    Consequence.BREAKS_START: "Deployments that no longer start",
    Consequence.OTHER_RUNNER: "Deployments with another runner",
    Consequence.OTHER_START: "Deployments that now start",
    Consequence.OTHER_UPSTREAM: "Deployments that vLLM alone decides otherwise",
    Consequence.OTHER_REASONS: "Same runner and start, other reasons or texts",
}
REQUESTS: Final = "Requests with another answer"
MAX_GROUPS: Final = 10
"""How many groups of deployments, the worst first, and classes of requests are shown; the others are counted."""
MAX_CHANGES: Final = 50
"""How many changed rules are described; the others are counted."""
MAX_RULES: Final = 3
"""How many rules a sentence names; more are only counted."""
PLAIN_WORD: Final = re.compile(r"[\w./:<>=,+-]+", re.ASCII)
"""A name or value that needs no quotes in a sentence."""


def plain_or_quoted(text: str) -> str:
    """A name or value for a sentence, in quotes if it could be read as a part of the sentence."""
    return text if PLAIN_WORD.fullmatch(text) else escape_line(json.dumps(text, ensure_ascii=False))


def wording_of(show: Callable[[str], str], *, full: bool) -> Wording:
    """The wording of conditions; ``full`` writes out every value of a list."""
    return Wording(show, None) if full else Wording(show)


def edit(edit: Edit, fleet: FleetCount | None, *, full: bool = False) -> RenderableType:
    """An edit as text: the changes of the rules, the groups of deployments (or every class), and a summary."""
    parts: list[RenderableType] = [*_changes_text(edit, full=full)]
    if full:
        for effect in edit.effects:
            parts += [Text(_releases_since(effect, edit), STRONG), *class_lines(effect.change)]
    else:
        parts += _groups_text(edit)
    parts += _requests_text(edit, full=full)
    return Group(*parts, *(Text(line, BAD if edit.changes_something else GOOD) for line in summary(edit, fleet)))


def _changes_text(edit: Edit, *, full: bool) -> Iterator[RenderableType]:
    wording = wording_of(plain_or_quoted, full=full)
    for change in _first(edit.changes, MAX_CHANGES, full=full):
        title, lines = entry(change, list(edit.compared), wording)
        yield Text(title, STRONG)
        yield from (indent(Text(line), 2) for line in lines)
    if more := _more_changes(edit, full=full):
        yield Text(f"{more}; `--full` lists them", STRONG)
    if edit.changes:
        yield Text()


def _groups_text(edit: Edit) -> Iterator[RenderableType]:
    groups = groups_of(edit)
    changed = [group for group in groups if group.consequence is not Consequence.OTHER_REASONS]
    shown: set[Consequence] = set()
    for group in changed[:MAX_GROUPS]:
        if group.consequence not in shown:
            shown.add(group.consequence)
            yield Text(TITLES[group.consequence], BAD if group.consequence is Consequence.BREAKS_START else STRONG)
        change = f": {group_transition(group)}, {_counted_releases(group, edit)}{stopped_by_suffix(group)}"
        yield indent(Text.assemble((group.rule, STRONG), change), 2)
        yield indent(escape_control(_example(group, edit)), 4)
    if changed[MAX_GROUPS:]:
        yield Text(f"{_hidden_groups(changed)}; `--full` lists every class", STRONG)
    if unchanged := unchanged_line(groups):
        yield Text(f"{unchanged}; `--full` lists them", QUIET)
    if groups:
        yield Text()


def _requests_text(edit: Edit, *, full: bool) -> Iterator[RenderableType]:
    """The classes of requests, each with its releases and its smallest request."""
    if not edit.request_effects:
        return
    yield Text(REQUESTS, STRONG)
    for effect in _first(edit.request_effects, MAX_GROUPS, full=full):
        releases = range_text(effect.releases, list(edit.compared))
        change = effect.change
        yield indent(Text.assemble((change.rule, STRONG), f": {request_transition(change)}, {releases}"), 2)
        yield indent(escape_control(f"e.g. {json.dumps(change.facts, ensure_ascii=False)}"), 4)
    if more := _more_requests(edit, full=full):
        yield Text(f"{more}; `--full` lists them", STRONG)
    yield Text()


def _request_table(edit: Edit, *, full: bool) -> Iterator[str]:
    if not edit.request_effects:
        return
    yield ""
    yield "| rule | what changes | vLLM | smallest request |"
    yield "|---|---|---|---|"
    for effect in _first(edit.request_effects, MAX_GROUPS, full=full):
        change = effect.change
        releases = range_text(effect.releases, list(edit.compared))
        facts = code_cell(json.dumps(change.facts, ensure_ascii=False))
        yield f"| `{change.rule}` | {request_transition(change)} | {releases} | {facts} |"
    if more := _more_requests(edit, full=full):
        yield from ("", f"{more}.")


def _first(found: Sequence[T], most: int, *, full: bool) -> Sequence[T]:
    return found if full else found[:most]


def _more_changes(edit: Edit, *, full: bool = False) -> str:
    left = 0 if full else len(edit.changes[MAX_CHANGES:])
    return counted(left, "more rule or condition is changed", "more rules and conditions are changed") if left else ""


def _more_requests(edit: Edit, *, full: bool = False) -> str:
    left = 0 if full else len(edit.request_effects[MAX_GROUPS:])
    return counted(left, "more class of requests", "more classes of requests") if left else ""


def _example(group: EffectGroup, edit: Edit) -> str:
    """The example of a group, with its releases unless they are all of the group's."""
    effect = group.example
    facts = json.dumps(effect.change.facts, ensure_ascii=False)
    if effect.releases == group.releases:
        return f"e.g. {facts}"
    return f"e.g. in {range_text(effect.releases, list(edit.compared))}: {facts}"


def _hidden_groups(changed: Sequence[EffectGroup]) -> str:
    return f"{counted(len(changed[MAX_GROUPS:]), 'more group', 'more groups')} of deployments"


def _releases_since(affected: EditEffect | EffectGroup, edit: Edit) -> str:
    """The releases of an effect or a group, and its first day if that is after today."""
    releases = range_text(affected.releases, list(edit.compared))
    return releases if affected.since is None else f"{releases}, from {affected.since} on"


def _counted_releases(group: EffectGroup, edit: Edit) -> str:
    releases = _releases_since(group, edit)
    return releases if len(group.releases) == 1 else f"{len(group.releases)} releases: {releases}"


def group_transition(group: EffectGroup) -> str:
    """The change of a group: ``V1 → V2``, or ``V1`` if only reasons differ, or the decision of vLLM alone, as well."""
    before, after = state(*group.before), state(*group.after)
    unchanged = before if group.upstream is None else f"{before} ({alone(group.upstream)})"
    return unchanged if before == after else f"{before} → {after}"


def stopped_by_suffix(group: EffectGroup) -> str:
    """The suffix `, stopped by …` with the rules that newly stop a group's smallest deployments; empty without any."""
    if group.consequence is not Consequence.BREAKS_START:
        return ""
    rules = dict.fromkeys(
        rule
        for effect in group.effects
        for rule, name in effect.change.after.reasons
        if (name.startswith("refuse") or effect.change.after.runner is None)
        and (rule, name) not in effect.change.before.reasons
    )
    return f", stopped by {', '.join(rules)}" if rules else ""


def unchanged_line(groups: Sequence[EffectGroup]) -> str | None:
    """How many classes differ only in their reasons, and the rules responsible."""
    folded = [group for group in groups if group.consequence is Consequence.OTHER_REASONS]
    if not folded:
        return None
    classes = sum(len(group.effects) for group in folded)
    by = _rules(group.rule for group in folded)
    return f"{TITLES[Consequence.OTHER_REASONS]}: {counted(classes, 'class', 'classes')}, by {by}"


def _rules(names: Iterable[str]) -> str:
    """The rules by name, or their number if there are many."""
    rules = list(dict.fromkeys(names))
    return ", ".join(rules) if len(rules) <= MAX_RULES else f"{len(rules)} rules"


def summary(edit: Edit, fleet: FleetCount | None, show_name: Callable[[str], str] = escape_line) -> Iterator[str]:
    """The summary of an edit, in sentences; ``show_name`` formats names of deployments, which are user input."""
    if not edit.effects:
        same = SAME_DECISION if edit.changes_texts else UNAFFECTED
        yield UNAFFECTED_BY_RULES if edit.gone or edit.changes_releases else same
    else:
        affected = [release for release in edit.compared if any(release in effect.releases for effect in edit.effects)]
        yield (
            f"{counted(len(edit.effects), 'class of deployments is', 'classes of deployments are')} affected, "
            f"by {_rules(effect.change.rule for effect in edit.effects)}, "
            f"in {len(affected)} of {counted(len(edit.compared), 'release', 'releases')}"
        )
    if edit.request_effects:
        classes = counted(len(edit.request_effects), "class of requests is", "classes of requests are")
        yield f"{classes} affected, by {_rules(effect.change.rule for effect in edit.request_effects)}"
    yield from release_lines(edit)
    if fleet is not None:
        yield (
            f"of {counted(fleet.deployments, 'deployment', 'deployments')}, "
            f"{counted(fleet.changed, 'changes', 'change')} (runner: {fleet.runner}, start: {fleet.starts}), "
            f"and {fleet.undecided} could not be decided"
        )
        for name, (before, after) in fleet.first.items():
            yield f"changes: {show_name(name)}: {_fleet_transition(before, after)}"
        for name, why in fleet.first_undecided.items():
            yield f"not decided: {show_name(f'{name}: {why}')}"


def _fleet_transition(before: FleetOutcome, after: FleetOutcome) -> str:
    """The change of one deployment: ``V1 → V2``, or that only its reasons differ."""
    if before == after:
        return "other reasons"
    return f"{state(before.runner, before.starts)} → {state(after.runner, after.starts)}"


def release_lines(edit: Edit) -> Iterator[str]:
    """Sentences about what no effect shows: releases, the default one, images, announcements and known problems."""
    for release in edit.gone:
        yield f"{release} is no longer known"
    for release, before in edit.compared.items():
        if release != before:
            yield f"{release} is new, and compared with {before}"
    if edit.default_releases is not None:
        yield "the default release is {1}; before: {0}".format(*edit.default_releases)
    for row, change in edit.images:
        yield f"the image {row} is {change}; deployments with it may be decided for another release"
    if edit.published:
        days = f"the day of publication of {range_text(edit.published, list(edit.compared))}"
        yield f"{days} is changed; builds without tags may be decided for another release"
    for runner in edit.removals:
        yield f"what is announced of the removal of {runner.upper()} is changed; answers about V1 may tell of it"
    for problem in edit.problems:
        yield f"the known problem {problem} is changed; answers with it differ"


def markdown(edit: Edit, fleet: FleetCount | None, *, full: bool = False) -> str:
    """A Markdown report of an edit, for a comment on a pull request.

    Groups that differ only in their reasons and the list of all classes are folded; ``full`` shows that list instead
    of the groups.
    """
    first, *rest = _markdown_lines(edit, fleet, full=full)
    return bounded(first, rest, [])


def _markdown_lines(edit: Edit, fleet: FleetCount | None, *, full: bool) -> Iterator[str]:
    wording = wording_of(code_span, full=full)
    yield "## What this edit of the rules changes"
    yield ""
    for change in _first(edit.changes, MAX_CHANGES, full=full):
        title, lines = entry(change, list(edit.compared), wording)
        yield f"- {title}"
        yield from (f"  - {line}" for line in lines)
    if more := _more_changes(edit, full=full):
        yield f"- {more}"
    for line in summary(edit, fleet, code_span):
        yield f"- {line}"
    yield from _request_table(edit, full=full)
    if not edit.effects:
        return
    if full:
        yield from _class_table(edit)
        return
    groups = groups_of(edit)
    changed, folded = (
        [group for group in groups if (group.consequence is Consequence.OTHER_REASONS) is other]
        for other in (False, True)
    )
    if changed:
        yield from _group_table(changed[:MAX_GROUPS], edit)
    if changed[MAX_GROUPS:]:
        yield from ("", f"{_hidden_groups(changed)}; all classes are below.")
    if folded:
        yield from ("", *details(unchanged_line(groups) or "", _group_table(folded, edit)))
    yield from ("", *details(f"All classes ({len(edit.effects)}), with their reasons", _class_table(edit)))


def _group_table(groups: Sequence[EffectGroup], edit: Edit) -> Iterator[str]:
    yield ""
    yield "| rule | what changes | vLLM | smallest deployment |"
    yield "|---|---|---|---|"
    for group in groups:
        change = group_transition(group) + stopped_by_suffix(group)
        if group.consequence is Consequence.BREAKS_START:
            change = f"**no longer starts:** {change}"
        effect = group.example
        facts = code_cell(json.dumps(effect.change.facts, ensure_ascii=False))
        where = "" if effect.releases == group.releases else f"in {range_text(effect.releases, list(edit.compared))}: "
        yield f"| `{group.rule}` | {change} | {_counted_releases(group, edit)} | {where}{facts} |"


def _class_table(edit: Edit) -> Iterator[str]:
    """A table of all classes, each with the releases in which it is the same."""
    yield ""
    yield "| vLLM | rule | what changes | reasons | smallest deployment |"
    yield "|---|---|---|---|---|"
    for effect in edit.effects:
        change = effect.change
        releases = _releases_since(effect, edit)
        cells = (releases, f"`{change.rule}`", transition(change), "<br>".join(reasons(change)))
        facts = code_cell(json.dumps(change.facts, ensure_ascii=False))
        yield f"| {' | '.join(cells)} | {facts} |"


def notices(edit: Edit, folder: Path, after: Catalogue, before: Catalogue) -> Iterator[str]:
    """GitHub notices at the rules, at their positions after the edit, or before it if they were removed.

    There is one for each change of a rule, in words, and for each group of deployments and class of requests, as many
    as the other formats show. There is one more for the rest of each of these, one for all classes that differ only in
    their reasons, and one for each change of the known releases.
    """
    wording = wording_of(plain_or_quoted, full=False)
    for change in edit.changes[:MAX_CHANGES]:
        item = change.item
        title, lines = entry(change, list(edit.compared), wording)
        text = f"{title}: {'; '.join(lines)}" if lines else title
        yield annotation("notice", Fault(str(folder / item.path), *item.place, text))
    groups = groups_of(edit)
    changed = [group for group in groups if group.consequence is not Consequence.OTHER_REASONS]
    for group in changed[:MAX_GROUPS]:
        rule = after.rule(group.rule) or before.rule(group.rule)
        if rule is not None:
            releases = _releases_since(group, edit)
            change_text = f"{group_transition(group)}{stopped_by_suffix(group)}, {_example(group, edit)}"
            message = f"{TITLES[group.consequence]}, {releases}: {change_text}"
            yield annotation("notice", Fault(str(folder / rule.path), *rule.place, message))
    if unchanged := unchanged_line(groups):
        yield f"::notice::{unchanged}"
    for effect in edit.request_effects[:MAX_GROUPS]:
        about = after.any_rule(effect.change.rule) or before.any_rule(effect.change.rule)
        if about is not None:
            releases = range_text(effect.releases, list(edit.compared))
            facts = json.dumps(effect.change.facts, ensure_ascii=False)
            message = f"{REQUESTS}, {releases}: {request_transition(effect.change)}, e.g. {facts}"
            yield annotation("notice", Fault(str(folder / about.path), *about.place, message))
    hidden = _hidden_groups(changed) if changed[MAX_GROUPS:] else ""
    for more in filter(None, (_more_changes(edit), hidden, _more_requests(edit))):
        yield f"::notice::{more}; `--format json` has all"
    for line in release_lines(edit):
        yield f"::notice::{line}"
    if not edit.changes_something:
        yield f"::notice::{UNAFFECTED}"
