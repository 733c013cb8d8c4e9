"""Rules of one release → a durable_rules definition, and the encoder that writes a row as its one fact.

Owns every trap of the engine's language (durable_rules 2.0.28). The engine sees whole numbers only and
never a text of a user's: a fact's value becomes a code, a question about a list becomes a derived
0 or 1 computed here, and membership and negation are compiled away. Pure: nothing here runs the engine.
"""

from __future__ import annotations

import json
import string
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from policy.conditions import Both, Condition, Either, Leaf, Test, Use, leaves
from policy.errors import EngineFailed
from policy.facts import FACTS, INDEX, Kind, ancestors, defaults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from policy.catalogue import ReleaseRule

GROUP: Final = 32  # 64 conditions that match at one level of the network make the engine fail
MAX_GROUPS: Final = 48
SENTINEL: Final = "z"
LAST: Final = 65_535  # priorities are unsigned 16-bit numbers
RESERVED: Final = ("id", "sid", "$s", "$m", "$forward")

NULL: Final = 0
OTHER: Final = 1
FIRST_CODE: Final = 2
UNSET, FALSE, TRUE, MALFORMED = range(4)


@dataclass(frozen=True, slots=True)
class Encoder:
    """Writes a row as the engine's fact: ``parts`` hold the defaults, ``columns`` what another value changes."""

    parts: tuple[str, ...]
    columns: tuple[tuple[tuple[int, Callable[[Any], str]], ...], ...]

    def encode(self, row: Sequence[Any], changed: Iterable[int]) -> str:
        """The fact as JSON text: a constant id, every key that the rules read, whole numbers only."""
        parts = list(self.parts)
        for index in changed:
            for position, fragment in self.columns[index]:
                parts[position] = fragment(row[index])
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class Definition:
    """What the engine is given: the ruleset's JSON text, and what each action's name stands for.

    ``numbers`` maps an action to the rule's place in the release's list; the complement (``~place``)
    stands for "what lifts this rule at start holds". ``always`` are the places of rules without a
    condition, which are none of the engine's business.
    """

    ruleset: str
    encoder: Encoder
    numbers: Mapping[str, int]
    always: tuple[int, ...]
    canary: str


