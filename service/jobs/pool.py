"""The worker processes of a serving process: each runs one request that may take long, and can be killed.

Owns the assignment of workers, their timeout, and the models from the hub that a job includes. Processes are reused,
and a spare one is started beside the busy ones. Not here: the code that runs in them (``process``, ``worker``).
"""

from __future__ import annotations

import asyncio
import itertools
import os
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, TypeVarTuple

from msgspec.structs import replace

from policy.errors import PolicyError
from service import run_folder
from service.documents.body import Disconnected
from service.jobs.process import bound_process, load_rules, run
from service.limits.share import share_of_user
from service.limits.slots import Slots
from service.problems import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from datetime import date

    from starlette.types import Receive

    from service.jobs.messages import Job, JobResult
    from service.models import HubModels

ROUNDS: Final = 4
"""Rounds of fetching models: a speculators repository, its verifier, a draft, and one spare."""
MAX_WAITING: Final = 64
"""Waiting requests per caller."""

RESERVED_WORKERS: Final = 1
"""Worker processes that only short jobs may have while all others work."""
MAX_SHORT_BODY: Final = 32 << 10
"""The largest body of a short job, in bytes."""
DECISIONS_PER_SECOND: Final = 100
"""The decisions that a second of work counts as, so that a job with few decisions and much work is not free.

A decision takes about a millisecond, so ordinary requests are charged by their decisions.
"""
CLOCK_STEP: Final = 0.005
"""Seconds by which a timeout of the event loop, whose clock is coarser, may come early."""

CHECK_INTERVAL: Final = 0.25
"""Seconds between two checks whether the client of a job disconnected."""

START_TIMEOUT: Final = 60.0
"""Seconds a worker process may take to start."""

START_SECONDS: Final = 1.0
"""Seconds of work that the start of a process counts as, for a caller who disconnects and so ends one."""

SPARE_AFTER: Final = 2.0
"""Seconds after the start of a job until a process is started for the next one.

Started at once, it takes processor time from the job, and from the candidate rules of a dry run: the first one with
`changes: all` after the start of the service takes 3.5 instead of 1.9 s on one processor.
"""

LoadedRules: TypeAlias = tuple[str, dict[str, str], str | None]
"""A revision of the rules, the texts of its files, and the default release."""

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


