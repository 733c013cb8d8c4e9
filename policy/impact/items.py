"""The items of an impact as JSON, the same from the command line and over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.decision.decision import encode

if TYPE_CHECKING:
    from msgspec import Struct

    from policy.problems import Problem


def item_json(name: str, request_id: str | None, place: Struct, found: bytes | Problem) -> bytes:
    """A deployment as JSON: its name, id and place, and the fields of its comparison or the problem."""
    start = b'{"name":%b,"request_id":%b,"place":%b,' % (encode(name), encode(request_id), encode(place))
    return start + found[1:] if isinstance(found, bytes) else b'%b"problem":%b}' % (start, encode(found))
