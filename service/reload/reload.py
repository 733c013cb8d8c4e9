"""Reloading: changed rules are detected, checked, and published to every process while the service runs.

Owns the interface of a source of rules (a folder, a git remote), and the message that publishes rules to the processes
of one service. Rules that fail their check are reported, and never published.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from policy.checks.cases import read_cases
from policy.checks.check import CheckAborted, Checker
from policy.checks.image_cases import read_image_cases
from policy.errors import PolicyError, RulesInvalid
from policy.rules.catalogue import load, revision_of
from policy.rules.loader import Sources, fingerprint, no_pause, read_folder
from service.pauses import Pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from service.broadcast import Broadcast

log = logging.getLogger("runner_policy")
CHECK_TIME: Final = 60.0
"""Seconds a check may take."""
RETRY: Final = 10.0
"""Seconds until unchanged rules are checked again whose check did not finish.

Not at once, because a check adds to what keeps the machine busy or takes its memory.
"""
SETTLE: Final = 100
"""Milliseconds without a change after which a folder is read: files are written one by one."""
POLL: Final = 500
"""Milliseconds between two checks for a stopping service, and for a path that leads to another folder."""
SCAN_INTERVAL: Final = 2.0
"""Seconds between two scans of all files, for changes without an event and for files that were unreadable."""
MAX_FAULTS: Final = 50
MAX_SHOWN: Final = 20
"""The maximum number of faults in a line of the service's log."""


class Published(Struct, frozen=True):
    """Rules that passed their check, and the result of the last reload.

    ``rules`` and ``cases`` are the texts by path, ``source`` is where they come from, ``loaded_at`` when they came into
    force.
    ``tried_at`` and ``faults`` describe the last reload, which succeeded if there are no faults.
    """

    revision: str
    rules: dict[str, str]
    source: str
    loaded_at: str
    tried_at: str
    faults: list[str] = []
    accepted: int = 0
    rejected: int = 0
    cases: dict[str, str] = {}

    @property
    def successful(self) -> bool:
        """Whether the last reload succeeded."""
        return not self.faults

    def last(self) -> dict[str, Any]:
        """The last reload, for ``/readyz?verbose``."""
        fields: dict[str, Any] = {"source": self.source, "loaded_at": self.loaded_at, "last_tried_at": self.tried_at}
        return fields | {"last_error": self.faults or None}


class RulesSource(Protocol):
    """Where rules come from."""

    @property
    def name(self) -> str:
        """The source's name, without secrets."""

    def read(self, pause: Callable[[], object] = no_pause) -> Sources:
        """The rules as they are now; ``pause`` is called after each file that is read in this thread.

        Raises:
            PolicyError: they cannot be read.
        """

    def mark_accepted(self) -> None:
        """Note that the rules read last have passed their check."""

    def mark_unused(self) -> None:
        """Note that the rules read last could not be used: ``changes`` has them read again."""

    def changes(self, stop: threading.Event) -> Iterator[None]:
        """One item whenever the rules may have changed, or could not be used before, until ``stop``."""


