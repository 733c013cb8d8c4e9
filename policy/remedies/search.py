"""The search for the smallest sets of changes that help, and what they are for.

Owns the order of the search: one change, then two, then three, each time the cheapest first. A set counts only if the
deployment with it, decided again, does what is asked for. Changes that every set needs are not counted.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.decision.remedies import Change, Remedy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policy.remedies.changes import Candidate

MAX_CHANGES: Final = 3
MAX_NEEDED: Final = 16
"""The maximum number of changes that every set needs; with more, there is no search."""
MAX_REMEDIES: Final = 5
MAX_DECISIONS: Final = 96
"""The largest number of decisions that a search makes."""


class State(Struct, frozen=True):
    """What a decision says: the runner, whether vLLM starts, and the known problems of the runner."""

    runner: str | None
    starts: bool
    problems: frozenset[str] = frozenset()


class RemedySearch:
    """A search with a limited number of decisions. ``decide`` returns the state with changes, ``None`` if refused.

    ``needed`` are the changes that every set has.
    """

    def __init__(self, decide: Callable[[Sequence[Candidate]], State | None], needed: Sequence[Candidate] = ()) -> None:
        self._decide, self._needed = decide, tuple(needed)
        self._known: dict[tuple[int, ...], State | None] = {}

    def smallest(
        self, candidates: Sequence[Candidate], helps: Callable[[State], bool]
    ) -> list[tuple[tuple[Candidate, ...], State]]:
        """The sets of changes of the smallest size that help; ``[]`` if there is none within the limits."""
        if len(self._needed) > MAX_NEEDED:
            return []
        keys = [each.key for each in candidates[:MAX_DECISIONS]]
        needed = frozenset(change.key for change in self._needed)
        for size in range(0 if self._needed else 1, MAX_CHANGES + 1):
            found = []
            for places in _with_distinct(keys, size, needed):
                changes = (*self._needed, *(candidates[place] for place in places))
                if places not in self._known and len(self._known) >= MAX_DECISIONS:
                    break
                state = self._state(places, changes)
                if state is not None and helps(state):
                    found.append((changes, state))
            if found:
                return _cheapest(found)[:MAX_REMEDIES]
        return []

    def _state(self, places: tuple[int, ...], changes: Sequence[Candidate]) -> State | None:
        if places not in self._known:
            self._known[places] = self._decide(changes)
        return self._known[places]


def _with_distinct(keys: Sequence[str], size: int, used: frozenset[str], start: int = 0) -> Iterator[tuple[int, ...]]:
    """The sets of ``size`` places from ``start`` on with different keys, none of them ``used``; the first ones first.

    There can be many places with the same key, as the members of one JSON option have.
    """
    if size == 0:
        yield ()
        return
    for place in range(start, len(keys)):
        if keys[place] not in used:
            for others in _with_distinct(keys, size - 1, used | {keys[place]}, place + 1):
                yield place, *others


def _cheapest(
    found: Sequence[tuple[tuple[Candidate, ...], State]],
) -> list[tuple[tuple[Candidate, ...], State]]:
    """The sets in order of their cost, without those that change the same things as a cheaper one."""
    by_keys: dict[frozenset[str], tuple[tuple[Candidate, ...], State]] = {}
    for each in sorted(found, key=_cost):
        by_keys.setdefault(frozenset(change.key for change in each[0]), each)
    return list(by_keys.values())


def _cost(found: tuple[tuple[Candidate, ...], State]) -> int:
    return sum(change.cost for change in found[0])


def purposes(state: State) -> dict[str, Callable[[State], bool]]:
    """What remedies are for, in the state of a decision, each with a test whether another state reaches it."""
    if not state.starts:
        return {"start": lambda other: other.starts}
    found: dict[str, Callable[[State], bool]] = {}
    if state.runner == "v1":
        found["v2"] = lambda other: other.starts and other.runner == "v2"
    for problem in sorted(state.problems):
        found[problem] = partial(_avoids, problem, state)
    return found


def _avoids(problem: str, state: State, other: State) -> bool:
    return other.starts and problem not in other.problems and len(other.problems) < len(state.problems)


def remedies(
    state: State,
    candidates: Sequence[Candidate],
    search: RemedySearch,
    release: Callable[[Callable[[State], bool]], tuple[Change, State] | None],
) -> list[Remedy]:
    """The smallest changes for each purpose; ``release`` finds the first later release that reaches a purpose."""
    found = []
    for purpose, helps in purposes(state).items():
        later = release(helps)
        if later is not None:
            change, after = later
            found.append(Remedy(purpose, [change], after.runner, after.starts))
        for changes, after in search.smallest(candidates, helps):
            found.append(Remedy(purpose, [each.change for each in changes], after.runner, after.starts))
    return found
