"""Headers that are lists: which media type a client prefers, and which versions of an answer it has (RFC 9110)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Scope

HTML: Final = b"text/html"
JSON: Final = b"application/json"
TEXT: Final = b"text/plain"
HEADERS: Final = "runner_policy.headers"
"""The key of an ASGI scope whose value is ``headers_of`` that scope, so that its headers are read only once."""
JSON_VALUES: Final = frozenset({b"", b"*/*", b"application/json"})
"""Values of ``Accept`` that mean JSON, and need no parsing."""
MAX_LIST: Final = 1024
"""The longest header that is read as a list, in bytes: while one of 60 KiB is read, nothing is answered for 20 ms."""


def accept_of(scope: Scope) -> bytes:
    """The ``Accept`` of a request; several headers are one list (RFC 9110, section 5.3); empty if there is none."""
    return b", ".join(value for name, value in scope["headers"] if name == b"accept")


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The headers of a request by name: of several the last, but all ``Accept`` headers, and no ``Authorization``.

    Proxies differ in which of several ``Authorization`` headers they take, so none of several counts. The headers are
    read once for each request, which saves 1 of 50 µs of processor time for a repeated request.
    """
    known: dict[bytes, bytes] | None = scope.get(HEADERS)
    if known is not None:
        return known
    headers = dict(scope["headers"])
    if len(headers) < len(scope["headers"]):  # most requests have no name twice
        if b"accept" in headers:
            headers[b"accept"] = accept_of(scope)
        if sum(name == b"authorization" for name, _ in scope["headers"]) > 1:
            headers[b"authorization"] = b""
    scope[HEADERS] = headers
    return headers


def items_of(header: bytes) -> list[bytes]:
    """The items of a header that is a list; none if it has more than ``MAX_LIST`` bytes."""
    return header.split(b",") if len(header) <= MAX_LIST else []


def known_tags(scope: Scope) -> set[bytes]:
    """The entity tags in ``If-None-Match``, as if all were strong (RFC 9110, section 13.1.2)."""
    return {tag.strip().removeprefix(b"W/") for tag in items_of(headers_of(scope).get(b"if-none-match", b""))}


def preferred_type(accept: bytes, offered: Sequence[bytes]) -> bytes | None:
    """The offered media type with the highest weight, of several the first; ``None`` if the client names none of them.

    Ranges such as ``*/*`` name none: a client that wants a different form than the default has to name it.
    """
    weights = dict.fromkeys(offered, 0.0)
    for part in items_of(accept.lower()):
        media, *parameters = (piece.strip() for piece in part.split(b";"))
        if media in weights:
            weights[media] = next((_weight(piece[2:]) for piece in parameters if piece.startswith(b"q=")), 1.0)
    best, highest = None, 0.0
    for media, weight in weights.items():
        if weight > highest:
            best, highest = media, weight
    return best


def prefers_text(accept: bytes) -> bool:
    """Whether ``text/plain`` is preferred to JSON, which is the default."""
    return accept not in JSON_VALUES and preferred_type(accept, (JSON, TEXT)) == TEXT


def wants_text(scope: Scope) -> bool:
    """Whether the client of a request prefers ``text/plain`` to JSON."""
    return prefers_text(accept_of(scope))


def _weight(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
