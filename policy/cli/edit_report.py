"""Format the effects of an edit: text for a terminal, Markdown for a pull request, annotations for GitHub.

Owns their texts: the changes of the rules in words, then the deployments, grouped by consequence, rule and transition.
It does not import the solver, which is slow to import.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.text import Text

from policy.cli.console import annotation
from policy.cli.markdown import code_cell, code_span
from policy.cli.proof_report import class_lines, indented, reasons, state, transition
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

    from policy.proof.edit import Edit, EditEffect, FleetCount
    from policy.proof.groups import EffectGroup
    from policy.rules.catalogue import Catalogue

UNAFFECTED: Final = "no deployment is affected (proved)"
UNAFFECTED_BY_RULES: Final = "no deployment of a release that stays is affected (proved)"
"""The same if a release goes, or another one decides by default."""
TITLES: Final = {
    Consequence.BREAKS_START: "Deployments that no longer start",
    Consequence.OTHER_RUNNER: "Deployments with another runner",
    Consequence.OTHER_START: "Deployments that now start",
    Consequence.OTHER_REASONS: "Same runner and start, other reasons or texts",
}
MAX_GROUPS: Final = 10
"""The groups that are shown, the worst first; the others are counted, and in the full list."""
MAX_RULES: Final = 3
"""The rules that a sentence names; of more it has the number."""
PLAIN: Final = re.compile(r"[\w./:<>=,+-]+", re.ASCII)
"""A name or value that needs no quotes in a sentence."""


def plain_or_quoted(text: str) -> str:
    """A name or value in a sentence: as it is, or in quotes if it could be taken for a part of the sentence."""
    return text if PLAIN.fullmatch(text) else escape_line(json.dumps(text, ensure_ascii=False))


def wording_of(show: Callable[[str], str], *, full: bool) -> Wording:
    """How conditions are written; ``full`` writes out every value of a list."""
    return Wording(show, None) if full else Wording(show)


def edit(found: Edit, fleet: FleetCount | None, *, full: bool = False) -> RenderableType:
    """An edit as text: the changes of the rules, the groups of deployments (or every class), and a summary."""
    parts: list[RenderableType] = [*_changes_text(found, full=full)]
    if full:
        for effect in found.effects:
            parts += [Text(_where(effect, found), STRONG), *class_lines(effect.change)]
    else:
        parts += _groups_text(found)
    return Group(*parts, *(Text(line, BAD if found.changes_something else GOOD) for line in summary(found, fleet)))


def _changes_text(found: Edit, *, full: bool) -> Iterator[RenderableType]:
    wording = wording_of(plain_or_quoted, full=full)
    for change in found.changes:
        title, lines = entry(change, list(found.compared), wording)
        yield Text(title, STRONG)
        yield from (indented(Text(line), 2) for line in lines)
    if found.changes:
        yield Text()


def _groups_text(found: Edit) -> Iterator[RenderableType]:
    groups = groups_of(found)
    changed = [group for group in groups if group.consequence is not Consequence.OTHER_REASONS]
    shown: set[Consequence] = set()
    for group in changed[:MAX_GROUPS]:
        if group.consequence not in shown:
            shown.add(group.consequence)
            yield Text(TITLES[group.consequence], BAD if group.consequence is Consequence.BREAKS_START else STRONG)
        change = f": {group_transition(group)}, {_in_releases(group, found)}{stopped_by(group)}"
        yield indented(Text.assemble((group.rule, STRONG), change), 2)
        yield indented(escape_control(_example(group, found)), 4)
    if changed[MAX_GROUPS:]:
        yield Text(f"{_more(changed)}; `--full` lists every class", STRONG)
    if unchanged := unchanged_line(groups):
        yield Text(f"{unchanged}; `--full` lists them", QUIET)
    if groups:
        yield Text()


def _example(group: EffectGroup, found: Edit) -> str:
    """The example of a group; with its releases, if it is not the example in all of the group's."""
    effect = group.example
    facts = json.dumps(effect.change.facts, ensure_ascii=False)
    if effect.releases == group.releases:
        return f"e.g. {facts}"
    return f"e.g. in {range_text(effect.releases, list(found.compared))}: {facts}"


def _more(changed: Sequence[EffectGroup]) -> str:
    return f"{counted(len(changed[MAX_GROUPS:]), 'more group', 'more groups')} of deployments"


def _where(affected: EditEffect | EffectGroup, found: Edit) -> str:
    """The releases of an effect or a group, and the first day if that is a later one."""
    releases = range_text(affected.releases, list(found.compared))
    return releases if affected.since is None else f"{releases}, from {affected.since} on"


def _in_releases(group: EffectGroup, found: Edit) -> str:
    releases = _where(group, found)
    return releases if len(group.releases) == 1 else f"{len(group.releases)} releases: {releases}"


def group_transition(group: EffectGroup) -> str:
    """The change of a group: ``V1 → V2``, or ``V1`` if only reasons differ."""
    before, after = state(*group.before), state(*group.after)
    return before if before == after else f"{before} → {after}"


def stopped_by(group: EffectGroup) -> str:
    """The rules that stop the smallest deployments of a group at startup, and did not before."""
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
    """How many classes only have other reasons, and the rules responsible."""
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


