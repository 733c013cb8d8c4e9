"""The answer to a request for an impact: an item for each deployment, and the counts.

Owns the fields of the answer. ``service`` limits the work and turns errors into problems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from msgspec import UNSET, Raw, Struct, UnsetType

from policy.decision.decision import PolicyRef
from policy.defects import contained
from policy.errors import PolicyError, RequestInvalid
from policy.impact.counts import ImpactCounts  # noqa: TC001  # msgspec reads the annotations
from policy.impact.impact import MAX_REMEDIED, Impact
from policy.impact.items import item_json
from policy.impact.request import DocumentEntry, IgnoredEntry, entries_of
from policy.impact.rows import ImpactRows
from policy.impact.run import json_piece
from policy.impact.summary import summary_of, undecidable
from policy.impact.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from policy.impact.request import ImpactRequest
    from policy.impact.summary import Summary
    from policy.policy import Policy
    from policy.problems import Problem

MAX_TABLE_ROWS: Final = 50
"""How many deployments a table shows."""


class ImpactAnswer(Struct, frozen=True):
    """The answer; ``items`` has one for each deployment, in their order.

    ``complete`` is ``False`` if a limit left deployments out, which are then undecided.
    """

    targets: list[str]
    policy: PolicyRef
    items: list[Raw]
    counts: ImpactCounts
    complete: bool
    ignored: list[IgnoredEntry] | UnsetType = UNSET


class Limits(Protocol):
    """What may be spent on an answer."""

    def count_comparison(self, releases: int, remedied: int) -> None:
        """Count the decisions of ``releases`` releases for a deployment before they are made.

        ``remedied`` is the number of releases for which it may have remedies.

        Raises:
            PolicyError: the request has reached its limit.
        """

    def count_answer(self, size: int) -> None:
        """Count bytes of the answer.

        Raises:
            PolicyError: the answer would be too large.
        """


def impact_answer(
    request: ImpactRequest,
    policy: Policy,
    today: date,
    problem_of: Callable[[PolicyError], Problem],
    limits: Limits,
) -> tuple[ImpactAnswer, ImpactRows[DocumentEntry]]:
    """The answer, and the rows of its table."""
    impact = Impact(
        policy,
        request.targets,
        today,
        from_own=request.from_own,
        explained=request.explained,
        problem_of=problem_of,
    )
    tally, rows = Tally(request.targets), ImpactRows[DocumentEntry](MAX_TABLE_ROWS)
    items: list[Raw] = []
    ignored: list[IgnoredEntry] = []
    complete = True
    for entry in entries_of(request, policy.releases, ignored):
        try:
            try:
                piece, summary = _compared(entry, impact, request, limits)
            except RequestInvalid as error:
                piece, summary = _undecided(entry, problem_of(error))
            limits.count_answer(len(piece))
        except PolicyError as error:
            complete = False
            piece, summary = _undecided(entry, problem_of(error))
        items.append(Raw(piece))
        tally.add(summary)
        rows.add(entry, summary)
    names = [target.name for target in request.targets]
    counts = tally.end()
    return ImpactAnswer(names, PolicyRef(policy.revision), items, counts, complete, ignored or UNSET), rows


def _compared(entry: DocumentEntry, impact: Impact, request: ImpactRequest, limits: Limits) -> tuple[bytes, Summary]:
    if isinstance(entry.request, RequestInvalid):
        raise entry.request
    limits.count_comparison(request.decisions, min(len(request.explained), MAX_REMEDIED))
    with contained(entry.request.pointer):
        found = impact.compare(entry.request)
        return item_json(entry.name, entry.request_id, entry.place, json_piece(found)), summary_of(found)


def _undecided(entry: DocumentEntry, problem: Problem) -> tuple[bytes, Summary]:
    return item_json(entry.name, entry.request_id, entry.place, problem), undecidable(problem.detail)
