"""Derived facts as the row that the rules read, each checked as a stated one would be.

Owns the one step from names to places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policy.errors import Misfit, quoted
from policy.facts import TREE, Facts, Member, defaults
from policy.vocabulary import FACTS, INDEX, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping


def _leaves(member: Member) -> dict[str, Member]:
    found = {} if member.fact is None else {member.fact.name: member}
    for child in member.members.values():
        found |= _leaves(child)
    return found


MEMBERS = _leaves(TREE)


def facts_of(values: Mapping[str, Any], origins: Mapping[str, str], series: tuple[int, int], faults: list[Misfit]) -> Facts:
    """The row of derived ``values``, defaults where there are none; a value that no release takes is a fault at its origin."""
    row = list(defaults(series))
    stated = []
    for name, value in values.items():
        index = INDEX[name]
        member = MEMBERS[name]
        fact = FACTS[name]
        if fact.kind is Kind.PRESENCE:
            row[index] = value
        elif value is None and fact.nullable:
            row[index] = None
        elif type(value) is member.type and (member.fits is None or member.fits(value)):
            row[index] = value if member.take is None else member.take(value)
        else:
            faults.append(Misfit(origins[name], f"{quoted(value)} is not legal for `{name}`; legal: {fact.legal}"))
            continue
        stated.append(index)
    return Facts(row, stated)
