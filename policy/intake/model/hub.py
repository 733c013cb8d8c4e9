"""A model's `config.json` from the hub, where an operator switched that on; off, nothing of it is even imported.

Owns how often and how long the hub is asked: one fetch a model at a time, a few at once, none longer than the time limit, and a short memory of
what it said, a refusal included. ``hubclient`` speaks with it, through huggingface_hub and its cache.
"""

from __future__ import annotations

import os
import re
import time
from concurrent.futures import Future
from threading import BoundedSemaphore, Lock, Thread
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

from cachetools import TLRUCache
from msgspec import Struct

from policy.errors import PolicyError
from policy.intake.model.files import COMPANIONS
from policy.messages import listed, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ENDPOINT: Final = "https://huggingface.co"
MAIN: Final = "main"
MAX_NAME: Final = 200
# huggingface_hub makes paths of a revision: one with `..`, or one that begins with `/`, would lie outside of its cache.
REVISION: Final = re.compile(r"(?!.*(?:\.\.|//))[A-Za-z0-9_](?:[A-Za-z0-9_./+-]{0,198}[A-Za-z0-9_+-])?", re.ASCII)
TRUE: Final = {"1", "ON", "YES", "TRUE"}

KEPT: Final = 300.0  # seconds for which the hub's answer counts
KEPT_SHORT: Final = 15.0  # seconds for which a refusal, or what the cache had in place of an answer, counts
MEMORY: Final = 16 << 20  # bytes of what was read
SMALLEST: Final = 1 << 10  # bytes that any answer counts for, so that the number of them is bounded too


class ModelFiles(Struct, frozen=True):
    """What the hub has of a model. Shared by all who ask: not to be changed.

    ``files`` has the texts of the companions that were asked for and are there, by name; ``unknown`` names those of which the cache does not know
    whether they are there. ``commit`` is the revision that all of it belongs to. ``cached`` says that the hub was not asked, or did not answer,
    and that this is what its cache had. ``size`` counts the bytes that were read.
    """

    config: dict[str, Any]
    files: dict[str, str]
    commit: str
    unknown: tuple[str, ...] = ()
    cached: bool = False
    size: int = 0


class HubFailed(PolicyError):
    """The hub gives no usable `config.json`; the message says why and what to do, and never holds a token."""


class HubNameInvalid(HubFailed):
    """What was asked for is the name of no repository, or of no revision."""


class HubNotFound(HubFailed):
    """The hub has no such repository, revision or file."""


class HubDenied(HubFailed):
    """The hub does not show the repository to who asks; a token, or access for the token's account, is needed."""


class HubOffline(HubFailed):
    """The hub must not be asked, and its cache does not have the model."""


class HubUnreachable(HubFailed):
    """The hub cannot be reached or does not work, and its cache does not have the model."""


class HubTimeout(HubFailed):
    """The hub did not answer in time, and its cache does not have the model."""


class HubBusy(HubFailed):
    """As many models as may be are being fetched already, and none was done in time."""


class HubTooLarge(HubFailed):
    """A file of the model has more bytes than are read."""


class HubUnreadable(HubFailed):
    """The hub's `config.json` is no JSON object."""


class HubMisconfigured(PolicyError):
    """The hub's address is none."""


Question: TypeAlias = tuple[str, str, tuple[str, ...]]
Outcome: TypeAlias = "ModelFiles | HubFailed"


