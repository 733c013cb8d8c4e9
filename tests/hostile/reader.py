"""A reader of what users send, and the families of hostile texts that it is tried with.

A family gives a text of about ``size`` bytes that is built to make its reader do more work than a text of that
length deserves. ``test_growth`` reads each at n, 2n and 4n, counts instructions, and fails on growth beyond linear.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Reader:
    """A function that reads text from users; it may raise a ``PolicyError``, which is an answer too.

    ``bound`` is how many bytes it takes at most, ``families`` the texts by name, each a function of a size in bytes.
    ``tried`` is the largest size at which they are read, where the bound would take too long to count.
    """

    read: Callable[[bytes], object]
    bound: int
    families: Mapping[str, Callable[[int], bytes]]
    tried: int = 32_768

    @property
    def largest(self) -> int:
        """The largest size at which the families are read."""
        return min(self.bound, self.tried)
