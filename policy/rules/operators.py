"""The operators of the rule language: a fixed set of words, each for certain kinds of facts.

Owns the operators and their meanings. The condition parser, the rules' JSON Schema and ``docs/language.md`` are derived
from ``OPERATORS``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from policy.facts.vocabulary import FactKind

if TYPE_CHECKING:
    from policy.facts.vocabulary import Fact


class Comparison(StrEnum):
    """The kinds of comparison; each operator is one of these or its negation."""

    IS = "is"
    IN = "in"
    HAS_ANY_OF = "has_any_of"
    HAS_OTHER_THAN = "has_other_than"
    FIRST_IS_IN = "first_is_in"
    NOT_EMPTY = "not_empty"
    AT_LEAST = "at_least"
    MORE_THAN = "more_than"
    LESS_THAN = "less_than"
    PRESENT = "present"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator: its comparison, the kinds of facts that it applies to, and the kind of operand that it takes."""

    test: Comparison
    negated: bool
    kinds: frozenset[FactKind]
    takes: str
    meaning: str


VALUES: Final = frozenset(
    {
        FactKind.CHOICE,
        FactKind.TEXT,
        FactKind.INTEGER,
        FactKind.NUMBER,
        FactKind.SHARE,
        FactKind.BOOLEAN,
        FactKind.VARIABLE,
    }
)
NUMBERS: Final = frozenset({FactKind.NUMBER, FactKind.SHARE})
MEMBERS: Final = frozenset({FactKind.CHOICE, FactKind.TEXT})
TEXTS: Final = frozenset({FactKind.TEXTS})
LISTS: Final = frozenset({FactKind.TEXTS, FactKind.LIST})
OBJECTS: Final = frozenset(
    {
        FactKind.PRESENCE,
        FactKind.VARIABLE,
        FactKind.CHOICE,
        FactKind.TEXT,
        FactKind.TEXTS,
        FactKind.LIST,
        FactKind.NUMBER,
        FactKind.SHARE,
    }
)

OPERATORS: Final[dict[str, Operator]] = {
    "is": Operator(Comparison.IS, False, VALUES, "value", "the fact has this value; a bare value means the same"),
    "is_not": Operator(Comparison.IS, True, VALUES, "value", "the fact has another value"),
    "in": Operator(Comparison.IN, False, MEMBERS, "values", "the fact is one of these"),
    "not_in": Operator(Comparison.IN, True, MEMBERS, "values", "the fact is none of these, or `null`"),
    "has_any_of": Operator(Comparison.HAS_ANY_OF, False, TEXTS, "values", "the list contains at least one of these"),
    "has_none_of": Operator(
        Comparison.HAS_ANY_OF, True, TEXTS, "values", "the list contains none of these, or is empty"
    ),
    "has_other_than": Operator(
        Comparison.HAS_OTHER_THAN, False, TEXTS, "values", "the list contains an item other than these"
    ),
    "first_is_in": Operator(Comparison.FIRST_IS_IN, False, TEXTS, "values", "the list's first item is one of these"),
    "not_empty": Operator(Comparison.NOT_EMPTY, False, LISTS, "nothing", "the list is neither empty nor `null`"),
    "at_least": Operator(
        Comparison.AT_LEAST, False, frozenset({FactKind.INTEGER}), "number", "the number is at least this"
    ),
    "more_than": Operator(Comparison.MORE_THAN, False, NUMBERS, "value", "the number is greater than this"),
    "less_than": Operator(Comparison.LESS_THAN, False, NUMBERS, "value", "the number is less than this"),
    "present": Operator(
        Comparison.PRESENT,
        False,
        OBJECTS,
        "nothing",
        "the object is present; the variable is set; the value is not `null`",
    ),
    "absent": Operator(
        Comparison.PRESENT,
        True,
        OBJECTS,
        "nothing",
        "the object is absent; the variable is not set; the value is `null`",
    ),
    "malformed": Operator(
        Comparison.MALFORMED,
        False,
        frozenset({FactKind.VARIABLE}),
        "nothing",
        "the variable is set to a text that is not an integer",
    ),
}
NEGATIONS: Final[dict[Comparison, str]] = {op.test: word for word, op in OPERATORS.items() if op.negated}
WORDS: Final = tuple(word for word, op in OPERATORS.items() if op.takes == "nothing")


def operators_for(fact: Fact) -> list[str]:
    """The operators that apply to a fact, in the order of ``OPERATORS``."""
    words = [word for word, op in OPERATORS.items() if fact.kind in op.kinds]
    if fact.nullable or fact.kind in {FactKind.PRESENCE, FactKind.VARIABLE}:
        return words
    return [word for word in words if word not in {"present", "absent"}]
