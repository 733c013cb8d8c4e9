"""What a rule asks of the facts: ``all``, ``any``, ``not`` and a closed set of operators.

Owns the reading of a ``when`` into a small tree whose negations have been pushed down to the leaves,
checked against the vocabulary, and what a leaf says of one value. Which trees hold for a deployment is
for the engine to say: ``compile`` makes its definition of them, and ``trace`` explains one.

A map is *and*; a bare value means ``is``; several operators on one fact are *and*. Below an absent
object every leaf is false, a negated one too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from policy.errors import listed, nearest, quoted
from policy.facts import FACTS, INDEX, Fact, Kind, Malformed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.reader import Reader
    from policy.source import Node


class Test(StrEnum):
    """What a leaf compares; each operator is one of these, some of them negated."""

    IS = "is"
    IN = "in"
    HAS_ANY_OF = "has_any_of"
    HAS_OTHER_THAN = "has_other_than"
    FIRST_IS_IN = "first_is_in"
    NOT_EMPTY = "not_empty"
    AT_LEAST = "at_least"
    PRESENT = "present"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One comparison of one fact; ``operand`` is a value, a sorted tuple of texts, or ``None`` for a bare word."""

    fact: str
    test: Test
    operand: Any
    negated: bool

    @property
    def index(self) -> int:
        """The fact's place in a row."""
        return INDEX[self.fact]

    @property
    def expected(self) -> Any:
        """What the leaf asks for, as a rule file would write it."""
        operand = list(self.operand) if isinstance(self.operand, tuple) else self.operand
        match self.test, self.negated:
            case Test.IS, False:
                return operand
            case Test.PRESENT, negated:
                return "absent" if negated else "present"
            case ((Test.NOT_EMPTY | Test.MALFORMED), False):
                return str(self.test)
            case ((Test.NOT_EMPTY | Test.MALFORMED), True):
                return {"not": str(self.test)}
            case test, False:
                return {str(test): operand}
            case test, True:
                word = NEGATIONS.get(test)
                return {word: operand} if word else {"not": {str(test): operand}}


@dataclass(frozen=True, slots=True)
class Both:
    """Every part holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """At least one part holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """A named condition, still to be looked up for a release (see ``resolve``)."""

    name: str
    negated: bool
    line: int
    column: int


Condition: TypeAlias = Leaf | Both | Either | Use


@dataclass(frozen=True, slots=True)
class Operator:
    """A word of the rule language: which test it is, for which kinds of fact, and what it takes."""

    test: Test
    negated: bool
    kinds: frozenset[Kind]
    takes: str
    meaning: str


VALUES: Final = frozenset({Kind.CHOICE, Kind.TEXT, Kind.INTEGER, Kind.BOOLEAN, Kind.VARIABLE})
MEMBERS: Final = frozenset({Kind.CHOICE, Kind.TEXT})
TEXTS: Final = frozenset({Kind.TEXTS})
LISTS: Final = frozenset({Kind.TEXTS, Kind.LIST})
OBJECTS: Final = frozenset({Kind.PRESENCE, Kind.VARIABLE, Kind.CHOICE, Kind.TEXT, Kind.TEXTS, Kind.LIST})

OPERATORS: Final[dict[str, Operator]] = {
    "is": Operator(Test.IS, False, VALUES, "value", "the fact has this value; a bare value means the same"),
    "is_not": Operator(Test.IS, True, VALUES, "value", "the fact has another value"),
    "in": Operator(Test.IN, False, MEMBERS, "values", "the fact is one of these"),
    "not_in": Operator(Test.IN, True, MEMBERS, "values", "the fact is none of these; a `null` is none of them"),
    "has_any_of": Operator(Test.HAS_ANY_OF, False, TEXTS, "values", "the list holds at least one of these"),
    "has_none_of": Operator(Test.HAS_ANY_OF, True, TEXTS, "values", "the list holds none of these; an empty list holds none"),
    "has_other_than": Operator(Test.HAS_OTHER_THAN, False, TEXTS, "values", "the list holds something that is none of these"),
    "first_is_in": Operator(Test.FIRST_IS_IN, False, TEXTS, "values", "the list's first item is one of these"),
    "not_empty": Operator(Test.NOT_EMPTY, False, LISTS, "nothing", "the list has an item; `null` has none"),
    "at_least": Operator(Test.AT_LEAST, False, frozenset({Kind.INTEGER}), "number", "the number is this or more"),
    "present": Operator(Test.PRESENT, False, OBJECTS, "nothing", "the object is there; the variable is set; the value is not `null`"),
    "absent": Operator(Test.PRESENT, True, OBJECTS, "nothing", "the object is not there; the variable is not set; the value is `null`"),
    "malformed": Operator(Test.MALFORMED, False, frozenset({Kind.VARIABLE}), "nothing", "the variable is set to a text that is no integer"),
}
NEGATIONS: Final[dict[Test, str]] = {op.test: word for word, op in OPERATORS.items() if op.negated}
WORDS: Final = tuple(word for word, op in OPERATORS.items() if op.takes == "nothing")
MAX_LEAVES: Final = 64
MAX_WAYS: Final = 16


