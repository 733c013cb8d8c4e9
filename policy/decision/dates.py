"""Warnings about the dates of house rules: overdue reviews, and ends that are near or past."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from policy.rules.rule import NOTICE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policy.rules.rule import Rule


def date_warnings(rule: Rule, today: date) -> Iterator[str]:
    """The warnings for a rule that a decision contains, or would contain if the rule had not ended."""
    if rule.is_overdue(today):
        yield f"the house rule `{rule.id}` was due for review by {rule.review_by}; its owner is {rule.owner}"
    if rule.ends_soon(today):
        yield f"the house rule `{rule.id}` holds until {rule.until}, and not afterwards; its owner is {rule.owner}"
    if rule.has_ended(today):
        yield f"the house rule `{rule.id}` held until {rule.until}, and no longer applies; its owner is {rule.owner}"


def quiet_until(rules: Iterable[Rule]) -> date:
    """The last day before any date of these rules causes a warning."""
    return min((day for rule in rules for day in _quiet_days(rule)), default=date.max)


def _quiet_days(rule: Rule) -> Iterator[date]:
    if rule.review_by is not None:
        yield rule.review_by
    if rule.until is not None:
        yield date.fromordinal(max(rule.until.toordinal() - NOTICE - 1, date.min.toordinal()))
