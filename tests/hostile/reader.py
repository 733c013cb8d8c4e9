"""A reader of users' texts, and families of hostile texts for it.

A family builds a text of about ``size`` bytes that is meant to make its reader do too much work for that length.
``test_growth`` reads each at n, 2n and 4n, counts instructions, and fails on growth beyond linear.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Reader:
    """A function that reads text from users; it may raise a ``PolicyError``, which is a legal result.

    ``bound`` is the maximum size of its text in bytes, ``families`` the texts by name, each a function of a size in
    bytes. ``counted`` limits the sizes that are counted if texts up to the bound would take too long.
    """

    read: Callable[[bytes], object]
    bound: int
    families: Mapping[str, Callable[[int], bytes]]
    counted: int = 32_768

    @property
    def largest(self) -> int:
        """The largest size at which the families are read."""
        return min(self.bound, self.counted)