class Worker:
    """One worker process, started before or when it is first needed."""

    def __init__(self) -> None:
        self._executor: ProcessPoolExecutor | None = None
        self._starting: asyncio.Task[int] | None = None

    @property
    def is_begun(self) -> bool:
        """Whether the process is started, or being started."""
        return self._starting is not None

    def begin(self, rules: LoadedRules | None = None) -> None:
        """Start the process, and load rules in it, without waiting for it."""
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._begin(rules))
            self._starting.add_done_callback(self._end_start)

    async def _begin(self, rules: LoadedRules | None) -> int:
        """The process's id, once it is started."""
        pid = await self.call(os.getpid)
        if rules is not None:
            with suppress(PolicyError):  # the job that needs them says so
                await self.call(load_rules, *rules)
        return pid

    def _end_start(self, start: asyncio.Task[int]) -> None:
        """Forget a start that failed, so that the next job tries again; asyncio would log an error never retrieved."""
        if not start.cancelled() and start.exception() is not None and start is self._starting:
            self.close()

    async def ready(self) -> None:
        """Wait until the process is started. If the caller is cancelled, it keeps starting for the next one.

        Raises:
            BrokenProcessPool: it ended while it started.
            OSError: it could not be started.
        """
        self.begin()
        assert self._starting is not None  # INVARIANT: `begin` has set it
        await asyncio.shield(self._starting)

    async def call(self, function: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        """Call a function in the process, and return its result.

        Raises:
            BrokenProcessPool: the process has ended.
        """
        if self._executor is None:
            self._executor = ProcessPoolExecutor(1, get_context("spawn"), bound_process)
        return await asyncio.wrap_future(self._executor.submit(function, *arguments))

    def end(self) -> None:
        """Kill the process, also while it starts: Python waits at its end, without a timeout, for one that lives.

        The executor's own end of the pipe for results is closed. While it is open, the thread that reads the pipe waits
        for the rest of a result that the process had begun to write, and Python at its end for this thread.
        """
        if self._executor is not None:
            for process in self._executor._processes.values():  # noqa: SLF001  # its `kill_workers` is of Python 3.14
                process.kill()
            self._executor._result_queue._writer.close()  # type: ignore[attr-defined]  # noqa: SLF001
        self.close()

    def close(self) -> None:
        """Let the process shut down after its current job, and wait no longer for its start."""
        if self._starting is not None:
            self._starting.cancel()
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        self._executor = self._starting = None


class Pool:
    """The worker processes of one serving process."""

    def __init__(
        self, size: int, seconds: float, models: HubModels, folder: Path | None, charge: Callable[[str, int], object]
    ) -> None:
        """At most ``size`` processes, and one more for short jobs; a job may take ``seconds``.

        Large answers are files in ``folder``. ``charge`` charges a caller for decisions.
        """
        self._slots = Slots(size, MAX_WAITING, "busy", RESERVED_WORKERS)
        self._free = [Worker() for _ in range(size + RESERVED_WORKERS)]
        self._charge = charge
        self._busy: set[Worker] = set()
        self._seconds = seconds
        self._models = models
        self._folder = folder
        self._numbers = itertools.count()
        self._is_closed = False
        self.rules: LoadedRules | None = None
        """The rules that a process loads if it is started before it is needed."""

    def keep_spare(self, least: int = 1) -> None:
        """Start a process for the next job, unless ``least`` processes and one more than the busy ones are started."""
        idle = [worker for worker in self._free if not worker.is_begun]
        started = len(self._busy) + len(self._free) - len(idle)
        if idle and not self._is_closed and started < max(least, len(self._busy) + 1):
            idle[-1].begin(self.rules)

    def _take(self) -> Worker:
        """Take a free worker, a started one if there is one."""
        worker = next((each for each in reversed(self._free) if each.is_begun), self._free[-1])
        self._free.remove(worker)
        self._busy.add(worker)
        return worker

    def close(self) -> None:
        """Kill all processes."""
        self._is_closed = True
        for worker in (*self._busy, *self._free):
            worker.end()

    def output(self) -> Path | None:
        """The file for a large answer of a new job."""
        return None if self._folder is None else self._folder / f"answer-{id(self)}-{next(self._numbers)}"

    async def result(self, job: Job, rules: dict[str, str], today: date, seconds: float | None = None) -> JobResult:
        """The result of a job, after fetching the models that it needs for at most ``seconds``.

        Raises:
            Refused: the caller has too many waiting requests, or this one took too long.
        """
        loop = asyncio.get_running_loop()
        ends = None if seconds is None else loop.time() + seconds
        job = replace(job, fetches=self._models.fetches)
        for rounds_left in range(ROUNDS, -1, -1):
            found = await self._run(job, rules, today)
            more = await self._add_models(job, found, ends) if self._models.fetches and rounds_left else job
            if more is job:
                return found
            _discard(job)
            job = more
        raise AssertionError("unreachable: the last round fetches nothing")

    async def _add_models(self, job: Job, result: JobResult, ends: float | None) -> Job:
        """The job with its missing models, or why they cannot be fetched; the same job if nothing is new."""
        refused = await self._models.fetch(result.needed, ends, job.caller, job.user)
        known = {name: self._models.find(name) for name in (*result.needed, *result.looked_for)}
        found = {name: files for name, files in known.items() if files is not None}
        if not found and not refused:
            return job
        return replace(job, found=job.found | found, refused=job.refused | refused)

    async def _run(self, job: Job, rules: dict[str, str], today: date) -> JobResult:
        size = len(job.body)
        async with self._slots.slot(job.caller, user=job.user, is_short=size <= MAX_SHORT_BODY, size=size):
            worker = self._take()  # INVARIANT: there is one for each slot
            try:
                return await self._run_in(worker, job, rules, today)
            except BaseException:
                _discard(job)
                raise
            finally:
                self._busy.discard(worker)
                self._free.append(worker)
                self.keep_spare()

    async def _run_in(self, worker: Worker, job: Job, rules: dict[str, str], today: date) -> JobResult:
        for is_last in (False, True):
            try:
                await _start(worker)
                asyncio.get_running_loop().call_later(SPARE_AFTER, self.keep_spare, 2)
                began = monotonic()
                try:
                    async with asyncio.timeout(self._seconds):
                        found = await _run_job(worker, job, rules, today)
                except (TimeoutError, BrokenProcessPool):
                    self._charge_work(job, monotonic() - began, 0)
                    raise
                except asyncio.CancelledError:
                    self._charge_work(job, monotonic() - began + START_SECONDS, 0)
                    raise
                self._charge_work(job, found.seconds, found.decisions)
                return found  # noqa: TRY300  # the other statements are what may fail
            except TimeoutError as error:
                message = f"it took more than {self._seconds:g} s; send it in parts, or without an explanation"
                raise Refused("too-much-work", message) from error
            except BrokenProcessPool as error:
                worker.end()
                _discard(job)
                if is_last:  # the first time may be chance: the system may have killed an idle process
                    raise Refused(
                        "busy", "two worker processes ended while they ran the request; send it again"
                    ) from error
        raise AssertionError("unreachable: the last round returns or raises")

    def _charge_work(self, job: Job, seconds: float, decisions: int) -> None:
        """Charge the caller for the full seconds of work beyond its decisions, which are charged elsewhere."""
        extra = decisions_of(seconds) - decisions
        if extra > 0:
            self._charge(share_of_user(job.caller, job.user), extra)


def decisions_of(seconds: float) -> int:
    """The number of decisions that the full seconds of work count as in the rate limit."""
    return int(seconds + CLOCK_STEP) * DECISIONS_PER_SECOND


async def _start(worker: Worker) -> None:
    try:
        async with asyncio.timeout(START_TIMEOUT):
            await worker.ready()
    except OSError as error:  # too late, or no process or descriptor left
        worker.end()
        raise Refused("busy", "no process could be started to work on it; send the request again") from error


async def _run_job(worker: Worker, job: Job, rules: dict[str, str], today: date) -> JobResult:
    """The result of the job; the process is killed if the caller is cancelled."""
    try:
        found = await worker.call(run, job, None, today)
        if found is None:  # the process or the rules are new
            found = await worker.call(run, job, rules, today)
    except asyncio.CancelledError:
        worker.end()
        raise
    assert found is not None  # INVARIANT: a process that has the rules gives a result
    return found


def _discard(job: Job) -> None:
    """Delete the file that the job may have written."""
    if job.output is not None:
        run_folder.remove(Path(job.output))


async def until_disconnect(receive: Receive, work: Coroutine[object, object, T]) -> T:
    """The result of the work, which is cancelled when the client disconnects.

    Raises:
        Disconnected: the client disconnected.
    """
    task = asyncio.ensure_future(work)
    disconnected = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Disconnected
    finally:
        for each in (task, disconnected):
            if not each.done():
                each.cancel()
                await asyncio.wait({each})
            if not each.cancelled():
                each.exception()  # asyncio would log one that nobody has retrieved


async def _disconnected(receive: Receive) -> None:
    """Wait until the client has disconnected.

    After a further request on the connection, uvicorn reads nothing more of it until the next call, and so does not
    notice its end.
    """
    found = ""
    while found != "http.disconnect":
        with suppress(TimeoutError):
            async with asyncio.timeout(CHECK_INTERVAL):
                found = (await receive())["type"]
