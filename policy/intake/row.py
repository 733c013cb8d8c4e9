"""Derived facts as the row that the rules read, each checked as a stated one would be.

Owns the one step from names to places.
"""

from __future__ import annotations

from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from policy.errors import Misfit, quoted
from policy.facts import TREE, Facts, Member, defaults
from policy.intake.derived import DEFAULT
from policy.vocabulary import FACTS, VARIABLE, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping


def _members(member: Member) -> dict[str, Member]:
    found = {} if member.fact is None else {member.fact.name: member}
    for child in member.members.values():
        found |= _members(child)
    return found


CHECKS: Final = tuple(
    (name, member.index, member.type, member.fits, member.take)
    for name, member in _members(TREE).items()
    if FACTS[name].kind not in {Kind.PRESENCE, Kind.BOOLEAN}
)
"""The facts that may come as users write them: the place in the row, the type, what else is asked, and what makes of a value what stands there."""
NULLABLE: Final = frozenset(name for name, fact in FACTS.items() if fact.nullable)


_value: Final = itemgetter(0)


@lru_cache(maxsize=64)
def _defaults(series: tuple[int, int]) -> dict[str, tuple[Any, str]]:
    """The facts where nothing is derived, in the order of the row."""
    return {name: (value, DEFAULT) for name, value in zip(FACTS, defaults(series), strict=True)}


def facts_of(derived: Mapping[str, tuple[Any, str]], series: tuple[int, int], faults: list[Misfit]) -> Facts:
    """The row of ``derived`` facts, defaults where there are none; a value that no release takes is a fault at its origin."""
    row = list(map(_value, {**_defaults(series), **derived}.values()))
    for name, index, kind, fits, take in CHECKS:
        if name not in derived:
            continue
        value, origin = derived[name]
        if type(value) is kind and (fits is None or fits(value)):
            if take is not None:
                row[index] = take(value)
        elif value is None and name == VARIABLE:
            row[index] = defaults(series)[index]  # what an unset variable means, the release says
        elif value is not None or name not in NULLABLE:
            faults.append(Misfit(origin, f"{quoted(value)} is not legal for `{name}`; legal: {FACTS[name].legal}"))
    return Facts(row)
