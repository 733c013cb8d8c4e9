"""Changes of rules in plain English: a headline for each rule or named condition, and its changes.

Owns the texts of ``changes``; ``wording`` and ``condition_changes`` describe conditions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.rules.changes import EditKind, FieldChange, ItemChange
from policy.rules.condition_changes import condition_changes
from policy.rules.effects import Effect
from policy.rules.releases import spans
from policy.rules.request_rule import RequestRule
from policy.rules.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.rules.wording import Wording

NAME_ONLY: Final = ("why", "references", "gaps", "evidence")
"""Fields whose changes are listed by name only."""
KINDS: Final = {
    EditKind.ADDED: ": new",
    EditKind.REMOVED: ": removed",
    EditKind.CHANGED: "",
}


def range_text(releases: Sequence[str], known: Sequence[str]) -> str:
    """Releases as ranges of the known ones: ``0.22.0–0.24.0, 0.26.0``."""
    return spans(releases, known, "–")


def entry(change: ItemChange, known: Sequence[str], wording: Wording) -> tuple[str, list[str]]:
    """The headline of a change and its lines; if a new or removed item has one line, it joins the headline."""
    title, lines = headline(change, wording), change_lines(change, known, wording)
    if change.kind is not EditKind.CHANGED and len(lines) == 1:
        return f"{title}, {lines[0]}", []
    return title, lines


def headline(change: ItemChange, wording: Wording) -> str:
    """The rule or named condition, and whether it is new or removed."""
    item, show = change.item, wording.show
    if isinstance(item, Rule):
        end = f", until {item.until}" if item.until and change.kind is not EditKind.CHANGED else ""
        return f"{show(item.id)} ({item.layer}, {item.effect.name}{end}){KINDS[change.kind]}"
    if isinstance(item, RequestRule):
        return f"{show(item.id)} ({item.layer}, {item.effect}){KINDS[change.kind]}"
    users = f", used by {', '.join(map(show, change.used_by))}" if change.used_by else ""
    return f"the condition {show(item.id)}{users}{KINDS[change.kind]}"


def change_lines(change: ItemChange, known: Sequence[str], wording: Wording) -> list[str]:
    """A line for each changed field of an item, then the names of other changed fields."""
    lines = [
        f"{range_text(field.releases, known)}: {text}" if field.releases else text
        for field in change.fields
        if field.field not in NAME_ONLY
        for text in field_texts(field, change, wording)
    ]
    others = [field.field for field in change.fields if field.field in NAME_ONLY]
    return [*lines, *([f"also changed: {', '.join(others)}"] if others else [])]


def field_texts(field: FieldChange, change: ItemChange, wording: Wording) -> list[str]:
    """The sentences of a field's change."""
    match field.field:
        case "in_force":
            return [_in_force(field, change.kind, wording)]
        case "when":
            return condition_changes(field.before, field.after, wording)
        case "cleared_at_startup":
            none, old, new = "never", field.before, field.after
            if old is None or new is None:
                texts = [none if each is None else f"if {wording.condition(each)}" for each in (new, old)]
                return [f"cleared at startup: {'; before: '.join(texts)}"]
            return [f"cleared at startup {text}" for text in condition_changes(old, new, wording)]
        case "vllm":
            return [_ranges(field, wording)]
        case name:
            after, before = (_value(value, wording) for value in (field.after, field.before))
            return [f"{field_name(name, change)}: {after}; before: {before}"]


def field_name(name: str, change: ItemChange) -> str:
    """The name of a field in a rule file."""
    if name != "template":
        return name
    return str(change.item.effect.says) if isinstance(change.item, Rule) else "text"


def _in_force(field: FieldChange, kind: EditKind, wording: Wording) -> str:
    condition = field.before if field.after is False else field.after
    when = "always" if condition is None else f"if {wording.condition(condition)}"
    if kind is not EditKind.CHANGED:
        return when
    return f"no longer in force; before: {when}" if field.after is False else f"now in force, {when}"


def _ranges(field: FieldChange, wording: Wording) -> str:
    """The ranges of releases that are added, removed or replaced."""
    after, before = (
        [text for text in one if text not in other]
        for one, other in ((field.after, field.before), (field.before, field.after))
    )
    if not before or not after:
        return f"range {'added' if after else 'removed'}: {_value(tuple(after or before), wording)}"
    return f"range: {_value(tuple(after), wording)}; before: {_value(tuple(before), wording)}"


def _value(value: Any, wording: Wording) -> str:
    """The value of a field that is not a condition."""
    if value is None or value == ():
        return "none"
    if isinstance(value, tuple):
        return ", ".join(map(wording.show, value))
    return wording.show(value.name if isinstance(value, Effect) else str(value))
