"""``POST /v1/admission`` and ``/v1/admission/mutate``: reviews of the Kubernetes API server.

Owns how a review is received and how long it may wait; ``service.admission`` makes the answer. A body
that is not a review is answered with a problem: the API server treats every status but 200 as a failed call, and
applies its ``failurePolicy``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.admission.review import user_of
from service.api.endpoint import Endpoint, send_result
from service.documents.body import read_body, read_headers
from service.jobs.messages import JobKind

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from service.request_context import RequestContext
    from service.state.state import ServiceState

VALIDATE: Final = "/v1/admission"
MUTATE: Final = "/v1/admission/mutate"
REVIEWS: Final = "runner_policy_admission_reviews"


class AdmissionEndpoint(Endpoint):
    """A review, validating or mutating by its path."""

    any_query = True  # the API server sends its `timeout` there

    def __init__(self, service: ServiceState, path: str) -> None:
        super().__init__(service, path)
        self.kind = JobKind.MUTATE if path == MUTATE else JobKind.VALIDATE
        self.model_seconds = service.settings.admission_timeout

    def caller(self, scope: Scope, headers: dict[bytes, bytes]) -> str:
        """The caller's name; with ``admission_allow_anonymous`` no token is needed, and no rate limit applies."""
        if self.settings.admission_allow_anonymous:
            return scope["client"][0] if scope["client"] else "local"
        return self.service.access.reviewer(scope["client"], headers)

    async def answer(self, headers: dict[bytes, bytes], receive: Receive, send: Send, context: RequestContext) -> int:
        """Answer one review; its user is charged for its decisions.

        Raises:
            Refused: the user's rate limit is exceeded.
        """
        limit = self.settings.max_review
        wanted = read_headers(headers, limit)
        with self.service.memory.hold(context.caller) as held:
            await read_body(receive, limit, held)
            self.body_arrived()
            context.user = user_of(held.content)
            if not self.settings.admission_allow_anonymous:
                self.service.access.limit_user(context.caller, context.user)
            answers = self.service.answers_for(headers)
            async with self.run_job(self.kind, answers, held, wanted, context, receive) as (result, output):
                if result.review:
                    self.service.metrics.count(REVIEWS, self.kind, result.review)
                return await send_result(send, result, output)
