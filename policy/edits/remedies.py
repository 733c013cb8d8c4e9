"""Which remedies of a decision are for what a user wants to fix, the cheapest first."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import UNSET

from policy.rules.effects import Runner

if TYPE_CHECKING:
    from collections.abc import Collection

    from policy.decision.decision import Decision
    from policy.decision.remedies import Remedy


class Purpose(StrEnum):
    """What to fix: that an engine does not start or runs on V1, known problems, or a variable that changes nothing."""

    START = "start"
    V2 = "v2"
    KNOWN_PROBLEMS = "known-problems"
    PINS = "pins"
    ALL = "all"


DEFAULT = (Purpose.START, Purpose.KNOWN_PROBLEMS)


def purposes_of(decision: Decision, wanted: Collection[Purpose]) -> list[str]:
    """The wanted purposes for which there is something to fix: `start`, known problems by rule, `v2`, in this order."""
    found = []
    if not decision.starts and Purpose.START in wanted:
        found.append("start")
    if decision.starts and Purpose.KNOWN_PROBLEMS in wanted:
        found += [problem.rule for problem in decision.known_problems]
    if decision.starts and decision.runner == Runner.V1 and Purpose.V2 in wanted:
        found.append("v2")
    return found


def remedies_for(decision: Decision, purposes: Collection[str], *, keeps_v2: bool) -> list[Remedy]:
    """The remedies of an explained decision for purposes, in the purposes' order; changes of the release come last.

    With ``keeps_v2`` none that moves the deployment from V2 to V1: the next run would move it back.
    """
    if decision.remedies is UNSET:
        return []
    found = [
        each
        for purpose in purposes
        for each in decision.remedies
        if each.purpose == purpose
        and not (keeps_v2 and decision.runner == Runner.V2 and each.runner == Runner.V1 and purpose != "start")
    ]
    first = {purpose: n for n, purpose in enumerate(purposes)}
    return sorted(found, key=lambda each: (is_upgrade(each), first[each.purpose]))


def is_upgrade(remedy: Remedy) -> bool:
    """Whether a remedy is another release."""
    return any(change.field is not UNSET for change in remedy.change)


def chosen(remedies: list[Remedy], number: int, *, upgrades: bool) -> Remedy | None:
    """The remedy to write, counted from 1; another release only with ``upgrades``."""
    remedy = remedies[number - 1] if 0 < number <= len(remedies) else None
    return None if remedy is None or (is_upgrade(remedy) and not upgrades) else remedy
