"""Readers whose work is not linear, to show that the counting finds them, and a linear one."""

from __future__ import annotations

import re
from typing import Final

from hostile.reader import Reader

UNCLOSED_QUOTE: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
AMBIGUOUS: Final = re.compile(rb"(?:a+)+b")


def _copy(text: bytes) -> bytes:
    rest = b""
    for start in range(0, len(text), 64):
        rest = b"%b%b" % (rest, text[start : start + 64])
    return rest


def _letters(size: int) -> bytes:
    return b"a" * size


READERS: Final = {
    "linear": Reader(bytes.upper, 1 << 20, {"letters": _letters}),
    "scanned again from each quote": Reader(
        UNCLOSED_QUOTE.findall, 1024, {"quotes": lambda size: b'\\"' * (size // 2)}
    ),
    "copied for each part": Reader(_copy, 1 << 20, {"letters": _letters}, counted=1 << 17),
    "exponential in the letters": Reader(AMBIGUOUS.fullmatch, 256, {"letters": _letters}),
    "not read any more": Reader(bytes.upper, 1 << 20, {"letters": _letters}),
}
