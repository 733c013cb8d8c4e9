"""Rules of one release → a durable_rules definition.

Owns the pitfalls of the engine's language (durable_rules 2.0.28): which keys the fact has, how rules compare them, and
that negation is compiled away. ``fact_encoder`` writes the fact. Pure: nothing here runs the engine.

The operator's variable is compiled away too. A decision often asks for the rules that would fire with another value of
the variable. So each condition becomes what is left to test for each value, and one run of the engine tells which rules
fire for every value.
"""

from __future__ import annotations

import json
import string
from dataclasses import dataclass, field
from operator import eq, ge, lt, ne
from typing import TYPE_CHECKING, Any, Final, Protocol

from policy.engine.fact_encoder import (
    FALSE,
    FIRST_CODE,
    MALFORMED,
    NULL_CODE,
    OTHER_CODE,
    TRUE,
    UNSET,
    CodeTable,
    Column,
    ComparisonTable,
    FactEncoder,
    NumberTable,
    QuestionTable,
    Table,
)
from policy.errors import EngineFailed
from policy.facts.facts import defaults
from policy.facts.vocabulary import (
    FACTS_WITH_REQUEST,
    INDEX,
    REQUEST_VOCABULARY,
    VARIABLE,
    FactKind,
    ancestors,
    parse_variable,
)
from policy.rules.conditions import And, Condition, Leaf, Or, Ref, assuming, holds, leaves, ways
from policy.rules.operators import NUMBERS, Comparison

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

GROUP_SIZE: Final = 32  # the engine fails with 64 alternatives at one level of its network
MAX_UNGROUPED: Final = 56  # the most alternatives without groups
MAX_GROUPS: Final = 32
MAX_KEYS: Final = 200  # the engine refuses a fact with more than 255 fields, and adds some itself
ACTION_WIDTH: Final = 4  # of an action's name, fixed so that it can be sliced out
SENTINEL: Final = "z" * ACTION_WIDTH
LOWEST_PRIORITY: Final = 65_535  # priorities are unsigned 16-bit numbers
COMPARISONS: Final = {"$neq": ne, "$gte": ge, "$lt": lt}
RESERVED_KEYS: Final = ("id", "sid", "$s", "$m", "$forward")
VALUES: Final = {UNSET: None, FALSE: False, TRUE: True, MALFORMED: parse_variable("")}
"""A value of the operator's variable for each of its codes."""


class ConditionalRule(Protocol):
    """The part of a rule that is compiled; ``when`` is ``None`` if the rule always holds."""

    @property
    def when(self) -> Condition | None: ...  # noqa: D102  # the class describes it
    @property
    def cleared(self) -> Condition | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class RulesetDefinition:
    """The engine's input: the ruleset as JSON text, and the rule of each action.

    ``actions`` maps the name of an action to its place. For each code of the operator's variable, ``numbers`` maps the
    place of an action that counts to the rule's index in the release's list; the complement (``~index``) means that the
    rule's ``cleared_at_startup`` holds. ``certain`` has the numbers of conditions that this value makes true.
    ``always`` are the indexes of rules without a condition. The last two are not passed to the engine. ``canary`` is an
    encoded fact for a trial run.
    """

    ruleset: str
    encoder: FactEncoder
    actions: Mapping[str, int]
    numbers: tuple[Mapping[int, int], ...]
    certain: tuple[tuple[int, ...], ...]
    always: tuple[int, ...]
    canary: str

    def matches(self, actions: Iterable[str]) -> tuple[int, ...]:
        """The indexes of the actions that fired; in caches, these numbers take less memory than the names."""
        return tuple(map(self.actions.__getitem__, actions))

    def fired(self, matches: Iterable[int], variable: int) -> tuple[int, ...]:
        """The numbers of the conditions that hold, in the release's order, by the matches of a run and a code."""
        numbers, certain = self.numbers[variable], self.certain[variable]
        found = dict.fromkeys([numbers[place] for place in matches if place in numbers])
        return tuple(sorted([*found, *certain], key=_place) if certain else found)