def summary(found: Edit, fleet: FleetCount | None, show_name: Callable[[str], str] = escape_line) -> Iterator[str]:
    """The summary of an edit, in sentences; ``show_name`` formats the names of deployments, which users chose."""
    if not found.effects:
        yield UNAFFECTED_BY_RULES if found.changes_something else UNAFFECTED
    else:
        affected = [
            release for release in found.compared if any(release in effect.releases for effect in found.effects)
        ]
        yield (
            f"{counted(len(found.effects), 'class of deployments is', 'classes of deployments are')} affected, "
            f"by {_rules(effect.change.rule for effect in found.effects)}, "
            f"in {len(affected)} of {counted(len(found.compared), 'release', 'releases')}"
        )
    yield from release_lines(found)
    if fleet is not None:
        yield (
            f"of {counted(fleet.deployments, 'deployment', 'deployments')}, "
            f"{counted(fleet.changed, 'changes', 'change')} (runner: {fleet.runner}, start: {fleet.starts}), "
            f"and {fleet.undecided} could not be decided"
        )
        if fleet.first:
            yield f"first changed: {', '.join(map(show_name, fleet.first))}"
        for name, why in fleet.first_undecided.items():
            yield f"not decided: {show_name(f'{name}: {why}')}"


def release_lines(found: Edit) -> Iterator[str]:
    """The releases that are new or no longer known, and another default release, in sentences."""
    for release in found.gone:
        yield f"{release} is no longer known"
    for release, before in found.compared.items():
        if release != before:
            yield f"{release} is new, and compared with {before}"
    if found.default_releases is not None:
        yield "the default release is {1}; before: {0}".format(*found.default_releases)


def markdown(found: Edit, fleet: FleetCount | None, *, full: bool = False) -> Iterator[str]:
    """The lines of a Markdown report of an edit, for a pull request.

    What only has other reasons and the list of every class are folded; ``full`` has that list instead of the groups.
    """
    wording = wording_of(code_span, full=full)
    yield "## What this edit of the rules changes"
    yield ""
    for change in found.changes:
        title, lines = entry(change, list(found.compared), wording)
        yield f"- {title}"
        yield from (f"  - {line}" for line in lines)
    for line in summary(found, fleet, code_span):
        yield f"- {line}"
    if not found.effects:
        return
    if full:
        yield from _class_table(found)
        return
    groups = groups_of(found)
    changed, folded = (
        [group for group in groups if (group.consequence is Consequence.OTHER_REASONS) is other]
        for other in (False, True)
    )
    if changed:
        yield from _group_table(changed[:MAX_GROUPS], found)
    if changed[MAX_GROUPS:]:
        yield from ("", f"{_more(changed)}; all classes are below.")
    if folded:
        yield from _folded(unchanged_line(groups) or "", _group_table(folded, found))
    yield from _folded(f"All classes ({len(found.effects)}), with their reasons", _class_table(found))


def _group_table(groups: Sequence[EffectGroup], found: Edit) -> Iterator[str]:
    yield ""
    yield "| rule | what changes | vLLM | smallest deployment |"
    yield "|---|---|---|---|"
    for group in groups:
        change = group_transition(group) + stopped_by(group)
        if group.consequence is Consequence.BREAKS_START:
            change = f"**no longer starts:** {change}"
        effect = group.example
        facts = code_cell(json.dumps(effect.change.facts, ensure_ascii=False))
        where = "" if effect.releases == group.releases else f"in {range_text(effect.releases, list(found.compared))}: "
        yield f"| `{group.rule}` | {change} | {_in_releases(group, found)} | {where}{facts} |"


def _class_table(found: Edit) -> Iterator[str]:
    """Every class with the releases in which it is the same."""
    yield ""
    yield "| vLLM | rule | what changes | reasons | smallest deployment |"
    yield "|---|---|---|---|---|"
    for effect in found.effects:
        change = effect.change
        releases = _where(effect, found)
        cells = (releases, f"`{change.rule}`", transition(change), "<br>".join(reasons(change)))
        facts = code_cell(json.dumps(change.facts, ensure_ascii=False))
        yield f"| {' | '.join(cells)} | {facts} |"


def _folded(title: str, lines: Iterator[str]) -> Iterator[str]:
    """Lines that a reader unfolds; a blank line ends the HTML, so that Markdown follows."""
    yield ""
    yield f"<details><summary>{title}</summary>"
    yield from lines
    yield ""
    yield "</details>"


def notices(found: Edit, place: Path, after: Catalogue, before: Catalogue) -> Iterator[str]:
    """Notices at the rules, at their positions after the edit, or else before it.

    One for each change of a rule, in words, and one for each group of deployments; one for all that only have other
    reasons, and one for each change of the known releases.
    """
    wording = wording_of(plain_or_quoted, full=False)
    for change in found.changes:
        item = change.item
        title, lines = entry(change, list(found.compared), wording)
        text = f"{title}: {'; '.join(lines)}" if lines else title
        yield annotation("notice", Fault(str(place / item.path), *item.place, text))
    groups = groups_of(found)
    for group in groups:
        rule = after.rule(group.rule) or before.rule(group.rule)
        if rule is not None and group.consequence is not Consequence.OTHER_REASONS:
            releases = _where(group, found)
            change_text = f"{group_transition(group)}{stopped_by(group)}, {_example(group, found)}"
            message = f"{TITLES[group.consequence]}, {releases}: {change_text}"
            yield annotation("notice", Fault(str(place / rule.path), *rule.place, message))
    if unchanged := unchanged_line(groups):
        yield f"::notice::{unchanged}"
    for line in release_lines(found):
        yield f"::notice::{line}"
    if not found.changes_something:
        yield f"::notice::{UNAFFECTED}"
