"""The record of a decision: request, answer, revision of the rules, caller, duration.

Owns the fields of a record, which are named as in the decision logs of Open Policy Agent. Nothing beyond the facts is
kept: no argument, no file, no variable that rules do not read. The serving process encodes a decision as a line at the
lowest cost, with the body of a common request as it was received; the log process turns it into a row.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from policy.decision.decision import id_of
from policy.fastpath.request_decoder import LAYERS, read
from policy.rules.releases import series

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.decision.evaluation import EncodedDecision
    from policy.request.request import Request

encode: Final = msgspec.json.Encoder().encode
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
ERASED_POINTERS: Final = ["/input/deployment"]
NUL: Final = re.compile(rb"(\\\\)|\\u0000")
"""A NUL in JSON text, or a backslash, which may precede `u0000` as text."""
PLACE: Final = re.compile(r"\$\[(\d+)\]")
"""How msgspec names a field of a ``StoredRow`` in a message."""
JSON_FIELDS: Final = ("labels", "input", "result")
MAX_NAME: Final = 128
"""Characters of ``requested_by`` that are recorded."""


class InvalidRow(ValueError):
    """Values of the store that are not those of a row."""


class SentRecord(Struct, frozen=True, array_like=True, gc=False):
    """A decision as sent to the log process.

    ``erased`` is whether parts of the request are not kept, as for one with a deployment. It is ``None`` for a request
    that the fast path decoded, whose ``input`` is its body.
    """

    requested_by: str
    path: str
    nanoseconds: int
    erased: bool | None
    input: Raw
    result: Raw


class StoredRow(Struct, frozen=True, array_like=True, gc=False):
    """A row of the store, in the order of its columns; ``labels``, ``input`` and ``result`` are JSON."""

    decision_id: str
    requested_by: str
    path: str
    runner: str | None
    outcome: str | None
    starts: bool
    vllm_version: str
    revision: str
    nanoseconds: int
    erased: bool
    labels: str
    input: str
    result: str


class LogRecord(Struct, frozen=True, omit_defaults=True):
    """A record as returned; ``erased`` has JSON pointers (RFC 6901) to what was not kept."""

    decision_id: str
    timestamp: str
    labels: Raw
    revision: str
    path: str
    requested_by: str
    input: Raw
    result: Raw
    metrics: dict[str, int]
    erased: list[str] = []


class _RecordedRelease(Struct, frozen=True, gc=False):
    decided_as: str
    verified: bool


class _RecordedPolicy(Struct, frozen=True, gc=False):
    revision: str


class _RecordedResult(Struct, frozen=True, gc=False):
    """The fields of a decision that have their own column."""

    decision_id: str
    runner: str | None
    outcome: str | None
    starts: bool
    vllm_version: str
    release: _RecordedRelease
    policy: _RecordedPolicy


_decode_result: Final = msgspec.json.Decoder(_RecordedResult).decode
_decode_line: Final = msgspec.json.Decoder(SentRecord).decode
_check_json: Final = msgspec.json.Decoder(dict[str, Raw]).decode


LogEntry: TypeAlias = "tuple[EncodedDecision, Request, str, str, int, bytes | None]"
"""An answer, its request, the endpoint's path, the caller (a token's name or an address), its duration in
nanoseconds, and the body of a common request."""


def line(entry: LogEntry | bytes) -> tuple[bytes, ...]:
    """The JSON of a ``SentRecord`` in pieces, which are joined for many lines at once.

    Bytes from a worker process are a line already.
    """
    if isinstance(entry, bytes):
        return (entry,)
    answer, request, path, requested_by, nanoseconds, body = entry
    if body is not None and request.common and b"\n" not in body:  # a line cannot contain one
        return (
            b"[",
            _name(requested_by),
            b',"',
            path.encode(),
            b'",%d,null,' % nanoseconds,
            body,
            b",",
            _result(answer),
            b"]",
        )
    is_derived = request.deployment is not None
    facts = encode(answer.evaluation.facts.document(series(request.release.decided_as), hides_secrets=is_derived))
    request_json = _input(
        request.request_id,
        request.vllm_version,
        facts,
        upstream_only=request.upstream_only,
        verified=request.release.verified,
    )
    erased = b"true" if is_derived else b"false"
    return (
        b"[",
        _name(requested_by),
        b',"',
        path.encode(),
        b'",%d,%b,' % (nanoseconds, erased),
        request_json,
        b",",
        _result(answer),
        b"]",
    )


@lru_cache(maxsize=1024)
def _name(requested_by: str) -> bytes:
    """The caller as a JSON string of limited length with printable characters."""
    return encode("".join(character if character.isprintable() else "?" for character in requested_by[:MAX_NAME]))


def _input(request_id: str | None, vllm_version: str, facts: bytes, *, upstream_only: bool, verified: bool) -> bytes:
    """The request as JSON, which gives the same decision by the same rules."""
    named = b"" if request_id is None else b'"request_id":%b,' % encode(request_id)
    layers = b'"layers":["upstream"],' if upstream_only else b""
    beyond = b"" if verified else b'"beyond_verified":"nearest",'
    return b'{%b"vllm_version":%b,%b%b"facts":%b}' % (named, encode(vllm_version), beyond, layers, facts)


def _fast_input(body: Raw, result: _RecordedResult) -> bytes:
    """The request as JSON, from the body of a common request."""
    request_json = read(body)
    return _input(
        request_json.request_id,
        result.vllm_version,
        encode(request_json.facts),
        upstream_only=LAYERS[request_json.layers],
        verified=result.release.verified,
    )


def _result(answer: EncodedDecision) -> bytes:
    """The decision without its explanation, and without ignored arguments, which may contain anything."""
    if answer.decision is None:
        return answer.json
    decision = answer.decision
    if decision.trace is not UNSET:
        reasons = [replace(reason, lifted_in=UNSET) for reason in decision.reasons]
        decision = replace(decision, reasons=reasons, trace=UNSET, assumptions=UNSET)
    own = id_of(answer.json)  # a cached answer has a new id each time
    return encode(replace(decision, decision_id=own, ignored_args=UNSET))


def row(entry: SentRecord, labels: str) -> StoredRow:
    """The row of a line."""
    result = _decode_result(entry.result)
    request_json = bytes(entry.input) if entry.erased is not None else _fast_input(entry.input, result)
    return StoredRow(
        result.decision_id,
        entry.requested_by,
        entry.path,
        result.runner,
        result.outcome,
        result.starts,
        result.release.decided_as,
        result.policy.revision,
        entry.nanoseconds,
        entry.erased is True,
        labels,
        _without_nul(request_json),
        _without_nul(bytes(entry.result)),
    )


def _without_nul(json: bytes) -> str:
    """JSON as text with U+FFFD for each NUL, which PostgreSQL's JSON functions refuse."""
    if b"\\u0000" in json:
        json = NUL.sub(lambda found: found[1] or b"\\ufffd", json)
    return json.decode()


