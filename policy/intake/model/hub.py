"""A model's `config.json` from the hub, if an operator has enabled that; otherwise this module is not even imported.

Limits the requests to the hub: one fetch per model at a time, a few models concurrently, none longer than the time
limit; results are cached for a short time, including errors. `hub_client` does the fetch, through huggingface_hub and
its cache.
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

    from policy.intake.model.hub_errors import HubQuery, Outcome

ENDPOINT: Final = "https://huggingface.co"
MAIN: Final = "main"
MAX_NAME: Final = 200
# huggingface_hub uses a revision as a path: one with `..` or a leading `/` would be outside its cache.
REVISION: Final = re.compile(r"(?!.*(?:\.\.|//))[A-Za-z0-9_](?:[A-Za-z0-9_./+-]{0,198}[A-Za-z0-9_+-])?", re.ASCII)
TRUE: Final = {"1", "ON", "YES", "TRUE"}

RESULT_SECONDS: Final = 300.0  # how long a result from the hub is cached
ERROR_SECONDS: Final = 15.0  # how long an error, or a result from huggingface_hub's cache, is cached
MAX_CACHED_BYTES: Final = 16 << 20  # bytes of all cached results
VALUE_SIZE: Final = 80  # bytes counted for a key or a value: a short one takes 30 to 80 bytes of memory
MIN_SIZE: Final = 1 << 10  # minimum bytes counted for a result, which also bounds their number


class Hub:
    """One hub; safe to use from any thread."""

    def __init__(
        self,
        timeout: float,
        *,
        endpoint: str | None = None,
        offline: bool | None = None,
        cache: str | None = None,
        max_fetches: int = 4,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``timeout`` is the time limit of one call in seconds; ``max_fetches`` limits concurrent fetches.

        Values that are not given are read from the environment now, by huggingface_hub's names: `HF_ENDPOINT`,
        `HF_HUB_OFFLINE`, and at its import `HF_HOME` and `HF_HUB_CACHE`. `HF_TOKEN` is read at each fetch. Only the
        cache uses ``clock``.

        Raises:
            HubMisconfigured: the endpoint is not an HTTP address.
        """
        self.source = ModelSource(_endpoint(endpoint), _offline() if offline is None else offline, cache)
        self.timeout = timeout
        self._slots = BoundedSemaphore(max_fetches)
        self._lock = Lock()
        self._running: dict[HubQuery, Future[Outcome]] = {}
        self._known: TLRUCache[HubQuery, Outcome] = TLRUCache(MAX_CACHED_BYTES, _until, clock, getsizeof=_size)

    def config(self, name: str, revision: str | None = None, companions: Sequence[str] = ()) -> ModelFiles:
        """A model's `config.json`, and the files among ``companions`` that it has.

        Returns within the time limit.

        Raises:
            HubFailed: there is no configuration; the subclass says why.
            ValueError: ``companions`` has a name that is not in ``COMPANIONS``.
        """
        if not set(companions) <= set(COMPANIONS):
            raise ValueError(f"expected companions from {listed(COMPANIONS)}, got {listed(companions)}")
        _check(name, revision)
        deadline = time.monotonic() + self.timeout
        query = (name, MAIN if revision is None else revision, tuple(dict.fromkeys(companions)))
        outcome = self._outcome(query, deadline)
        if isinstance(outcome, ModelFiles):
            return outcome
        # A new exception each time: raising the same one again would accumulate the tracebacks of all callers.
        raise type(outcome)(*outcome.args)

    def cached_files(self, name: str) -> ModelFiles | None:
        """The cached files of a model's main branch, with all companions; ``None`` if they are not cached.

        Never waits for the hub.
        """
        with self._lock:
            known = self._known.get((name, MAIN, COMPANIONS))
        return known if isinstance(known, ModelFiles) else None

    def _outcome(self, query: HubQuery, deadline: float) -> Outcome:
        with self._lock:
            known = self._known.get(query)
            if known is not None:
                return known
            running = self._running.get(query)
            is_first = running is None
            if running is None:
                running = self._running[query] = Future()
        if is_first:
            self._start(query, running, deadline)
        try:
            return running.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            return self._timed_out(query)

    def _start(self, query: HubQuery, running: Future[Outcome], deadline: float) -> None:
        if self._slots.acquire(timeout=self.timeout):
            # Not from a pool: at exit the process would wait for its threads, and resolving the hub's name can take
            # minutes.
            Thread(target=self._fetch, args=(query, running, deadline), name="hub", daemon=True).start()
            return
        busy = (
            f"the hub was not asked for {quoted(query[0])}: too many models are being fetched; try again, "
            "or give its `config.json`"
        )
        self._settle(query, running, HubBusy(busy))

    def _fetch(self, query: HubQuery, running: Future[Outcome], deadline: float) -> None:
        # huggingface_hub is imported only when the hub is used
        from policy.intake.model.hub_client import fetch  # noqa: PLC0415  # see above

        outcome: Outcome = HubUnreachable(f"the fetch of {quoted(query[0])} from {self.source} failed")
        try:
            outcome = fetch(self.source, query, deadline)
        finally:  # INVARIANT: every waiting caller gets a result, and the next fetch may start
            self._slots.release()
            self._settle(query, running, outcome)

    def _settle(self, query: HubQuery, running: Future[Outcome], outcome: Outcome) -> None:
        with self._lock:
            del self._running[query]
            if not isinstance(outcome, HubBusy):
                self._known[query] = outcome
        running.set_result(outcome)

    def _timed_out(self, query: HubQuery) -> Outcome:
        # huggingface_hub is imported only when the hub is used
        from policy.intake.model.hub_client import cached_or  # noqa: PLC0415  # see above

        error = HubTimeout(
            f"{self.source} did not answer for {quoted(query[0])} within the time limit; try again later, "
            "or give its `config.json`"
        )
        return cached_or(self.source, query, error)


def _until(_: HubQuery, outcome: Outcome, now: float) -> float:
    return now + (RESULT_SECONDS if isinstance(outcome, ModelFiles) and not outcome.cached else ERROR_SECONDS)


def _size(outcome: Outcome) -> int:
    return max(MIN_SIZE, outcome.size + outcome.values * VALUE_SIZE) if isinstance(outcome, ModelFiles) else MIN_SIZE


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
