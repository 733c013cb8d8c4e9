"""Convert derived facts to the row that the rules read, with the checks for stated facts."""

from __future__ import annotations

from functools import lru_cache
from itertools import compress
from operator import is_not, itemgetter
from typing import TYPE_CHECKING, Any, Final

from policy.errors import RequestFault
from policy.facts.facts import TREE, Facts, Member, defaults
from policy.facts.vocabulary import FACTS, FactKind
from policy.intake.provenance import ASSUMED, DEFAULT
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping


def _members(member: Member) -> dict[str, Member]:
    found = {} if member.fact is None else {member.fact.name: member}
    for child in member.members.values():
        found |= _members(child)
    return found


_MEMBERS: Final = _members(TREE)
LEGAL: Final = defaults((0, 0))
"""A legal value for each fact, in the order of the row."""
NULLABLE: Final = frozenset(name for name, fact in FACTS.items() if fact.nullable)
CHECKS: Final = tuple(
    (name, (member := _MEMBERS[name]).index, member.type, member.fits, member.take)
    for name, fact in FACTS.items()
    if fact.kind not in {FactKind.PRESENCE, FactKind.BOOLEAN}
)
"""For each fact that may have a user's value: name, index, type, further check, conversion."""
_checked: Final = itemgetter(*(index for _, index, *_ in CHECKS))
UNCHANGED: Final = _checked(LEGAL)
"""The legal value of each of them, which the row has as it is."""
_value: Final = itemgetter(0)


@lru_cache(maxsize=64)
def _cached_default_facts(series: tuple[int, int]) -> dict[str, tuple[Any, str]]:
    return {name: (value, DEFAULT) for name, value in zip(FACTS, defaults(series), strict=True)}


def default_facts(series: tuple[int, int]) -> dict[str, tuple[Any, str]]:
    """Every fact with its default value and origin, in the order of the row."""
    return _cached_default_facts(series).copy()


def facts_of(derived: Mapping[str, tuple[Any, str]], faults: list[RequestFault]) -> Facts:
    """The row of facts. An invalid value is a fault at its origin, and is replaced by a legal one.

    Most facts have their default. Those are not looked at one by one, which would take another 8 % of the steps to
    derive a deployment's facts.
    """
    row = list(map(_value, derived.values()))
    for name, index, kind, fits, take in compress(CHECKS, map(is_not, _checked(row), UNCHANGED)):
        value, origin = derived[name]
        if origin is DEFAULT or origin is ASSUMED:
            if type(value) is list:
                row[index] = tuple(value)
        elif type(value) is kind and (fits is None or fits(value)):
            if take is not None:
                row[index] = take(value)
        elif value is not None or name not in NULLABLE:
            faults.append(
                RequestFault(origin, f"{quoted(value)} is not legal for `{name}`; legal: {FACTS[name].legal}")
            )
            row[index] = LEGAL[index]
    return Facts(row)