def read_row(values: Iterable[Any]) -> StoredRow:
    """The row of a store's values.

    Raises:
        InvalidRow: they are not those of a row that was written here: a person may have changed the table.
    """
    try:
        found = msgspec.convert(tuple(values), StoredRow)
    except msgspec.ValidationError as error:
        raise InvalidRow(PLACE.sub(lambda place: StoredRow.__struct_fields__[int(place[1])], str(error))) from error
    for name in JSON_FIELDS:
        try:
            _check_json(getattr(found, name))
        except (msgspec.DecodeError, ValueError) as error:
            raise InvalidRow(f"`{name}` is not a JSON object") from error
    time_of(found.decision_id)
    return found


def time_of(decision_id: str) -> datetime:
    """When a stored decision was made.

    Raises:
        InvalidRow: its id is not one that was made here.
    """
    try:
        return made_at(decision_id)
    except OverflowError as error:
        raise InvalidRow(f"`decision_id` has no valid time: {error}") from error


def row_size(stored: StoredRow) -> int:
    """The approximate bytes of a row's record as JSON: those of its JSON columns."""
    texts = [getattr(stored, name) for name in JSON_FIELDS]
    return sum(len(text) if text.isascii() else len(text.encode()) for text in texts)


def record(stored: StoredRow) -> LogRecord:
    """The record of a row."""
    return LogRecord(
        stored.decision_id,
        timestamp(stored.decision_id),
        Raw(stored.labels),
        stored.revision,
        stored.path,
        stored.requested_by,
        Raw(stored.input),
        Raw(stored.result),
        {"timer_server_handler_ns": stored.nanoseconds},
        ERASED_POINTERS if stored.erased else [],
    )


def record_json(entry: LogEntry | bytes, labels: str) -> bytes:
    """The record of an answer as JSON."""
    return encode(record(row(_decode_line(b"".join(line(entry))), labels)))


def timestamp(decision_id: str) -> str:
    """When a decision was made, as text in UTC, to the millisecond."""
    return made_at(decision_id).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(decision_id: str) -> int:
    """When a decision was made, in milliseconds since 1970, from its id (RFC 9562, version 7)."""
    return int(decision_id[:8] + decision_id[9:13], 16)


def made_at(decision_id: str) -> datetime:
    """When a decision was made."""
    return EPOCH + timedelta(milliseconds=milliseconds(decision_id))


def first_id(when: datetime) -> str:
    """The smallest id of decisions made at a time or after it."""
    hexadecimal = f"{max(0, int((when - EPOCH) / timedelta(milliseconds=1))):012x}"
    return f"{hexadecimal[:8]}-{hexadecimal[8:12]}-0000-0000-000000000000"