def compile_rules(rules: Sequence[ConditionalRule], series: tuple[int, int]) -> RulesetDefinition:
    """The definition of a release's rules, which are in the order in which they will be listed.

    Raises:
        EngineFailed: there are more rules than the engine supports, or two keys that it cannot tell apart.
    """
    conditions: dict[tuple[int, Condition], list[int]] = {}
    certain: dict[int, list[int]] = {code: [] for code in VALUES}
    for index, item in enumerate(rules):
        for number, condition in ((index, item.when), (~index, item.cleared)):
            if condition is None:
                continue
            for code, value in VALUES.items():
                left = assuming(condition, VARIABLE, value)
                if left is True:
                    certain[code].append(number)
                elif left is not False:
                    conditions.setdefault((number, left), []).append(code)
    keys = _Keys([condition for _, condition in conditions])
    group_of = _groups([ways(condition) for _, condition in conditions])
    groups = max(group_of, default=-1) + 1
    if groups > MAX_GROUPS:
        raise EngineFailed(f"expected at most {GROUP_SIZE * MAX_GROUPS} conditions in a release, got {len(conditions)}")
    if len(keys.columns) > MAX_KEYS:
        raise EngineFailed(f"expected at most {MAX_KEYS} different comparisons in a release, got {len(keys.columns)}")
    check_collisions([*RESERVED_KEYS, "_", *keys.names(), *(f"_{group}" for group in range(groups))])
    definition: dict[str, Any] = {}
    actions: dict[str, int] = {}
    numbers: dict[int, dict[int, int]] = {code: {} for code in VALUES}
    for n, ((number, condition), codes) in enumerate(conditions.items()):
        action = f"{n:0{ACTION_WIDTH}}"
        actions[action] = n
        for code in codes:
            numbers[code][n] = number
        atoms = [*([{f"_{group_of[n]}": 1}] if groups else ()), *_conjunction(condition, keys)]
        definition[action] = {
            "pri": n + 1,
            "count": 1,
            "all": [{"m": atoms[0] if len(atoms) == 1 else {"$and": atoms}}],
        }
    definition[SENTINEL] = {"pri": LOWEST_PRIORITY, "count": 1, "all": [{"m": {"_": 1}}]}
    _omit_keys(definition, keys)
    encoder = keys.encoder(groups)
    return RulesetDefinition(
        ruleset=json.dumps(definition),
        encoder=encoder,
        actions=actions,
        numbers=tuple(numbers.values()),
        certain=tuple(map(tuple, certain.values())),
        always=tuple(index for index, item in enumerate(rules) if item.when is None),
        canary=encoder.encode([*defaults(series), *(fact.default_in(series) for fact in REQUEST_VOCABULARY)]),
    )


def _place(number: int) -> int:
    """The place of a condition in the release's order: that of its rule, and ``cleared_at_startup`` after ``when``."""
    return 2 * number if number >= 0 else -2 * number - 1


def _groups(counts: Sequence[int]) -> list[int]:
    """The group of each condition, by its number of alternatives; ``-1`` if no groups are needed."""
    if sum(counts) <= MAX_UNGROUPED:
        return [-1] * len(counts)
    groups, group, size = [], 0, 0
    for count in counts:
        if size + count > GROUP_SIZE:
            group, size = group + 1, 0
        size += count
        groups.append(group)
    return groups


def _omit_keys(definition: Mapping[str, Any], keys: _Keys) -> None:
    """Omit a key from the fact for each value for which no atom on the key holds.

    A missing key makes every atom on it false. If all are false anyway, as for most values of most deployments, the key
    can be omitted.
    """
    tests: dict[str, list[tuple[Callable[[int, int], bool], int]]] = {}

    def collect(atom: Mapping[str, Any]) -> None:
        for word, rest in atom.items():
            if isinstance(rest, list):
                for part in rest:
                    collect(part)
            elif isinstance(rest, dict):
                for key, operand in rest.items():
                    tests.setdefault(key, []).append((COMPARISONS[word], operand))
            else:
                tests.setdefault(word, []).append((eq, rest))

    for rule in definition.values():
        collect(rule["all"][0]["m"])
    for column in keys.columns.values():
        own = tests.get(column.key, [])
        column.table.omit(lambda code, own=own: any(test(code, operand) for test, operand in own))  # type: ignore[misc]  # binds the loop's list


