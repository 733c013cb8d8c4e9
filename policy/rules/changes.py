"""The rules and named conditions that an edit adds, removes or changes.

Owns the comparison of two catalogues by field and release. Not here: which deployments are decided differently
(``policy.proof``), and the texts of changes (``change_texts``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal

from packaging.version import Version

from policy.rules.condition_changes import parts_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.rules.catalogue import Catalogue
    from policy.rules.conditions import Condition
    from policy.rules.request_rule import RequestRange, RequestRule
    from policy.rules.rule import NamedCondition, Range, Rule

RULE_FIELDS: Final = (
    "effect",
    "title",
    "why",
    "remedy",
    "references",
    "order",
    "stage",
    "owner",
    "review_by",
    "blocked_by",
    "until",
)
REQUEST_RULE_FIELDS: Final = ("effect", "parameter", "title", "why", "remedy", "fixed_in", "references")
REQUEST_RANGE_FIELDS: Final = ("when", "runner")
PROBLEM_FIELDS: Final = ("symptom", "certainty", "fixed_in")
RANGE_FIELDS: Final = (
    "when",
    "cleared_at_startup",
    "requires_any",
    "unless",
    "runner",
    "decided_by",
    "known_problem",
    "evidence",
)
CONDITIONS: Final = ("in_force", "when", "cleared_at_startup")
"""The fields whose values are conditions."""


class EditKind(StrEnum):
    """What an edit does to a rule or a named condition."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that differs, and the releases in which it does; a field of the whole rule has no releases.

    The pseudo-field ``in_force`` is for releases for which only one side has a range: its values are that range's
    condition and ``False``. A condition that always holds is ``None``.
    """

    field: str
    before: Any
    after: Any
    releases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemChange:
    """A rule or a named condition that the edit adds, removes or changes; ``before`` or ``after`` may be missing.

    ``used_by`` are the rules that use a named condition, before or after the edit.
    """

    before: Rule | RequestRule | NamedCondition | None
    after: Rule | RequestRule | NamedCondition | None
    fields: tuple[FieldChange, ...]
    used_by: tuple[str, ...] = ()

    @property
    def item(self) -> Rule | RequestRule | NamedCondition:
        """The rule or condition after the edit, else before it."""
        item = self.after or self.before
        assert item is not None
        return item

    @property
    def kind(self) -> EditKind:
        """Whether it is added, removed or changed."""
        if self.before is None:
            return EditKind.ADDED
        return EditKind.REMOVED if self.after is None else EditKind.CHANGED


def catalogue_changes(before: Catalogue, after: Catalogue, compared: Mapping[str, str]) -> tuple[ItemChange, ...]:
    """Every rule that differs, by precedence, then every named condition and every rule about requests that differs.

    ``compared`` maps each release after the edit to the one that decided for it before. Conditions are equal if they
    have the same parts, however they are written.
    """
    rules = {rule.id: rule for rule in (*before.in_order(), *after.in_order())}
    ids = sorted(rules, key=lambda name: (rules[name].effect.rank, rules[name].place_among_its_effect, name))
    others = {release: former for release, former in compared.items() if former != release}

    def to_compare(before: object, after: object) -> Mapping[str, str]:
        """The releases in which two items can differ; what an unchanged file contains is the same object.

        Without this the changes of an edit of one rule take 73 instead of 5 ms of processor time.
        """
        return others if before is after else compared

    changes = [
        _rule_change(*sides, to_compare(*sides)) for sides in ((before.rule(name), after.rule(name)) for name in ids)
    ]
    for name in sorted({*before.conditions, *after.conditions}):
        sides = before.conditions.get(name), after.conditions.get(name)
        fields = [*_condition_fields(*sides, to_compare(*sides)), *_field_changes(*sides, ("why",))]
        users = sorted({*_users(before, name), *_users(after, name)})
        changes.append(ItemChange(*sides, tuple(fields), tuple(users)))
    about_requests = [{rule.id: rule for rule in side.request_rules_in_order()} for side in (before, after)]
    for name in dict.fromkeys([*about_requests[0], *about_requests[1]]):
        pair = about_requests[0].get(name), about_requests[1].get(name)
        changes.append(_request_rule_change(*pair, to_compare(*pair)))
    return tuple(change for change in changes if change.fields)


def _rule_change(before: Rule | None, after: Rule | None, compared: Mapping[str, str]) -> ItemChange:
    fields = _RangeChanges()
    for release, former in compared.items():
        old, new = (before.range_of(former) if before else None), (after.range_of(release) if after else None)
        if old or new:
            fields.compare(old, new, release)
    whole: list[FieldChange] = []
    if before and after:
        whole = _field_changes(before, after, RULE_FIELDS)
        whole += _field_changes(before.problem, after.problem, PROBLEM_FIELDS)
        for field, values in (
            ("layer", [str(rule.layer) for rule in (before, after)]),
            ("file", [rule.path for rule in (before, after)]),
            ("vllm", [tuple(part.span.text for part in rule.ranges) for rule in (before, after)]),
            ("gaps", [tuple(f"{gap.text}: {why}" for gap, why in rule.gaps) for rule in (before, after)]),
        ):
            if values[0] != values[1]:
                whole.append(FieldChange(field, *values))
    return ItemChange(before, after, (*fields.changes(), *whole))


def _request_rule_change(
    before: RequestRule | None, after: RequestRule | None, compared: Mapping[str, str]
) -> ItemChange:
    fields = _RangeChanges()
    for release, former in compared.items():
        old, new = (before.range_of(former) if before else None), (after.range_of(release) if after else None)
        if old or new:
            fields.compare(old, new, release, REQUEST_RANGE_FIELDS)
    return ItemChange(before, after, (*fields.changes(), *_field_changes(before, after, REQUEST_RULE_FIELDS)))


def _field_changes(before: Any, after: Any, fields: tuple[str, ...]) -> list[FieldChange]:
    """The changes of these fields between two items."""
    if before is None or after is None:
        return []
    values = {field: (getattr(before, field), getattr(after, field)) for field in fields}
    return [FieldChange(field, old, new) for field, (old, new) in values.items() if old != new]


class _RangeChanges:
    """Collects changes of the fields of ranges; a change that is the same in several releases is one change."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], tuple[FieldChange, list[str]]] = {}

    def compare(
        self,
        before: Range | RequestRange | None,
        after: Range | RequestRange | None,
        release: str,
        names: tuple[str, ...] = RANGE_FIELDS,
    ) -> None:
        if before is None or after is None:
            self.add("in_force", before.when if before else False, after.when if after else False, release)
            return
        for field in names:
            self.add(field, getattr(before, field), getattr(after, field), release)
        self.add("template", before.template.text, after.template.text, release)

    def add(self, field: str, before: Any, after: Any, release: str) -> None:
        if before == after:
            return
        key = tuple(map(_comparable, (before, after))) if field in CONDITIONS else (before, after)
        if key[0] != key[1]:
            change = FieldChange(field, before, after)
            self._found.setdefault((field, *key), (change, []))[1].append(release)

    def changes(self) -> list[FieldChange]:
        return [
            FieldChange(change.field, change.before, change.after, tuple(releases))
            for change, releases in self._found.values()
        ]


def _comparable(condition: Condition | Literal[False] | None) -> Any:
    return condition if condition is False else parts_key(condition)


def _condition_fields(
    before: NamedCondition | None, after: NamedCondition | None, compared: Mapping[str, str]
) -> list[FieldChange]:
    fields = _RangeChanges()
    for release, former in compared.items():
        old, new = _condition_in(before, former), _condition_in(after, release)
        fields.add("in_force" if old is None or new is None else "when", old or False, new or False, release)
    return fields.changes()


def _condition_in(named: NamedCondition | None, release: str) -> Condition | None:
    version = Version(release)
    return next((when for span, when in named.ranges if span.holds(version)), None) if named else None


def _users(catalogue: Catalogue, name: str) -> list[str]:
    """The ids of the rules that use a named condition."""
    return [rule.id for rule in catalogue.rules if rule.uses_named(name)]
