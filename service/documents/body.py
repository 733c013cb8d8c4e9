"""The bytes of a body → a document: JSON, YAML or a stream of lines, within bounds.

Owns the reading of bodies: their size, their encoding, and the errors of unreadable ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.errors import RulesInvalid
from policy.intake.manifests.compose_yaml import resolve_variables
from policy.messages import quoted
from policy.parser.jsontext import NotJson, read_json
from policy.parser.yamltree import MAX_BYTES, read_documents
from policy.request.documents import join_documents, read_json_manifest
from service.documents.accept import JSON_VALUES, prefers_text
from service.problems import Refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.types import Message, Receive

    from service.limits.slots import HeldBody

YAML_TYPES: Final = frozenset({b"application/yaml", b"application/x-yaml", b"text/yaml", b"text/x-yaml"})
MAX_LENGTH: Final = 20
"""Digits of a content-length; 20 are enough for 64 bits."""
NDJSON_TYPES: Final = (b"application/x-ndjson", b"application/ndjson", b"application/jsonl")
CHUNK_SIZE: Final = 32 << 10
"""Bytes of a stream split at once; they may hold almost as many lines."""


class Disconnected(Exception):
    """The client disconnected before its body was complete."""


class Headers(Struct, frozen=True, gc=False):
    """The content type of the body, and whether the client wants a text answer."""

    content_type: bytes
    wants_text: bool
    whole_type: bytes = b""
    """The content type with its parameters."""


JSON_HEADERS: Final = Headers(b"application/json", wants_text=False)


def read_headers(headers: Mapping[bytes, bytes], limit: int) -> Headers:
    """Read the headers that concern the body and the form of the answer.

    Raises:
        Refused: the content-length is invalid or over the limit, or the body is compressed.
    """
    length = headers.get(b"content-length", b"0").strip(b" \t")
    if not length.isdigit() or len(length) > MAX_LENGTH:
        raise Refused(
            "malformed",
            f"the content-length {quoted(length.decode('latin-1'))} is not a number of at most {MAX_LENGTH} digits",
        )
    if int(length) > limit:
        raise Refused(
            "too-large",
            f"{int(length)} bytes are more than the {limit} that are read; "
            "send less, or a stream of lines to /v1/decisions/batch",
        )
    encoding = headers.get(b"content-encoding", b"")
    if encoding and encoding.strip().lower() not in {b"", b"identity"}:
        raise Refused(
            "unsupported-encoding",
            f"the body is {quoted(encoding.decode('latin-1'))}-encoded; send it without an encoding",
        )
    content_type = headers.get(b"content-type", b"")
    accept = headers.get(b"accept", b"")
    if content_type == b"application/json" and accept in JSON_VALUES:
        return JSON_HEADERS
    media_type = content_type.partition(b";")[0].strip().lower()
    return Headers(media_type, prefers_text(accept), content_type)


async def read_body(receive: Receive, limit: int, held: HeldBody, message: Message | None = None) -> bytes:
    """Receive the whole body, as the content of ``held``; ``message`` is its first part if that was received already.

    Raises:
        Refused: it is longer than ``limit`` bytes, or the process or the caller has as many bytes of bodies as it may.
        Disconnected: the client disconnected.
    """
    chunks: list[bytes] = []
    size = 0
    message = message or await receive()
    while True:
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        held.add(len(chunk))
        chunks.append(chunk)
        if not message.get("more_body", False):
            held.content = b"".join(chunks)
            return held.content
        message = await receive()


def too_large(limit: int) -> Refused:
    """The error for a body or line over the limit."""
    return Refused("too-large", f"more than the {limit} bytes that are read")


def decode(body: bytes, content_type: bytes = b"") -> Any:
    """The document in a body: YAML if its content type says so, else JSON.

    Raises:
        Refused: it is neither.
    """
    if content_type in YAML_TYPES:
        return _decode_yaml(body)
    try:
        return read_json_manifest(body, read_json)
    except NotJson as error:
        hint = "; YAML is read with `content-type: application/yaml`" if str(error).startswith("not JSON") else ""
        raise Refused("malformed", f"{error}{hint}") from error


def _decode_yaml(body: bytes) -> Any:
    if len(body) > MAX_BYTES:
        raise Refused("too-large", f"a YAML body may have at most {MAX_BYTES} bytes; send JSON")
    try:
        documents = read_documents(body.decode(), "body", resolve=resolve_variables)
    except UnicodeDecodeError as error:
        raise Refused("malformed", f"not UTF-8: byte {error.start} is not part of a character") from error
    except RulesInvalid as error:
        fault = error.faults[0]
        raise Refused("malformed", f"line {fault.line}, column {fault.column}: {fault.message}") from error
    return join_documents(documents)


async def read_lines(receive: Receive, limit: int) -> AsyncIterator[list[bytes | Refused]]:
    """The lines of a stream as they arrive, a list for each piece of a chunk.

    A line over the limit is replaced by an error. Empty lines are skipped. Memory is bounded by the limit and one
    chunk.

    Raises:
        Disconnected: the client disconnected.
    """
    incomplete = bytearray()  # a line that has not ended; a bytearray, so that appending does not copy it
    skipping = False
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        more = message.get("more_body", False)
        body = message.get("body", b"")
        for start in range(0, len(body) or 1, CHUNK_SIZE):
            pieces = body[start : start + CHUNK_SIZE].split(b"\n")
            rest = pieces.pop() if more or start + CHUNK_SIZE < len(body) else b""
            if pieces:
                pieces[0] = b"" if skipping else bytes(incomplete) + pieces[0]
                incomplete.clear()
                skipping = False
            whole = filter(bytes.strip, filter(None, pieces))
            lines: list[bytes | Refused] = [too_large(limit) if len(piece) > limit else piece for piece in whole]
            if not skipping:
                incomplete += rest
            if len(incomplete) > limit:
                lines.append(too_large(limit))
                incomplete.clear()
                skipping = True
            yield lines
