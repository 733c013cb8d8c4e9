"""Compares each release with the next one, in several processes if there are several cores.

Owns the steps between releases. The steps and their order do not depend on the number of processes.
"""

from __future__ import annotations

from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Self

from policy.garbage import collect_rarely
from policy.policy import Policy
from policy.processes import pool
from policy.proof.difference import Difference, differences
from policy.proof.replay import PolicyPair
from policy.proof.requests import RequestDifference, RequestReplay, request_differences
from policy.rules.catalogue import load
from policy.rules.releases import series
from policy.sampling.check import RequestChecker
from policy.sampling.fields import is_checked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from policy.rules.loader import Sources


@dataclass(frozen=True, slots=True)
class Step:
    """The differences between a release and the next; if there are none, the two are proved equivalent.

    ``requests`` has the differences in what becomes of requests, which do not count for that.
    """

    before: str
    after: str
    changes: tuple[Difference, ...]
    requests: tuple[RequestDifference, ...] = ()


class Steps:
    """The steps of a loaded policy; with its ``sources``, ``processes`` compare them while the caller works on."""

    def __init__(self, policy: Policy, sources: Sources | None = None, processes: int = 1) -> None:
        self._checker = RequestChecker(policy)
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
                yield self._futures[n].result() if self._futures else _step(self._checker, before, after)
            except BrokenProcessPool:
                yield _step(self._checker, before, after)


_checkers: list[RequestChecker] = []
"""The policy of a process of the pool, with what checks requests by it."""


def _start(sources: Sources) -> None:
    collect_rarely()
    _checkers.append(RequestChecker(Policy(load(sources))))


def _step_here(before: str, after: str) -> Step:
    return _step(_checkers[0], before, after)


def _step(checker: RequestChecker, before: str, after: str) -> Step:
    policy = checker.policy
    rules = policy.catalogue.rules_of(before), policy.catalogue.rules_of(after)
    replay = PolicyPair((policy, before), (policy, after))
    changes = differences(*rules, (series(before), series(after)), replay)
    if not is_checked(before):
        return Step(before, after, tuple(changes))
    about = policy.catalogue.request_rules_of(before), policy.catalogue.request_rules_of(after)
    requests = request_differences(*about, (before, after), RequestReplay((checker, before), (checker, after)))
    return Step(before, after, tuple(changes), tuple(requests))
