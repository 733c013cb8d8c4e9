"""Rules from a branch of a git remote, fetched at an interval, with signatures checked if configured.

A commit is used only if it descends from the one whose rules were accepted last, so that old rules cannot be
brought back.

Owns the accepted commit, and the process of each fetch (``fetch``), which is ended at its limits.
"""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import subprocess
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

import msgspec
from dulwich.file import FileLocked
from dulwich.objects import ObjectID
from dulwich.refs import Ref
from msgspec.structs import replace

from policy.errors import RulesInvalid
from policy.rules.loader import Sources, no_pause
from service.reload.address import RulesSourceFailed, read_address
from service.reload.fetch_messages import FetchFailure, FetchJob, FetchLimits, FetchOutcome
from service.reload.local_copy import open_repository
from service.settings import state_folder

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from service.settings import Settings

log = logging.getLogger("runner_policy")
COMMAND: Final = (sys.executable, "-P", "-m", "service.reload.fetch")
LIMITS: Final = FetchLimits(
    silence=10.0, seconds=60.0, refs=16 << 20, received=64 << 20, memory=256 << 20, stored=1 << 30
)


class Remote:
    """A branch of a remote as the source of rules."""

    def __init__(self, settings: Settings, limits: FetchLimits = LIMITS) -> None:
        assert settings.rules_git is not None
        self._address = read_address(settings.rules_git)
        self._branch, self._interval = settings.rules_git_branch, settings.rules_git_poll_interval
        self._path = settings.rules_git_path.removeprefix(".").strip("/")
        self._folder = state_folder() / f"rules-{_digest(self._address.redacted())}.git"
        # Below refs/heads, so that a fetch announces it.
        self._ref = f"refs/heads/{_digest(self._branch)}"
        signers = settings.rules_git_allowed_signers
        self._job = FetchJob(
            self._address.text,
            self._branch,
            self._path,
            str(signers) if signers is not None else None,
            settings.rules_git_allow_rollback,
            str(self._folder),
            self._ref,
            limits,
        )
        self._commit: str | None = None
        self._accepted: str | None = None
        self._is_stored = True
        self._refused: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        """The remote's URL without secrets, its branch and the commit."""
        commit = f" at {self._commit[:12]}" if self._commit is not None else ""
        return f"{self._address.redacted()} {self._branch}:{self._path}{commit}"

    def read(self, pause: Callable[[], object] = no_pause) -> Sources:  # noqa: ARG002  # another process reads
        """Fetch the branch, and return the rules of its newest commit.

        If the remote is unavailable at start, or was rolled back, they are the rules accepted last.

        Raises:
            RulesSourceFailed: they cannot be fetched, or the commit is not signed as required, or does not descend
                from the accepted one.
            RulesInvalid: a file of the commit cannot be read.
        """
        found = self._outcome()
        if not self._is_stored:
            self._is_stored = self._store_accepted() is None
        if found.failure in {FetchFailure.UNAVAILABLE, FetchFailure.ROLLBACK} and self._commit is None:
            stored = self._outcome(fetches=False)
            if stored.failure is not FetchFailure.UNAVAILABLE:
                log.warning("%s; the rules accepted last are used", found.failure, extra={"error": found.error})
                found = stored
        if found.faults:
            raise RulesInvalid(found.faults)
        if found.failure is not None:
            raise RulesSourceFailed(found.error)
        self._commit = found.commit
        return Sources(found.rules, found.cases)

    def mark_accepted(self) -> None:
        """Store the commit read last: a start without the remote uses it, and later commits must descend from it.

        If it cannot be stored, it is tried again after each fetch.
        """
        assert self._commit is not None
        self._accepted = self._commit
        error = self._store_accepted()
        self._is_stored = error is None
        if error is not None:
            message = "the accepted commit could not be stored; after a restart it is not known; this is tried again"
            log.error(message, extra={"error": str(error)})

    def _store_accepted(self) -> Exception | None:
        """Store the accepted commit in the local copy; return why that failed."""
        assert self._accepted is not None
        try:
            with closing(open_repository(self._folder)) as repository:
                repository.refs[Ref(self._ref.encode())] = ObjectID(self._accepted.encode())
        except (RulesSourceFailed, OSError, FileLocked) as error:
            return error
        return None

    def mark_unused(self) -> None:
        """Nothing to do for a remote, which is read at each interval."""

    def changes(self, stop: threading.Event) -> Iterator[None]:
        """One item for each poll interval, until ``stop``."""
        while not stop.wait(self._interval):
            yield

    def _outcome(self, *, fetches: bool = True) -> FetchOutcome:
        """The outcome of a fetch; or of reading the accepted commit from the local copy."""
        job = replace(
            self._job,
            service=os.getpid(),
            fetches=fetches,
            accepted=self._accepted,
            current=self._commit,
            refused=self._refused,
        )
        found = _run(job)
        for message, ids in found.warnings:
            log.warning(message, extra=ids)
        self._refused = found.refused or self._refused
        return found


def _run(job: FetchJob) -> FetchOutcome:
    """The outcome of a job, run in a new process; it is a failure if the process took too long or ended early."""
    try:
        # A group of its own, so that ssh ends with it.
        process = subprocess.Popen(  # noqa: S603  # our own module, by our own interpreter
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
        )
        try:
            answer, errors = process.communicate(msgspec.json.encode(job), job.limits.seconds)
        finally:
            _end(process)
    except subprocess.TimeoutExpired:
        return FetchOutcome(
            failure=FetchFailure.UNAVAILABLE, error=f"the fetch took more than {job.limits.seconds:g} s"
        )
    except OSError as error:
        return FetchOutcome(failure=FetchFailure.UNAVAILABLE, error=f"the fetch could not be started: {error}")
    if process.returncode:
        why = errors.decode(errors="replace").strip().splitlines()[-1:]
        message = f"the fetch ended with {process.returncode}: {' '.join(why) or 'no message'}"
        return FetchOutcome(failure=FetchFailure.UNAVAILABLE, error=read_address(job.url).redact(message))
    return msgspec.json.decode(answer, type=FetchOutcome)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and those that it has started, and close its pipes."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(BrokenPipeError), process:  # closes the pipes, and waits
        pass


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
