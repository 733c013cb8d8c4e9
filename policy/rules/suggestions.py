"""Suggestions for words that the rule language does not have, as the last part of a message.

Owns the choice between a word with the same meaning (``synonyms``) and a similar one. A suggestion shows the text to
write in the file; it is empty if nothing fits.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from policy.facts.facts import TREE
from policy.facts.vocabulary import FACTS, Fact, FactKind
from policy.messages import listed, nearest, quoted
from policy.parser.fields import MIN_SIMILARITY
from policy.rules import synonyms
from policy.rules.operators import OPERATORS, operators_for

if TYPE_CHECKING:
    from collections.abc import Collection

COMPARISON: Final = re.compile(r"\s*(>=|<=|==|!=|=|>|<)\s*(\S+)\s*")
RESERVED_TEXTS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null"})
"""Texts that YAML parses as a boolean or ``null`` unless they are quoted."""
PLAIN_TEXT: Final = re.compile(r"[A-Za-z_][\w./-]*")
SEPARATORS: Final = re.compile("[-_ ]+")
NUMBER: Final = re.compile(r"[0-9]{1,10}")
BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1", "present"), "true"),
    **dict.fromkeys(("false", "no", "off", "0", "absent"), "false"),
}
KEYWORDS: Final = ("all", "any", "not", "uses")
RUNNERS: Final = ("v1", "v2")


def similar(word: str, known: Collection[str]) -> str:
    """``; did you mean `x`?`` for a misspelt word, or one with another case or other separators."""
    same = {_normalized(name): name for name in known}.get(_normalized(word))
    if same is not None:
        return f"; did you mean {quoted(same)}?"
    runner = next((end for end in RUNNERS if word.endswith(end)), None)  # never suggest the other runner
    return nearest(
        word, [name for name in known if runner is None or not name.endswith(_other(runner))], MIN_SIMILARITY
    )


def _normalized(word: str) -> str:
    return SEPARATORS.sub("-", word.strip().lower())


def _other(runner: str) -> str:
    return RUNNERS[1 - RUNNERS.index(runner)]


def suggest_effect(word: str, known: Collection[str]) -> str:
    """The suggestion for an effect that the layer does not have."""
    same = similar(word, known)
    meant = synonyms.EFFECTS.get(_normalized(word))
    return (
        f"; did you mean {quoted(meant)}?" if meant in known and _normalized(word) not in known and not same else same
    )


def suggest_name(name: str, others: Collection[str] = ()) -> str:
    """The suggestion for an unknown fact: the one that a flag sets, one that ends with the name, or a similar one."""
    meant = _fact_of(name)
    return f"; did you mean {quoted(meant)}?" if meant else similar(name, [*FACTS, *others])


def _fact_of(name: str) -> str | None:
    """The fact that a flag sets, or the outermost fact that ends with the name."""
    plain = _as_name(name)
    same = [fact for fact in FACTS if fact.rpartition(".")[2].lower() == plain]
    outermost = min(same, key=lambda fact: fact.count("."), default=None)
    return synonyms.FLAGS.get(plain) or synonyms.OBJECTS.get(plain) or outermost


def _as_name(flag: str) -> str:
    """A flag as a field name: without dashes in front, and with underscores."""
    return flag.strip().lstrip("-").replace("-", "_").lower()


def suggest_given(name: str, value: Any) -> str:
    """The suggestion for an unknown field in a case's ``given``, which is nested as in a request."""
    fact = FACTS.get(name) or FACTS.get(_fact_of(name) or "")
    if fact is None:
        return similar(name, TREE.members)
    text = "{}" if fact.kind is FactKind.PRESENCE else yaml_text(value)
    first, *parts = fact.name.split(".")
    for part in reversed(parts):
        text = f"{{{part}: {text}}}"
    return f"; write {quoted(f'{first}: {text}')}"


def suggest_fact(name: str, value: Any) -> str:
    """The suggestion for an unknown name in a condition: a keyword, the fact that a flag sets, or a similar fact."""
    plain = _as_name(name)
    word = synonyms.CONDITIONS.get(plain)
    if word is not None:
        return f"; did you mean {quoted(word)}?"
    flag = synonyms.FLAGS.get(plain)
    if flag is not None:
        return f"; vLLM's flag sets the fact {quoted(flag)}: write {quoted(_condition(FACTS[flag], value))}"
    inside = [fact for fact in FACTS if fact.startswith(f"{name}.")]
    if inside:
        return f"; write its facts with dots, one per line: {listed(inside)}"
    return suggest_name(name, KEYWORDS)


