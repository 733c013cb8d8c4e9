"""Queries of the decision log: filtered records, the newest first, a page at a time.

Owns the meaning of the filters; ``filters`` has their names and legal values. A query scans a limited number of
records, so that a rare value cannot keep the store busy; the next page continues where it stopped. The store keeps
no state between pages.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from sqlalchemy import func, select

from policy.decision.decision import encode
from policy.errors import MAX_FAULTS, RequestFault, RequestInvalid
from policy.messages import listed, quoted
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
    TEXT_FILTERS,
    TIMESTAMP,
    UNITS,
)
from service.log.record import LogRecord, first_id, record
from service.log.store import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    from sqlalchemy import Select

    from service.log.record import StoredRow
    from service.log.store import Store

    Query: TypeAlias = Select[Any]

BATCH: Final = 1000
"""The maximum number of records fetched from the store at once."""
MAX_SIZE: Final = 8 << 20
"""The maximum bytes of records fetched from the store at once, and of a page; a single record may be larger."""
NUMBER: Final = f"[0-9]{{1,{len(str(MAX_LIMIT))}}}"  # of ASCII digits: ``int`` reads others too
MAX_SCANNED: Final = 20_000
"""Records scanned by one query."""
STARTS_VALUES: Final = {"true": True, "false": False}
_TIMESTAMP: Final = (
    "a date such as `2026-11-21`, a date and time such as `2026-11-21T12:00:00Z`, "
    "a time ago such as `30m`, `12h` or `7d`, or a `decision_id`"
)
LEGAL: Final = {
    **dict.fromkeys(TEXT_FILTERS, f"a string of at most {MAX_TEXT} characters"),
    **{name: listed(choices) for name, choices in CHOICES.items()},
    "starts": listed(STARTS_VALUES),
    "rule": f"a rule's id, of at most {MAX_TEXT} characters",
    **dict.fromkeys(BOUNDS, _TIMESTAMP),
    "limit": f"a whole number from 1 to {MAX_LIMIT}",
}
"""The legal values of each filter, for error messages."""


class LogFilter(Struct, frozen=True):
    """A filter of records: ``texts`` by field, from ``since`` and before ``until``, which are ids."""

    texts: dict[str, str] = {}
    starts: bool | None = None
    rule: str | None = None
    since: str | None = None
    until: str | None = None
    limit: int = DEFAULT_LIMIT


class RecordPage(Struct, frozen=True):
    """Records, the newest first; ``next`` is the ``until`` of the next page, ``None`` after the last."""

    items: list[LogRecord]
    next: str | None


def read_filter(parameters: Iterable[tuple[str, str]], display_name: Callable[[str], str] = str) -> LogFilter:
    """Read a filter from query parameters; ``display_name`` returns a parameter's name in messages.

    Raises:
        RequestInvalid: with every fault; a repeated filter is one.
    """
    faults: list[RequestFault] = []
    values: dict[str, Any] = {}
    for name, stated in read_query(parameters, FILTERS, faults).items():
        for text in islice(dict.fromkeys(stated), MAX_FAULTS):
            values[name] = _value(name, text)
            if values[name] is None:
                faults.append(
                    RequestFault("", f"{display_name(name)}: {quoted(text)} is not legal; legal: {LEGAL[name]}")
                )
    if faults:
        raise RequestInvalid(faults)
    texts = {name: values.pop(name) for name in TEXT_FILTERS if name in values}
    return LogFilter(texts, **values)


def _value(name: str, text: str) -> str | bool | int | None:
    """The value of a filter's text; ``None`` if it is invalid."""
    if name in CHOICES:
        return text if text in CHOICES[name] else None
    if name in TEXT_FILTERS:
        legal = len(text) <= MAX_TEXT and re.fullmatch(TEXT, text)
        return (text.removeprefix("/") if name == "path" else text) if legal else None
    if name in BOUNDS:
        return _bound_id(text)
    match name:
        case "starts":
            return STARTS_VALUES.get(text)
        case "rule":
            return text if len(text) <= MAX_TEXT and re.fullmatch(RULE, text) else None
        case _:
            fits = re.fullmatch(NUMBER, text) and 1 <= int(text) <= MAX_LIMIT
            return int(text) if fits else None


