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
from policy.rules.conditions import And, Leaf, Or, holds
from policy.rules.operators import Comparison

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policy.facts.vocabulary import Fact
    from policy.rules.conditions import Condition

ANOTHER: Final = "Another"
CLASS_NAME: Final = re.compile(r"[A-Z]\w*(?:For[A-Z]\w*|Model)")
LARGEST: Final = 64
FEW: Final = (2, 3, 3, 4, 4, 5, 6, 8)

Facts = dict[str, Any]
"""Facts by flat names; a missing fact has its default, and a fact of an object makes the object present."""


def values_of(leaves: Iterable[Leaf], texts: Iterable[str], numbers: Iterable[int], code: str) -> dict[str, list[Any]]:
    """For each fact read by the leaves or the release's code, the non-default values that they distinguish."""
    asked: dict[str, list[Leaf]] = {}
    for leaf in leaves:
        asked.setdefault(leaf.fact, []).append(leaf)
    names = [text for text in texts if CLASS_NAME.fullmatch(text)]
    bounds = [number for number in numbers if number <= LARGEST]
    return {
        fact.name: values
        for fact in VOCABULARY
        if fact.name in asked or re.search(rf"\b{fact.name.rpartition('.')[2]}\b", code)
        if (
            values := [
                value for value in _values(fact, asked.get(fact.name, ()), names, bounds) if value != fact.default
            ]
        )
    }


def _values(fact: Fact, asked: Sequence[Leaf], names: Sequence[str], bounds: Sequence[int]) -> list[Any]:
    operands = [
        text for leaf in asked for text in (leaf.operand if isinstance(leaf.operand, tuple) else (leaf.operand,))
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
                for leaf in asked
                if leaf.test in {Comparison.AT_LEAST, Comparison.IS}
                for operand in (leaf.operand,)
                for step in (-1, 0, 1)
            }
            return sorted(number for number in near | set(bounds) if fact.least <= number)
        case FactKind.LIST:
            return [[], [ANOTHER]]
        case FactKind.TEXT:
            return [*dict.fromkeys(text for text in operands if text), ANOTHER]
    texts = [
        *dict.fromkeys([text for text in operands if text] + ([*names] if fact.name.endswith("architectures") else [])),
        ANOTHER,
    ]
    pairs = [[texts[0], ANOTHER], [ANOTHER, texts[0]], texts[:2]]
    return [[text] for text in texts] + [pair for pair in pairs if len(set(pair)) > 1] + ([[]] if fact.nullable else [])


def targeted(conditions: Iterable[Condition], values: Mapping[str, Sequence[Any]]) -> list[Facts]:
    """Facts that fulfil each condition by each alternative, and facts that fail in one leaf, if the values allow it."""
    ways = dict.fromkeys(near for condition in conditions for way in _ways(condition) for near in (way, *_near(way)))
    found = [facts for facts in (_fulfilling(way, values) for way in ways) if facts is not None]
    return list({repr(sorted(facts.items())): facts for facts in found}.values())


def _ways(condition: Condition) -> list[tuple[Leaf, ...]]:
    match condition:
        case Leaf():
            return [(condition,)]
        case And(parts):
            return [tuple(leaf for way in chosen for leaf in way) for chosen in product(*map(_ways, parts))]
        case Or(parts):
            return [way for part in parts for way in _ways(part)]
    raise TypeError(condition)  # INVARIANT: named conditions are resolved


def _near(way: tuple[Leaf, ...]) -> Iterator[tuple[Leaf, ...]]:
    for place, leaf in enumerate(way):
        yield (*way[:place], replace(leaf, negated=not leaf.negated), *way[place + 1 :])


def _fulfilling(way: Sequence[Leaf], values: Mapping[str, Sequence[Any]]) -> Facts | None:
    asked: dict[str, list[Leaf]] = {}
    for leaf in way:
        asked.setdefault(leaf.fact, []).append(leaf)
    facts: Facts = {}
    for name, own in asked.items():
        known = [FACTS[name].default, *values.get(name, ())]
        fits = [value for value in known if all(holds(leaf, _read(name, value)) for leaf in own)]
        if not fits:
            return None
        facts[name] = fits[0]
    return facts


def _read(name: str, value: Any) -> Any:
    if name == VARIABLE and isinstance(value, str):
        return parse_variable(value)
    return tuple(value) if isinstance(value, list) else value


def cases(
    values: Mapping[str, Sequence[Any]], targets: Sequence[Facts], usual: Sequence[Facts], count: int, seed: int
) -> Iterator[Facts]:
    """``count`` facts, each on one of ``usual``.

    Every value alone and those in ``targets`` come first, on each of ``usual``, then all pairs, then random ones.
    """
    return islice(_all(values, targets, usual, Random(seed)), count)  # noqa: S311  # not for security


def _all(
    values: Mapping[str, Sequence[Any]], targets: Sequence[Facts], usual: Sequence[Facts], random: Random
) -> Iterator[Facts]:
    yield from usual
    for base in usual:
        for name, own in values.items():
            yield from (overlaid(base, {name: value}) for value in own)
    yield from (overlaid(base, facts) for base in usual for facts in targets)
    drawn = [
        {one: value, other: another}
        for one, other in combinations(values, 2)
        for value in values[one]
        for another in values[other]
    ]
    random.shuffle(drawn)
    for number, stated in enumerate(drawn):
        yield overlaid(usual[number % len(usual)], stated)
    names = list(values)
    while True:
        chosen = random.sample(names, min(random.choice(FEW), len(names)))
        yield overlaid(random.choice(usual), {name: random.choice(values[name]) for name in chosen})


def overlaid(base: Facts, stated: Facts) -> Facts:
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


def whole(facts: Facts) -> Facts:
    """The same facts, with every object present that has a stated fact below it."""
    above = {name: True for fact in facts for name in ancestors(fact)}
    return {**facts, **above}
