"""Documents → answers, as bytes: the calls of the service without HTTP around them.

Owns the loaded policy with what is published of it, and the bounded memory of answers to repeated
documents. That memory is keyed by the bytes of the document and is empty again on a new day, because
warnings of overdue house rules depend on the date; a policy brings its own.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime
from time import time
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from uuid_utils import uuid7

from policy import render
from policy.candidate import with_models
from policy.containers import requests_of
from policy.decision import ID_END, ID_START, Decision, encode
from policy.errors import PolicyError, RequestInvalid, nearest, quoted
from policy.intake.intake import ModelConfigNeeded
from policy.policy import Answer
from policy.published import facts_document, policy_document, releases_document, rule_document, rules_document
from policy.recent import Recent
from policy.request import Manifest, Request, read_asked, with_explanation
from policy.usual import read_usual
from service.documents import decode
from service.problems import Problem, Refused, problem_of

if TYPE_CHECKING:
    from policy.policy import Policy
    from service.metrics import Decided
    from service.models import Models
    from service.recording import Asking, Recorder
    from service.reload import Published
    from service.settings import Settings

DAY: Final = 86_400  # seconds
KEPT_SIZE: Final = 8192
PAUSE: Final = 32  # items between two looks at other clients


def today() -> date:
    """The date in UTC, by which house rules are overdue."""
    return datetime.fromtimestamp(time(), UTC).date()


class Item(Struct, frozen=True, omit_defaults=True):
    """A container of a manifest by its path: its decision, or the problem with it."""

    path: str
    decision: Decision | None = None
    problem: Problem | None = None

    def row(self) -> tuple[str, Decision | str]:
        """The path, with the decision or what is wrong."""
        return self.path, self.decision if self.problem is None else self.problem.detail  # type: ignore[return-value]  # one of the two is there


class Items(Struct, frozen=True):
    """The answer to a manifest."""

    items: list[Item]


class Answers:
    """What a loaded policy answers."""

    def __init__(self, policy: Policy, published: Published, settings: Settings, models: Models, recorder: Recorder) -> None:
        """The policy is that of the published rules."""
        self.policy = policy
        self.recorder = recorder
        self.models = models
        self.texts = published.rules
        self.settings = settings
        catalogue = policy.catalogue
        self.etag = f'"{policy.revision}"'
        self.releases_document = encode(releases_document(catalogue, policy.releases.default))
        self.facts_document = encode(facts_document(catalogue))
        self.rules_document = encode(rules_document(catalogue))
        self.ready_document = encode({"status": "ready", "revision": policy.revision})
        self._kept: Recent[bytes, tuple[bytes, Answer, Request, Decided]] = Recent(settings.kept_answers)
        self._day, self._midnight = date.min, 0.0

    def policy_document(self, published: Published) -> bytes:
        """The loaded policy, and what came of the last try to load another."""
        failed = {"at": published.tried_at, "errors": published.faults} if published.faults else None
        return encode(policy_document(self.policy.catalogue, published.source, published.loaded_at, failed))

    def rule_document(self, rule_id: str, release: str | None = None) -> bytes:
        """A rule with its history, or as one release has it.

        Raises:
            Refused: there is no such rule, or not in this release.
        """
        catalogue = self.policy.catalogue
        found = catalogue.rule(rule_id)
        if found is None:
            raise Refused("not-found", f"no rule is called {quoted(rule_id)}{nearest(rule_id, [item.id for item in catalogue.rules])}")
        if release is not None and found.range_of(release) is None:
            raise Refused("not-found", f"the rule {quoted(rule_id)} is not in force in {release}")
        return encode(rule_document(found, release))

    def kept(self, body: bytes, asking: Asking) -> bytes | None:
        """The answer to a JSON body that came before, with an id of its own; ``None`` where none is kept."""
        self._today()
        kept = self._kept.get(body)
        if kept is None:
            return None
        rest, answer, asked, counted = kept
        json = b"%b%b%b" % (ID_START, str(uuid7()).encode(), rest)
        counted.number += 1
        if not self.recorder.silent:
            self.recorder.log_it(Answer(json, answer.weighed, answer.decision), asked, asking, body)
        return json

    def decision(self, body: bytes, asking: Asking) -> bytes | Request | Manifest:
        """The answer to a JSON body; what takes longer is handed back, for ``later``.

        Raises:
            PolicyError: the body cannot be read or decided.
        """
        asked = self.asked(body)
        if isinstance(asked, Manifest):
            return asked
        try:
            answer = self.policy.answer(asked, self._today())
        except ModelConfigNeeded:
            if self.models.fetches:
                return asked
            raise
        counted = self.recorder.note(answer, asked, self.policy, asking, body)
        json = answer.json
        passing = asked.deployment is not None and self.models.fetches  # the hub may have another model in a while
        if len(body) <= KEPT_SIZE and len(json) <= KEPT_SIZE and not passing and self._kept.comes_again(body):
            self._kept.keep(body, (json[ID_END:], answer, asked, counted))
        return json

    def _today(self) -> date:
        """The date; where it is a new one, the answers that were kept are let go."""
        now = time()
        if now >= self._midnight:
            self._midnight = (now // DAY + 1) * DAY  # first, so that a midnight just now is seen by the next call
            self._day = today()
            self._kept.clear()
        return self._day

    def asked(self, body: bytes) -> Request | Manifest:
        """What a JSON body asks.

        Raises:
            PolicyError: the body cannot be read, or what it asks does not fit.
        """
        releases = self.policy.releases
        return read_usual(body, releases) or read_asked(decode(body), releases)

    async def later(self, asked: Request | Manifest, asking: Asking | None) -> Decision | Items:
        """The answer to a request, once its models were fetched, or to each container of a manifest; nothing is noted without an ``asking``.

        Raises:
            PolicyError: it cannot be decided.
        """
        if isinstance(asked, Request):
            return await self.one(asked, asking)
        items = []
        for number, (path, request) in enumerate(requests_of(asked, self.policy.releases)):
            try:
                if isinstance(request, RequestInvalid):
                    raise request
                items.append(Item(path, await self.one(request, asking)))
            except PolicyError as error:
                items.append(Item(path, problem=problem_of(error)))
            if number % PAUSE == PAUSE - 1:
                await asyncio.sleep(0)
        return Items(items)

    async def one(self, request: Request, asking: Asking | None) -> Decision:
        """The decision on one deployment, once its models were fetched.

        Raises:
            PolicyError: it cannot be decided.
        """
        decision, weighed = await self.models.ready(lambda: self.policy.decided(request, today()))
        if asking is not None:
            self.recorder.note(Answer(ID_START + decision.decision_id.encode(), weighed, decision), request, self.policy, asking)
        return decision

    async def decide(self, document: Any, asking: Asking | None, pointer: str = "", *, explain: bool = False) -> Decision | Items:
        """The answer to a request's document; ``pointer`` is its place in the body.

        Raises:
            PolicyError: the document cannot be decided.
        """
        asked = read_asked(document, self.policy.releases, pointer)
        return await self.later(with_explanation(asked) if explain else asked, asking)

    def whole(self, document: Any) -> Any:
        """A request's document with the models that the hub gave for it.

        Raises:
            PolicyError: the document cannot be decided.
        """
        asked = read_asked(document, self.policy.releases) if self.models.fetches else None
        if not isinstance(asked, Request) or asked.deployment is None:
            return document
        return with_models(document, self.policy.taken_in(asked).found)

    async def item(self, document: Any, asking: Asking, pointer: str) -> Decision | Items | Problem:
        """A batch's item: its decision, those of its containers, or the problem with it."""
        try:
            return await self.decide(document, asking, pointer)
        except PolicyError as error:
            return problem_of(error)

    def line(self, body: bytes | PolicyError, asking: Asking) -> bytes | Request | Manifest:
        """A stream's line: its decision or problem, ending in a newline; what takes longer is handed back, for ``later_line``."""
        try:
            if isinstance(body, PolicyError):
                raise body
            asked = self.asked(body)
            if isinstance(asked, Manifest) or (asked.deployment is not None and self.models.fetches):
                return asked
            answer = self.policy.answer(asked, self._today())
            self.recorder.note(answer, asked, self.policy, asking, body)
            return answer.json + b"\n"
        except PolicyError as error:
            return encode(problem_of(error)) + b"\n"

    async def later_line(self, asked: Request | Manifest, asking: Asking) -> bytes:
        """The line of what takes longer."""
        try:
            return encode(await self.later(asked, asking)) + b"\n"
        except PolicyError as error:
            return encode(problem_of(error)) + b"\n"

    def text(self, answer: Decision | Items) -> bytes:
        """An answer for a terminal."""
        picture = render.decision(answer) if isinstance(answer, Decision) else render.containers([item.row() for item in answer.items])
        return render.as_text(picture).encode()
