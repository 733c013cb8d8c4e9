"""Derived facts as the row that the rules read, each checked as a stated one would be.

Owns the one step from names to places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.errors import Misfit, quoted
from policy.facts import TREE, Facts, Member, defaults
from policy.vocabulary import FACTS, INDEX, VARIABLE, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping


def _members(member: Member) -> dict[str, Member]:
    found = {} if member.fact is None else {member.fact.name: member}
    for child in member.members.values():
        found |= _members(child)
    return found


CHECKS: Final = {
    name: (member.index, member.type, member.fits, member.take)
    for name, member in _members(TREE).items()
    if FACTS[name].kind not in {Kind.PRESENCE, Kind.BOOLEAN}
}
"""The facts that may come as users write them: the place in the row, the type, what else is asked, and what makes of a value what stands there."""
NULLABLE: Final = frozenset(name for name, fact in FACTS.items() if fact.nullable)


def facts_of(derived: Mapping[str, tuple[Any, str]], series: tuple[int, int], faults: list[Misfit]) -> Facts:
    """The row of ``derived`` facts, defaults where there are none; a value that no release takes is a fault at its origin."""
    row = list(defaults(series))
    for name, (value, origin) in derived.items():
        if name not in CHECKS:
            row[INDEX[name]] = value
            continue
        index, kind, fits, take = CHECKS[name]
        if type(value) is kind and (fits is None or fits(value)):
            row[index] = value if take is None else take(value)
        elif value is None and name in NULLABLE:
            row[index] = None
        elif value is None and name == VARIABLE:
            continue  # what an unset variable means, the release says
        else:
            faults.append(Misfit(origin, f"{quoted(value)} is not legal for `{name}`; legal: {FACTS[name].legal}"))
    return Facts(row)
