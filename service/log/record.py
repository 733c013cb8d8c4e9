"""A decision as it is logged: what was asked, what was answered, by which rules, for whom, how long it took.

Owns the members of a record, which are named as in the decision logs of Open Policy Agent, and that nothing
is kept beyond the facts: no argument, no file, no variable that rules do not read.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from policy.releases import series

if TYPE_CHECKING:
    from policy.policy import Answer
    from policy.request import Request

encode: Final = msgspec.json.Encoder().encode
_raw: Final = msgspec.Raw
ID_START: Final = len('{"decision_id":"')
ID_END: Final = ID_START + 36
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
UPSTREAM_ONLY: Final = ["upstream"]
ERASED: Final = ["/input/deployment"]


class Entry(Struct, frozen=True, gc=False):
    """A decision that was just made, as cheap to note as can be; ``row`` makes the rest of it.

    ``path`` is the call without its first slash, ``nanoseconds`` how long the answer took.
    """

    answer: Answer
    request: Request
    revision: str
    path: str
    requested_by: str
    nanoseconds: int


class Input(Struct, frozen=True, omit_defaults=True):
    """What was asked: the facts that are not by default; of a deployment those that were derived of it."""

    vllm_version: str
    facts: Any
    layers: list[str] | UnsetType = UNSET
    request_id: str | UnsetType = UNSET


class Row(Struct, frozen=True, array_like=True, gc=False):
    """A record as the store has it, in the order of its columns; ``labels``, ``input`` and ``result`` are JSON."""

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


class Record(Struct, frozen=True, omit_defaults=True):
    """A record as it is shown. ``erased`` has JSON pointers (RFC 6901) to what was asked and not kept."""

    decision_id: str
    timestamp: str
    labels: msgspec.Raw
    revision: str
    path: str
    requested_by: str
    input: msgspec.Raw
    result: msgspec.Raw
    metrics: dict[str, int]
    erased: list[str] = []


def row(entry: Entry, labels: str) -> Row:
    """What the store keeps of an entry."""
    request, weighed = entry.request, entry.answer.weighed
    effect = weighed.ruling.effect
    asked = Input(
        request.vllm_version,
        weighed.facts.document(series(request.release.decided_as)),
        UPSTREAM_ONLY if request.upstream_only else UNSET,
        UNSET if request.request_id is None else request.request_id,
    )
    result = _result(entry.answer)
    return Row(
        result[ID_START:ID_END],
        entry.requested_by,
        entry.path,
        effect.runner,
        effect.outcome,
        weighed.final.starts,
        request.release.decided_as,
        entry.revision,
        entry.nanoseconds,
        request.deployment is not None,
        labels,
        encode(asked).decode(),
        result,
    )


def _result(answer: Answer) -> str:
    """The decision without what explains it, and without arguments that decide nothing, which may be anything."""
    if answer.decision is None:
        return answer.json.decode()
    made_at = answer.json[ID_START:ID_END].decode()  # an answer that was kept has another id each time
    return encode(replace(answer.decision, decision_id=made_at, trace=UNSET, assumptions=UNSET, ignored_args=UNSET)).decode()


def record(kept: Row) -> Record:
    """A record of the store as it is shown."""
    return Record(
        kept.decision_id,
        timestamp(kept.decision_id),
        _raw(kept.labels),
        kept.revision,
        kept.path,
        kept.requested_by,
        _raw(kept.input),
        _raw(kept.result),
        {"timer_server_handler_ns": kept.nanoseconds},
        ERASED if kept.erased else [],
    )


def timestamp(decision_id: str) -> str:
    """When a decision was made, in UTC to the millisecond: its id says so (RFC 9562, version 7)."""
    made = EPOCH + timedelta(milliseconds=int(decision_id[:8] + decision_id[9:13], 16))
    return made.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def first_id(moment: datetime) -> str:
    """The smallest id that a decision can have that is made at a moment or after it."""
    hexadecimal = f"{max(0, int((moment - EPOCH) / timedelta(milliseconds=1))):012x}"
    return f"{hexadecimal[:8]}-{hexadecimal[8:12]}-0000-0000-000000000000"
