"""``POST /v1/requests/check``, one or many: whether the runner of a deployment takes a request.

A worker process checks; a stream is checked line by line, with a job for each line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from policy.decision.decision import encode
from service.api.batch import BatchEndpoint
from service.api.endpoint import Endpoint
from service.documents.body import read_body, read_headers
from service.jobs.messages import JobKind
from service.problems import problem_of

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from service.problems import Refused
    from service.request_context import RequestContext
    from service.state.answers import Answers


class RequestCheckEndpoint(Endpoint):
    """``POST /v1/requests/check``."""

    async def answer(self, headers: dict[bytes, bytes], receive: Receive, send: Send, context: RequestContext) -> int:
        """Check one request, with one deployment or a manifest."""
        limit = self.settings.max_body
        wanted = read_headers(headers, limit)
        with self.service.memory.hold(context.caller) as held:
            await read_body(receive, limit, held)
            self.body_arrived()
            answers = self.service.answers_for(headers)
            return await self.send_job_result(JobKind.CHECK, answers, held, wanted, context, receive, send)


class RequestCheckBatchEndpoint(BatchEndpoint):
    """``POST /v1/requests/check/batch``."""

    kind: ClassVar = JobKind.CHECK_BATCH
    line_kind: ClassVar = JobKind.CHECK

    def answer_small_lines(
        self, answers: Answers, lines: list[bytes | Refused], context: RequestContext, answered: list[bytes]
    ) -> bool:
        """Answer lines that could not be read; return whether the next one needs a worker process."""
        del answers, context
        for line in lines[len(answered) :]:
            if isinstance(line, bytes):
                return True
            answered.append(encode(problem_of(line)) + b"\n")
        return False
