"""How much work one request may ask for: the decisions of all its items, engines and explanations together.

Owns the counting. Each factor has a limit of its own elsewhere; this is the one on their product.
"""

from __future__ import annotations

from typing import Final

from service.problems import Refused

EXPLAINED: Final = 16
"""Decisions that an explained one counts as: it decides again for each assumption (measured: 6 to 20)."""


class WorkBudget:
    """The decisions and the bytes of answer that are left to one request."""

    def __init__(self, decisions: int, size: int) -> None:
        """``decisions`` is how many it may ask for, ``size`` how many bytes its answer may have."""
        self._decisions, self._size = decisions, size
        self._left = size
        self.spent = 0
        """Decisions made, an explained one for several."""

    def decide(self, *, explained: bool) -> None:
        """A decision is about to be made.

        Raises:
            Refused: the request has asked for as many as it may.
        """
        cost = EXPLAINED if explained else 1
        if self.spent + cost > self._decisions:
            raise Refused(
                "too-much-work",
                f"one request may ask for {self._decisions} decisions, an explained one counts as {EXPLAINED}; send it in parts",
            )
        self.spent += cost

    def answer(self, size: int) -> None:
        """``size`` bytes of the answer were made.

        Raises:
            Refused: it would be larger than it may be.
        """
        if size > self._left:
            raise Refused(
                "too-much-work", f"the answer would have more than {self._size} bytes; send the request in parts"
            )
        self._left -= size