def operators_for(fact: Fact) -> list[str]:
    """The operators that a fact takes, in the language's order."""
    words = [word for word, op in OPERATORS.items() if fact.kind in op.kinds]
    if fact.nullable or fact.kind in {Kind.PRESENCE, Kind.VARIABLE}:
        return words
    return [word for word in words if word not in {"present", "absent"}]


def read_condition(node: Node, reader: Reader) -> Condition | None:
    """The tree of a ``when``, or ``None`` for the word ``always``; faults go to the reader."""
    if node.value == "always":
        return None
    if not isinstance(node.value, dict):
        reader.fault(node, f"{quoted(node.plain())} is no condition; write a map of facts, or `always`")
        return Both(())
    condition = _read_map(node, reader, negated=False)
    if sum(1 for _ in leaves(condition)) > MAX_LEAVES:
        reader.fault(node, f"more than {MAX_LEAVES} comparisons in one condition; split the rule")
    return condition


def _read_map(node: Node, reader: Reader, *, negated: bool) -> Condition:
    parts: list[Condition] = []
    assert isinstance(node.value, dict)
    if not node.value:
        reader.fault(node, "an empty condition; write `always` where a rule needs none")
    for key, child in node.value.items():
        match key:
            case "all" | "any":
                parts.append(_read_list(key, child, reader, negated=negated))
            case "not":
                if isinstance(child.value, dict):
                    parts.append(_read_map(child, reader, negated=not negated))
                else:
                    reader.fault(child, f"{quoted(child.plain())} under `not` is no condition; write a map of facts")
            case "uses":
                if isinstance(child.value, str):
                    parts.append(Use(child.value, negated, child.line, child.column))
                else:
                    reader.fault(child, f"{quoted(child.plain())} is no name of a condition")
            case _:
                parts.extend(_read_fact(key, child, reader, negated=negated))
    return _join(parts, either=negated)


def _read_list(word: str, node: Node, reader: Reader, *, negated: bool) -> Condition:
    if not isinstance(node.value, list) or not node.value:
        reader.fault(node, f"`{word}` takes a list of conditions")
        return Both(())
    parts = []
    for item in node.value:
        if isinstance(item.value, dict):
            parts.append(_read_map(item, reader, negated=negated))
        else:
            reader.fault(item, f"{quoted(item.plain())} is no condition; write a map of facts")
    return _join(parts, either=(word == "any") != negated)


def _join(parts: list[Condition], *, either: bool) -> Condition:
    if len(parts) == 1:
        return parts[0]
    return Either(tuple(parts)) if either else Both(tuple(parts))


def _read_fact(name: str, node: Node, reader: Reader, *, negated: bool) -> list[Condition]:
    fact = FACTS.get(name)
    if fact is None:
        reader.fault(
            node, f"unknown fact {quoted(name)}{nearest(name, [*FACTS, 'all', 'any', 'not', 'uses'])}; `GET /v1/facts` and docs/facts.md list them", key=True
        )
        return []
    if not isinstance(node.value, dict):
        leaf = _read_bare(fact, node, reader, negated=negated)
        return [leaf] if leaf else []
    if not node.value:
        reader.fault(node, f"nothing is asked of `{name}`; its operators are {listed(operators_for(fact))}")
    found = [_read_operator(fact, word, child, reader, negated=negated) for word, child in node.value.items()]
    parts: list[Condition] = [leaf for leaf in found if leaf]
    return [_join(parts, either=True)] if negated and len(parts) > 1 else parts


def _read_bare(fact: Fact, node: Node, reader: Reader, *, negated: bool) -> Leaf | None:
    word = node.value
    if word in WORDS and isinstance(word, str):
        if word not in operators_for(fact):
            reader.fault(node, f"`{fact.name}` is never {quoted(word)}; its operators are {listed(operators_for(fact))}")
            return None
        operator = OPERATORS[word]
        return Leaf(fact.name, operator.test, None, operator.negated != negated)
    if fact.kind not in VALUES:
        reader.fault(node, f"`{fact.name}` has no value to compare with {quoted(node.plain())}; its operators are {listed(operators_for(fact))}")
        return None
    return _with_operand(fact, OPERATORS["is"], node, reader, negated=negated)


def _read_operator(fact: Fact, word: str, node: Node, reader: Reader, *, negated: bool) -> Leaf | None:
    operator = OPERATORS.get(word)
    if operator is None or word not in operators_for(fact):
        known = operators_for(fact)
        reader.fault(node, f"`{fact.name}` has no operator {quoted(word)}; its operators are {listed(known)}{nearest(word, known)}", key=True)
        return None
    if operator.takes == "nothing":
        if node.value is not True:
            reader.fault(node, f"`{word}` takes `true` and nothing else; write `not:` around it for the reverse")
            return None
        return Leaf(fact.name, operator.test, None, operator.negated != negated)
    return _with_operand(fact, operator, node, reader, negated=negated)


