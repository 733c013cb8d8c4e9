"""JSON text → a document, within bounds, for bodies and files alike.

Owns the messages for text that is not JSON: what was found and at which byte. msgspec decodes; it rejects NaN,
infinities and lone surrogates, and uses the last of duplicate fields. The bytes of a body bound its values; a file may
be larger, so its keys and values are counted before it is decoded.
"""

from __future__ import annotations

import math
import re
from itertools import islice
from typing import Any, Final

import msgspec

from policy.errors import LimitExceeded, PolicyError

MAX_DEPTH: Final = 64
TOO_DEEP: Final = f"nested too deeply: at most {MAX_DEPTH} levels are read"

MAX_DIGITS: Final = 4300
HIGH, LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
ESCAPES: Final = re.compile(
    rb"(?P<half>" + HIGH + rb"(?!" + LOW + rb")|" + LOW + rb")|" + HIGH + LOW + rb"|\\.", re.DOTALL
)
REPLACEMENT: Final = rb"\ufffd"
NUMBERS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)', re.DOTALL)
"""A string or a number.

An unclosed string extends to the end of the text: if the closing quote were required, the search would start again at
each quote.
"""

SEPARATORS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|(?P<separator>[,:\[{])', re.DOTALL)
"""A string, which may be unclosed as in ``NUMBERS``, or a character after which a key or a value may begin."""

_decode: Final = msgspec.json.Decoder().decode


class NotJson(PolicyError):
    """The text is not JSON, or exceeds a bound; the message says why."""


class TooDeep(NotJson, LimitExceeded):
    """The text may be JSON, but has more levels than are read."""


class TooManyValues(NotJson, LimitExceeded):
    """The text may be JSON, but has more keys and values than are read."""


def read_json(body: bytes) -> Any:
    """The document in a text.

    Raises:
        NotJson: the text is not JSON, or is nested more than 64 levels deep.
    """
    try:
        document = _decode(body)
    except msgspec.DecodeError as error:
        raise NotJson(_advice(body, str(error))) from error
    except UnicodeDecodeError as error:
        raise NotJson(f"not UTF-8: byte {_bad_byte(body)} is not part of a character") from error
    except RecursionError as error:
        raise TooDeep(TOO_DEEP) from error
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _depth(document) > MAX_DEPTH:
        raise TooDeep(TOO_DEEP)
    return document


def with_replaced_halves(body: bytes) -> bytes | None:
    """A text with U+FFFD for each half of a surrogate pair, as Kubernetes' decoder has it; None if there is none."""
    text = ESCAPES.sub(lambda mark: REPLACEMENT if mark["half"] else mark.group(), body)
    return None if text == body else text


def most_values(text: bytes) -> int:
    """About how many keys and values a text has, or more: what separates them is counted also in strings; fast."""
    return sum(map(text.count, (b",", b":", b"[", b"{")))


def check_values(text: bytes, limit: int) -> None:
    """Check that a text has at most about ``limit`` keys and values.

    Raises:
        TooManyValues: it has more; nothing was decoded.
    """
    if most_values(text) <= limit:
        return
    found = (1 for mark in SEPARATORS.finditer(text) if mark["separator"])
    if next(islice(found, limit, None), None) is not None:
        raise TooManyValues(f"more than {limit} keys and values in JSON; write it in parts")


def _depth(document: Any) -> int:
    level, depth = [document], 0
    while level and depth <= MAX_DEPTH:
        level = [item for item in level if isinstance(item, list | dict)]
        depth += bool(level)
        level = [
            item for container in level for item in (container.values() if isinstance(container, dict) else container)
        ]
    return depth


def _bad_byte(body: bytes) -> int:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return error.start
    return 0


def _advice(body: bytes, found: str) -> str:
    if not body.strip():
        return (
            "the body is empty; send a request such as "
            '{"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}}'
        )
    if body.startswith(b"\xef\xbb\xbf"):
        return "the body begins with a byte order mark; send plain UTF-8"
    half = next((mark.start("half") for mark in ESCAPES.finditer(body) if mark["half"]), None)
    if half is not None:
        return f"not JSON: half of a surrogate pair (byte {half})"
    large = next(
        (mark.start() for mark in NUMBERS.finditer(body) if mark["number"] and _is_large(mark["number"])), None
    )
    if large is not None:
        return f"not JSON: a number that is too large (byte {large})"
    return f"not JSON: {found}"


def _is_large(number: bytes) -> bool:
    return len(number) > MAX_DIGITS or math.isinf(float(number))
