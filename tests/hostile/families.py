"""Families of hostile texts that repeat something: functions of a size in bytes, as ``Reader`` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Family = Callable[[int], bytes]


def repeated(unit: bytes, before: bytes = b"", after: bytes = b"") -> Family:
    """Copies of ``unit``."""
    return lambda size: before + unit * ((size - len(before) - len(after)) // len(unit)) + after


def numbered(unit: bytes, before: bytes = b"", after: bytes = b"") -> Family:
    """Copies of ``unit``, each with another number."""
    return lambda size: before + b"".join(unit % number for number in range(size // (len(unit) + 3))) + after