def _with_operand(fact: Fact, operator: Operator, node: Node, reader: Reader, *, negated: bool) -> Leaf | None:
    operand: Any = node.plain()
    if operator.takes == "values":
        operand = _read_values(fact, node, reader)
        if operand is None:
            return None
    elif not _comparable(fact, operand):
        reader.fault(node, f"{quoted(operand)} is not legal for `{fact.name}`; legal: {_legal(fact)}{_or_words(fact)}")
        return None
    return Leaf(fact.name, operator.test, operand, operator.negated != negated)


def _legal(fact: Fact) -> str:
    """The values that a rule can compare a fact with; for ``null`` and the like it has words."""
    return listed(["true", "false"]) if fact.kind is Kind.VARIABLE else replace(fact, nullable=False).legal


def _or_words(fact: Fact) -> str:
    words = [word for word in operators_for(fact) if word in WORDS]
    return f", or the words {listed(words)}" if words else ""


def _comparable(fact: Fact, operand: object) -> bool:
    if fact.kind is Kind.VARIABLE:
        return type(operand) is bool
    return fact.admits(operand)


def _read_values(fact: Fact, node: Node, reader: Reader) -> tuple[str, ...] | None:
    if not isinstance(node.value, list) or not node.value:
        reader.fault(node, f"{quoted(node.plain())} is no list of values for `{fact.name}`")
        return None
    values: list[str] = []
    for item in node.value:
        legal = type(item.value) is str and (not fact.choices or item.value in fact.choices)
        if not legal:
            reader.fault(item, f"{quoted(item.plain())} is not legal for `{fact.name}`; legal: {listed(fact.choices) if fact.choices else 'texts'}")
        elif item.value in values:
            reader.fault(item, f"{quoted(item.plain())} stands twice in one list; keep one")
        else:
            values.append(str(item.value))
    return tuple(values)


def ways(condition: Condition) -> int:
    """In how many ways a condition can come true; the engine fires a rule once for each that does."""
    match condition:
        case Both(parts):
            return prod(map(ways, parts))
        case Either(parts):
            return sum(map(ways, parts))
        case Leaf() | Use():
            return 1


def leaves(condition: Condition) -> tuple[Leaf, ...]:
    """Every leaf of a tree, in the order in which it was written."""
    match condition:
        case Leaf():
            return (condition,)
        case Both(parts) | Either(parts):
            return tuple(leaf for part in parts for leaf in leaves(part))
        case Use():
            return ()


def uses(condition: Condition) -> tuple[Use, ...]:
    """Every named condition that a tree refers to."""
    match condition:
        case Use():
            return (condition,)
        case Both(parts) | Either(parts):
            return tuple(use for part in parts for use in uses(part))
        case Leaf():
            return ()


def resolve(condition: Condition, named: Mapping[str, Condition]) -> Condition:
    """The tree with every named condition put in its place.

    Raises:
        KeyError: a name that ``named`` does not hold.
    """
    match condition:
        case Use(name, negated):
            found = named[name]
            return negate(found) if negated else found
        case Both(parts):
            return Both(tuple(resolve(part, named) for part in parts))
        case Either(parts):
            return Either(tuple(resolve(part, named) for part in parts))
        case Leaf():
            return condition


def negate(condition: Condition) -> Condition:
    """De Morgan to the leaves; each keeps its guard, so that it stays false below an absent object."""
    match condition:
        case Leaf() | Use():
            return replace(condition, negated=not condition.negated)
        case Both(parts):
            return Either(tuple(negate(part) for part in parts))
        case Either(parts):
            return Both(tuple(negate(part) for part in parts))


def holds(leaf: Leaf, value: Any) -> bool:
    """Whether a question is answered with yes by a value, the objects above it being there."""
    match leaf.test:
        case Test.IS:
            answer = type(value) is type(leaf.operand) and value == leaf.operand
        case Test.IN:
            answer = value in leaf.operand
        case Test.HAS_ANY_OF:
            answer = any(item in leaf.operand for item in value or ())
        case Test.HAS_OTHER_THAN:
            answer = any(item not in leaf.operand for item in value or ())
        case Test.FIRST_IS_IN:
            answer = bool(value) and value[0] in leaf.operand
        case Test.NOT_EMPTY:
            answer = bool(value)
        case Test.AT_LEAST:
            answer = value >= leaf.operand
        case Test.PRESENT:
            answer = bool(value) if FACTS[leaf.fact].kind is Kind.PRESENCE else value is not None
        case Test.MALFORMED:
            answer = isinstance(value, Malformed)
    return bool(answer != leaf.negated)
