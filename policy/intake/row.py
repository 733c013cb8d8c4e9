"""Derived facts as the row that the rules read, each checked as a stated one would be.

Owns the one step from names to places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.errors import Misfit, quoted
from policy.facts import TREE, Facts, Member, defaults
from policy.vocabulary import FACTS, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping


def _members(member: Member) -> dict[str, Member]:
    found = {} if member.fact is None else {member.fact.name: member}
    for child in member.members.values():
        found |= _members(child)
    return found


CHECKS: Final = {
    name: (member.index, bool if FACTS[name].kind is Kind.PRESENCE else member.type, member.fits, member.take) for name, member in _members(TREE).items()
}
"""Each fact's place in the row, its type, what else is asked of a value, and what makes of it what stands there."""
NULLABLE: Final = frozenset(name for name, fact in FACTS.items() if fact.nullable)


def facts_of(values: Mapping[str, Any], origins: Mapping[str, str], series: tuple[int, int], faults: list[Misfit]) -> Facts:
    """The row of derived ``values``, defaults where there are none; a value that no release takes is a fault at its origin."""
    row = list(defaults(series))
    stated = []
    for name, value in values.items():
        index, kind, fits, take = CHECKS[name]
        if type(value) is kind and (fits is None or fits(value)):
            row[index] = value if take is None else take(value)
            stated.append(index)
        elif value is None and name in NULLABLE:
            row[index] = None
            stated.append(index)
        else:
            faults.append(Misfit(origins[name], f"{quoted(value)} is not legal for `{name}`; legal: {FACTS[name].legal}"))
    return Facts(row, stated)
