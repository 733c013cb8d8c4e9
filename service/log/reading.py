"""Questions to the decision log: the newest records first, by what they say, a page at a time.

Owns the filters and their words. A question looks at a bounded number of records, so that a rare word cannot keep
the store busy; the next one goes on where it stopped. Nothing is held in the store between two.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from sqlalchemy import select

from policy.errors import Misfit, RequestInvalid, listed, quoted
from policy.precedence import Outcome, Runner
from service.log.record import Record, first_id, record
from service.log.store import TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypeAlias

    from sqlalchemy import Select

    from service.log.record import Row
    from service.log.store import Store

    Query: TypeAlias = Select[Any]

MOST: Final = 1000
USUAL: Final = 100
LOOKED_AT: Final = 20_000
"""How many records one question looks at."""
ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
AGO: Final = re.compile(r"([0-9]{1,5})(s|m|h|d)")
UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
TEXTS: Final = ("runner", "outcome", "vllm_version", "requested_by", "path", "revision")
MAX_TEXT: Final = 256
NULL: Final = "null"
CHOICES: Final = {"runner": (*Runner, NULL), "outcome": (*Outcome, NULL)}
RULE: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Asked(Struct, frozen=True):
    """Which records are wanted: ``texts`` by the members that have them, from ``since`` and before ``until``, both ids."""

    texts: dict[str, str] = {}
    starts: bool | None = None
    rule: str | None = None
    since: str | None = None
    until: str | None = None
    limit: int = USUAL


class Page(Struct, frozen=True):
    """Records, the newest first; ``next`` is the ``until`` of the page after it, ``None`` where nothing is left."""

    items: list[Record]
    next: str | None


FILTERS: Final = (*TEXTS, "starts", "rule", "since", "until", "limit")


def read_asked(members: Mapping[str, str]) -> Asked:
    """What a query asks.

    Raises:
        RequestInvalid: with every fault.
    """
    faults = [Misfit("", f"unknown parameter {quoted(name)}; legal: {listed(FILTERS)}") for name in members if name not in FILTERS]

    def fault(name: str, legal: str) -> None:
        faults.append(Misfit("", f"{name}: {quoted(members[name])} is not legal; legal: {legal}"))

    texts = {name: members[name] for name in TEXTS if name in members}
    for name, text in texts.items():
        if name in CHOICES and text not in CHOICES[name]:
            fault(name, listed(CHOICES[name]))
        elif not text or len(text) > MAX_TEXT or "\0" in text:
            fault(name, f"a text of at most {MAX_TEXT} characters")
    if "path" in texts:
        texts["path"] = texts["path"].removeprefix("/")
    starts = {"true": True, "false": False}.get(members.get("starts", ""))
    if "starts" in members and starts is None:
        fault("starts", "`true`, `false`")
    rule = members.get("rule")
    if rule is not None and not RULE.fullmatch(rule):
        fault("rule", "a rule's id")
    bounds = {name: _bound(members[name]) for name in ("since", "until") if name in members}
    for name, bound in bounds.items():
        if bound is None:
            fault(name, "a moment such as `2026-11-21T12:00:00Z`, a time ago such as `30m`, `12h` or `7d`, or a `decision_id`")
    limit = members.get("limit", str(USUAL))
    if not limit.isdecimal() or len(limit) > len(str(MOST)) or not 1 <= int(limit) <= MOST:
        fault("limit", f"a whole number from 1 to {MOST}")
    if faults:
        raise RequestInvalid(faults)
    return Asked(texts, starts, rule, bounds.get("since"), bounds.get("until"), int(limit))


def _bound(text: str) -> str | None:
    """The id that a moment, a time ago or an id stands for."""
    if ID.fullmatch(text):
        return text
    ago = AGO.fullmatch(text)
    if ago:
        return first_id(datetime.now(UTC) - timedelta(**{UNITS[ago[2]]: int(ago[1])}))  # five digits of days do not lead before the year 1
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return first_id(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def page(store: Store, asked: Asked) -> Page:
    """The newest records that are asked for.

    Raises:
        StoreFailed: the store cannot be asked.
    """
    lowest = _end_of_look(store, asked, TABLE.c.decision_id.desc())
    query = _filtered(select(TABLE), asked)
    if lowest is not None:
        query = query.where(TABLE.c.decision_id >= lowest)
    rows = store.rows(query.order_by(TABLE.c.decision_id.desc()).limit(asked.limit + 1))
    items = list(map(record, rows[: asked.limit]))
    return Page(items, items[-1].decision_id if len(rows) > len(items) else lowest)


def one(store: Store, decision_id: str) -> Record | None:
    """The record of a decision, where it is there.

    Raises:
        StoreFailed: the store cannot be asked.
    """
    if not ID.fullmatch(decision_id):
        return None
    rows = store.rows(select(TABLE).where(TABLE.c.decision_id == decision_id))
    return record(rows[0]) if rows else None


def stream(store: Store, asked: Asked) -> Iterator[list[Row]]:
    """Every record that is asked for, the oldest first, in parts; a limit is not looked at.

    Raises:
        StoreFailed: the store cannot be asked.
    """
    after: str | None = None
    while True:
        highest = _end_of_look(store, asked, TABLE.c.decision_id, after)
        query = _filtered(select(TABLE), asked)
        if after is not None:
            query = query.where(TABLE.c.decision_id > after)
        if highest is not None:
            query = query.where(TABLE.c.decision_id <= highest)
        rows = store.rows(query.order_by(TABLE.c.decision_id).limit(MOST))
        if rows:
            yield rows
        if len(rows) == MOST:
            after = rows[-1].decision_id
        elif highest is not None:
            after = highest
        else:
            return


def _end_of_look(store: Store, asked: Asked, order: Any, after: str | None = None) -> str | None:
    """The last id that one question looks at; ``None`` where it looks at all that there are, or needs to look at no more than it finds."""
    if not (asked.texts or asked.rule) and asked.starts is None:
        return None
    query = _within(select(TABLE.c.decision_id), asked)
    if after is not None:
        query = query.where(TABLE.c.decision_id > after)
    found: str | None = store.scalar(query.order_by(order).offset(LOOKED_AT - 1).limit(1))
    return found


def _within(query: Query, asked: Asked) -> Query:
    if asked.since is not None:
        query = query.where(TABLE.c.decision_id >= asked.since)
    if asked.until is not None:
        query = query.where(TABLE.c.decision_id < asked.until)
    return query


def _filtered(query: Query, asked: Asked) -> Query:
    query = _within(query, asked)
    for name, text in asked.texts.items():
        query = query.where(TABLE.c[name].is_(None) if name in CHOICES and text == NULL else TABLE.c[name] == text)
    if asked.starts is not None:
        query = query.where(TABLE.c.starts == asked.starts)
    if asked.rule is not None:
        query = query.where(TABLE.c.result.contains(f'"rule":"{asked.rule}"', autoescape=True))
    return query
