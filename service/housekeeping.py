"""Periodic work of a serving process: loading changes, ending slow connections, writing metrics.

Owns the task that does it. Failures are logged, and retried.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
from time import monotonic
from typing import TYPE_CHECKING, Final

import msgspec

from policy.errors import PolicyError
from service.reload.reload import newest
from service.run_folder import RunFolderState
from service.transport.idle import IdleReaper
from service.transport.tls import Certificate, file_states

if TYPE_CHECKING:
    from service.auth.tokens import TokenFile
    from service.broadcast import Shared
    from service.reload.reload import Published
    from service.state.state import ServiceState

log = logging.getLogger("runner_policy")
TICK: Final = 0.1
"""Seconds between two checks for published rules."""
SWEEP_INTERVAL: Final = 1.0
"""Seconds between two runs of everything else."""

SPARE_AFTER: Final = 1.0
"""Seconds after the start until a worker process is started that no request needs yet."""


class Housekeeping:
    """The periodic work of one process; ``file`` is the token file, if callers need tokens."""

    def __init__(self, service: ServiceState, file: TokenFile | None, shared: Shared | None) -> None:
        self._service = service
        self._shared = shared
        self._fault: str | None = None
        self._wanted: Published | None = None
        self._file = file
        self._token_states = file_states()
        self._token_fault: tuple[object, str] | None = None
        """The file that was rejected last, and why; ``None`` once one is valid."""
        self._idle_reaper = IdleReaper(service.settings.body_timeout)
        self._parent = multiprocessing.parent_process()
        self._last_sweep = 0.0
        self._began = monotonic()

    async def run(self) -> None:
        """Run until cancelled."""
        self._service.metrics.loop = asyncio.get_running_loop()
        while True:
            try:
                await self._tick()
            except Exception:  # one failing task must not end the others
                log.exception("housekeeping failed; it continues")
            await asyncio.sleep(TICK)

    async def _tick(self) -> None:
        due = monotonic() - self._last_sweep >= SWEEP_INTERVAL
        if due:
            self._last_sweep = monotonic()
            self._service.body_timeouts.sweep()
            self._idle_reaper.sweep()
            self._end_with_parent()
            self._service.metrics.snapshot()
            self._report_run_folder()
            await self._read_tokens()
            self._service.access.drop_expired()
            if monotonic() - self._began >= SPARE_AFTER:
                self._service.pool.keep_spare()
            if Certificate.serving is not None:
                Certificate.serving.reload()
        found = newest(self._shared.rules) if self._shared is not None else None
        self._wanted = found or self._wanted
        if self._wanted is not None and (found is not None or due):
            await self._load(self._wanted)

    async def _load(self, published: Published) -> None:
        """Serve the published rules; if they cannot be loaded, try again later."""
        service = self._service
        if published.revision == service.answers.policy.revision:
            service.published = published
        else:
            try:
                service.swap(published, await asyncio.to_thread(service.build_answers, published, service.answers))
            except PolicyError as error:
                log.error("published rules could not be loaded", extra={"error": str(error)})  # noqa: TRY400  # the traceback adds nothing
                return
        self._wanted = None

    def _report_run_folder(self) -> None:
        """Note what the first process says of the run folder, and log if this process cannot use it, or can again."""
        message = self._shared.run_folder.receive() if self._shared is not None else None
        if message is not None:
            self._service.run_folder = msgspec.json.decode(message, type=RunFolderState)
        fault, before = self._service.metrics.fault, self._fault
        self._fault = fault
        if fault is not None and before is None:
            log.error(
                "the run folder cannot be used; what the processes share is missing",
                extra={"folder": str(self._service.settings.run), "error": fault},
            )
        elif fault is None and before is not None:
            log.info("the run folder can be used again", extra={"folder": str(self._service.settings.run)})

    async def _read_tokens(self) -> None:
        """Load the token file if it changed, in a thread; an invalid one leaves the previous tokens in use.

        One that cannot be read is tried again, because it may have changed.
        """
        if self._file is None:
            return
        if (found := file_states(self._file.path)) == self._token_states:
            self._file.keep_copy()
            return
        access = self._service.access
        try:
            tokens = await asyncio.to_thread(self._file.read)
        except PolicyError as error:
            fault, before = (found, str(error)), self._token_fault
            self._token_fault = fault
            if not isinstance(error.__cause__, OSError):
                self._token_states = found
            if fault != before:
                log.error("the file of tokens was rejected; the previous tokens stay valid", extra={"error": fault[1]})  # noqa: TRY400  # as above
            return
        self._token_states, self._token_fault = found, None
        if tokens != access.tokens:
            access.tokens = tokens
            log.info("tokens loaded", extra={"tokens": len(tokens)})

    def _end_with_parent(self) -> None:
        """End this worker if its parent was killed; the worker would otherwise keep running."""
        if self._parent is not None and not self._parent.is_alive():
            self._parent = None
            log.error("the parent process is gone; this worker ends")
            os.kill(os.getpid(), signal.SIGTERM)
