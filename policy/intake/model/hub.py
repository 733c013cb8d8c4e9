"""A model's `config.json` from the hub, if an operator has enabled it; otherwise this module is not even imported.

Bounds the number and the time of requests to the hub: one fetch of a model at a time, a few models at once, none longer
than the time limit, and a short cache of the results, refusals included. `hub_client` does the fetch, through
huggingface_hub and its cache.
"""

from __future__ import annotations

import os
import re
import time
from concurrent.futures import Future
from threading import BoundedSemaphore, Lock, Thread
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from cachetools import TLRUCache

from policy.intake.model.files import COMPANIONS
from policy.intake.model.hub_errors import (
    HubBusy,
    HubMisconfigured,
    HubNameInvalid,
    HubTimeout,
    HubUnreachable,
    ModelFiles,
    ModelSource,
)
from policy.messages import listed, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policy.intake.model.hub_errors import Outcome, Question

ENDPOINT: Final = "https://huggingface.co"
MAIN: Final = "main"
MAX_NAME: Final = 200
# huggingface_hub makes paths of a revision: one with `..`, or that begins with `/`, would be outside its cache.
REVISION: Final = re.compile(r"(?!.*(?:\.\.|//))[A-Za-z0-9_](?:[A-Za-z0-9_./+-]{0,198}[A-Za-z0-9_+-])?", re.ASCII)
TRUE: Final = {"1", "ON", "YES", "TRUE"}

CACHED: Final = 300.0  # seconds that a result from the hub is cached
CACHED_SHORT: Final = 15.0  # seconds that a refusal, or a result from huggingface_hub's cache, is cached
MAX_CACHED_BYTES: Final = 16 << 20  # bytes of all cached results
MIN_SIZE: Final = 1 << 10  # minimum bytes counted for a result, which bounds their number too


class Hub:
    """One hub; safe to use from any thread."""

    def __init__(
        self,
        timeout: float,
        *,
        endpoint: str | None = None,
        offline: bool | None = None,
        cache: str | None = None,
        at_once: int = 4,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``timeout`` is the time limit of one call in seconds; ``at_once`` the maximum of concurrent fetches.

        Values that are not given are read from the environment now, by huggingface_hub's names: `HF_ENDPOINT`,
        `HF_HUB_OFFLINE`, and at its import `HF_HOME` and `HF_HUB_CACHE`. `HF_TOKEN` is read at each fetch. ``clock`` is
        for the cache only.

        Raises:
            HubMisconfigured: the endpoint is not an HTTP address.
        """
        self.source = ModelSource(_endpoint(endpoint), _offline() if offline is None else offline, cache)
        self.timeout = timeout
        self._slots = BoundedSemaphore(at_once)
        self._lock = Lock()
        self._running: dict[Question, Future[Outcome]] = {}
        self._known: TLRUCache[Question, Outcome] = TLRUCache(MAX_CACHED_BYTES, _until, clock, getsizeof=_size)

    def config(self, name: str, revision: str | None = None, also: Sequence[str] = ()) -> ModelFiles:
        """A model's `config.json`, and those of the ``COMPANIONS`` in ``also`` that it has.

        Returns within the time limit.

        Raises:
            HubFailed: one of its subclasses, which says why there is no configuration.
            ValueError: ``also`` names another file.
        """
        if not set(also) <= set(COMPANIONS):
            raise ValueError(f"of a model's files only {listed(COMPANIONS)} are read beside its configuration")
        _check(name, revision)
        deadline = time.monotonic() + self.timeout
        question = (name, MAIN if revision is None else revision, tuple(dict.fromkeys(also)))
        outcome = self._outcome(question, deadline)
        if isinstance(outcome, ModelFiles):
            return outcome
        # A new one each time: an exception that is raised again collects the tracebacks of all callers.
        raise type(outcome)(*outcome.args)

    def kept(self, name: str) -> ModelFiles | None:
        """The cached files of a model's main branch, with all companions; ``None`` if there are none.

        Never waits for the hub.
        """
        with self._lock:
            known = self._known.get((name, MAIN, COMPANIONS))
        return known if isinstance(known, ModelFiles) else None

    def _outcome(self, question: Question, deadline: float) -> Outcome:
        with self._lock:
            known = self._known.get(question)
            if known is not None:
                return known
            running = self._running.get(question)
            is_first = running is None
            if running is None:
                running = self._running[question] = Future()
        if is_first:
            self._start(question, running, deadline)
        try:
            return running.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            return self._timed_out(question)

    def _start(self, question: Question, running: Future[Outcome], deadline: float) -> None:
        if self._slots.acquire(timeout=self.timeout):
            # Not from a pool: the process would wait for its threads at exit, and resolving the hub's name can take
            # minutes.
            Thread(target=self._fetch, args=(question, running, deadline), name="hub", daemon=True).start()
            return
        busy = (
            f"the hub was not asked for {quoted(question[0])}: too many models are being fetched; try again, "
            "or give its `config.json`"
        )
        self._settle(question, running, HubBusy(busy))

    def _fetch(self, question: Question, running: Future[Outcome], deadline: float) -> None:
        # huggingface_hub is imported only when the hub is used
        from policy.intake.model.hub_client import fetched  # noqa: PLC0415  # see above

        outcome: Outcome = HubUnreachable(f"the fetch of {quoted(question[0])} from {self.source} failed")
        try:
            outcome = fetched(self.source, question, deadline)
        finally:  # INVARIANT: every waiting caller gets a result, and the next fetch may start
            self._slots.release()
            self._settle(question, running, outcome)

    def _settle(self, question: Question, running: Future[Outcome], outcome: Outcome) -> None:
        with self._lock:
            del self._running[question]
            if not isinstance(outcome, HubBusy):
                self._known[question] = outcome
        running.set_result(outcome)

    def _timed_out(self, question: Question) -> Outcome:
        # huggingface_hub is imported only when the hub is used
        from policy.intake.model.hub_client import cached  # noqa: PLC0415  # see above

        return cached(self.source, question) or HubTimeout(
            f"{self.source} did not answer for {quoted(question[0])} within the time limit; try again later, "
            "or give its `config.json`"
        )


def _until(_: Question, outcome: Outcome, now: float) -> float:
    return now + (CACHED if isinstance(outcome, ModelFiles) and not outcome.cached else CACHED_SHORT)


def _size(outcome: Outcome) -> int:
    return max(MIN_SIZE, outcome.size if isinstance(outcome, ModelFiles) else 0)


def _check(name: str, revision: str | None) -> None:
    if len(name) > MAX_NAME or not _is_repository(name):
        raise HubNameInvalid(
            f"invalid repository name {quoted(name)}: expected one such as `Qwen/Qwen3-8B`; or give its `config.json`"
        )
    if revision is not None and not REVISION.fullmatch(revision):
        raise HubNameInvalid(f"invalid revision {quoted(revision)}: name a branch, a tag or a commit")


def _is_repository(name: str) -> bool:
    # huggingface_hub is imported only when the hub is used. Its lazy loading hides this public function.
    from huggingface_hub.errors import HFValidationError  # noqa: PLC0415  # see above
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # noqa: PLC0415  # see above

    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return True


def _endpoint(given: str | None) -> str:
    endpoint = (given or os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
    try:
        parts = urlsplit(endpoint)
        usable = (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and (parts.port or 1) > 0
            and endpoint.isprintable()
        )
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        raise HubMisconfigured(
            "the hub's endpoint must be an address such as `https://huggingface.co`; set `HF_ENDPOINT`, or leave it out"
        )
    return endpoint


def _offline() -> bool:
    return (os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or "").upper() in TRUE
