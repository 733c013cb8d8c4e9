"""Fetch a model's files through huggingface_hub and its cache, within limits of size and time.

The only module that uses huggingface_hub, except for checking names. Its own time limits are per read, and its retries
sleep as long as a server demands, so we give it a client that ends a request at the deadline and raises an error for a
response that it would retry. No exception of huggingface_hub leaves this module, because its text may quote a header
and so a token.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx2 as httpx
from huggingface_hub import constants, hf_hub_download, set_client_factory, try_to_load_from_cache
from huggingface_hub.errors import (
    FileMetadataError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RemoteEntryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import get_token_to_send  # type: ignore[attr-defined]  # public; lazy loading hides it
from huggingface_hub.utils.tqdm import silent_tqdm

from policy.intake.model.files import CONFIG, MAX_BYTES, FileInvalid, TooLarge, read_config, read_file
from policy.intake.model.hub_errors import (
    HubDenied,
    HubFailed,
    HubNotFound,
    HubOffline,
    HubTimeout,
    HubTooLarge,
    HubUnreachable,
    HubUnreadable,
    ModelFiles,
)
from policy.messages import quoted
from policy.parser.jsontext import NotJson, TooDeep, TooManyValues, check_values, most_values, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.intake.model.hub_errors import HubQuery, ModelSource, Outcome

UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 401, 403, 404
RETRYABLE_STATUSES: Final = {408, 429, 500, 502, 503, 504}
# huggingface_hub uses these headers as file names without checking them: with `..` or `/`, a hub could make it read or
# write any file of the service. It strips `W` and `/` before an ETag, and the quotes.
ETAG: Final = re.compile(r'(?:W/)?"?(?!W*\.)(?!.*\.\.)[!#-.0-[\]-~]{1,200}"?', re.ASCII)
COMMIT: Final = re.compile(r"[A-Za-z0-9]{1,64}", re.ASCII)
FILE_NAMES: Final = {"etag": ETAG, "x-linked-etag": ETAG, "x-repo-commit": COMMIT}
INSTEAD: Final = "or give its `config.json`"
MAX_VALUES: Final = 20_000
"""Keys and values of a file. The largest `config.json` of a model in the tests has 700.

A file is decoded in the process that serves, which answers nothing meanwhile: 340,000 values, which 1 MiB can have,
take 110 ms, and as many objects are sent to a worker process in 40 ms.
"""


def fetch(source: ModelSource, query: HubQuery, deadline: float) -> Outcome:
    """The hub's result before ``deadline`` (monotonic), or the cached one if the hub is unreachable or offline."""
    if source.offline:
        name = quoted(query[0])
        return cached(source, query) or HubOffline(
            f"the hub is offline (`HF_HUB_OFFLINE`), and its cache does not have {name}; give its `config.json`"
        )
    try:
        with _until(deadline):
            return _Fetch(source, query).files()
    except (HubTimeout, HubUnreachable) as error:
        return cached_or(source, query, error)
    except HubFailed as error:
        return error


def cached_or(source: ModelSource, query: HubQuery, error: HubFailed) -> Outcome:
    """The cached files of a model if the cache knows for each whether it exists, else the hub's error.

    A companion that only the hub knows of may change the model, so it must not count as missing.
    """
    found = cached(source, query)
    return error if found is None or (isinstance(found, ModelFiles) and found.unknown) else found


def cached(source: ModelSource, query: HubQuery) -> Outcome | None:
    """The cached files of a model, without any request; None if its configuration is not cached."""
    name, revision, companions = query
    found = {file: _known(source, name, file, revision) for file in (CONFIG, *companions)}
    paths = {file: Path(path) for file, path in found.items() if isinstance(path, str)}
    if CONFIG not in paths:
        return None
    try:
        return _read(name, paths, unknown=tuple(file for file, path in found.items() if path is None), is_cached=True)
    except HubFailed as error:
        return error


