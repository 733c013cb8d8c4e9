"""``POST /v1/impact``: what releases do with many deployments, and what changes from one to the next.

A worker process compares them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.api.endpoint import Endpoint
from service.auth.tokens import DRY_RUN
from service.documents.body import read_body, read_headers
from service.jobs.messages import JobKind

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from service.request_context import RequestContext


class ImpactEndpoint(Endpoint):
    """``POST /v1/impact``."""

    scope = DRY_RUN
    """Its answers are decisions that are not recorded, like those of a dry run."""

    async def answer(self, headers: dict[bytes, bytes], receive: Receive, send: Send, context: RequestContext) -> int:
        """Compare the deployments; the body may be as large as a batch."""
        limit = self.settings.max_batch_body
        wanted = read_headers(headers, limit)
        with self.service.memory.hold(context.caller) as held:
            await read_body(receive, limit, held)
            self.body_arrived()
            answers = self.service.answers_for(headers)
            return await self.send_job_result(JobKind.IMPACT, answers, held, wanted, context, receive, send)
