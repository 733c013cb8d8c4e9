"""A request's nested ``facts`` → one flat, typed row of values; nothing is coerced.

Owns the row, and how a document is read into it with a fault for each illegal value. ``vocabulary`` defines the facts.

A row has one value for each fact, in the vocabulary's order, with tuples for lists. Each fact has one type, checked
without coercion: an engine that treats ``1``, ``true`` and ``"1"`` as equal must never see two of them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from policy.errors import MAX_FAULTS, RequestFault
from policy.facts.vocabulary import (
    ALL_FACTS,
    CHECKS,
    MAX_INTEGER,
    REQUEST_VOCABULARY,
    VOCABULARY,
    Fact,
    FactKind,
    Malformed,
    ancestors,
    parse_variable,
)
from policy.masking import masked
from policy.messages import as_written, closest, listed, nearest, quoted
from policy.pointer import at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MAX_MISSPELT: Final = 64
"""The length of the longest field that can count as a misspelt fact."""
BOOLEAN: Final = re.compile("true|false")
INTEGER: Final = re.compile("[0-9]{1,10}")
QUOTED_VALUES: Final = {FactKind.BOOLEAN: BOOLEAN, FactKind.INTEGER: INTEGER}
"""Texts that would be a boolean or a number without their quotes."""
MIN_SIMILARITY: Final = 0.85
"""The minimum similarity of a field that counts as a misspelt fact."""
VLLM_FIELDS: Final = frozenset({("speculative_config", "draft_load_config")})
"""Fields of vLLM, in some release from 0.20.0 to 0.33.0, that look like misspelt facts."""
MODEL_CONFIG_FILES: Final = frozenset({"speculative_config.draft_model_config.hf_config"})
"""Objects with the content of a ``config.json``, whose fields can have any name."""

Row: TypeAlias = list[Any]


@dataclass(slots=True)
class Member:
    """A field of the nested ``facts``: an object with fields, a fact, or both (a presence).

    ``type`` and ``fits`` are the cheapest check of a value: the exact type of a legal one and, if that is not enough, a
    predicate. ``take`` converts it for the row, if needed. ``is_open`` means that the object may also have fields that
    are not facts. ``pointer`` is the JSON pointer below ``facts``.
    """

    path: str
    fact: Fact | None = None
    index: int = -1
    is_open: bool = False
    members: dict[str, Member] = field(default_factory=dict)
    type: Any = dict
    fits: Callable[[Any], bool] | None = None
    take: Callable[[Any], Any] | None = None
    pointer: str = field(init=False)

    def __post_init__(self) -> None:
        self.pointer = f"/{self.path.replace('.', '/')}"


TYPES: Final[dict[FactKind, type]] = {
    FactKind.PRESENCE: dict,
    FactKind.VARIABLE: str,
    FactKind.BOOLEAN: bool,
    FactKind.INTEGER: int,
    FactKind.NUMBER: int,
    FactKind.SHARE: float,
    FactKind.CHOICE: str,
    FactKind.TEXT: str,
    FactKind.TEXTS: list,
    FactKind.LIST: list,
}


class Opaque:
    """An item of a list that no rule reads: an object, or a list with items other than numbers and texts."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)


def to_json(value: Any) -> Any:
    """A row's value as it was sent: a tuple as a list, a malformed variable as its text, others unchanged."""
    if isinstance(value, Malformed):
        return value.text
    if isinstance(value, tuple):
        return list(map(to_json, value))
    return value.value if isinstance(value, Opaque) else value


def shown(value: Any) -> Any:
    """A row's value as an answer shows it: as it was sent, with the secrets in its texts hidden."""
    value = to_json(value)
    if isinstance(value, str):
        return masked(value)
    return [masked(item) if isinstance(item, str) else item for item in value] if type(value) is list else value


