"""The limit on the work of one request: the decisions on all its items, engines and explanations together.

Items, engines and explanations have their own limits elsewhere; this limits their product.
"""

from __future__ import annotations

from typing import Final

from service.problems import Refused

EXPLAINED: Final = 64
"""The decisions that an explained one counts as: it decides again for each assumption and remedy (6 to 250)."""


class WorkBudget:
    """The decisions and the bytes of answer left to one request."""

    def __init__(self, decisions: int, size: int) -> None:
        """At most ``decisions`` decisions, and ``size`` bytes of answer."""
        self._decisions, self._size = decisions, size
        self._left = size
        self.spent = 0
        """Decisions made; an explained one counts as ``EXPLAINED``."""

    def decide(self, *, explained: bool) -> None:
        """Count a decision before it is made.

        Raises:
            Refused: the request has reached its limit.
        """
        cost = EXPLAINED if explained else 1
        if self.spent + cost > self._decisions:
            raise Refused(
                "too-much-work",
                f"one request may ask for {self._decisions} decisions, an explained one counts as {EXPLAINED}; "
                "send it in parts",
            )
        self.spent += cost

    def answer(self, size: int) -> None:
        """Count ``size`` bytes of the answer.

        Raises:
            Refused: the answer would be too large.
        """
        if size > self._left:
            raise Refused(
                "too-much-work", f"the answer would have more than {self._size} bytes; send the request in parts"
            )
        self._left -= size