def compile_rules(rules: Sequence[ReleaseRule], series: tuple[int, int]) -> Definition:
    """The definition of a release's rules, given in the order in which they are to be listed.

    Raises:
        EngineFailed: there are more rules than the engine can hold, or two keys that it would mix up.
    """
    keys = _Keys(rules)
    asked = [
        (number, condition) for place, item in enumerate(rules) for number, condition in ((place, item.when), (~place, item.lifted)) if condition is not None
    ]
    groups = -(-len(asked) // GROUP) or 1
    if groups > MAX_GROUPS:
        raise EngineFailed(f"{len(asked)} conditions are more than the {GROUP * MAX_GROUPS} that one release can have")
    check_collisions([*RESERVED, *keys.names(), *(f"_{group}" for group in range(groups))])
    definition: dict[str, Any] = {}
    numbers = {}
    for n, (number, condition) in enumerate(asked):
        action = str(n)
        numbers[action] = number
        atoms = [{f"_{n // GROUP}": 1}, *_conjunction(condition, keys)]
        definition[action] = {"pri": n + 1, "count": 1, "all": [{"m": {"$and": atoms}}]}
    definition[SENTINEL] = {"pri": LAST, "count": 1, "all": [{"m": {"_0": 1}}]}
    encoder = keys.encoder(series, groups)
    return Definition(
        ruleset=json.dumps(definition),
        encoder=encoder,
        numbers=numbers,
        always=tuple(place for place, item in enumerate(rules) if item.when is None),
        canary=encoder.encode((), ()),
    )


def fnv1a(name: str) -> int:
    """The 32-bit FNV-1a hash by which durable_rules knows a property (``src/rules/json.c``)."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def check_collisions(names: Iterable[str]) -> None:
    """See that the engine can tell all property names apart.

    Raises:
        EngineFailed: two names have one hash, so that one would hide the other.
    """
    seen: dict[int, str] = {}
    for name in names:
        other = seen.setdefault(fnv1a(name), name)
        if other != name:
            raise EngineFailed(f"the engine cannot tell the keys {other!r} and {name!r} apart; rename one")


@dataclass(frozen=True, slots=True)
class _Column:
    """A key of the engine's fact and how its number comes from the fact's value."""

    key: str
    index: int
    fragment: Callable[[Any], str]


@dataclass(slots=True)
class _Keys:
    """The engine's keys for what a release's rules read: one a scalar fact, one a question about a list."""

    rules: Sequence[ReleaseRule]
    columns: dict[Any, _Column] = field(default_factory=dict)
    codes: dict[str, dict[Any, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for item in self.rules:
            for condition in (item.when, item.lifted):
                for leaf in leaves(condition) if condition else ():
                    for name in ancestors(leaf.fact):
                        self.scalar(name)
                    if _derived(leaf):
                        self.derived(leaf)
                    else:
                        self.scalar(leaf.fact, leaf)

    def scalar(self, name: str, leaf: Leaf | None = None) -> None:
        fact = FACTS[name]
        key = self.columns[name].key if name in self.columns else _key(len(self.columns))
        if fact.kind in {Kind.CHOICE, Kind.TEXT}:
            codes = self.codes.setdefault(name, {None: NULL, **{choice: FIRST_CODE + n for n, choice in enumerate(fact.choices)}})
            operand = leaf.operand if leaf else None
            for text in operand if isinstance(operand, tuple) else (operand,):
                codes.setdefault(text, FIRST_CODE + len(codes))
        elif fact.kind is Kind.VARIABLE:
            codes = {None: UNSET, False: FALSE, True: TRUE}
        elif fact.kind is Kind.INTEGER:
            codes = {}
        else:
            codes = {False: 0, True: 1}
        self.columns[name] = _Column(key, INDEX[name], _fragments(key, codes, fact.kind))

    def derived(self, leaf: Leaf) -> None:
        question = (leaf.fact, leaf.test, leaf.operand)
        if question not in self.columns:
            key = _key(len(self.columns))
            pair = (f',"{key}":0', f',"{key}":1')
            answer, operand = QUESTIONS[leaf.test], frozenset(leaf.operand or ())
            self.columns[question] = _Column(key, leaf.index, lambda value: pair[answer(operand, value)])

    def key(self, name: Any) -> str:
        return self.columns[name].key

    def names(self) -> list[str]:
        return [column.key for column in self.columns.values()]

    def encoder(self, series: tuple[int, int], groups: int) -> Encoder:
        row = defaults(series)
        head = '{"id":1' + "".join(f',"_{group}":1' for group in range(groups))
        columns = list(self.columns.values())
        by_fact: list[list[tuple[int, Callable[[Any], str]]]] = [[] for _ in row]
        for position, column in enumerate(columns, start=1):
            by_fact[column.index].append((position, column.fragment))
        parts = (head, *(column.fragment(row[column.index]) for column in columns), "}")
        return Encoder(parts, tuple(map(tuple, by_fact)))


def _key(number: int) -> str:
    """A short name: half of a decision's cost in the engine is the length of the fact's text."""
    letters = string.ascii_letters
    return letters[number] if number < len(letters) else f"{letters[number % len(letters)]}{number // len(letters)}"


def _fragments(key: str, codes: Mapping[Any, int], kind: Kind) -> Callable[[Any], str]:
    """How a value is written: looked up where the values are known, else by its kind."""
    known = {value: f',"{key}":{code}' for value, code in codes.items()}
    if kind is Kind.INTEGER:
        return lambda value: f',"{key}":{value}'
    if kind is Kind.TEXT:
        other = f',"{key}":{OTHER}'
        return lambda value: known.get(value, other)
    if kind is Kind.VARIABLE:
        malformed = f',"{key}":{MALFORMED}'
        return lambda value: known.get(value, malformed)
    return known.__getitem__


def _any_of(operand: frozenset[str], value: list[str] | None) -> bool:
    return not operand.isdisjoint(value or ())


def _other_than(operand: frozenset[str], value: list[str] | None) -> bool:
    return not operand.issuperset(value or ())


def _first_in(operand: frozenset[str], value: list[str] | None) -> bool:
    return bool(value) and value[0] in operand  # type: ignore[index]  # an empty or absent list has returned


def _filled(_: frozenset[str], value: list[Any] | None) -> bool:
    return bool(value)


def _there(_: frozenset[str], value: list[Any] | None) -> bool:
    return value is not None


QUESTIONS: Final[dict[Test, Callable[[frozenset[str], Any], bool]]] = {
    Test.HAS_ANY_OF: _any_of,
    Test.HAS_OTHER_THAN: _other_than,
    Test.FIRST_IS_IN: _first_in,
    Test.NOT_EMPTY: _filled,
    Test.PRESENT: _there,
}


def _derived(leaf: Leaf) -> bool:
    return FACTS[leaf.fact].kind in {Kind.TEXTS, Kind.LIST}


def _conjunction(condition: Condition, keys: _Keys) -> list[dict[str, Any]]:
    """The atoms that must all hold, each once: comparisons first and guards last.

    Guards nearly always hold, and the engine goes a level deeper for each atom that does.
    """
    parts = _flat(condition)
    atoms = [atom for part in parts for atom in ([_alternatives(part, keys)] if isinstance(part, Either) else _comparison(part, keys))]
    guards = [{keys.key(name): 1} for part in parts if isinstance(part, Leaf) for name in reversed(ancestors(part.fact))]
    distinct: list[dict[str, Any]] = []
    distinct.extend(atom for atom in (*atoms, *guards) if atom not in distinct)
    return distinct


def _flat(condition: Condition) -> list[Leaf | Either]:
    """The parts of a condition that must all hold."""
    if isinstance(condition, Both):
        return [part for inner in condition.parts for part in _flat(inner)]
    assert not isinstance(condition, Use)  # INVARIANT: the catalogue has put every named condition in its place
    return [condition]


def _alternatives(condition: Either, keys: _Keys) -> dict[str, Any]:
    branches = []
    for part in condition.parts:
        atoms = _conjunction(part, keys)
        branches.append(atoms[0] if len(atoms) == 1 else {"$and": atoms})
    return branches[0] if len(branches) == 1 else {"$or": branches}


def _comparison(leaf: Leaf, keys: _Keys) -> list[dict[str, Any]]:
    if _derived(leaf):
        return [{keys.key((leaf.fact, leaf.test, leaf.operand)): 0 if leaf.negated else 1}]
    key = keys.key(leaf.fact)
    kind = FACTS[leaf.fact].kind
    match leaf.test:
        case Test.AT_LEAST:
            return [{"$lt" if leaf.negated else "$gte": {key: leaf.operand}}]
        case Test.IN:
            codes = [keys.codes[leaf.fact][text] for text in leaf.operand]
            if leaf.negated:
                return [{"$neq": {key: code}} for code in codes]
            return [{key: codes[0]} if len(codes) == 1 else {"$or": [{key: code} for code in codes]}]
        case Test.PRESENT if kind is Kind.PRESENCE:
            return [{key: 0 if leaf.negated else 1}]
        case Test.PRESENT:
            return [{key: NULL} if leaf.negated else {"$neq": {key: NULL}}]
        case Test.MALFORMED:
            code = MALFORMED
        case _ if kind is Kind.VARIABLE:
            code = TRUE if leaf.operand else FALSE
        case _ if kind in {Kind.CHOICE, Kind.TEXT}:
            code = keys.codes[leaf.fact][leaf.operand]
        case _:
            code = int(leaf.operand)
    return [{"$neq": {key: code}} if leaf.negated else {key: code}]
