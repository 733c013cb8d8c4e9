"""Compares each release with the next one, in several processes if there are several cores.

Owns the steps between releases. The steps and their order do not depend on the number of processes.
"""

from __future__ import annotations

from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Self

from policy.policy import Policy
from policy.processes import pool
from policy.proof.difference import Difference, differences
from policy.proof.replay import Replay
from policy.rules.catalogue import load
from policy.rules.releases import series

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from policy.rules.loader import Sources


@dataclass(frozen=True, slots=True)
class Step:
    """The differences between a release and the next; if there are none, the two are proved equivalent."""

    before: str
    after: str
    changes: tuple[Difference, ...]


class Steps:
    """The steps of a loaded policy; with its ``sources``, ``processes`` compare them while the caller works on."""

    def __init__(self, policy: Policy, sources: Sources | None = None, processes: int = 1) -> None:
        self._policy = policy
        self._pairs = list(pairwise(policy.catalogue.releases.known))
        self._pool = None if sources is None or processes < 2 else pool(processes, _start, sources)  # noqa: PLR2004
        self._futures: list[Future[Step]] = (
            [] if self._pool is None else [self._pool.submit(_step_here, *pair) for pair in self._pairs]
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def all(self, progress: Callable[[str], None]) -> Iterator[Step]:
        """Each step, in the order of the releases; ``progress`` is called with its name before it.

        Raises:
            ProofFailed: the policy decides a witness differently from the solver.
        """
        for n, (before, after) in enumerate(self._pairs):
            progress(f"{before} to {after}")
            try:
                yield self._futures[n].result() if self._futures else _step(self._policy, before, after)
            except BrokenProcessPool:
                yield _step(self._policy, before, after)


_policies: list[Policy] = []
"""The policy of a process of the pool."""


def _start(sources: Sources) -> None:
    _policies.append(Policy(load(sources)))


def _step_here(before: str, after: str) -> Step:
    return _step(_policies[0], before, after)


def _step(policy: Policy, before: str, after: str) -> Step:
    rules = policy.catalogue.rules_of(before), policy.catalogue.rules_of(after)
    replay = Replay((policy, before), (policy, after))
    return Step(before, after, tuple(differences(*rules, (series(before), series(after)), replay)))
