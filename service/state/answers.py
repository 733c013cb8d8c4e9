"""Answers made in the event loop, without a worker process.

Owns the loaded policy and its documents, the size limits of requests decided here (``service.jobs`` has the others),
and the cache of answers to repeated bodies, by their bytes. The cache is cleared on a new day, because warnings of
overdue house rules depend on the date; a new policy has a new cache.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import cache
from time import time
from typing import TYPE_CHECKING, Any, Final

from uuid_utils import uuid7

from policy.cache import SecondHitCache
from policy.checks.cases import cases_document, cases_path
from policy.checks.request_cases import request_cases_document
from policy.decision.decision import ID_END, ID_START, encode
from policy.decision.evaluation import EncodedDecision
from policy.defects import defect_fault
from policy.errors import LongMessages, PolicyError, RequestInvalid, bounded_messages
from policy.fastpath.request_decoder import decode_fast
from policy.intake.arguments_document import arguments_document, arguments_in, find, suggestion
from policy.intake.command.expansion import request_expansion
from policy.intake.model.formula import TooManyIterations, request_iterations
from policy.intake.model_lookup import ModelConfigNeeded
from policy.messages import listed, nearest, quoted
from policy.request.request import read_request
from policy.rules.documents import (
    condition_document,
    facts_document,
    images_document,
    policy_document,
    releases_document,
    rule_document,
    rules_document,
)
from policy.rules.rule import Rule
from policy.rules.schemas import SCHEMAS
from service.documents.body import decode
from service.problems import Refused, problem_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.policy import FullEvaluation, Policy
    from policy.request.request import Request
    from policy.rules.request_rule import RequestRule
    from service.models import HubModels
    from service.recorder import Recorder
    from service.reload.reload import Published
    from service.request_context import RequestContext
    from service.settings import Settings

DAY: Final = 86_400  # seconds
GROUP: Final = 32
"""Requests evaluated together."""
MAX_CACHED: Final = 8192
"""The largest body and answer in the cache, in bytes."""
MAX_INLINE: Final = 16 << 10
"""The largest body decided in the event loop, in bytes, for a common request: one decision on stated facts."""
MAX_INLINE_OTHER: Final = 4 << 10
"""The same for any other request, such as that of a deployment, and one with faults.

Those of 16 KiB with faults take up to 19 ms, most of it for the secrets that the messages must not show.
"""
MAX_INLINE_TEXT: Final = 1 << 10
"""The most characters of a deployment's arguments, variables and files together, which may be scripts.

The slowest script that was found, of nested substitutions, takes 40 ms at twice this length. Anything larger, and
anything that asks for more, goes to a worker process.
"""
MAX_INLINE_EXPANSION: Final = 8 << 10
"""The most characters that its scripts expand to, as the limit of a request counts them."""
MAX_INLINE_ITERATIONS: Final = 20_000
"""The most iterations of the formulas of its models together: up to 4 ms.