def nested(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The nested ``facts`` of a request from facts by flat names, where an object is ``True`` or ``False``.

    No fact may be stated below an absent object.
    """
    document: dict[str, Any] = {}
    for name in sorted(facts, key=lambda name: name.count(".")):
        *steps, last = name.split(".")
        parent = document
        for step in steps:
            parent = parent.setdefault(step, {})
        value = facts[name]
        parent[last] = ({} if value else None) if _KINDS[name] is FactKind.PRESENCE else value
    return document


def _freeze(value: list[Any]) -> tuple[Any, ...]:
    return tuple(map(_freeze_item, value))


def _freeze_item(item: Any) -> Any:
    if type(item) is list and all(type(each) in {int, str} for each in item):
        return tuple(item)
    return Opaque(item) if type(item) in {list, dict} else item


CONVERTERS: Final[dict[FactKind, Callable[[Any], Any]]] = {
    FactKind.VARIABLE: parse_variable,
    FactKind.TEXTS: tuple,
    FactKind.LIST: _freeze,
}


def _predicate(fact: Fact) -> Callable[[Any], bool] | None:
    """The check of a value that has the right type; ``None`` if none is needed."""
    match fact.kind:
        case FactKind.PRESENCE | FactKind.BOOLEAN:
            return None
        case FactKind.CHOICE:
            return frozenset(fact.choices).__contains__
        case FactKind.INTEGER:
            return range(fact.least, MAX_INTEGER + 1).__contains__
        case _:
            return partial(CHECKS[fact.kind], fact)


def _tree(vocabulary: Iterable[tuple[int, Fact]]) -> Member:
    root = Member("")
    for index, fact in vocabulary:
        member = root
        for part in fact.name.split("."):
            path = f"{member.path}.{part}" if member.path else part
            member = member.members.setdefault(part, Member(path, is_open=member.is_open))
        member.fact, member.index = fact, index
        member.type = TYPES[fact.kind]
        member.fits = _predicate(fact)
        member.take = CONVERTERS.get(fact.kind)
        member.is_open = member.is_open or fact.kind is FactKind.PRESENCE
    return root


TREE: Final[Member] = _tree(enumerate(VOCABULARY))
REQUEST_TREE: Final[Member] = _tree(enumerate(REQUEST_VOCABULARY))
_KINDS: Final = {fact.name: fact.kind for fact in ALL_FACTS}
_PRESENCES: Final = tuple(fact.name for fact in VOCABULARY if fact.kind is FactKind.PRESENCE)


@lru_cache(maxsize=64)
def defaults(series: tuple[int, int]) -> tuple[Any, ...]:
    """The row of a minor series if no fact is stated."""
    return tuple(fact.default_in(series) for fact in VOCABULARY)


class Facts(Struct, frozen=True):
    """A deployment's facts as a row, and the indexes of those that are ``stated``."""

    row: Row
    stated: list[int] = []

    def changed(self, index: int, value: Any) -> Facts:
        """A copy with one fact changed; none counts as stated."""
        row = self.row.copy()
        row[index] = value
        return Facts(row)

    def in_series(self, series: tuple[int, int]) -> Facts:
        """The same stated facts, with another minor series' defaults for the others."""
        row = list(defaults(series))
        for index in self.stated:
            row[index] = self.row[index]
        return Facts(row, self.stated)

    def document(self, series: tuple[int, int], *, hides_secrets: bool = False) -> Any:
        """The facts that differ from their defaults, as a request's nested ``facts``.

        With ``hides_secrets`` the secrets in their texts are hidden, as in answers.
        """
        written = shown if hides_secrets else to_json
        stated = {
            fact.name: value
            for fact, value, default in zip(VOCABULARY, self.row, defaults(series), strict=True)
            if value != default
        }
        absent = {name for name in _PRESENCES if name not in stated}
        return nested({name: written(value) for name, value in stated.items() if absent.isdisjoint(ancestors(name))})


@dataclass(slots=True)
class _RowReader:
    """The facts read so far."""

    row: Row
    stated: list[int] = field(default_factory=list)

    def state(self, index: int, value: Any) -> None:
        self.stated.append(index)
        self.row[index] = value


def read_facts(document: Any, series: tuple[int, int], pointer: str, faults: list[RequestFault]) -> Facts:
    """The facts of a nested document, with the defaults of ``series``; each fault is appended to ``faults``."""
    facts = _RowReader(list(defaults(series)))
    if type(document) is dict:
        _read_object(TREE, document, pointer, facts, faults)
    else:
        faults.append(
            RequestFault(
                pointer, f'expected an object, got {quoted(document)}; write the facts as `{{"model_config": {{…}}}}`'
            )
        )
    return Facts(facts.row, facts.stated)


def read_request_facts(document: dict[str, Any], pointer: str, faults: list[RequestFault]) -> Row:
    """The part of a row about a request to an engine, from facts nested below ``request`` and ``engine``."""
    facts = _RowReader([fact.default_in((0, 0)) for fact in REQUEST_VOCABULARY])
    _read_object(REQUEST_TREE, document, pointer, facts, faults)
    return facts.row


def read_row(document: Mapping[str, Any], series: tuple[int, int], faults: list[RequestFault]) -> Row:
    """The row of a request and its engine; ``request`` and ``engine`` have the facts of the request."""
    deployment = {name: value for name, value in document.items() if name in TREE.members}
    request = {name: value for name, value in document.items() if name not in TREE.members}
    assert set(REQUEST_TREE.members).isdisjoint(TREE.members)  # INVARIANT: a name is in one of the two
    return [*read_facts(deployment, series, "", faults).row, *read_request_facts(request, "", faults)]


def _read_object(
    parent: Member, document: dict[str, Any], pointer: str, facts: _RowReader, faults: list[RequestFault]
) -> None:
    members = parent.members
    for key, value in document.items():
        member = members.get(key)
        if member is None:
            if len(faults) >= MAX_FAULTS:
                return
            problem = _misspelt(parent.path, key) if parent.is_open else _unknown(parent, key)
            if problem:
                faults.append(RequestFault(at(f"{pointer}{parent.pointer}".rstrip("/"), key), problem))
        elif type(value) is member.type and ((fits := member.fits) is None or fits(value)):
            index = member.index
            if member.type is dict:
                if index >= 0:
                    facts.state(index, value=True)
                _read_object(member, value, pointer, facts, faults)
            else:
                facts.state(index, value if member.take is None else member.take(value))
        else:
            _read_other(member, value, pointer, facts, faults)


def _read_other(member: Member, value: Any, pointer: str, facts: _RowReader, faults: list[RequestFault]) -> None:
    """Read a value that failed its check: ``null``, a variable's ``true`` or ``false``, or a fault."""
    fact = member.fact
    if fact is None:
        if value is not None:
            faults.append(
                RequestFault(
                    f"{pointer}{member.pointer}",
                    f"expected an object, got {quoted(value)}; its fields are {listed(member.members)}",
                )
            )
    elif value is None and fact.nullable:
        facts.state(member.index, None)
    elif value is None and fact.kind in {FactKind.VARIABLE, FactKind.PRESENCE}:
        if fact.kind is FactKind.PRESENCE:  # an unset variable is one that is not stated, in every release
            facts.stated.append(member.index)
    elif value is None:
        faults.append(
            RequestFault(
                f"{pointer}{member.pointer}",
                f"`null` is not legal here; legal: {fact.legal}; leave it out for the default",
            )
        )
    elif fact.kind in {FactKind.VARIABLE, FactKind.NUMBER} and fact.admits(value):
        facts.state(member.index, value)
    elif fact.kind is FactKind.SHARE and fact.admits(value):
        facts.state(member.index, float(value))
    else:
        unquoted = QUOTED_VALUES.get(fact.kind)
        is_in_quotes = unquoted is not None and type(value) is str and unquoted.fullmatch(value)
        found = as_written(value) if is_in_quotes else quoted(value)
        advice = "; write it without quotes" if is_in_quotes and _is_legal_unquoted(fact, value) else ""
        problem = f"{found} is not legal for `{fact.name}`; legal: {fact.legal}{advice}"
        faults.append(RequestFault(f"{pointer}{member.pointer}", problem))


def _is_legal_unquoted(fact: Fact, text: str) -> bool:
    """Whether a text that looks like a boolean or a number is legal without its quotes."""
    try:
        return fact.admits(json.loads(text))
    except ValueError:  # a number with a zero before it
        return False


def _unknown(parent: Member, key: str) -> str:
    return f"unknown field {quoted(key)}; legal: {listed(parent.members)}{nearest(key, parent.members)}"


@lru_cache(maxsize=1024)
def _misspelt(path: str, key: str) -> str:
    """The problem with a field that is not a fact, in an object that may have such; empty unless it looks like one."""
    if len(key) > MAX_MISSPELT or path in MODEL_CONFIG_FILES or (path, key) in VLLM_FIELDS:
        return ""
    member = TREE
    for part in path.split("."):
        member = member.members[part]
    close = closest(key.lower().replace("-", "_"), member.members, MIN_SIMILARITY)
    return f"unknown field {quoted(key)}; did you mean {quoted(close)}?" if close is not None else ""
