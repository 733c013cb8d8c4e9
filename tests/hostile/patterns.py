"""A reader for every regular expression of the packages, with each of its uses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from hostile.pattern_uses import uses
from hostile.searching import reader

if TYPE_CHECKING:
    from hostile.reader import Reader


def readers() -> dict[str, Reader]:
    """A reader for each pattern and method, by the position of its first use."""
    positions: dict[tuple[Any, int, str], str] = {}
    for position, pattern, method in uses():
        positions.setdefault((pattern.pattern, pattern.flags, method), position)
    return {
        position: reader(re.compile(pattern, flags), method) for (pattern, flags, method), position in positions.items()
    }


READERS: Final = readers()
