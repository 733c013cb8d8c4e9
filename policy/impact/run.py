"""Runs a job on the entries of a fleet or a log, in one process or in several, and keeps their order.

Owns what is sent to a process and what comes back. Each different deployment is decided once, as long as there is room
to keep its result; the results and their order do not depend on the number of processes. ``AnyJob`` and ``AnyWorker``
are the interfaces of what a run needs; ``ImpactJob`` and ``ImpactWorker`` implement them for impact.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from policy.decision.decision import encode
from policy.defects import contained
from policy.errors import RequestInvalid
from policy.impact.impact import MAX_REMEDIED, Impact
from policy.impact.summary import Summary, summary_of, undecidable
from policy.intake.model_finder import ModelFinder
from policy.policy import Policy
from policy.problems import Problem, request_problem
from policy.processes import pool
from policy.rules.catalogue import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import ProcessPoolExecutor
    from datetime import date
    from pathlib import Path

    from policy.errors import Remedies
    from policy.impact.impact import ReleaseComparison
    from policy.impact.targets import TargetRelease
    from policy.request.request import Request
    from policy.rules.loader import Sources

DECISIONS_OF_CHUNK: Final = 3_000
"""How many decisions a process makes before it returns the results: about a second of work."""
MAX_KEPT_ANSWERS: Final = 240_000
"""How many answers are kept for equal deployments; they take about 250 MB."""
DECISIONS_OF_REMEDIES: Final = 60
"""About how many decisions it takes to find the remedies for one release."""
CHUNKS_AHEAD: Final = 3
"""The chunks for each process that are read before the first is written."""

E = TypeVar("E")
R = TypeVar("R")
Q = TypeVar("Q")
Q_contra = TypeVar("Q_contra", contravariant=True)


class AnyWorker(Protocol[Q_contra, R]):
    """Decides deployments in one process, each with a result."""

    def key(self, request: Q_contra) -> bytes:
        """A key that is equal only for deployments with equal results."""

    def decide_all(self, requests: Sequence[Q_contra]) -> tuple[list[R], list[str]]:
        """Decide deployments; return the results in their order, and the models that were looked up."""

    def unreadable(self, error: RequestInvalid) -> R:
        """The result of a deployment that cannot be read."""


class AnyJob(Protocol[Q_contra, R]):
    """What a process needs to decide deployments."""

    @property
    def decisions(self) -> int:
        """About how many decisions a result takes: its time."""

    @property
    def answers(self) -> int:
        """About how many answers a result has: its memory."""

    def start(self) -> AnyWorker[Q_contra, R]:
        """A worker with a policy of its own."""

    def worker(self, policy: Policy, finder: ModelFinder) -> AnyWorker[Q_contra, R]:
        """A worker with this policy, which looks up models with this finder."""


class ImpactJob(Struct, frozen=True):
    """What a process needs to compare deployments; ``piece`` makes what a format writes of a comparison."""

    sources: Sources
    default_release: str | None
    targets: tuple[TargetRelease, ...]
    today: date
    from_own: bool
    piece: Callable[[ReleaseComparison], Any]
    remedies: Remedies
    named: Mapping[str, Path]
    folder: Path | None
    hub: bool
    explained: tuple[TargetRelease, ...] = ()

    @property
    def decisions(self) -> int:
        """How many decisions a deployment takes: one for each release, and about as many as its remedies take."""
        return max(1, len(self.targets) + self.from_own) + DECISIONS_OF_REMEDIES * self._remedied

    @property
    def answers(self) -> int:
        """How many answers a deployment has: one for each release; the remedies for a release count as one more."""
        return max(1, len(self.targets) + self.from_own + self._remedied)

    @property
    def _remedied(self) -> int:
        """The most releases that have remedies."""
        return min(len(self.explained), MAX_REMEDIED)

    def start(self) -> ImpactWorker:
        """A worker with a policy of its own."""
        return self.worker(*loaded(self.sources, self.default_release, self.named, self.folder, hub=self.hub))

    def worker(self, policy: Policy, finder: ModelFinder) -> ImpactWorker:
        """A worker with this policy, which looks up models with this finder."""
        impact = Impact(
            policy, self.targets, self.today, from_own=self.from_own, explained=self.explained, remedies=self.remedies
        )
        return ImpactWorker(impact, finder, self.piece)


def loaded(
    sources: Sources, default_release: str | None, named: Mapping[str, Path], folder: Path | None, *, hub: bool
) -> tuple[Policy, ModelFinder]:
    """The policy of a process, and the finder with which it looks up models."""
    finder = ModelFinder(named, hub=hub, folder=folder)
    return Policy(load(sources), default_release, finder.find, compile_all=False), finder


class ImpactResult(Struct, frozen=True, gc=False):
    """A deployment's impact in short, and what the format writes of it."""

    summary: Summary
    piece: Any
    problem: Problem | None = None


