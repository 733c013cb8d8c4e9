"""Parse a rule's ``when``: ``all``, ``any``, ``not`` and the operators become a tree of comparisons.

Owns the syntax of conditions, which is checked against the vocabulary; every fault is added to the reader. Negations
are pushed down to the leaves.

A map means *and*; a bare value means ``is``; several operators on one fact mean *and*.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from policy.facts.vocabulary import FACTS, Fact, FactKind
from policy.messages import as_written, listed, quoted
from policy.parser.fields import described
from policy.rules.conditions import And, Condition, Leaf, Or, Ref, leaves, uses
from policy.rules.operators import MEMBERS, OPERATORS, VALUES, WORDS, Operator, operators_for
from policy.rules.suggestions import suggest_fact, suggest_operator, suggest_value, yaml_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.parser.fields import FieldReader
    from policy.parser.yamltree import YamlNode

MAX_LEAVES: Final = 64
EXAMPLE: Final = "`model_config.is_moe: true`"


def read_condition(node: YamlNode, reader: FieldReader, facts: Mapping[str, Fact] = FACTS) -> Condition | None:
    """The tree of a ``when``, or ``None`` for the word ``always``; faults are added to the reader.

    ``facts`` are those that the condition may be about.
    """
    if node.value == "always":
        return None
    if not isinstance(node.value, dict):
        found = node.value
        if isinstance(found, str) and found in facts:
            operators = listed(operators_for(facts[found]))
            advice = f"write {quoted(f'{found}: …')} with a value or one of its operators: {operators}"
        else:
            advice = f"write a map of facts, such as {EXAMPLE}, or `always`"
        reader.fault(node, f"expected a condition, got {described(node)}; {advice}")
        return And(())
    condition = _read_map(node, reader, facts, negated=False)
    if len(leaves(condition)) + len(uses(condition)) > MAX_LEAVES:
        reader.fault(node, f"more than {MAX_LEAVES} comparisons in one condition; split the rule")
        return And(())
    return condition


def _read_map(node: YamlNode, reader: FieldReader, facts: Mapping[str, Fact], *, negated: bool) -> Condition:
    parts: list[Condition] = []
    assert isinstance(node.value, dict)
    if not node.value:
        reader.fault(node, "an empty condition; write `always` if the rule has none")
    for key, child in node.value.items():
        match key:
            case "all" | "any":
                parts.append(_read_list(key, child, reader, facts, negated=negated))
            case "not":
                if isinstance(child.value, dict):
                    parts.append(_read_map(child, reader, facts, negated=not negated))
                else:
                    advice = "write a map of facts, or `not: {any: […]}` for a list of conditions"
                    reader.fault(child, f"expected a condition under `not`, got {described(child)}; {advice}")
            case "uses":
                if isinstance(child.value, str):
                    parts.append(Ref(child.value, negated, child.line, child.column))
                else:
                    reader.fault(
                        child,
                        f"expected the name of a condition, got {described(child)}; write one name, without a list",
                    )
            case _:
                parts.extend(_read_fact(key, child, reader, facts, negated=negated))
    return _join(parts, either=negated)


def _read_list(
    word: str, node: YamlNode, reader: FieldReader, facts: Mapping[str, Fact], *, negated: bool
) -> Condition:
    if not isinstance(node.value, list) or not node.value:
        advice = f"begin each with a dash, such as `- {EXAMPLE[1:]}"
        reader.fault(node, f"expected a list of conditions under `{word}`, got {described(node)}; {advice}")
        return And(())
    parts = []
    for item in node.value:
        if isinstance(item.value, dict):
            parts.append(_read_map(item, reader, facts, negated=negated))
        else:
            reader.fault(item, f"expected a condition, got {described(item)}; write a map of facts, such as {EXAMPLE}")
    return _join(parts, either=(word == "any") != negated)


def _join(parts: list[Condition], *, either: bool) -> Condition:
    if len(parts) == 1:
        return parts[0]
    return Or(tuple(parts)) if either else And(tuple(parts))


def _read_fact(
    name: str, node: YamlNode, reader: FieldReader, facts: Mapping[str, Fact], *, negated: bool
) -> list[Condition]:
    fact = facts.get(name)
    if fact is None:
        reader.fault(
            node,
            f"unknown fact {quoted(name)}{suggest_fact(name, node.plain())}; "
            "`GET /v1/facts` and docs/facts.md list them",
            key=True,
        )
        return []
    if not isinstance(node.value, dict):
        leaf = _read_bare(fact, node, reader, negated=negated)
        return [leaf] if leaf else []
    if not node.value:
        reader.fault(node, f"no operator for `{name}`; its operators are {listed(operators_for(fact))}")
    found = [_read_operator(fact, word, child, reader, negated=negated) for word, child in node.value.items()]
    parts: list[Condition] = [leaf for leaf in found if leaf]
    return [_join(parts, either=True)] if negated and len(parts) > 1 else parts


def _read_bare(fact: Fact, node: YamlNode, reader: FieldReader, *, negated: bool) -> Leaf | None:
    word = node.value
    if word in WORDS and isinstance(word, str):
        if word not in operators_for(fact):
            meant = suggest_value(fact, word)
            reader.fault(
                node, f"`{fact.name}` cannot be {quoted(word)}; its operators are {listed(operators_for(fact))}{meant}"
            )
            return None
        operator = OPERATORS[word]
        return Leaf(fact.name, operator.test, None, operator.negated != negated)
    if fact.kind not in VALUES:
        reader.fault(
            node,
            f"`{fact.name}` has no value to compare with {quoted(node.plain())}; "
            f"its operators are {listed(operators_for(fact))}{suggest_value(fact, node.plain())}",
        )
        return None
    return _with_operand(fact, OPERATORS["is"], node, reader, negated=negated)


def _read_operator(fact: Fact, word: str, node: YamlNode, reader: FieldReader, *, negated: bool) -> Leaf | None:
    operator = OPERATORS.get(word)
    if operator is None or word not in operators_for(fact):
        operators, meant = listed(operators_for(fact)), suggest_operator(fact, word, node.plain())
        reader.fault(
            node, f"`{fact.name}` has no operator {quoted(word)}; its operators are {operators}{meant}", key=True
        )
        return None
    if operator.takes == "nothing":
        if node.value is not True:
            reader.fault(
                node,
                f"expected `true` for `{word}`, got {quoted(node.plain())}; write `not:` around it for the reverse",
            )
            return None
        return Leaf(fact.name, operator.test, None, operator.negated != negated)
    return _with_operand(fact, operator, node, reader, negated=negated)


def _with_operand(fact: Fact, operator: Operator, node: YamlNode, reader: FieldReader, *, negated: bool) -> Leaf | None:
    operand: Any = node.plain()
    if operator.takes == "values":
        operand = _read_values(fact, node, reader)
        if operand is None:
            return None
    elif not _comparable(fact, operand):
        found = quoted(operand) if fact.kind in MEMBERS else as_written(operand)
        reader.fault(
            node,
            f"{found} is not legal for `{fact.name}`; legal: {_legal(fact)}{_or_words(fact)}"
            f"{suggest_value(fact, operand)}",
        )
        return None
    return Leaf(fact.name, operator.test, operand, operator.negated != negated)


def _legal(fact: Fact) -> str:
    """The values with which a rule can compare a fact; ``null`` is tested with words such as ``absent``."""
    return listed(["true", "false"]) if fact.kind is FactKind.VARIABLE else replace(fact, nullable=False).legal


def _or_words(fact: Fact) -> str:
    words = [word for word in operators_for(fact) if word in WORDS]
    return f", or the words {listed(words)}" if words else ""


def _comparable(fact: Fact, operand: object) -> bool:
    if fact.kind is FactKind.VARIABLE:
        return type(operand) is bool
    return fact.admits(operand)


def _read_values(fact: Fact, node: YamlNode, reader: FieldReader) -> tuple[str, ...] | None:
    if not isinstance(node.value, list) or not node.value:
        single = isinstance(node.value, str | int | float)
        advice = f"write {quoted(f'[{yaml_text(node.value)}]')}" if single else "write them as `[VALUE, VALUE]`"
        reader.fault(node, f"expected a list of values for `{fact.name}`, got {described(node)}; {advice}")
        return None
    values: dict[str, None] = {}
    for item in node.value:
        legal = type(item.value) is str and (not fact.choices or item.value in fact.choices)
        if not legal:
            reader.fault(
                item,
                f"{quoted(item.plain())} is not legal for `{fact.name}`; "
                f"legal: {listed(fact.choices) if fact.choices else 'texts'}{suggest_value(fact, item.plain())}",
            )
        elif item.value in values:
            reader.fault(item, f"duplicate value {quoted(item.plain())}; keep one")
        else:
            values[str(item.value)] = None
    return tuple(values)
