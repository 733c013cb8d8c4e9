"""What an author meant: the end of a message about a word that the rule language does not have.

Owns the choice between a word of the same meaning (``synonyms``) and a similar one. A suggestion is written as it would
stand in the file; if nothing fits, there is none.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from policy.facts.facts import TREE
from policy.facts.vocabulary import FACTS, Fact, FactKind
from policy.messages import listed, nearest, quoted
from policy.parser.fields import CLOSE
from policy.rules import synonyms
from policy.rules.operators import OPERATORS, operators_for

if TYPE_CHECKING:
    from collections.abc import Collection

COMPARISON: Final = re.compile(r"\s*(>=|<=|==|!=|=|>|<)\s*(\S+)\s*")
RESERVED: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null"})
"""Texts that YAML takes for a boolean or nothing if they have no quotes."""
PLAIN: Final = re.compile(r"[A-Za-z_][\w./-]*")
SEPARATORS: Final = re.compile("[-_ ]+")
NUMBER: Final = re.compile(r"[0-9]{1,10}")
BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1", "present"), "true"),
    **dict.fromkeys(("false", "no", "off", "0", "absent"), "false"),
}
WORDS: Final = ("all", "any", "not", "uses")
RUNNERS: Final = ("v1", "v2")


def similar(word: str, known: Collection[str]) -> str:
    """``; did you mean `x`?`` for a misspelt word, also one in other case or with other separators."""
    same = {_plain(name): name for name in known}.get(_plain(word))
    if same is not None:
        return f"; did you mean {quoted(same)}?"
    runner = next((end for end in RUNNERS if word.endswith(end)), None)  # the other runner is never what was meant
    return nearest(word, [name for name in known if runner is None or not name.endswith(_other(runner))], CLOSE)


def _plain(word: str) -> str:
    return SEPARATORS.sub("-", word.strip().lower())


def _other(runner: str) -> str:
    return RUNNERS[1 - RUNNERS.index(runner)]


def effect_meant(word: str, known: Collection[str]) -> str:
    """The suggestion for an effect that the layer does not have."""
    same = similar(word, known)
    meant = synonyms.EFFECTS.get(_plain(word))
    return f"; did you mean {quoted(meant)}?" if meant in known and _plain(word) not in known and not same else same


def name_meant(name: str, others: Collection[str] = ()) -> str:
    """The suggestion for an unknown fact: the one that a flag sets, one of that name in an object, or a similar one."""
    meant = _fact_of(name)
    return f"; did you mean {quoted(meant)}?" if meant else similar(name, [*FACTS, *others])


def _fact_of(name: str) -> str | None:
    """The fact that a flag sets, or that has this name in its object: the outermost, if there are several."""
    plain = _as_name(name)
    same = [fact for fact in FACTS if fact.rpartition(".")[2].lower() == plain]
    outermost = min(same, key=lambda fact: fact.count("."), default=None)
    return synonyms.FLAGS.get(plain) or synonyms.OBJECTS.get(plain) or outermost


def _as_name(flag: str) -> str:
    """A flag as the name of a field: without its dashes."""
    return flag.strip().lstrip("-").replace("-", "_").lower()


def given_meant(name: str, value: Any) -> str:
    """The suggestion for an unknown name among the facts of a case, which are nested as in a request."""
    fact = FACTS.get(name) or FACTS.get(_fact_of(name) or "")
    if fact is None:
        return similar(name, TREE.members)
    text = "{}" if fact.kind is FactKind.PRESENCE else shown(value)
    first, *parts = fact.name.split(".")
    for part in reversed(parts):
        text = f"{{{part}: {text}}}"
    return f"; write {quoted(f'{first}: {text}')}"


def fact_meant(name: str, value: Any) -> str:
    """The suggestion for an unknown name in a condition: a word, the fact that a flag sets, or a fact of that name."""
    plain = _as_name(name)
    word = synonyms.CONDITIONS.get(plain)
    if word is not None:
        return f"; did you mean {quoted(word)}?"
    flag = synonyms.FLAGS.get(plain)
    if flag is not None:
        return f"; vLLM's flag sets the fact {quoted(flag)}: write {quoted(_condition(FACTS[flag], value))}"
    inside = [fact for fact in FACTS if fact.startswith(f"{name}.")]
    if inside:
        return f"; write its facts with dots, one a line: {listed(inside)}"
    return name_meant(name, WORDS)


def _condition(fact: Fact, value: Any) -> str:
    """A condition on a fact as it is written, with the value that was given if it fits."""
    if fact.kind is FactKind.PRESENCE:
        return f"{fact.name}: present"
    is_legal = value.keys() <= set(operators_for(fact)) if isinstance(value, dict) else fact.admits(value)
    return f"{fact.name}: {shown(value) if is_legal else '…'}"


def operator_meant(fact: Fact, word: str, operand: Any) -> str:
    """The suggestion for an operator that a fact does not have, with the operand in its place."""
    known = operators_for(fact)
    plain = SEPARATORS.sub("_", word.strip().lower())
    if "at_least" in known and plain in synonyms.AT_LEAST:
        return f"; write {quoted(f'{fact.name}: {{at_least: {_more(operand, synonyms.AT_LEAST[plain])}}}')}"
    if "at_least" in known and plain in synonyms.BELOW:
        return f"; write {quoted(f'not: {{{fact.name}: {{at_least: {_more(operand, synonyms.BELOW[plain])}}}}}')}"
    meant = next((operator for operator in synonyms.OPERATORS.get(plain, ()) if operator in known), None)
    if meant is None:
        inside = f"{fact.name}.{word}"
        if inside in FACTS:
            return f"; write the fact with dots: {quoted(f'{inside}: {shown(operand)}')}"
        return similar(word, known)
    return f"; write {quoted(written(fact, meant, operand))}"


def value_meant(fact: Fact, value: Any) -> str:
    """The suggestion for a value that a fact cannot be compared with."""
    known = operators_for(fact)
    match value:
        case list():
            return _list_meant(fact, value, known)
        case None if "absent" in known:
            return f"; write {quoted(written(fact, 'absent', None))}"
        case bool() if fact.kind is FactKind.PRESENCE:
            return f"; write {quoted(written(fact, 'present' if value else 'absent', None))}"
        case str() | int() if fact.kind in {FactKind.BOOLEAN, FactKind.VARIABLE}:
            meant = BOOLEANS.get(str(value).strip().lower())
            without = ", without quotes" if value == meant else ""
            return f"; write {quoted(f'{fact.name}: {meant}')}{without}" if meant else ""
        case str() if fact.kind is FactKind.INTEGER:
            if NUMBER.fullmatch(value.strip()):
                return f"; write {quoted(f'{fact.name}: {value.strip()}')}, without quotes"
            return comparison_meant(fact, value)
        case str() if fact.choices:
            return similar(value, fact.choices)
        case str() if "has_any_of" in known:
            return f"; write {quoted(written(fact, 'has_any_of', value))}"
        case str():
            return similar(value, known)
    return ""


def _list_meant(fact: Fact, values: list[Any], known: Collection[str]) -> str:
    operator = next((operator for operator in synonyms.OPERATORS["in"] if operator in known), None)
    if operator is not None:
        return f"; write {quoted(written(fact, operator, values))}"
    return "; write one value, or each of them as a condition of its own under `any`"


def comparison_meant(fact: Fact, text: str) -> str:
    """The suggestion for a comparison that is written as a text, such as ``>1``."""
    found = COMPARISON.fullmatch(text)
    if found is None:
        return ""
    return operator_meant(fact, found[1], int(found[2]) if NUMBER.fullmatch(found[2]) else found[2])


def written(fact: Fact, operator: str, operand: Any) -> str:
    """A comparison as it is written in a rule."""
    match OPERATORS[operator].takes:
        case "nothing":
            return f"{fact.name}: {operator}"
        case "values":
            operand = operand if isinstance(operand, list) else [operand]
            return f"{fact.name}: {{{operator}: {shown(operand)}}}"
        case _ if operator == "is":
            return f"{fact.name}: {shown(operand)}"
        case _:
            return f"{fact.name}: {{{operator}: {shown(operand)}}}"


def shown(value: Any) -> str:
    """A value as it is written in YAML: a plain text without quotes."""
    if isinstance(value, str) and PLAIN.fullmatch(value) and value.lower() not in RESERVED:
        return value
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {shown(item)}' for key, item in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _more(operand: Any, more: int) -> str:
    if type(operand) is int:
        return str(operand + more)
    return "NUMBER" if more == 0 else "NUMBER + 1"
