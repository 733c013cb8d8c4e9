"""Generate the facts for comparing a release with the rules: all pairs of relevant values, then random ones.

Owns which values of a fact are relevant, and the order of the cases; the seed determines the rest.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations, islice, product
from random import Random
from typing import TYPE_CHECKING, Any, Final

from policy.facts.vocabulary import FACTS, VARIABLE, VOCABULARY, FactKind, ancestors, parse_variable
from policy.rules.conditions import And, Leaf, Or, holds, shares
from policy.rules.operators import Comparison

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policy.facts.vocabulary import Fact
    from policy.rules.conditions import Condition

OTHER_TEXT: Final = "Another"
CLASS_NAME: Final = re.compile(r"[A-Z]\w*(?:For[A-Z]\w*|Model)")
MAX_NUMBER: Final = 64
FACT_COUNTS: Final = (2, 3, 3, 4, 4, 5, 6, 8)

Facts = dict[str, Any]
"""Facts by flat names; a missing fact has its default, and a fact of an object makes the object present."""


def values_of(leaves: Iterable[Leaf], texts: Iterable[str], numbers: Iterable[int], code: str) -> dict[str, list[Any]]:
    """For each fact read by the leaves or the release's code, the non-default values that they distinguish."""
    by_fact: dict[str, list[Leaf]] = {}
    for leaf in leaves:
        by_fact.setdefault(leaf.fact, []).append(leaf)
    names = [text for text in texts if CLASS_NAME.fullmatch(text)]
    bounds = [number for number in numbers if number <= MAX_NUMBER]
    return {
        fact.name: values
        for fact in VOCABULARY
        if fact.name in by_fact or re.search(rf"\b{fact.name.rpartition('.')[2]}\b", code)
        if (
            values := [
                value for value in _values(fact, by_fact.get(fact.name, ()), names, bounds) if value != fact.default
            ]
        )
    }


def _values(fact: Fact, leaves: Sequence[Leaf], names: Sequence[str], bounds: Sequence[int]) -> list[Any]:
    operands = [
        text for leaf in leaves for text in (leaf.operand if isinstance(leaf.operand, tuple) else (leaf.operand,))
    ]
    match fact.kind:
        case FactKind.PRESENCE | FactKind.BOOLEAN:
            return [True, False]
        case FactKind.VARIABLE:
            return ["1", "0", "true"]
        case FactKind.CHOICE:
            return [*fact.choices, *([None] if fact.nullable else [])]
        case FactKind.INTEGER:
            near = {
                operand + step
                for leaf in leaves
                if leaf.test in {Comparison.AT_LEAST, Comparison.IS}
                for operand in (leaf.operand,)
                for step in (-1, 0, 1)
            }
            return sorted(number for number in near | set(bounds) if fact.least <= number)
        case FactKind.SHARE:
            return shares(operands)
        case FactKind.LIST:
            return [[], [OTHER_TEXT]]
        case FactKind.TEXT:
            return [*dict.fromkeys(text for text in operands if text), OTHER_TEXT]
    texts = [
        *dict.fromkeys([text for text in operands if text] + ([*names] if fact.name.endswith("architectures") else [])),
        OTHER_TEXT,
    ]
    pairs = [[texts[0], OTHER_TEXT], [OTHER_TEXT, texts[0]], texts[:2]]
    return [[text] for text in texts] + [pair for pair in pairs if len(set(pair)) > 1] + ([[]] if fact.nullable else [])


def targeted_facts(conditions: Iterable[Condition], values: Mapping[str, Sequence[Any]]) -> list[Facts]:
    """Facts that satisfy each alternative of each condition, and near misses of it, where the values allow it."""
    alternatives = dict.fromkeys(
        near
        for condition in conditions
        for alternative in _alternatives(condition)
        for near in (alternative, *_near_misses(alternative))
    )
    found = [facts for facts in (_satisfying(alternative, values) for alternative in alternatives) if facts is not None]
    return list({repr(sorted(facts.items())): facts for facts in found}.values())


def _alternatives(condition: Condition) -> list[tuple[Leaf, ...]]:
    match condition:
        case Leaf():
            return [(condition,)]
        case And(parts):
            return [
                tuple(leaf for alternative in chosen for leaf in alternative)
                for chosen in product(*map(_alternatives, parts))
            ]
        case Or(parts):
            return [alternative for part in parts for alternative in _alternatives(part)]
    raise TypeError(condition)  # INVARIANT: named conditions are resolved


def _near_misses(alternative: tuple[Leaf, ...]) -> Iterator[tuple[Leaf, ...]]:
    for index, leaf in enumerate(alternative):
        yield (*alternative[:index], replace(leaf, negated=not leaf.negated), *alternative[index + 1 :])


def _satisfying(alternative: Sequence[Leaf], values: Mapping[str, Sequence[Any]]) -> Facts | None:
    by_fact: dict[str, list[Leaf]] = {}
    for leaf in alternative:
        by_fact.setdefault(leaf.fact, []).append(leaf)
    facts: Facts = {}
    for name, own in by_fact.items():
        known = [FACTS[name].default, *values.get(name, ())]
        fits = [value for value in known if all(holds(leaf, _rule_value(name, value)) for leaf in own)]
        if not fits:
            return None
        facts[name] = fits[0]
    return facts


def _rule_value(name: str, value: Any) -> Any:
    if name == VARIABLE and isinstance(value, str):
        return parse_variable(value)
    return tuple(value) if isinstance(value, list) else value


def cases(
    values: Mapping[str, Sequence[Any]], targets: Sequence[Facts], bases: Sequence[Facts], count: int, seed: int
) -> Iterator[Facts]:
    """``count`` sets of facts, each overlaid on one of ``bases``.

    On each base, every value alone and the ``targets`` come first, then all pairs, then random combinations.
    """
    return islice(_all_cases(values, targets, bases, Random(seed)), count)  # noqa: S311  # not for security


def _all_cases(
    values: Mapping[str, Sequence[Any]], targets: Sequence[Facts], bases: Sequence[Facts], random: Random
) -> Iterator[Facts]:
    yield from bases
    for base in bases:
        for name, own in values.items():
            yield from (overlay(base, {name: value}) for value in own)
    yield from (overlay(base, facts) for base in bases for facts in targets)
    pairs = [
        {one: value, other: another}
        for one, other in combinations(values, 2)
        for value in values[one]
        for another in values[other]
    ]
    random.shuffle(pairs)
    for number, stated in enumerate(pairs):
        yield overlay(bases[number % len(bases)], stated)
    names = list(values)
    while True:
        chosen = random.sample(names, min(random.choice(FACT_COUNTS), len(names)))
        yield overlay(random.choice(bases), {name: random.choice(values[name]) for name in chosen})


def overlay(base: Facts, stated: Facts) -> Facts:
    """The base with facts overlaid; an absent object removes all facts below it that are not stated."""
    facts = base | stated
    gone = [
        name
        for name, value in stated.items()
        if value is False and any(below.startswith(f"{name}.") for below in facts)
    ]
    return {
        name: value
        for name, value in facts.items()
        if name in stated or not any(name.startswith(f"{above}.") for above in gone)
    }


def with_objects(facts: Facts) -> Facts:
    """The facts, and the objects that are present because a fact below them is stated."""
    above = {name: True for fact in facts for name in ancestors(fact)}
    return {**facts, **above}