def _bound_id(text: str) -> str | None:
    """The id for a date, a timestamp, a time ago or an id; ``None`` if it is invalid."""
    if re.fullmatch(ID, text):
        return text
    if re.fullmatch(AGO, text):
        # Five digits of days do not reach back to the year 1.
        return first_id(datetime.now(UTC) - timedelta(**{UNITS[text[-1]]: int(text[:-1])}))
    if not re.fullmatch(TIMESTAMP, text):  # Python accepts more forms, such as `2026-W01`
        return None
    try:
        parsed = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return first_id(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))


def page(store: Store, log_filter: LogFilter) -> RecordPage:
    """The newest records that match a filter: up to its limit and ``MAX_SIZE``, and at least one.

    Raises:
        StoreFailed: the store cannot be queried.
    """
    lowest = _scan_end(store, log_filter, TABLE.c.decision_id.desc())
    query = _filtered(select(TABLE), log_filter)
    if lowest is not None:
        query = query.where(TABLE.c.decision_id >= lowest)
    rows, has_more = store.rows(query.order_by(TABLE.c.decision_id.desc()).limit(log_filter.limit + 1), MAX_SIZE)
    items = list(map(record, rows[: log_filter.limit]))
    return RecordPage(items, items[-1].decision_id if has_more or len(rows) > len(items) else lowest)


def encode_page(store: Store, log_filter: LogFilter) -> bytes:
    """The page of a filter as JSON, encoded record by record so that other threads run in between.

    Raises:
        StoreFailed: the store cannot be queried.
    """
    return _encode(page(store, log_filter))


def _encode(found: RecordPage) -> bytes:
    # A Python loop: `map` would hold the interpreter, and block the event loop, for the whole page.
    items = [encode(item) for item in found.items]
    return b'{"items":[%b],"next":%b}' % (b",".join(items), encode(found.next))


EMPTY_PAGE: Final = _encode(RecordPage([], None))
"""The page of a store to which nothing was written."""


def encode_record(store: Store, decision_id: str) -> bytes | None:
    """The record of a decision as JSON, or ``None``.

    Raises:
        StoreFailed: the store cannot be queried.
    """
    found = find_record(store, decision_id)
    return encode(found) if found is not None else None


def find_record(store: Store, decision_id: str) -> LogRecord | None:
    """The record of a decision, or ``None``.

    Raises:
        StoreFailed: the store cannot be queried.
    """
    if not re.fullmatch(ID, decision_id):
        return None
    rows, _ = store.rows(select(TABLE).where(TABLE.c.decision_id == decision_id), MAX_SIZE)
    return record(rows[0]) if rows else None


def stream(store: Store, log_filter: LogFilter) -> Iterator[list[StoredRow]]:
    """Every record that matches a filter, oldest first, in parts of up to ``MAX_SIZE``, whatever the filter's limit.

    Raises:
        StoreFailed: the store cannot be queried.
    """
    after: str | None = None
    while True:
        highest = _scan_end(store, log_filter, TABLE.c.decision_id, after)
        query = _filtered(select(TABLE), log_filter)
        if after is not None:
            query = query.where(TABLE.c.decision_id > after)
        if highest is not None:
            query = query.where(TABLE.c.decision_id <= highest)
        rows, has_more = store.rows(query.order_by(TABLE.c.decision_id).limit(BATCH), MAX_SIZE)
        if rows:
            yield rows
        if has_more or len(rows) == BATCH:
            after = rows[-1].decision_id
        elif highest is not None:
            after = highest
        else:
            return


def count(store: Store, log_filter: LogFilter) -> int | None:
    """How many records a filter has; ``None`` if all would have to be read for it.

    Raises:
        StoreFailed: the store cannot be queried.
    """
    if log_filter.rule is not None:
        return None
    found: int | None = store.scalar(_filtered(select(func.count()).select_from(TABLE), log_filter))
    return found


def _scan_end(store: Store, log_filter: LogFilter, order: Any, after: str | None = None) -> str | None:
    """The last id that one query scans; ``None`` if it scans all records, or only those that match."""
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
