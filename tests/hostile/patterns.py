"""A reader for every regular expression of the packages, with each of its uses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from hostile.pattern_uses import uses
from hostile.searching import reader

if TYPE_CHECKING:
    from hostile.reader import Reader


def readers() -> dict[str, Reader]:
    """Each pattern of the packages with each of its uses, by the first place of it."""
    places: dict[tuple[Any, int, str], str] = {}
    for place, pattern, method in uses():
        places.setdefault((pattern.pattern, pattern.flags, method), place)
    return {place: reader(re.compile(pattern, flags), method) for (pattern, flags, method), place in places.items()}


READERS: Final = readers()