class _Fetch:
    """The fetch of one model."""

    def __init__(self, source: ModelSource, query: HubQuery) -> None:
        self.source = source
        self.name, self.revision, self.companions = query
        self.shown = quoted(self.name)
        self.token: str | None = None

    def files(self) -> ModelFiles:
        """Fetch the files. Raises HubFailed."""
        path = self._download(CONFIG, self.revision)
        if path is None:
            raise HubNotFound(f"{self.shown} on {self.source} has no `{CONFIG}`; check the name, {INSTEAD}")
        paths = {CONFIG: path}
        commit = path.parent.name  # the same commit for all files, even if the branch changes meanwhile
        for file in self.companions:
            known = _known(self.source, self.name, file, commit)
            other = self._companion(file, commit) if known is None else Path(known) if isinstance(known, str) else None
            if other is not None:
                paths[file] = other
        return _read(self.name, paths)

    def _companion(self, file: str, commit: str) -> Path | None:
        """Download a companion and return its path in the cache; None if the repository does not have it."""
        try:
            return self._download(file, commit)
        except HubFailed as error:
            raise type(error)(f"`{file}` of {self.shown}: {error}") from None

    def _download(self, file: str, revision: str) -> Path | None:
        """Download a file and return its path in the cache; None if the repository does not have it."""
        try:
            self.token = _token()
            return Path(
                hf_hub_download(
                    self.name,
                    file,
                    revision=revision,
                    endpoint=self.source.endpoint,
                    cache_dir=self.source.cache,
                    token=self.token or False,
                    library_name="runner-policy",
                    tqdm_class=silent_tqdm,
                )
            )
        except HubFailed:
            raise
        except RemoteEntryNotFoundError:
            return None
        except RevisionNotFoundError:
            raise HubNotFound(
                f"{self.shown} on {self.source} has no revision {quoted(revision)}; name a branch, a tag or a commit"
            ) from None
        except (HfHubHTTPError, LocalEntryNotFoundError) as error:
            raise self._refusal(error) from None
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise HubFailed(
                f"{self.shown} cannot be stored in the hub's cache: {why}; set `HF_HOME` to a writable folder"
            ) from None
        except Exception as error:  # noqa: BLE001  # callers wait for a result, and its text may contain a token
            raise HubFailed(
                f"{self.shown} cannot be fetched from {self.source}: {type(error).__name__}; give its `config.json`"
            ) from None

    def _refusal(self, error: HfHubHTTPError | LocalEntryNotFoundError) -> HubFailed:
        reason = error if isinstance(error, HfHubHTTPError) else error.__cause__
        if isinstance(reason, FileMetadataError):
            return HubUnreachable(f"{self.source} does not answer like a hub; check `HF_ENDPOINT`, {INSTEAD}")
        status = reason.response.status_code if isinstance(reason, HfHubHTTPError) else None
        if isinstance(reason, GatedRepoError):
            other = (
                "ask for access on its page with the account of `HF_TOKEN`"
                if self.token
                else "ask for access on its page and set `HF_TOKEN`"
            )
            return HubDenied(f"{self.shown} on {self.source} is gated; {other}, {INSTEAD}")
        if status == UNAUTHORIZED and self.token is None:
            return HubDenied(
                f"{self.source} denies {self.shown} without a token; check the name, set `HF_TOKEN` if it is private "
                f"or gated, {INSTEAD}"
            )
        if status == UNAUTHORIZED:
            return HubDenied(
                f"{self.source} denies {self.shown} with the token in `HF_TOKEN`; check the name and the token, "
                f"{INSTEAD}"
            )
        if status == FORBIDDEN:
            return HubDenied(
                f"{self.source} forbids {self.shown}; set `HF_TOKEN` to a token that may read it, {INSTEAD}"
            )
        if status == NOT_FOUND:
            return HubNotFound(
                f"{self.source} has no {self.shown}; check the name, set `HF_TOKEN` if it is private, {INSTEAD}"
            )
        return HubUnreachable(
            f"{self.source} answers {status or 'nothing'} for {self.shown}; try again later, {INSTEAD}"
        )


def _token() -> str | None:
    token: str | None = get_token_to_send(None)
    if token is not None and not (token.isascii() and token.isprintable()):
        raise HubDenied("the token in `HF_TOKEN` has invalid characters; set it again")
    return token


def _known(source: ModelSource, name: str, file: str, revision: str) -> Any:
    """A file's path in the cache; None if unknown, another value if the repository is known not to have it."""
    try:
        return try_to_load_from_cache(name, file, cache_dir=source.cache, revision=revision)
    except (OSError, UnicodeDecodeError):  # a corrupt cache counts as empty
        return None


def _read(name: str, paths: dict[str, Path], unknown: tuple[str, ...] = (), *, is_cached: bool = False) -> ModelFiles:
    file, size, values = CONFIG, 0, 0
    texts: dict[str, str] = {}
    try:
        for file, path in paths.items():
            raw = read_file(path)
            size += len(raw)
            _check_values(raw)
            if file == CONFIG:
                values = min(most_values(raw), MAX_VALUES)
                config = read_config(raw)
            else:
                texts[file] = raw.decode()
    except TooLarge as error:
        raise HubTooLarge(f"`{file}` of {quoted(name)} {error}") from None
    except (FileInvalid, FileNotFoundError, UnicodeDecodeError) as error:
        why = (
            str(error)
            if isinstance(error, FileInvalid)
            else "is not UTF-8"
            if isinstance(error, UnicodeDecodeError)
            else "was removed from the cache"
        )
        raise HubUnreadable(f"`{file}` of {quoted(name)} {why}; {INSTEAD.removeprefix('or ')}") from None
    return ModelFiles(config, texts, paths[CONFIG].parent.name, unknown, is_cached, size, values)


