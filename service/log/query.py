"""Questions to the decision log: the newest records first, by what they say, a page at a time.

Owns what the filters mean; ``asking`` has their names and legal values. A question looks at a bounded number of records, so that a rare word cannot keep
the store busy; the next one goes on where it stopped. Nothing is held in the store between two.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from sqlalchemy import select

from policy.errors import MAX_FAULTS, RequestFault, RequestInvalid, listed, quoted
from service.documents.query import read_query
from service.log.filters import (
    AGO,
    BOUNDS,
    CHOICES,
    DEFAULT_LIMIT,
    FILTERS,
    ID,
    MAX_LIMIT,
    MAX_TEXT,
    NULL,
    RULE,
    TEXT,
    TEXTS,
    TIMESTAMP,
    UNITS,
)
from service.log.record import Record, first_id, record
from service.log.store import TABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    from sqlalchemy import Select

    from service.log.record import Row
    from service.log.store import Store

    Query: TypeAlias = Select[Any]

BATCH: Final = 1000
"""How many records the store is asked for at once."""
MAX_SCANNED: Final = 20_000
"""How many records one question looks at."""
STARTS: Final = {"true": True, "false": False}
_TIMESTAMP: Final = "a date such as `2026-11-21`, a date and time such as `2026-11-21T12:00:00Z`, a time ago such as `30m`, `12h` or `7d`, or a `decision_id`"
LEGAL: Final = {
    **dict.fromkeys(TEXTS, f"a text of at most {MAX_TEXT} characters"),
    **{name: listed(choices) for name, choices in CHOICES.items()},
    "starts": listed(STARTS),
    "rule": "a rule's id",
    **dict.fromkeys(BOUNDS, _TIMESTAMP),
    "limit": f"a whole number from 1 to {MAX_LIMIT}",
}
"""What each filter may be, in words."""


class LogFilter(Struct, frozen=True):
    """Which records are wanted: ``texts`` by the members that have them, from ``since`` and before ``until``, both ids."""

    texts: dict[str, str] = {}
    starts: bool | None = None
    rule: str | None = None
    since: str | None = None
    until: str | None = None
    limit: int = DEFAULT_LIMIT


class Page(Struct, frozen=True):
    """Records, the newest first; ``next`` is the ``until`` of the page after it, ``None`` where nothing is left."""

    items: list[Record]
    next: str | None


def read_filter(parameters: Iterable[tuple[str, str]]) -> LogFilter:
    """What a query asks, of its parameters as they stand in it.

    Raises:
        RequestInvalid: with every fault; a filter that stands twice is one.
    """
    faults: list[RequestFault] = []
    values: dict[str, Any] = {}
    for name, stated in read_query(parameters, FILTERS, faults).items():
        for text in islice(dict.fromkeys(stated), MAX_FAULTS):
            values[name] = _value(name, text)
            if values[name] is None:
                faults.append(RequestFault("", f"{name}: {quoted(text)} is not legal; legal: {LEGAL[name]}"))
    if faults:
        raise RequestInvalid(faults)
    texts = {name: values.pop(name) for name in TEXTS if name in values}
    return LogFilter(texts, **values)


def _value(name: str, text: str) -> str | bool | int | None:
    """What a filter's text means; ``None`` where it is not legal."""
    if name in CHOICES:
        return text if text in CHOICES[name] else None
    if name in TEXTS:
        legal = len(text) <= MAX_TEXT and re.fullmatch(TEXT, text)
        return (text.removeprefix("/") if name == "path" else text) if legal else None
    if name in BOUNDS:
        return _bound_id(text)
    match name:
        case "starts":
            return STARTS.get(text)
        case "rule":
            return text if re.fullmatch(RULE, text) else None
        case _:
            fits = re.fullmatch(f"[0-9]{{1,{len(str(MAX_LIMIT))}}}", text) and 1 <= int(text) <= MAX_LIMIT
            return int(text) if fits else None


def _bound_id(text: str) -> str | None:
    """The id that a date, a moment, a time ago or an id stands for."""
    if re.fullmatch(ID, text):
        return text
    if re.fullmatch(AGO, text):
        return first_id(
            datetime.now(UTC) - timedelta(**{UNITS[text[-1]]: int(text[:-1])})
        )  # five digits of days do not lead before the year 1
    if not re.fullmatch(TIMESTAMP, text):  # Python reads more forms, such as `2026-W01`
        return None
    try:
        parsed = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return first_id(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))


def page(store: Store, log_filter: LogFilter) -> Page:
    """The newest records that are asked for.

    Raises:
        StoreFailed: the store cannot be asked.
    """
    lowest = _scan_end(store, log_filter, TABLE.c.decision_id.desc())
    query = _filtered(select(TABLE), log_filter)
    if lowest is not None:
        query = query.where(TABLE.c.decision_id >= lowest)
    rows = store.rows(query.order_by(TABLE.c.decision_id.desc()).limit(log_filter.limit + 1))
    items = list(map(record, rows[: log_filter.limit]))
    return Page(items, items[-1].decision_id if len(rows) > len(items) else lowest)


def find_record(store: Store, decision_id: str) -> Record | None:
    """The record of a decision, where it is there.

    Raises:
        StoreFailed: the store cannot be asked.
    """
    if not re.fullmatch(ID, decision_id):
        return None
    rows = store.rows(select(TABLE).where(TABLE.c.decision_id == decision_id))
    return record(rows[0]) if rows else None


def stream(store: Store, log_filter: LogFilter) -> Iterator[list[Row]]:
    """Every record that is asked for, the oldest first, in parts; a limit is not looked at.

    Raises:
        StoreFailed: the store cannot be asked.
    """
    after: str | None = None
    while True:
        highest = _scan_end(store, log_filter, TABLE.c.decision_id, after)
        query = _filtered(select(TABLE), log_filter)
        if after is not None:
            query = query.where(TABLE.c.decision_id > after)
        if highest is not None:
            query = query.where(TABLE.c.decision_id <= highest)
        rows = store.rows(query.order_by(TABLE.c.decision_id).limit(BATCH))
        if rows:
            yield rows
        if len(rows) == BATCH:
            after = rows[-1].decision_id
        elif highest is not None:
            after = highest
        else:
            return


def _scan_end(store: Store, log_filter: LogFilter, order: Any, after: str | None = None) -> str | None:
    """The last id that one question looks at; ``None`` where it looks at all that there are, or needs to look at no more than it finds."""
    if not (log_filter.texts or log_filter.rule) and log_filter.starts is None:
        return None
    query = _within(select(TABLE.c.decision_id), log_filter)
    if after is not None:
        query = query.where(TABLE.c.decision_id > after)
    found: str | None = store.scalar(query.order_by(order).offset(MAX_SCANNED - 1).limit(1))
    return found


def _within(query: Query, log_filter: LogFilter) -> Query:
    if log_filter.since is not None:
        query = query.where(TABLE.c.decision_id >= log_filter.since)
    if log_filter.until is not None:
        query = query.where(TABLE.c.decision_id < log_filter.until)
    return query


def _filtered(query: Query, log_filter: LogFilter) -> Query:
    query = _within(query, log_filter)
    for name, text in log_filter.texts.items():
        query = query.where(TABLE.c[name].is_(None) if name in CHOICES and text == NULL else TABLE.c[name] == text)
    if log_filter.starts is not None:
        query = query.where(TABLE.c.starts == log_filter.starts)
    if log_filter.rule is not None:
        query = query.where(TABLE.c.result.contains(f'"rule":"{log_filter.rule}"', autoescape=True))
    return query
