"""Documents → answers, as bytes: the calls of the service without HTTP around them.

Owns the loaded policy with what is published of it, and the bounded memory of answers to repeated
documents. That memory is keyed by the bytes of the document and is empty again on a new day, because
warnings of overdue house rules depend on the date; a policy brings its own.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from time import time
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace
from uuid_utils import uuid7

from policy import render
from policy.decision import Decision, encode
from policy.errors import PolicyError, nearest, quoted
from policy.published import facts_document, policy_document, releases_document, rule_document, rules_document
from policy.recent import Recent
from policy.request import Request, read_request
from policy.usual import read_usual
from service.documents import decode
from service.problems import Problem, Refused, problem_of

if TYPE_CHECKING:
    from policy.policy import Policy
    from service.settings import Settings

DAY: Final = 86_400  # seconds
ID_START: Final = len(b'{"decision_id":"')
ID_END: Final = ID_START + 36
KEPT_SIZE: Final = 8192


def today() -> date:
    """The date in UTC, by which house rules are overdue."""
    return datetime.fromtimestamp(time(), UTC).date()


class Answers:
    """What a loaded policy answers."""

    def __init__(self, policy: Policy, texts: dict[str, str], source: str, settings: Settings) -> None:
        """``texts`` are the rule files that the policy was loaded from, ``source`` is where they lie."""
        self.policy = policy
        self.texts = texts
        self.settings = settings
        catalogue = policy.catalogue
        loaded_at = datetime.now(UTC).isoformat(timespec="seconds")
        self.etag = f'"{policy.revision}"'
        self.policy_document = encode(policy_document(catalogue, source, loaded_at))
        self.releases_document = encode(releases_document(catalogue, policy.releases.default))
        self.facts_document = encode(facts_document(catalogue))
        self.rules_document = encode(rules_document(catalogue))
        self.ready_document = encode({"status": "ready", "revision": policy.revision})
        self._kept: Recent[bytes, bytes] = Recent(settings.kept_answers)
        self._day, self._midnight = date.min, 0.0

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

    def kept(self, body: bytes) -> bytes | None:
        """The answer to a JSON body that came before, with an id of its own; ``None`` where none is kept."""
        self._today()
        kept = self._kept.get(body)
        return None if kept is None else b'{"decision_id":"%b%b' % (str(uuid7()).encode(), kept)

    def decision(self, body: bytes) -> bytes:
        """The answer to a JSON body.

        Raises:
            PolicyError: the body cannot be read or decided.
        """
        answer = self.policy.answer(self.request(body), self._today())
        if len(body) <= KEPT_SIZE and len(answer) <= KEPT_SIZE:
            self._kept.keep(body, answer[ID_END:])
        return answer

    def _today(self) -> date:
        """The date; where it is a new one, the answers that were kept are let go."""
        now = time()
        if now >= self._midnight:
            self._midnight = (now // DAY + 1) * DAY  # first, so that a midnight just now is seen by the next call
            self._day = today()
            self._kept.clear()
        return self._day

    def request(self, body: bytes) -> Request:
        """What a JSON body asks.

        Raises:
            PolicyError: the body cannot be read, or what it asks does not fit.
        """
        releases = self.policy.releases
        return read_usual(body, releases) or read_request(decode(body), releases)

    def decide(self, document: Any, pointer: str = "", *, explain: bool = False) -> Decision:
        """The decision on a request's document; ``pointer`` is its place in the body.

        Raises:
            PolicyError: the document cannot be decided.
        """
        request = read_request(document, self.policy.releases, pointer)
        return self.policy.decide(replace(request, explain=explain or request.explain), today())

    def item(self, document: Any, pointer: str) -> Decision | Problem:
        """A batch's item: its decision, or the problem with it."""
        try:
            return self.decide(document, pointer)
        except PolicyError as error:
            return problem_of(error)

    def line(self, body: bytes | PolicyError) -> bytes:
        """A stream's line: its decision or problem, ending in a newline."""
        try:
            if isinstance(body, PolicyError):
                raise body
            return self.policy.answer(self.request(body), self._today()) + b"\n"
        except PolicyError as error:
            return encode(problem_of(error)) + b"\n"

    def text(self, decision: Decision) -> bytes:
        """A decision for a terminal."""
        return render.as_text(render.decision(decision)).encode()