class RulesFolder:
    """Rules in a watched folder.

    A changed symbolic link is a change too: one in the folder, as in Kubernetes mounts, or one on the path to it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._has_failed = False

    @property
    def name(self) -> str:
        """The folder."""
        return str(self._folder)

    def read(self, pause: Callable[[], object] = no_pause) -> Sources:
        """The rules as they are now; ``pause`` is called after each file.

        Raises:
            RulesInvalid: they cannot be read.
        """
        self._has_failed = True
        sources = read_folder(self._folder, pause)
        self._has_failed = False
        return sources

    def mark_accepted(self) -> None:
        """Nothing to do for a folder."""

    def mark_unused(self) -> None:
        """Have the folder read again, though it does not change."""
        self._has_failed = True

    def changes(self, stop: threading.Event) -> Iterator[None]:
        """One item for each change in the folder, and one when the watch begins, until ``stop``.

        Symbolic links out of the folder and network file systems produce no events. So the folder is scanned as well,
        and read once two scans agree.
        """
        from watchfiles import watch  # noqa: PLC0415  # only if rules are watched

        while not stop.is_set():
            identity = self._identity()
            read: tuple[object, ...] | None = None
            found: tuple[object, ...] | None = None
            scanned = 0.0
            try:
                for changed in watch(
                    self._folder,
                    watch_filter=None,
                    debounce=SETTLE * 5,
                    step=SETTLE,
                    rust_timeout=POLL,
                    yield_on_timeout=True,
                    stop_event=stop,
                ):
                    is_due = bool(changed) or read is None
                    if is_due or monotonic() - scanned >= SCAN_INTERVAL:
                        scanned, last, found = monotonic(), found, fingerprint(self._folder)
                        if is_due or self._has_failed or (found == last and found != read):
                            read = found
                            yield
                    if self._identity() != identity:  # the path now leads to a different folder than the watched one
                        break
            except (OSError, RuntimeError):  # the folder was removed, or its file system cannot be watched
                stop.wait(POLL / 1000)
                yield

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self._folder.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino


def load_at_start(origin: RulesSource) -> tuple[Published, Sources]:
    """Load the rules at start; every rule must have cases, which are not run.

    Raises:
        PolicyError: they cannot be read, or have a fault.
    """
    sources = origin.read()
    catalogue = load(sources)
    read_cases(sources.cases, catalogue)
    read_image_cases(sources.cases, catalogue.releases.images)
    now = _now()
    published = Published(revision_of(sources.rules), sources.rules, origin.name, now, now, cases=sources.cases)
    return published, sources


class Reload:
    """Detects changed rules in a thread, and publishes those that pass their check."""

    def __init__(
        self,
        origin: RulesSource,
        broadcast: Broadcast,
        published: Published,
        sources: Sources,
        default_release: str | None,
    ) -> None:
        """``broadcast`` reaches all processes of the service.

        Raises:
            OSError: the initial rules cannot be published.
        """
        self.published = published
        self._origin, self._broadcast, self._default_release = origin, broadcast, default_release
        self._last, self._faults = sources, list[str]()
        self._aborted, self._retry_at = Sources(), 0.0
        self._checker = Checker()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reload", daemon=True)
        self._publish(published)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stop.set()

    def _run(self) -> None:
        with self._checker:
            self._check_changes()

    def _check_changes(self) -> None:
        for _ in self._origin.changes(self._stop):
            if self._stop.is_set():
                return
            try:
                self.check()
            except Exception as error:  # the next check may succeed after any error
                faults = [f"{type(error).__name__}: {error}"]
                if faults != self.published.faults:
                    log.exception("the rules could not be checked")
                self._last = Sources()
                self._reject(faults)
                self._origin.mark_unused()

    def check(self) -> None:
        """Read the rules; if they changed since the last time, check them and publish the result."""
        try:
            sources = self._origin.read(Pauses())
            began = monotonic()
            if sources == self._aborted and began < self._retry_at:
                self._origin.mark_unused()
                return
            if sources != self._last:
                self._faults = self._checker.faults_of(sources, self._default_release, CHECK_TIME)
                self._last = sources
        except CheckAborted as error:
            self._aborted, self._retry_at = sources, monotonic() + RETRY
            self._reject([f"{error}; this is tried again"])
            self._origin.mark_unused()
        except RulesInvalid as error:
            self._reject([str(fault) for fault in error.faults])
        except PolicyError as error:
            self._reject([str(error)])
        else:
            if self._faults:
                self._reject(self._faults)
            elif sources is self._last or not self.published.successful:  # just checked, or unchanged since a failure
                self._accept(sources, monotonic() - began)

    def _accept(self, sources: Sources, seconds: float) -> None:
        revision, now = revision_of(sources.rules), _now()
        loaded_at = self.published.loaded_at if revision == self.published.revision else now
        accepted, rejected = self.published.accepted + 1, self.published.rejected
        found = Published(
            revision, sources.rules, self._origin.name, loaded_at, now, [], accepted, rejected, sources.cases
        )
        try:
            self._publish(found)
        except OSError as error:
            self._reject(
                [f"the rules have no fault, but could not be published: {error.strerror}; this is tried again"]
            )
            self._origin.mark_unused()
            return
        self.published = found
        self._origin.mark_accepted()
        log.info("rules accepted", extra={"revision": revision, "checked_in_seconds": round(seconds, 3)})

    def _reject(self, faults: list[str]) -> None:
        """Publish the faults; the same faults as last time are logged and counted once."""
        before, faults = self.published, faults[:MAX_FAULTS]
        is_new = faults != before.faults
        self.published = replace(before, tried_at=_now(), faults=faults, rejected=before.rejected + is_new)
        with suppress(OSError):  # the memory of the rules in force has room for a fault; the next attempt sends it too
            self._publish(self.published)
        if is_new:
            log.error(
                "rules rejected; the loaded ones stay in use",
                extra={"revision": before.revision, "faults": faults[:MAX_SHOWN]},
            )

    def _publish(self, published: Published) -> None:
        if not self._stop.is_set():
            self._broadcast.send(msgspec.json.encode(published))


def newest(broadcast: Broadcast) -> Published | None:
    """The rules published since the last call, or ``None``."""
    message = broadcast.receive()
    return None if message is None else msgspec.json.decode(message, type=Published)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
