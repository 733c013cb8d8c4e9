"""Questions to the decision log: the newest records first, by what they say, a page at a time.

Owns the filters and their words. A page looks at a bounded number of records, so that a rare word cannot keep
the store busy; the next page goes on where it stopped.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from sqlalchemy import func, select

from policy.errors import Misfit, RequestInvalid, listed, quoted
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
LOOKED_AT: Final = 50_000
ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
AGO: Final = re.compile(r"(\d{1,6})(s|m|h|d)")
UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
TEXTS: Final = ("runner", "outcome", "vllm_version", "requested_by", "path", "revision")
MAX_TEXT: Final = 256
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
        if not text or len(text) > MAX_TEXT or "\0" in text:
            fault(name, f"a text of at most {MAX_TEXT} characters")
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
        return first_id(datetime.now(UTC) - timedelta(**{UNITS[ago[2]]: int(ago[1])}))
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
    within = _within(asked).order_by(TABLE.c.decision_id.desc()).limit(LOOKED_AT).subquery()
    lowest = store.scalar(select(func.min(within.c.decision_id)))
    if lowest is None:
        return Page([], None)
    query = _filtered(select(TABLE).where(TABLE.c.decision_id >= lowest), asked)
    if asked.until is not None:
        query = query.where(TABLE.c.decision_id < asked.until)
    rows = store.rows(query.order_by(TABLE.c.decision_id.desc()).limit(asked.limit))
    if len(rows) == asked.limit:
        return Page(list(map(record, rows)), rows[-1].decision_id)
    looked = store.scalar(select(func.count()).select_from(within))
    return Page(list(map(record, rows)), str(lowest) if looked == LOOKED_AT else None)


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
    query = select(TABLE)
    if asked.since is not None:
        query = query.where(TABLE.c.decision_id >= asked.since)
    if asked.until is not None:
        query = query.where(TABLE.c.decision_id < asked.until)
    yield from store.stream(_filtered(query, asked).order_by(TABLE.c.decision_id), MOST)


def _within(asked: Asked) -> Query:
    query = select(TABLE.c.decision_id)
    if asked.since is not None:
        query = query.where(TABLE.c.decision_id >= asked.since)
    if asked.until is not None:
        query = query.where(TABLE.c.decision_id < asked.until)
    return query


def _filtered(query: Query, asked: Asked) -> Query:
    for name, text in asked.texts.items():
        query = query.where(TABLE.c[name].is_(None) if text == "null" else TABLE.c[name] == text)
    if asked.starts is not None:
        query = query.where(TABLE.c.starts == asked.starts)
    if asked.rule is not None:
        query = query.where(TABLE.c.result.contains(f'"rule":"{asked.rule}"', autoescape=True))
    return query