class ModelSource(Struct, frozen=True):
    """Which hub: ``endpoint`` without a slash at its end, ``cache`` the folder where another than huggingface_hub's own is wanted."""

    endpoint: str
    offline: bool
    cache: str | None = None

    def __str__(self) -> str:
        """The hub as messages name it: without what a user and a password in its address would give away."""
        parts = urlsplit(self.endpoint)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class Hub:
    """One hub; any thread may ask it."""

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
        """``timeout`` is what one question may take in all, in seconds; ``at_once`` how many fetches may go on.

        What is not given is read from the environment now, as huggingface_hub names it: `HF_ENDPOINT`, `HF_HUB_OFFLINE`, and at its import
        `HF_HOME` and `HF_HUB_CACHE`. `HF_TOKEN` is read at each fetch. ``clock`` times the memory alone.

        Raises:
            HubMisconfigured: the endpoint is no address of HTTP.
        """
        self.source = ModelSource(_endpoint(endpoint), _offline() if offline is None else offline, cache)
        self.timeout = timeout
        self._slots = BoundedSemaphore(at_once)
        self._lock = Lock()
        self._running: dict[Question, Future[Outcome]] = {}
        self._known: TLRUCache[Question, Outcome] = TLRUCache(MEMORY, _until, clock, getsizeof=_size)

    def config(self, name: str, revision: str | None = None, also: Sequence[str] = ()) -> ModelFiles:
        """A model's `config.json`, and of the ``COMPANIONS`` named in ``also`` those that it has; returns within the time limit.

        Raises:
            HubFailed: one of its subclasses, for why there is none.
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
        # A new one each time: an exception that is raised again collects the traces of all who raised it.
        raise type(outcome)(*outcome.args)

    def kept(self, name: str) -> ModelFiles | None:
        """What the hub said of late of a model's main branch and all its companions; ``None`` where it said nothing good. Never waits for the hub."""
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
            return self._late(question)

    def _start(self, question: Question, running: Future[Outcome], deadline: float) -> None:
        if self._slots.acquire(timeout=self.timeout):
            # Not of a pool: its threads are waited for at the process's end, and the name of a hub can take minutes to be looked up in vain.
            Thread(target=self._fetch, args=(question, running, deadline), name="hub", daemon=True).start()
            return
        busy = f"the hub was not asked for {quoted(question[0])}: too many models are being fetched; ask again, or give its `config.json`"
        self._settle(question, running, HubBusy(busy))

    def _fetch(self, question: Question, running: Future[Outcome], deadline: float) -> None:
        from policy.intake.model.hub_client import fetched  # noqa: PLC0415  # huggingface_hub is imported only where a hub is asked

        outcome: Outcome = HubUnreachable(f"the fetch of {quoted(question[0])} from {self.source} broke off")
        try:
            outcome = fetched(self.source, question, deadline)
        finally:  # INVARIANT: whoever waits is told, and the next may ask
            self._slots.release()
            self._settle(question, running, outcome)

    def _settle(self, question: Question, running: Future[Outcome], outcome: Outcome) -> None:
        with self._lock:
            del self._running[question]
            if not isinstance(outcome, HubBusy):
                self._known[question] = outcome
        running.set_result(outcome)

    def _late(self, question: Question) -> Outcome:
        from policy.intake.model.hub_client import cached  # noqa: PLC0415  # huggingface_hub is imported only where a hub is asked

        return cached(self.source, question) or HubTimeout(
            f"{self.source} gave no answer for {quoted(question[0])} within the time limit; ask again later, or give its `config.json`"
        )


def _until(_: Question, outcome: Outcome, now: float) -> float:
    return now + (KEPT if isinstance(outcome, ModelFiles) and not outcome.cached else KEPT_SHORT)


def _size(outcome: Outcome) -> int:
    return max(SMALLEST, outcome.size if isinstance(outcome, ModelFiles) else 0)


def _check(name: str, revision: str | None) -> None:
    if len(name) > MAX_NAME or not _is_repository(name):
        raise HubNameInvalid(
            f"{quoted(name)} is the name of no repository of the hub, such as `Qwen/Qwen3-8B`; give its `config.json`"
        )
    if revision is not None and not REVISION.fullmatch(revision):
        raise HubNameInvalid(f"{quoted(revision)} is no revision of a repository: name a branch, a tag or a commit")


def _is_repository(name: str) -> bool:
    from huggingface_hub.errors import HFValidationError  # noqa: PLC0415  # huggingface_hub is imported only where a hub is asked
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # noqa: PLC0415  # public, but loaded in a way that hides it

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
            "the hub's endpoint is no address such as `https://huggingface.co`; set `HF_ENDPOINT`, or leave it out"
        )
    return endpoint


def _offline() -> bool:
    return (os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or "").upper() in TRUE