def _condition(fact: Fact, value: Any) -> str:
    """A condition on a fact as YAML, with the given value if it is legal."""
    if fact.kind is FactKind.PRESENCE:
        return f"{fact.name}: present"
    is_legal = value.keys() <= set(operators_for(fact)) if isinstance(value, dict) else fact.admits(value)
    return f"{fact.name}: {yaml_text(value) if is_legal else '…'}"


def suggest_operator(fact: Fact, word: str, operand: Any) -> str:
    """The suggestion for an operator that a fact does not have, with the operand."""
    known = operators_for(fact)
    plain = SEPARATORS.sub("_", word.strip().lower())
    if "at_least" in known and plain in synonyms.LOWER_BOUNDS:
        return f"; write {quoted(f'{fact.name}: {{at_least: {_increased(operand, synonyms.LOWER_BOUNDS[plain])}}}')}"
    if "at_least" in known and plain in synonyms.UPPER_BOUNDS:
        limit = _increased(operand, synonyms.UPPER_BOUNDS[plain])
        return f"; write {quoted(f'not: {{{fact.name}: {{at_least: {limit}}}}}')}"
    meant = next((operator for operator in synonyms.OPERATORS.get(plain, ()) if operator in known), None)
    if meant is None:
        inside = f"{fact.name}.{word}"
        if inside in FACTS:
            return f"; write the fact with dots: {quoted(f'{inside}: {yaml_text(operand)}')}"
        return similar(word, known)
    return f"; write {quoted(comparison_text(fact, meant, operand))}"


def suggest_value(fact: Fact, value: Any) -> str:
    """The suggestion for a value with which a fact cannot be compared."""
    known = operators_for(fact)
    match value:
        case list():
            return _suggest_list(fact, value, known)
        case None if "absent" in known:
            return f"; write {quoted(comparison_text(fact, 'absent', None))}"
        case bool() if fact.kind is FactKind.PRESENCE:
            return f"; write {quoted(comparison_text(fact, 'present' if value else 'absent', None))}"
        case str() | int() if fact.kind in {FactKind.BOOLEAN, FactKind.VARIABLE}:
            meant = BOOLEANS.get(str(value).strip().lower())
            without = ", without quotes" if value == meant else ""
            return f"; write {quoted(f'{fact.name}: {meant}')}{without}" if meant else ""
        case str() if fact.kind is FactKind.INTEGER:
            if NUMBER.fullmatch(value.strip()):
                return f"; write {quoted(f'{fact.name}: {value.strip()}')}, without quotes"
            return suggest_comparison(fact, value)
        case str() if fact.choices:
            return similar(value, fact.choices)
        case str() if "has_any_of" in known:
            return f"; write {quoted(comparison_text(fact, 'has_any_of', value))}"
        case str():
            return similar(value, known)
    return ""


def _suggest_list(fact: Fact, values: list[Any], known: Collection[str]) -> str:
    operator = next((operator for operator in synonyms.OPERATORS["in"] if operator in known), None)
    if operator is not None:
        return f"; write {quoted(comparison_text(fact, operator, values))}"
    return "; write one value, or each of them as a separate condition under `any`"


def suggest_comparison(fact: Fact, text: str) -> str:
    """The suggestion for a comparison written as a text, such as ``>1``."""
    found = COMPARISON.fullmatch(text)
    if found is None:
        return ""
    return suggest_operator(fact, found[1], int(found[2]) if NUMBER.fullmatch(found[2]) else found[2])


def comparison_text(fact: Fact, operator: str, operand: Any) -> str:
    """A comparison as YAML."""
    match OPERATORS[operator].takes:
        case "nothing":
            return f"{fact.name}: {operator}"
        case "values":
            operand = operand if isinstance(operand, list) else [operand]
            return f"{fact.name}: {{{operator}: {yaml_text(operand)}}}"
        case _ if operator == "is":
            return f"{fact.name}: {yaml_text(operand)}"
        case _:
            return f"{fact.name}: {{{operator}: {yaml_text(operand)}}}"


def yaml_text(value: Any) -> str:
    """A value as YAML, with quotes only where needed."""
    if isinstance(value, str) and PLAIN_TEXT.fullmatch(value) and value.lower() not in RESERVED_TEXTS:
        return value
    if isinstance(value, list):
        return f"[{', '.join(map(yaml_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {yaml_text(item)}' for key, item in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _increased(operand: Any, more: int) -> str:
    if type(operand) is int:
        return str(operand + more)
    return "NUMBER" if more == 0 else "NUMBER + 1"
