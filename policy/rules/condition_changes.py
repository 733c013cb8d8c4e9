"""What an edit changes in a condition, in plain English: the comparisons that it adds, removes or replaces.

A general comparison of two trees, by the comparisons that both have: these are not repeated. It does not prove
anything; ``policy.proof`` finds the deployments that are decided differently.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policy.facts.vocabulary import FACTS, FactKind, ancestors
from policy.rules.conditions import And, Condition, Leaf, Or, Ref, leaves, uses
from policy.rules.operators import Comparison
from policy.rules.wording import is_presence, without_implied

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policy.facts.vocabulary import Fact
    from policy.rules.wording import Wording

ONE_OF = {
    (Comparison.IN, False): "is one of",
    (Comparison.IN, True): "is none of",
    (Comparison.HAS_ANY_OF, False): "has one of",
    (Comparison.HAS_ANY_OF, True): "has none of",
    (Comparison.HAS_OTHER_THAN, False): "has something other than",
    (Comparison.HAS_OTHER_THAN, True): "has nothing other than",
    (Comparison.FIRST_IS_IN, False): "begins with one of",
    (Comparison.FIRST_IS_IN, True): "begins with none of",
}
"""The words of each comparison with a list."""


def condition_changes(before: Condition | None, after: Condition | None, wording: Wording) -> list[str]:
    """A sentence for each change of a condition; none if both conditions have the same parts."""
    if before is None or after is None:
        return [] if before is after else [_whole(before, after, wording)]
    before, after = _uniform(before), _uniform(after)
    gone, come = _missing(before, after), _missing(after, before)
    if sentences := list(_changed_alternatives(gone, come, wording)):
        return sentences
    for new, old in _replacements(come, gone):
        sentences.append(_replaced(old, new, wording))
        come.remove(new)
        gone.remove(old)
    if come and gone:
        return [*sentences, _whole(_all(gone), _all(come), wording)]
    if come:
        sentences.append(_added(_all(come), before, wording))
    if gone:
        sentences.append(_removed(_all(gone), after, wording))
    return sentences


def _whole(before: Condition | None, after: Condition | None, wording: Wording) -> str:
    old, new = ("always" if each is None else f"only if {wording.condition(each)}" for each in (before, after))
    return f"{new}; before: {old}"


def _uniform(condition: Condition) -> Condition:
    """The same condition, in which what can be written in two ways is written in one."""
    match condition:
        case Leaf(fact, Comparison.IS, operand, negated) if FACTS[fact].kind is FactKind.BOOLEAN:
            return Leaf(fact, Comparison.IS, operand != negated, negated=False)
        case Leaf(fact, Comparison.IS, str(operand), negated):
            return Leaf(fact, Comparison.IN, (operand,), negated)
        case Ref():
            return replace(condition, line=0, column=0)
        case And(parts):
            flat = [_uniform(part) for part in parts]
            return And(tuple(inner for part in flat for inner in (part.parts if isinstance(part, And) else (part,))))
        case Or(parts):
            flat = [_uniform(part) for part in parts]
            return Or(tuple(inner for part in flat for inner in (part.parts if isinstance(part, Or) else (part,))))
        case _:
            return condition


def parts_key(condition: Condition | None) -> Any:
    """What is equal for conditions with the same parts, in any order and however they are written."""
    return None if condition is None else frozenset(map(_key, _conjuncts(_uniform(condition))))


def _key(condition: Condition) -> Any:
    match condition:
        case Leaf(fact, test, tuple(operand), negated):
            return fact, test, frozenset(operand), negated
        case And(parts) | Or(parts):
            return type(condition), frozenset(map(_key, parts))
        case _:
            return condition


def _conjuncts(condition: Condition) -> list[Condition]:
    """The parts that must all hold, among them the presence of every object above a fact."""
    parts = condition.parts if isinstance(condition, And) else (condition,)
    above = [
        Leaf(name, Comparison.PRESENT, None, negated=False)
        for part in parts
        if isinstance(part, Leaf)
        for name in ancestors(part.fact)
    ]
    return list(dict.fromkeys([*above, *parts]))


def _missing(one: Condition, other: Condition) -> list[Condition]:
    """The parts of a condition that another one does not have."""
    known = {_key(part) for part in _conjuncts(other)}
    return without_implied(part for part in _conjuncts(one) if _key(part) not in known)


def _all(parts: Sequence[Condition]) -> Condition:
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _changed_alternatives(gone: Sequence[Condition], come: Sequence[Condition], wording: Wording) -> Iterator[str]:
    """The changed alternatives, if the parts share one."""
    if not gone or not come:
        return
    old, new = (_all(parts) for parts in (gone, come))
    before, after = (
        {_key(part): part for part in (each.parts if isinstance(each, Or) else (each,))} for each in (old, new)
    )
    if not before.keys() & after.keys():
        return
    for key, part in after.items():
        if key not in before:
            yield f"also if {wording.condition(part)}"
    for key, part in before.items():
        if key not in after:
            yield f"no longer if {wording.condition(part)}"


def _replacements(come: Sequence[Condition], gone: Sequence[Condition]) -> list[tuple[Leaf, Leaf]]:
    """New and old comparisons of one fact, those of the same kind first."""
    left = [part for part in gone if isinstance(part, Leaf)]
    pairs = []
    for new in come:
        if isinstance(new, Leaf):
            same = [old for old in left if old.fact == new.fact]
            same.sort(key=lambda old, new=new: (old.test, old.negated) != (new.test, new.negated))  # type: ignore[misc]
            if same:
                left.remove(same[0])
                pairs.append((new, same[0]))
    return pairs


def _replaced(old: Leaf, new: Leaf, wording: Wording) -> str:
    fact = wording.show(new.fact)
    words = ONE_OF.get((new.test, new.negated))
    if words and (old.test, old.negated) == (new.test, new.negated) and _is_better_compared(old, new, wording):
        changes = [
            f"{name} {wording.values(values, ' and ')}"
            for name, values in (("added", _without(new, old)), ("removed", _without(old, new)))
            if values
        ]
        count = f"{len(new.operand)} values (before {len(old.operand)})"
        return f"only if {fact} {words} {count}: {', '.join(changes)}"
    return f"only if {fact} {wording.predicate(new)}; before: only if it {wording.predicate(old)}"


def _is_better_compared(old: Leaf, new: Leaf, wording: Wording) -> bool:
    """Whether two lists have common values and are too long to be both written out."""
    return bool(set(old.operand) & set(new.operand)) and any(wording.is_long(each.operand) for each in (old, new))


def _without(one: Leaf, other: Leaf) -> list[str]:
    return [value for value in one.operand if value not in other.operand]


def _added(part: Condition, before: Condition, wording: Wording) -> str:
    text = f"only if {wording.condition(part)}"
    if not isinstance(part, Leaf) or _reads(before, part.fact):
        return text
    present = {each.fact for each in _conjuncts(before) if isinstance(each, Leaf) and is_presence(each)}
    known = all(name in present for name in ancestors(part.fact))
    return f"{text}; before: {_any_value(FACTS[part.fact]) if known else 'regardless of it'}"


def _removed(part: Condition, after: Condition, wording: Wording) -> str:
    if isinstance(part, Leaf) and not _reads(after, part.fact):
        return f"regardless of {wording.show(part.fact)}; before: only if it {wording.predicate(part)}"
    return f"no longer only if {wording.condition(part)}"


def _reads(condition: Condition, fact: str) -> bool:
    """Whether a condition reads a fact, or could, by a named condition."""
    return bool(uses(condition)) or any(leaf.fact == fact for leaf in leaves(condition))


def _any_value(fact: Fact) -> str:
    match fact.kind:
        case FactKind.BOOLEAN:
            return "true or false"
        case FactKind.PRESENCE:
            return "present or absent"
        case FactKind.VARIABLE:
            return "set or not"
        case _:
            return "any or none" if fact.nullable else "any"
