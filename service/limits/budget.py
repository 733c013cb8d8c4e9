"""The limit on the work of one request: the decisions on all its items, engines and explanations together.

Items, engines and explanations have their own limits elsewhere; this limits their product.
"""

from __future__ import annotations

from typing import Final

from service.problems import Refused

EXPLAINED_COST: Final = 64
"""How many decisions an explained one counts as: it decides again for each assumption and remedy (6 to 250 times)."""
VALUES_PER_DECISION: Final = 200
"""How many values of a checked request count as a decision for each engine: a value takes about a microsecond."""


class WorkBudget:
    """The decisions and the bytes of answer left to one request."""

    def __init__(self, decisions: int, size: int) -> None:
        """At most ``decisions`` decisions, and ``size`` bytes of answer."""
        self._decisions, self._size = decisions, size
        self._left = size
        self.spent = 0
        """Decisions made; an explained one counts as ``EXPLAINED_COST``."""

    def count_decision(self, *, explained: bool) -> None:
        """Count a decision before it is made.

        Raises:
            Refused: the request has reached its limit.
        """
        self._spend(EXPLAINED_COST if explained else 1, f"an explained one counts as {EXPLAINED_COST}")

    def count_check(self, values: int) -> None:
        """Count the check of a request with this many values for one engine, before it is made.

        Raises:
            Refused: the request has reached its limit.
        """
        self._spend(
            1 + values // VALUES_PER_DECISION,
            f"{VALUES_PER_DECISION} values of a checked `request` count as one for each engine",
        )

    def count_comparison(self, releases: int, remedied: int) -> None:
        """Count the decisions of ``releases`` releases on a deployment, before they are made.

        ``remedied`` is the number of releases for which it may have remedies.

        Raises:
            Refused: the request has reached its limit.
        """
        how = f", and as {EXPLAINED_COST * remedied} more with `explain`" if remedied else ""
        self._spend(
            releases + EXPLAINED_COST * remedied, f"each deployment or engine counts once for each release{how}"
        )

    def _spend(self, cost: int, how: str) -> None:
        if self.spent + cost > self._decisions:
            message = f"one request may ask for {self._decisions} decisions, {how}; send it in parts"
            raise Refused("too-much-work", message)
        self.spent += cost

    def count_answer(self, size: int) -> None:
        """Count ``size`` bytes of the answer.

        Raises:
            Refused: the answer would be too large.
        """
        if size > self._left:
            raise Refused(
                "too-much-work", f"the answer would have more than {self._size} bytes; send the request in parts"
            )
        self._left -= size
