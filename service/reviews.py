"""``POST /v1/admission`` and ``/v1/admission/mutate``: reviews of the Kubernetes API server.

Owns the way of a review through the service, and how long it may wait; what is answered is ``admission``'s. What is no review is
answered a problem: to the API server every status but 200 is a call that failed, and its ``failurePolicy`` says what then happens.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from policy.decision import encode
from service.access import DECIDE
from service.admission.answer import reviewed
from service.admission.engines import Options
from service.admission.review import read_review
from service.calls import JSON, Call, send_answer
from service.documents import decode, read_body, read_headers
from service.problems import Refused

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from policy.decision import Decision
    from policy.request import Request
    from service.admission.patch import Decide
    from service.answers import Answers
    from service.recording import Asking
    from service.served import Served

VALIDATE: Final = "/v1/admission"
MUTATE: Final = "/v1/admission/mutate"
REVIEWS: Final = "runner_policy_admission_reviews"


class Admission(Call):
    """A review, validating or mutating by its path."""

    any_query = True  # the API server says its `timeout` there

    def __init__(self, served: Served, path: str) -> None:
        super().__init__(served, path)
        settings = served.settings
        self.mutating = path == MUTATE
        self.options = Options(settings.admission_deny, settings.admission_set_env, settings.admission_fail)

    def caller(self, scope: Scope, headers: dict[bytes, bytes]) -> str:
        """Who asks; the API server needs no token where that is said, and is never told to wait."""
        if self.settings.admission_open:
            return scope["client"][0] if scope["client"] else "local"
        return self.served.access.caller(scope["client"], headers, DECIDE)

    async def answer(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send, asking: Asking) -> None:  # noqa: ARG002
        """Answer one review; what is decided in one of a dry run is recorded nowhere."""
        limit = self.settings.max_review
        wanted = read_headers(headers, limit)
        body = await read_body(receive, limit)
        self.arrived()
        answers = self.served.answers_for(headers)
        review = read_review(decode(body, wanted.content_type))
        decide = self.decider(answers, None if review.dry_run else asking)
        found = await reviewed(review, answers.policy.releases, decide, self.options, mutating=self.mutating)
        await asking.safe()
        self.served.metrics.count(REVIEWS, "mutate" if self.mutating else "validate", found.result)
        await send_answer(send, JSON, encode(found.response))

    def decider(self, answers: Answers, asking: Asking | None) -> Decide:
        """Decides the engines of one review, which wait for their models together; nothing is noted without an ``asking``."""
        seconds = self.settings.admission_time
        ends = asyncio.get_running_loop().time() + seconds

        async def decide(request: Request, *, tried: bool = False) -> Decision:
            try:
                async with asyncio.timeout_at(ends):  # past it, what need not wait is decided all the same
                    return await answers.one(request, None if tried else asking)
            except TimeoutError as error:
                raise Refused("too-slow", f"its models were not there in {seconds:g} s") from error

        return decide
