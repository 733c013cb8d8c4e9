"""Fetch a branch of a git remote and read its rules, in a process that is ended at its limits.

Owns the requests to the remote, and all reading of what it sent: the commit, its signature and the files. Nothing is
checked out, and no program is run except ``ssh`` if the remote's URL asks for it. The process is
``python -m service.reload.fetch``, with a job on standard input and its outcome on standard output.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import sys
from collections import deque
from contextlib import closing
from pathlib import Path
from threading import Thread
from time import sleep
from typing import TYPE_CHECKING, Any, Final

import msgspec
from dulwich.client import default_urllib3_manager, get_transport_and_path
from dulwich.objects import Commit, ObjectID
from dulwich.refs import Ref
from urllib3 import PoolManager, Retry

from policy.errors import PolicyError, RulesInvalid
from policy.messages import quoted
from policy.parser.yamltree import MAX_BYTES
from policy.rules.git import ObjectUnreadable, RevisionNotFound, read_commit, read_object
from service.reload.address import Address, RulesSourceFailed, read_address
from service.reload.fetch_messages import FetchFailure, FetchJob, FetchLimits, FetchOutcome
from service.reload.local_copy import check_stored, open_repository

if TYPE_CHECKING:
    from collections.abc import Callable

    from dulwich.repo import Repo

    from policy.rules.loader import Sources

SMALL_FILES: Final = b"blob:limit=%d" % (MAX_BYTES + 1)
"""The filter for remotes that support it: no file that is too large for a rule."""
FIRST_DEPTH: Final = 1
"""The depth of the first fetch, when no commit was accepted before."""
WHOLE_HISTORY: Final = 0x7FFFFFFF
"""The depth by which git fetches the whole history, including what was left out before."""
PARENT_CHECK: Final = 0.2
"""Seconds between two checks whether the service still runs."""


class RollbackRefused(RulesSourceFailed):
    """The branch points to a commit that does not descend from the accepted one."""


class FetchFailed(RulesSourceFailed):
    """The newest commit cannot be fetched."""


class _Received:
    """Counts what a remote sends, against the limit of the refs first, then against that of a whole fetch."""

    def __init__(self, limits: FetchLimits) -> None:
        self._limits = limits
        self._limit, self._what = limits.refs, " as its list of refs"
        self._bytes = 0

    def end_refs(self) -> None:
        """Note that the list of refs has ended."""
        self._limit, self._what = self._limits.received, ""

    def count(self, size: int, direction: str = "read") -> None:
        """Count bytes.

        Raises:
            FetchFailed: they are too many.
        """
        self._bytes += size if direction == "read" else 0
        if self._bytes > self._limit:
            raise FetchFailed(f"the remote sent more than {self._limit:,} bytes{self._what}")

    def count_responses(self, pool: PoolManager) -> None:
        """Count the bodies of all responses."""
        request = pool.request

        def counted(*arguments: Any, **options: Any) -> Any:
            response = request(*arguments, **options)
            read: Callable[..., bytes] = response.read

            def read_counted(*amount: int) -> bytes:
                data = read(*amount)
                self.count(len(data))
                return data

            response.read = read_counted  # type: ignore[method-assign,assignment]
            return response

        pool.request = counted  # type: ignore[method-assign]


class Branch:
    """A branch of a remote, with its local copy."""

    def __init__(self, job: FetchJob, outcome: FetchOutcome) -> None:
        """``outcome`` gets the result."""
        self._job, self._outcome = job, outcome
        self._address: Address = read_address(job.url)
        self._received = _Received(job.limits)

    def read(self) -> None:
        """Fetch the branch, and read the rules of its newest commit.

        Raises:
            RulesSourceFailed: they cannot be fetched, or the commit is not signed as required, or does not descend
                from the accepted one.
            RulesInvalid: a file of the commit cannot be read.
        """
        with closing(open_repository(Path(self._job.folder))) as repository:
            accepted = ObjectID(self._job.accepted.encode()) if self._job.accepted else self._read_accepted(repository)
            commit = self._newest(repository, accepted) if self._job.fetches else self._stored(repository, accepted)
            sources = self._sources(repository, commit)
            outcome = self._outcome
            outcome.commit, outcome.rules, outcome.cases = commit.decode(), sources.rules, sources.cases

    def _sources(self, repository: Repo, commit: ObjectID) -> Sources:
        short_id = commit.decode()[:12]
        found = self._commit_of(repository, commit)
        if self._job.signers is not None:
            from service.reload.signatures import NotSigned, verify  # noqa: PLC0415  # only if commits must be signed

            try:
                verify(found, Path(self._job.signers))
            except NotSigned as error:
                raise RulesSourceFailed(f"the commit {short_id} is refused: {error}") from error
        path = self._job.path
        try:
            return read_commit(repository, commit.decode(), f"{path}/" if path else "")
        except RevisionNotFound as error:
            raise RulesSourceFailed(
                f"the commit {short_id} has no rules in {quoted(path)}; see RUNNER_POLICY_RULES_GIT_PATH"
            ) from error

    def _read_accepted(self, repository: Repo) -> ObjectID | None:
        """The commit of this branch that an earlier process accepted."""
        sha = repository.refs.read_ref(Ref(self._job.ref.encode()))
        return ObjectID(sha) if sha is not None else None

    def _stored(self, repository: Repo, accepted: ObjectID | None) -> ObjectID:
        if accepted is None or accepted not in repository.object_store:
            raise FetchFailed("no commit was accepted before")
        return accepted

    def _commit_of(self, repository: Repo, commit: ObjectID) -> Commit:
        try:
            return read_object(repository, commit, Commit)
        except ObjectUnreadable as error:
            raise RulesSourceFailed(
                f"the branch {quoted(self._job.branch)} points to a commit that cannot be read: {error}"
            ) from error

    def _newest(self, repository: Repo, accepted: ObjectID | None) -> ObjectID:
        """Fetch the newest commit of the branch.

        Raises:
            RollbackRefused: it does not descend from the accepted one, and that is not allowed.
            FetchFailed: it cannot be fetched.
        """
        if accepted is None:
            return self._fetch(repository, FIRST_DEPTH)
        commit = self._fetch(repository)
        pair = commit.decode(), accepted.decode()
        if pair == self._job.refused:
            is_descendant: bool | None = False
        else:
            is_descendant = descends(repository, commit, accepted)
            if is_descendant is None:
                commit = self._fetch(repository, WHOLE_HISTORY)
                is_descendant = descends(repository, commit, accepted)
                pair = commit.decode(), accepted.decode()
        if is_descendant:
            return commit
        self._outcome.refused = pair
        ids = {"commit": pair[0][:12], "accepted": pair[1][:12]}
        if not self._job.allow_rollback:
            raise RollbackRefused(
                f"the commit {ids['commit']} is refused: it does not descend from {ids['accepted']}, "
                "whose rules were accepted; "
                f"push one to {quoted(self._job.branch)} that does, or set RUNNER_POLICY_RULES_GIT_ALLOW_ROLLBACK=true"
            )
        if pair[0] != self._job.current:
            message = "a commit that does not descend from the accepted one is used, as rollbacks are allowed"
            self._outcome.warnings.append((message, ids))
        return commit

    def _fetch(self, repository: Repo, depth: int | None = None) -> ObjectID:
        """Fetch the newest commit with ``depth`` commits of its history; by default, all that are missing locally."""
        try:
            self._address.check()
            check_stored(Path(self._job.folder), self._job.limits)
        except RulesSourceFailed as error:
            raise FetchFailed(str(error)) from error
        wanted = f"refs/heads/{self._job.branch}".encode()
        found: list[ObjectID] = []

        def wants(refs: Any, depth: int | None = None) -> list[ObjectID]:
            self._received.end_refs()
            if wanted not in refs:
                raise FetchFailed(f"the remote has no branch {quoted(self._job.branch)}")
            found.append(refs[wanted])
            return [refs[wanted]] if depth == WHOLE_HISTORY or refs[wanted] not in repository.object_store else []

        url = self._address.text
        try:
            pool = default_urllib3_manager(None, base_url=url, timeout=self._job.limits.silence)
            assert isinstance(pool, PoolManager)
            self._received.count_responses(pool)
            with pool:
                # No retries, only redirects: the next poll is soon enough.
                pool.connection_pool_kw["retries"] = Retry(total=None, connect=0, read=0, redirect=3)
                # A thin pack may refer to files that were left out before.
                client, path = get_transport_and_path(
                    url,
                    pool_manager=pool,
                    thin_packs=False,
                    report_activity=self._received.count,
                    ssh_command=os.environ.get("GIT_SSH_COMMAND", ssh_command(self._job.limits.silence)),
                )
                client.fetch(path, repository, determine_wants=wants, depth=depth, filter_spec=SMALL_FILES)
        except FetchFailed:
            raise
        except Exception as error:  # noqa: BLE001  # dulwich raises many kinds of error for malformed responses
            if _is_for_memory(error):
                raise MemoryError from None
            message = self._address.redact(str(error)).strip().partition("\n")[0] or type(error).__name__
            raise FetchFailed(f"{message}; see RUNNER_POLICY_RULES_GIT") from None
        return found[0]


def ssh_command(silence: float) -> str:
    """The ``ssh`` command without GIT_SSH_COMMAND: it never prompts, and times out."""
    return (
        f"ssh -o BatchMode=yes -o ConnectTimeout={silence:.0f} "
        f"-o ServerAliveInterval={silence:.0f} -o ServerAliveCountMax=1"
    )


def descends(repository: Repo, commit: ObjectID, ancestor: ObjectID) -> bool | None:
    """Whether a commit equals ``ancestor`` or descends from it; ``None`` if the local history is too short to tell.

    Only parents count: dulwich's ``can_fast_forward`` also uses commit times, and is wrong if a clock was.
    """
    seen: set[ObjectID] = set()
    ahead = deque([commit])
    is_incomplete = False
    while ahead:
        sha = ahead.popleft()
        if sha == ancestor:
            return True
        if sha in seen:
            continue
        seen.add(sha)
        try:
            ahead.extend(read_object(repository, sha, Commit).parents)
        except ObjectUnreadable:
            is_incomplete = True
    return None if is_incomplete else False


def _is_for_memory(error: BaseException | None) -> bool:
    """Whether an error was raised for lack of memory, or while such an error was handled."""
    while error is not None and not isinstance(error, MemoryError):
        error = error.__context__
    return error is not None


def outcome_of(job: FetchJob) -> FetchOutcome:
    """The outcome of a job, with every failure."""
    outcome = FetchOutcome()
    try:
        Branch(job, outcome).read()
    except RulesInvalid as error:
        outcome.failure, outcome.faults = FetchFailure.OTHER, list(error.faults)
    except RollbackRefused as error:
        outcome.failure, outcome.error = FetchFailure.ROLLBACK, str(error)
    except FetchFailed as error:
        outcome.failure, outcome.error = FetchFailure.UNAVAILABLE, str(error)
    except MemoryError:
        limit = f"{job.limits.memory:,} bytes of memory"
        outcome.failure = FetchFailure.UNAVAILABLE
        outcome.error = f"reading what the remote sent takes more than {limit}; keep large files in another repository"
    except PolicyError as error:
        outcome.failure, outcome.error = FetchFailure.OTHER, str(error)
    return outcome


def _end_with(service: int) -> None:
    """End this process, and ``ssh`` with it, as soon as the service has ended."""
    while os.getppid() == service:
        sleep(PARENT_CHECK)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Run the job on standard input within its limits."""
    logging.disable()  # of dulwich; the service reads the outcome
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=FetchJob)
    Thread(target=_end_with, args=(job.service,), daemon=True).start()
    resource.setrlimit(resource.RLIMIT_DATA, (job.limits.memory, job.limits.memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout.buffer.write(msgspec.json.encode(outcome_of(job)))


if __name__ == "__main__":
    main()