def fnv1a(name: str) -> int:
    """The 32-bit FNV-1a hash by which durable_rules identifies a property (``src/rules/json.c``)."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def check_collisions(names: Iterable[str]) -> None:
    """Check that the engine can tell all property names apart.

    Raises:
        EngineFailed: two names have the same hash, so one would hide the other.
    """
    seen: dict[int, str] = {}
    for name in names:
        other = seen.setdefault(fnv1a(name), name)
        if other != name:
            raise EngineFailed(f"the engine cannot tell the keys {other!r} and {name!r} apart; rename one")


@dataclass(slots=True)
class _Keys:
    """The engine's keys for a release's rules: one for each scalar fact and each question about a list."""

    conditions: Sequence[Condition]
    columns: dict[Any, Column] = field(default_factory=dict)
    codes: dict[str, dict[Any, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for condition in self.conditions:
            for leaf in leaves(condition):
                for name in _guards(leaf):
                    self.add_scalar(name)
                if _is_precomputed(leaf):
                    self.add_question(leaf)
                else:
                    self.add_scalar(leaf.fact, leaf)

    def add_scalar(self, name: str, leaf: Leaf | None = None) -> None:
        fact = FACTS_WITH_REQUEST[name]
        key = self.columns[name].key if name in self.columns else _key(len(self.columns))
        table: Table
        match fact.kind:
            case FactKind.CHOICE | FactKind.TEXT:
                codes = self.codes.setdefault(
                    name, {None: NULL_CODE, **{choice: FIRST_CODE + n for n, choice in enumerate(fact.choices)}}
                )
                if leaf is not None:
                    codes.setdefault(leaf.operand, FIRST_CODE + len(codes))
                table = CodeTable(key, codes, OTHER_CODE)
            case FactKind.VARIABLE:
                table = CodeTable(key, {None: UNSET, False: FALSE, True: TRUE}, MALFORMED)
            case FactKind.INTEGER:
                table = NumberTable(key)
            case _:
                table = CodeTable(key, {False: 0, True: 1}, 0)
        self.columns[name] = Column(key, INDEX[name], table)

    def add_question(self, leaf: Leaf) -> None:
        question = (leaf.fact, leaf.test, leaf.operand)
        if question not in self.columns:
            key = _key(len(self.columns))
            self.columns[question] = Column(key, leaf.index, _question_table(key, leaf))

    def key(self, name: Any) -> str:
        return self.columns[name].key

    def names(self) -> list[str]:
        return [column.key for column in self.columns.values()]

    def encoder(self, groups: int) -> FactEncoder:
        head = '{"id":1,"_":1' + "".join(f',"_{group}":1' for group in range(groups))
        return FactEncoder(head, self.columns.values())


def _key(number: int) -> str:
    """A short name, because half of the engine's time depends on the length of the fact's text."""
    letters = string.ascii_letters
    return letters[number] if number < len(letters) else f"{letters[number % len(letters)]}{number // len(letters)}"


def _guards(leaf: Leaf) -> tuple[str, ...]:
    """The objects whose presence must be tested for a leaf.

    There are none if the leaf does not hold for the default, which is the value below an absent object.
    """
    return ancestors(leaf.fact) if holds(leaf, FACTS_WITH_REQUEST[leaf.fact].default) else ()


def _question_table(key: str, leaf: Leaf) -> Table:
    fact = FACTS_WITH_REQUEST[leaf.fact]
    if leaf.test is Comparison.IN:
        return CodeTable(key, dict.fromkeys((None, *fact.choices), 0) | dict.fromkeys(leaf.operand, 1), 0)
    return ComparisonTable(key, leaf) if fact.kind in NUMBERS else QuestionTable(key, leaf)


def _is_precomputed(leaf: Leaf) -> bool:
    """Whether the leaf is evaluated here and not by the engine.

    So are membership, questions about a list, and comparisons of a number, which need not be whole.
    """
    return leaf.test is Comparison.IN or FACTS_WITH_REQUEST[leaf.fact].kind in {
        FactKind.TEXTS,
        FactKind.LIST,
        *NUMBERS,
    }


def _conjunction(condition: Condition, keys: _Keys) -> list[dict[str, Any]]:
    """The distinct atoms that must all hold: comparisons first, guards last.

    Guards nearly always hold, and the engine descends a level for each atom that holds.
    """
    parts = _conjuncts(condition)
    atoms = [
        atom
        for part in parts
        for atom in ([_alternatives(part, keys)] if isinstance(part, Or) else _comparison(part, keys))
    ]
    guards = [{keys.key(name): 1} for part in parts if isinstance(part, Leaf) for name in reversed(_guards(part))]
    distinct: list[dict[str, Any]] = []
    distinct.extend(atom for atom in (*atoms, *guards) if atom not in distinct)
    return distinct


def _conjuncts(condition: Condition) -> list[Leaf | Or]:
    """The parts of a condition that must all hold."""
    if isinstance(condition, And):
        return [part for inner in condition.parts for part in _conjuncts(inner)]
    assert not isinstance(condition, Ref)  # INVARIANT: the catalogue has resolved every named condition
    return [condition]


def _alternatives(condition: Or, keys: _Keys) -> dict[str, Any]:
    branches = []
    for part in condition.parts:
        atoms = _conjunction(part, keys)
        branches.append(atoms[0] if len(atoms) == 1 else {"$and": atoms})
    return branches[0] if len(branches) == 1 else {"$or": branches}


def _comparison(leaf: Leaf, keys: _Keys) -> list[dict[str, Any]]:
    if _is_precomputed(leaf):
        return [{keys.key((leaf.fact, leaf.test, leaf.operand)): 0 if leaf.negated else 1}]
    key = keys.key(leaf.fact)
    kind = FACTS_WITH_REQUEST[leaf.fact].kind
    match leaf.test:
        case Comparison.AT_LEAST:
            return [{"$lt" if leaf.negated else "$gte": {key: leaf.operand}}]
        case Comparison.PRESENT if kind is FactKind.PRESENCE:
            return [{key: 0 if leaf.negated else 1}]
        case Comparison.PRESENT:
            return [{key: NULL_CODE} if leaf.negated else {"$neq": {key: NULL_CODE}}]
        case Comparison.MALFORMED:
            code = MALFORMED
        case _ if kind is FactKind.VARIABLE:
            code = TRUE if leaf.operand else FALSE
        case _ if kind in {FactKind.CHOICE, FactKind.TEXT}:
            code = keys.codes[leaf.fact][leaf.operand]
        case _:
            code = int(leaf.operand)
    return [{"$neq": {key: code}} if leaf.negated else {key: code}]
