"""``POST /v1/dry-run``: explains a decision, and runs candidate rules in a separate process."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import nullcontext
from time import monotonic
from typing import TYPE_CHECKING, BinaryIO, Final

from policy.checks import candidate
from policy.checks.comparison import answer_of, read_result
from policy.checks.sandbox import INLINE
from service import run_folder
from service.api.endpoint import Endpoint, send_result
from service.auth.tokens import DRY_RUN
from service.documents.body import read_body, read_headers
from service.jobs.messages import OK, JobKind, JobResult
from service.jobs.pool import decisions_of, until_disconnect
from service.limits.slots import Slots
from service.problems import Refused

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    from starlette.types import Receive, Send

    from service.request_context import RequestContext
    from service.state.state import ServiceState

log = logging.getLogger("runner_policy")

OVERHEAD: Final = 1 << 20
"""Bytes of a candidate process's output besides the answer, whose size may double when JSON escapes it."""
READ_SIZE: Final = 1 << 20
"""Bytes read from the process at once."""
WAIT_FACTOR: Final = 4
"""How long to wait for a result, as a multiple of the processor time for candidate rules: a machine may be busy."""
EXPECTED: Final = (-signal.SIGXCPU, candidate.NO_MEMORY)
"""The exit codes for candidate rules that exceed a limit. Any other is for the operators too."""
MAX_WAITING: Final = 16
"""Dry runs with candidate rules that one caller may have waiting."""


class DryRunEndpoint(Endpoint):
    """``POST /v1/dry-run``."""

    scope = DRY_RUN

    def __init__(self, service: ServiceState, path: str) -> None:
        super().__init__(service, path)
        self.slots = Slots(self.settings.candidate_concurrency, MAX_WAITING, "dry-run-busy")

    async def answer(self, headers: dict[bytes, bytes], receive: Receive, send: Send, context: RequestContext) -> int:
        """Decide and explain; with candidate rules, compare."""
        limit = self.settings.max_body
        wanted = read_headers(headers, limit)
        with self.service.memory.hold(context.caller) as held:
            await read_body(receive, limit, held)
            self.body_arrived()
            answers = self.service.answers_for(headers)
            async with self.run_job(JobKind.DRY_RUN, answers, held, wanted, context, receive) as (result, output):
                if result.candidate is None:
                    return await send_result(send, result, output)
                file = self.answer_file()
                with file or nullcontext():
                    found = await until_disconnect(receive, self.run_candidate(result.candidate, context.caller, file))
                    held.release()  # a client may take long to read the answer
                    comparison = read_result(found)
                    compared = JobResult(OK, result.content_type, answer_of(comparison), comparison.spooled)
                    return await send_result(send, compared, file)

    def answer_file(self) -> BinaryIO | None:
        """A file without a name for a large answer; ``None`` if there can be none, and the answer stays in memory."""
        path = self.service.pool.output()
        try:
            return None if path is None else run_folder.create_unnamed(path)
        except OSError:
            return None

    async def run_candidate(self, job: bytes, caller: str, answer: BinaryIO | None) -> bytes:
        """Run candidate rules in a separate process with a limit of processor time; return its output.

        The caller is charged for the time, up to the limit of processor time: what a busy machine adds to it is not the
        caller's. A large answer is written to the file ``answer``.

        Raises:
            Refused: too many runs are waiting, or this one took too long.
        """
        async with self.slots.slot(caller):
            began = monotonic()
            try:
                return await _run(job, self.settings.candidate_timeout, self.settings.max_answer, answer)
            finally:
                spent = min(monotonic() - began, self.settings.candidate_timeout)
                self.service.access.charge(caller, decisions_of(spent))


async def _run(job: bytes, seconds: float, max_answer: int, answer: BinaryIO | None) -> bytes:
    pipe = asyncio.subprocess.PIPE
    passed = () if answer is None else (answer.fileno(),)
    arguments = [str(max_answer), *(f"/dev/fd/{descriptor}" for descriptor in passed)]
    process = await asyncio.create_subprocess_exec(
        *candidate.COMMAND,
        *arguments,
        stdin=pipe,
        stdout=pipe,
        stderr=asyncio.subprocess.DEVNULL,
        pass_fds=passed,
    )
    limit = OVERHEAD + 2 * (max_answer if answer is None else INLINE)
    try:
        output = await asyncio.wait_for(_communicate(process, job, limit), WAIT_FACTOR * seconds)
    except TimeoutError as error:
        raise Refused("candidate-aborted", candidate.wait_message(WAIT_FACTOR * seconds)) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == candidate.NOT_WRITTEN:
        raise Refused("busy", "the answer could not be written to the run folder; send the request again")
    if process.returncode:
        if process.returncode not in EXPECTED:
            log.error("the process for candidate rules failed", extra={"exit_code": process.returncode})
        raise Refused("candidate-aborted", candidate.exit_reason(process.returncode, seconds))
    return output


async def _communicate(process: Process, job: bytes, limit: int) -> bytes:
    """Send the job to the process; return its output.

    Raises:
        Refused: it has more than ``limit`` bytes.
    """
    assert process.stdin is not None  # INVARIANT: both are pipes
    assert process.stdout is not None
    if not process.stdin.is_closing():  # it is if the process has ended already, and uvloop then refuses to write
        process.stdin.write(job)
        process.stdin.close()  # the process reads everything before it writes
    output = bytearray()
    while piece := await process.stdout.read(READ_SIZE):
        output += piece
        if len(output) > limit:
            raise Refused(
                candidate.TOO_LARGE, f"the faults of the candidate rules have more than {limit} bytes; send fewer rules"
            )
    await process.wait()
    return bytes(output)