class ImpactWorker:
    """Compares deployments in one process."""

    def __init__(self, impact: Impact, finder: ModelFinder, piece: Callable[[ReleaseComparison], Any]) -> None:
        self.impact, self._finder, self._piece = impact, finder, piece

    def key(self, request: Request) -> bytes:
        """A key that is equal only for equal deployments."""
        return self.impact.key(request)

    def unreadable(self, error: RequestInvalid) -> ImpactResult:
        """The result of a deployment that no release can decide."""
        problem = request_problem(error, remedies=self.impact.remedies)
        return ImpactResult(undecidable(problem.detail), None, problem)

    def decide_all(self, requests: Sequence[Request]) -> tuple[list[ImpactResult], list[str]]:
        """Compare deployments; return the results in their order, and the models that were looked up."""
        return [self._result(request) for request in requests], self._finder.use.names

    def _result(self, request: Request) -> ImpactResult:
        try:
            with contained(request.pointer):
                found = self.impact.compare(request)
                return ImpactResult(summary_of(found), self._piece(found))
        except RequestInvalid as error:
            return self.unreadable(error)


_worker: list[AnyWorker[Any, Any]] = []
"""The worker of a process of the pool."""


def _start(job: AnyJob[Any, Any]) -> None:
    _worker.append(job.start())


def _decide_all(requests: list[Any]) -> tuple[list[Any], list[str]]:
    return _worker[0].decide_all(requests)


def json_piece(found: ReleaseComparison) -> bytes:
    """A comparison as JSON."""
    return encode(found)


def no_piece(_: ReleaseComparison) -> None:
    """``None``, for a format that needs only the summary."""


class Chunk(Struct):
    """Entries in their order with the keys of their deployments, and the new deployments among them."""

    entries: list[tuple[Any, bytes | RequestInvalid]]
    keys: list[bytes]
    requests: list[Any]
    future: Future[tuple[list[Any], list[str]]] | None = None


class Run(Generic[Q, R]):
    """Runs a job on many entries, in this process or in several."""

    def __init__(self, job: AnyJob[Q, R], policy: Policy, finder: ModelFinder, processes: int) -> None:
        self._job, self._processes = job, max(1, processes)
        self._finder = finder
        self._worker = job.worker(policy, finder)
        self._kept: dict[bytes, R] = {}
        self._promised: set[bytes] = set()
        self._pool: ProcessPoolExecutor | None = None

    def results(self, entries: Iterable[E], request_of: Callable[[E], Q | RequestInvalid]) -> Iterator[tuple[E, R]]:
        """Each entry with its result, in their order."""
        size = max(1, DECISIONS_OF_CHUNK // self._job.decisions)
        left = iter(entries)
        waiting: deque[Chunk] = deque()
        try:
            while part := list(islice(left, size)):
                chunk = self._chunk(part, request_of)
                if self._pool is None and self._processes > 1 and (len(part) == size or waiting):
                    self._pool = self._open()
                if self._pool is not None and chunk.requests:
                    self._submit(chunk)
                waiting.append(chunk)
                if len(waiting) > self._processes * CHUNKS_AHEAD or self._pool is None:
                    yield from self._drained(waiting.popleft())
            while waiting:
                yield from self._drained(waiting.popleft())
        finally:
            if self._pool is not None:
                self._pool.shutdown(wait=True, cancel_futures=True)

    def _open(self) -> ProcessPoolExecutor:
        return pool(self._processes, _start, self._job)

    def _submit(self, chunk: Chunk) -> None:
        assert self._pool is not None
        try:
            chunk.future = self._pool.submit(_decide_all, chunk.requests)
        except BrokenProcessPool:
            self._give_up()

    def _give_up(self) -> None:
        """Go on without the pool after one of its processes has ended."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool, self._processes = None, 1

    def _chunk(self, part: list[E], request_of: Callable[[E], Q | RequestInvalid]) -> Chunk:
        chunk = Chunk([], [], [])
        here: set[bytes] = set()
        room = MAX_KEPT_ANSWERS // self._job.answers
        for entry in part:
            request = request_of(entry)
            if isinstance(request, RequestInvalid):
                chunk.entries.append((entry, request))
                continue
            key = blake2b(self._worker.key(request), digest_size=20).digest()
            chunk.entries.append((entry, key))
            if key in self._promised or key in here:
                continue
            here.add(key)
            if len(self._promised) < room:
                self._promised.add(key)
            chunk.keys.append(key)
            chunk.requests.append(request)
        return chunk

    def _drained(self, chunk: Chunk) -> Iterator[tuple[Any, R]]:
        found = dict(zip(chunk.keys, self._found(chunk), strict=True))
        self._kept.update((key, result) for key, result in found.items() if key in self._promised)
        for entry, key in chunk.entries:
            if isinstance(key, RequestInvalid):
                yield entry, self._worker.unreadable(key)
            else:
                yield entry, found[key] if key in found else self._kept[key]

    def _found(self, chunk: Chunk) -> list[R]:
        if chunk.future is not None:
            try:
                results, models = chunk.future.result()
            except (BrokenProcessPool, CancelledError):
                self._give_up()
            else:
                self._finder.use.add({name: name for name in models})
                return results
        return self._worker.decide_all(chunk.requests)[0]