Those of a model of 128 layers take a few hundred, or 17,000 for two model types whose results are kept.
"""
MAX_INLINE_MESSAGES: Final = 4 << 10
"""The most characters of its faults, such as ten unknown facts: each is searched for secrets, at up to 1 µs each."""


@cache
def _schema(name: str) -> bytes:
    return encode(SCHEMAS[name]())


@cache
def _arguments() -> bytes:
    return encode(arguments_document())


def today() -> date:
    """The date in UTC, which decides whether house rules have ended or are overdue."""
    return datetime.fromtimestamp(time(), UTC).date()


class Answers:
    """The answers of a loaded policy."""

    def __init__(
        self, policy: Policy, published: Published, settings: Settings, models: HubModels, recorder: Recorder
    ) -> None:
        """``policy`` is compiled from the published rules."""
        self.policy = policy
        self.recorder = recorder
        self.models = models
        self.texts = published.rules
        self._case_texts = published.cases
        self._rule_documents: dict[str, dict[str, Any]] = {}
        self.settings = settings
        catalogue = policy.catalogue
        self.etag = f'"{policy.revision}"'
        self.releases_document = encode(releases_document(catalogue, policy.releases.default))
        self.images_document = encode(images_document(catalogue))
        self.facts_document = encode(facts_document(catalogue))
        self.rules_document = encode(rules_document(catalogue))
        self.ready_document = encode({"status": "ready", "revision": policy.revision})
        self._cache: SecondHitCache[bytes, tuple[bytes, EncodedDecision, Request]] = SecondHitCache(settings.cache_size)
        self._day, self._midnight = date.min, 0.0

    def policy_document(self, published: Published) -> bytes:
        """The loaded policy, and the result of the last reload."""
        failed = {"at": published.tried_at, "errors": published.faults} if published.faults else None
        return encode(policy_document(self.policy.catalogue, published.source, published.loaded_at, failed))

    def arguments_document(self, name: str | None = None, release: str | None = None) -> bytes:
        """The flags and variables of vLLM: all, those of a release, or those with a name.

        Raises:
            Refused: no release has the name, or not this one.
        """
        if name is None and release is None:
            return _arguments()
        document = arguments_document() if release is None else arguments_in(release)
        if name is None:
            return encode(document)
        named = find(name)
        if not named:
            near = suggestion(name)
            hint = f"; did you mean {quoted(near)}?" if near else ""
            raise Refused("not-found", f"no vLLM release has a flag or variable {quoted(name)}{hint}")
        names = {item["name"] for item in named}
        items = [item for item in document["items"] if item["name"] in names]
        if not items:
            raise Refused("not-found", f"vLLM {release} has no flag or variable {quoted(name)}; other releases do")
        return encode({"items": items})

    def rule_document(self, rule_id: str, release: str | None = None) -> bytes:
        """A rule with its history, or as of one release, with the texts of its files and its cases.

        A named condition is returned too, with all its history and the rules that use it.

        Raises:
            Refused: the rule does not exist, or not in this release.
        """
        catalogue = self.policy.catalogue
        found = catalogue.any_rule(rule_id)
        if found is None:
            named = catalogue.conditions.get(rule_id)
            if named is None:
                names = [*catalogue.ids(), *catalogue.conditions]
                raise Refused("not-found", f"unknown rule {quoted(rule_id)}{nearest(rule_id, names)}")
            return encode({**condition_document(named, catalogue), "text": self.texts.get(named.path, "")})
        if release is not None and found.range_of(release) is None:
            raise Refused("not-found", f"the rule {quoted(rule_id)} is not in force in {release}")
        return encode({**rule_document(found, release), **self._files_of(found)})

    def _files_of(self, rule: Rule | RequestRule) -> dict[str, Any]:
        """The texts of a rule's file and of the one with its cases, and the cases; read once."""
        found = self._rule_documents.get(rule.id)
        if found is None:
            path = cases_path(rule)
            text = self._case_texts.get(path)
            read = cases_document if isinstance(rule, Rule) else request_cases_document
            cases = None if text is None else read(path, text, self.policy.catalogue)
            found = self._rule_documents[rule.id] = {"text": self.texts.get(rule.path, ""), "cases": cases}
        return found

    def schema_document(self, name: str) -> bytes:
        """The JSON Schema of a kind of file in a rules folder.

        Raises:
            Refused: there is none with this name.
        """
        if name not in SCHEMAS:
            raise Refused(
                "not-found", f"unknown schema {quoted(name)}; legal: {listed(SCHEMAS)}{nearest(name, SCHEMAS)}"
            )
        return _schema(name)

    def cached_answer(self, body: bytes, context: RequestContext) -> bytes | None:
        """The cached answer to a JSON body, with a new decision id; ``None`` if it is not cached."""
        self._today()
        cached = self._cache.get(body)
        if cached is None:
            return None
        rest, answer, request = cached
        json = b"%b%b%b" % (ID_START, str(uuid7()).encode(), rest)
        self.recorder.metrics.count_decision(request, answer.evaluation, self.policy)
        if not self.recorder.is_silent:
            self.recorder.log_decision(
                EncodedDecision(json, answer.evaluation, answer.decision), request, context, body
            )
        return json

    def evaluate_common(self, bodies: Sequence[bytes | PolicyError]) -> list[FullEvaluation | PolicyError | None]:
        """Evaluate those of the requests that are common ones; ``None`` for any other, which has to be read in full.

        It is an error for one that cannot be evaluated.

        All are decoded before the first is evaluated, and are encoded afterwards: the processor's caches do not hold
        the decoder, the engine and the encoder together. In process a decision takes 41 instead of 52 µs in groups of
        32, and 43 in groups of 16.
        """
        releases, today = self.policy.releases, self._today()
        try:
            requests = [
                decode_fast(body, releases) if isinstance(body, bytes) and len(body) <= MAX_INLINE else None
                for body in bodies
            ]
        except Exception:  # noqa: BLE001  # a defect must not fail the others; each is decoded again by itself
            return [None] * len(bodies)
        return [None if request is None else self._evaluate(request, today) for request in requests]

    def _evaluate(self, request: Request, today: date) -> FullEvaluation | PolicyError:
        try:
            return self.policy.evaluate_fully(request, today)
        except PolicyError as error:  # it must not fail the others; it is raised again for its own request
            return error

    def decision(
        self, body: bytes, context: RequestContext, evaluation: FullEvaluation | PolicyError | None = None
    ) -> bytes | None:
        """The answer to a JSON body, given its evaluation, or the error of that, if it is a common request.

        It is ``None`` if it may take long and is for a worker process.

        Raises:
            PolicyError: the body cannot be read or decided.
        """
        if isinstance(evaluation, PolicyError):
            raise evaluation
        request = self._small_request(body) if evaluation is None else evaluation.result.request
        if request is None:
            return None
        try:
            evaluation = evaluation or self._evaluation(request)
        except ModelConfigNeeded:
            if self.models.fetches:
                return None
            raise
        if evaluation is None:
            return None
        answer = self.policy.encode(evaluation)
        self.recorder.record(answer, request, self.policy, context, body)
        json = answer.json
        may_change = request.deployment is not None and self.models.fetches  # the model on the hub may change
        is_current = evaluation.result.today is self._day  # midnight may have passed since a group was evaluated
        may_cache = is_current and not may_change and len(body) <= MAX_CACHED and len(json) <= MAX_CACHED
        if may_cache and self._cache.seen_before(body):
            self._cache.put(body, (json[ID_END:], answer, request))
        return json

    def _today(self) -> date:
        """The date; a new date clears the cache."""
        now = time()
        if not self._midnight - DAY <= now < self._midnight:  # a corrected clock may be before the day
            # Set first: if midnight passes before the date is read, the next call reads it again.
            self._midnight = (now // DAY + 1) * DAY
            self._day = today()
            self._cache.clear()
        return self._day

    def _small_request(self, body: bytes) -> Request | None:
        """The request in a JSON body; ``None`` if it is for a worker process.

        Raises:
            PolicyError: the body cannot be read, or the request is invalid.
        """
        if len(body) > MAX_INLINE:
            return None
        releases = self.policy.releases
        request = decode_fast(body, releases)
        if request is not None or len(body) > MAX_INLINE_OTHER:
            return request
        document = decode(body)
        if not _is_small(document):
            return None
        try:
            with bounded_messages(MAX_INLINE_MESSAGES):
                request = read_request(document, releases)
        except LongMessages:
            return None
        deployment = request.deployment
        return request if deployment is None or deployment.text_length <= MAX_INLINE_TEXT else None

    def _evaluation(self, request: Request) -> FullEvaluation | None:
        """The evaluation of a request; ``None`` if its scripts expand to more text than is read in the event loop.

        It is ``None`` too if its faults are too long to be searched there, or its models take too long to be read.

        Raises:
            PolicyError: the request cannot be decided.
        """
        with (
            request_expansion(MAX_INLINE_EXPANSION) as expansion,
            request_iterations(MAX_INLINE_ITERATIONS),
            bounded_messages(MAX_INLINE_MESSAGES),
        ):
            try:
                evaluation = self.policy.evaluate_fully(request, self._today())
            except (LongMessages, TooManyIterations):
                return None
            except PolicyError:
                if not expansion.is_exhausted:
                    raise
                return None
        return None if expansion.is_exhausted else evaluation

    def line(
        self,
        body: bytes | PolicyError,
        context: RequestContext,
        evaluation: FullEvaluation | PolicyError | None = None,
    ) -> bytes | None:
        """The decision or problem for a line of a stream, with a newline; ``None`` if it is for a worker process.

        ``evaluation`` is as for ``decision``.
        """
        if isinstance(body, PolicyError):
            return _problem_line(body)
        if isinstance(evaluation, PolicyError):
            return _problem_line(evaluation)
        try:
            request = self._small_request(body) if evaluation is None else evaluation.result.request
            if request is None or (request.deployment is not None and self.models.fetches):
                return None
            evaluation = evaluation or self._evaluation(request)
            if evaluation is None:
                return None
            answer = self.policy.encode(evaluation)
            self.recorder.record(answer, request, self.policy, context, body)
            return answer.json + b"\n"
        except PolicyError as error:
            return _problem_line(error)
        except Exception as error:  # noqa: BLE001  # a defect may raise anything
            return _problem_line(RequestInvalid([defect_fault(error)]))


def _is_small(document: object) -> bool:
    """Whether a document of at most ``MAX_INLINE_OTHER`` bytes asks for one decision, and has no long file.

    It may have faults. An explained decision takes up to a hundred times as long as another.
    """
    if type(document) is not dict or "manifest" in document or document.get("explain") is True:
        return False
    deployment = document.get("deployment")
    files = deployment.get("files") if type(deployment) is dict else None
    texts = files.values() if type(files) is dict else ()
    is_request = "facts" in document or "deployment" in document
    return is_request and sum(len(text) for text in texts if type(text) is str) <= MAX_INLINE_TEXT


def _problem_line(error: PolicyError) -> bytes:
    """The answer to a line that cannot be decided."""
    return encode(problem_of(error)) + b"\n"
