"""Changes of a condition in plain English: the comparisons that an edit adds, removes or replaces.

Two trees are compared by their parts; parts that both have are not repeated. This proves nothing; ``policy.proof``
finds the deployments that are decided differently.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policy.facts.vocabulary import FACTS_WITH_REQUEST, FactKind, ancestors
from policy.rules.conditions import And, Condition, Leaf, Or, Ref, leaves, uses
from policy.rules.operators import Comparison
from policy.rules.wording import is_presence, without_implied

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policy.facts.vocabulary import Fact
    from policy.rules.wording import Wording

LIST_PREDICATES = {
    (Comparison.IN, False): "is one of",
    (Comparison.IN, True): "is none of",
    (Comparison.HAS_ANY_OF, False): "has one of",
    (Comparison.HAS_ANY_OF, True): "has none of",
    (Comparison.HAS_OTHER_THAN, False): "has something other than",
    (Comparison.HAS_OTHER_THAN, True): "has nothing other than",
    (Comparison.FIRST_IS_IN, False): "begins with one of",
    (Comparison.FIRST_IS_IN, True): "begins with none of",
}
"""The predicate of each comparison with a list."""


def condition_changes(before: Condition | None, after: Condition | None, wording: Wording) -> list[str]:
    """A clause for each change of a condition; none if both conditions have the same parts."""
    if before is None or after is None:
        return [] if before is after else [_after_and_before(before, after, wording)]
    before, after = _canonical(before), _canonical(after)
    removed, added = _missing(before, after), _missing(after, before)
    if sentences := list(_changed_alternatives(removed, added, wording)):
        return sentences
    for new, old in _replacements(added, removed):
        sentences.append(_replaced(old, new, wording))
        added.remove(new)
        removed.remove(old)
    if added and removed:
        return [*sentences, _after_and_before(_conjunction(removed), _conjunction(added), wording)]
    if added:
        sentences.append(_added(_conjunction(added), before, wording))
    if removed:
        sentences.append(_removed(_conjunction(removed), after, wording))
    return sentences


def _after_and_before(before: Condition | None, after: Condition | None, wording: Wording) -> str:
    old, new = ("always" if each is None else f"only if {wording.condition(each)}" for each in (before, after))
    return f"{new}; before: {old}"


def _canonical(condition: Condition) -> Condition:
    """The condition in a canonical form, where it could be written in several ways."""
    match condition:
        case Leaf(fact, Comparison.IS, operand, negated) if FACTS_WITH_REQUEST[fact].kind is FactKind.BOOLEAN:
            return Leaf(fact, Comparison.IS, operand != negated, negated=False)
        case Leaf(fact, Comparison.IS, str(operand), negated):
            return Leaf(fact, Comparison.IN, (operand,), negated)
        case Ref():
            return replace(condition, line=0, column=0)
        case And(parts):
            flat = [_canonical(part) for part in parts]
            return And(tuple(inner for part in flat for inner in (part.parts if isinstance(part, And) else (part,))))
        case Or(parts):
            flat = [_canonical(part) for part in parts]
            return Or(tuple(inner for part in flat for inner in (part.parts if isinstance(part, Or) else (part,))))
        case _:
            return condition


def parts_key(condition: Condition | None) -> Any:
    """A key that is equal for conditions with the same parts, in any order and however they are written."""
    return None if condition is None else frozenset(map(_key, _conjuncts(_canonical(condition))))


def _key(condition: Condition) -> Any:
    match condition:
        case Leaf(fact, test, tuple(operand), negated):
            return fact, test, frozenset(operand), negated
        case And(parts) | Or(parts):
            return type(condition), frozenset(map(_key, parts))
        case _:
            return condition


def _conjuncts(condition: Condition) -> list[Condition]:
    """The parts that must all hold, including the presence of each object that contains a fact."""
    parts = condition.parts if isinstance(condition, And) else (condition,)
    above = [
        Leaf(name, Comparison.PRESENT, None, negated=False)
        for part in parts
        if isinstance(part, Leaf)
        for name in ancestors(part.fact)
    ]
    return list(dict.fromkeys([*above, *parts]))


def _missing(one: Condition, other: Condition) -> list[Condition]:
    """The parts of one condition that the other does not have."""
    known = {_key(part) for part in _conjuncts(other)}
    return without_implied(part for part in _conjuncts(one) if _key(part) not in known)


def _conjunction(parts: Sequence[Condition]) -> Condition:
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _changed_alternatives(removed: Sequence[Condition], added: Sequence[Condition], wording: Wording) -> Iterator[str]:
    """The added and removed alternatives, if both sides have an alternative in common."""
    if not removed or not added:
        return
    old, new = (_conjunction(parts) for parts in (removed, added))
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


def _replacements(added: Sequence[Condition], removed: Sequence[Condition]) -> list[tuple[Leaf, Leaf]]:
    """Pairs of a new and an old comparison of the same fact, preferably with the same operator."""
    left = [part for part in removed if isinstance(part, Leaf)]
    pairs = []
    for new in added:
        if isinstance(new, Leaf):
            same = [old for old in left if old.fact == new.fact]
            same.sort(key=lambda old, new=new: (old.test, old.negated) != (new.test, new.negated))  # type: ignore[misc]
            if same:
                left.remove(same[0])
                pairs.append((new, same[0]))
    return pairs


def _replaced(old: Leaf, new: Leaf, wording: Wording) -> str:
    fact = wording.show(new.fact)
    words = LIST_PREDICATES.get((new.test, new.negated))
    if words and (old.test, old.negated) == (new.test, new.negated) and _should_compare_values(old, new, wording):
        changes = [
            f"{name} {wording.values(values, ' and ')}"
            for name, values in (("added", _without(new, old)), ("removed", _without(old, new)))
            if values
        ]
        count = f"{len(new.operand)} values (before {len(old.operand)})"
        return f"only if {fact} {words} {count}: {', '.join(changes)}"
    return f"only if {fact} {wording.predicate(new)}; before: only if it {wording.predicate(old)}"


def _should_compare_values(old: Leaf, new: Leaf, wording: Wording) -> bool:
    """Whether two lists have values in common, and one is too long to be written in full."""
    return bool(set(old.operand) & set(new.operand)) and any(wording.is_long(each.operand) for each in (old, new))


def _without(one: Leaf, other: Leaf) -> list[str]:
    return [value for value in one.operand if value not in other.operand]


def _added(part: Condition, before: Condition, wording: Wording) -> str:
    text = f"only if {wording.condition(part)}"
    if not isinstance(part, Leaf) or _reads(before, part.fact):
        return text
    present = {each.fact for each in _conjuncts(before) if isinstance(each, Leaf) and is_presence(each)}
    known = all(name in present for name in ancestors(part.fact))
    return f"{text}; before: {_any_value(FACTS_WITH_REQUEST[part.fact]) if known else 'regardless of it'}"


def _removed(part: Condition, after: Condition, wording: Wording) -> str:
    if isinstance(part, Leaf) and not _reads(after, part.fact):
        return f"regardless of {wording.show(part.fact)}; before: only if it {wording.predicate(part)}"
    return f"no longer only if {wording.condition(part)}"


def _reads(condition: Condition, fact: str) -> bool:
    """Whether a condition reads a fact, or might through a named condition."""
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
