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

from policy.errors import PolicyError
from service.reload.reload import RevisionReader
from service.transport.idle import IdleReaper
from service.transport.tls import Certificate, file_states

if TYPE_CHECKING:
    from service.auth.tokens import TokenFile
    from service.reload.reload import Published
    from service.state.state import ServiceState

log = logging.getLogger("runner_policy")
TICK: Final = 0.1
"""Seconds between two checks for published rules."""
SWEEP_INTERVAL: Final = 1.0
"""Seconds between two runs of everything else."""


class Housekeeping:
    """The periodic work of one process; ``file`` is the token file, if callers need tokens."""

    def __init__(self, service: ServiceState, file: TokenFile | None) -> None:
        self._service = service
        self._reader = RevisionReader(service.settings.run) if service.settings.run is not None else None
        self._wanted: Published | None = None
        self._file = file
        self._token_states = file_states()
        self._idle_reaper = IdleReaper(service.settings.body_timeout)
        self._parent = multiprocessing.parent_process()
        self._last_sweep = 0.0

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
            self._read_tokens()
            self._service.access.drop_expired()
            if Certificate.serving is not None:
                Certificate.serving.reload()
        newest = self._reader.newest() if self._reader is not None else None
        self._wanted = newest or self._wanted
        if self._wanted is not None and (newest is not None or due):
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

    def _read_tokens(self) -> None:
        """Load the token file if it changed; an invalid one leaves the previous tokens in use."""
        if self._file is None or (found := file_states(self._file.path)) == self._token_states:
            return
        self._token_states = found
        access = self._service.access
        try:
            tokens = self._file.read()
        except PolicyError as error:
            log.error("the file of tokens was rejected; the previous tokens stay valid", extra={"error": str(error)})  # noqa: TRY400  # as above
            return
        if tokens != access.tokens:
            access.tokens = tokens
            log.info("tokens loaded", extra={"tokens": len(tokens)})

    def _end_with_parent(self) -> None:
        """End this worker if its parent was killed, because it would keep running."""
        if self._parent is not None and not self._parent.is_alive():
            self._parent = None
            log.error("the parent process is gone; this worker ends")
            os.kill(os.getpid(), signal.SIGTERM)