def _check_values(raw: bytes) -> None:
    """Check that a file has at most about ``MAX_VALUES`` keys and values, before it is decoded.

    Raises:
        TooLarge: it has more.
        FileInvalid: it has more, and its beginning is nested too deeply to be read.
    """
    try:
        check_values(raw, MAX_VALUES)
    except TooManyValues:
        try:
            read_json(raw[:MAX_VALUES])  # so many bytes have no more values
        except TooDeep as error:
            raise FileInvalid(f"cannot be read: {error}") from None
        except NotJson:  # its end is missing, at least
            pass
        remedy = INSTEAD.removeprefix("or ")
        raise TooLarge(f"has more than {MAX_VALUES} keys and values, which is the limit; {remedy}") from None


class _Deadline(threading.local):
    """The deadline of the current thread's fetch; None outside a fetch."""

    deadline: float | None = None

    def remaining(self) -> float:
        """The remaining seconds. Raises HubTimeout."""
        assert self.deadline is not None  # INVARIANT: only called in a fetch
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise _timed_out()
        return seconds


_current: Final = _Deadline()


@contextmanager
def _until(deadline: float) -> Iterator[None]:
    _current.deadline = deadline
    try:
        yield
    finally:
        _current.deadline = None


def _timed_out() -> HubTimeout:
    return HubTimeout(f"the hub did not answer within the time limit; try again later, {INSTEAD}")


class _Client(httpx.Client):
    """huggingface_hub's client, with a time limit for every request and a size limit for every body."""

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send a request. Raises HubTimeout, HubUnreachable, HubTooLarge."""
        if _current.deadline is None:
            return super().send(request, **options)
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), _current.remaining())
        request.headers["accept-encoding"] = "identity"  # a compressed body could be a thousand times as large
        with _translated_errors():
            response = super().send(request, **options)
        try:
            _check(response)
        except HubFailed:
            response.close()
            raise
        # Another client, without these limits, would fetch a file from Xet storage; without this header the file is
        # fetched like any other.
        response.headers.pop("x-xet-hash", None)
        if isinstance(response.stream, httpx.SyncByteStream) and not response.is_stream_consumed:
            response.stream = _Body(response.stream)
        return response


class _Body(httpx.SyncByteStream):
    """A response body that is read within the limits of size and time."""

    def __init__(self, stream: httpx.SyncByteStream) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        with _translated_errors():
            for part in self.stream:
                size += len(part)
                if size > MAX_BYTES:
                    raise _too_large()
                _current.remaining()
                yield part

    def close(self) -> None:
        self.stream.close()


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Convert transport errors to errors for which huggingface_hub does not retry."""
    try:
        yield
    except httpx.TimeoutException:
        raise _timed_out() from None
    except httpx.TransportError as error:
        raise HubUnreachable(
            f"the hub cannot be reached ({type(error).__name__}); check the network and `HF_ENDPOINT`, {INSTEAD}"
        ) from None


def _check(response: httpx.Response) -> None:
    if response.status_code in RETRYABLE_STATUSES:
        raise HubUnreachable(f"the hub answers {response.status_code}; try again later, {INSTEAD}")
    for name, legal in FILE_NAMES.items():
        if any(not legal.fullmatch(value) for value in response.headers.get_list(name)):
            raise HubUnreachable(f"the hub sends an invalid `{name}` header; check `HF_ENDPOINT`, {INSTEAD}")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise HubUnreachable(
            f"the hub compresses files although the request forbids it; check `HF_ENDPOINT`, {INSTEAD}"
        )
    length = response.headers.get("x-linked-size") or response.headers.get("content-length") or ""
    if length.isdecimal() and int(length[:20]) > MAX_BYTES:
        raise _too_large()


def _too_large() -> HubTooLarge:
    return HubTooLarge(
        f"the hub's file has more than {MAX_BYTES} bytes, which is the limit; give the model's `config.json`"
    )


def _client() -> httpx.Client:
    # Like huggingface_hub's default client; each request sets its own time limit.
    return _Client(follow_redirects=True, timeout=None)


set_client_factory(_client)
# Otherwise the first fetch requests a list of programs to report from huggingface_hub's default address, whichever hub
# is configured.
constants.HF_HUB_DISABLE_TELEMETRY = True
# It adds a handler for standard error with a different format from the service's.
logging.getLogger("huggingface_hub").handlers.clear()
