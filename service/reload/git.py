"""Rules from a branch of a git remote, fetched at an interval, with signatures checked if configured.

A commit is used only if it descends from the one whose rules were accepted last, so that old rules cannot be
brought back.

Owns the local copy of the branch and the requests to the remote. Nothing is checked out, and no program is run except
``ssh`` if the remote's URL asks for it.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from dulwich.client import default_urllib3_manager, get_transport_and_path
from dulwich.errors import NotGitRepository
from dulwich.file import FileLocked
from dulwich.objects import Commit, ObjectID
from dulwich.refs import Ref
from dulwich.repo import Repo
from urllib3 import PoolManager, Retry

from policy.messages import quoted
from policy.parser.yamltree import MAX_BYTES
from policy.rules.git import ObjectUnreadable, RevisionNotFound, read_commit, read_object
from service.reload.address import read_address
from service.reload.reload import RulesSourceFailed
from service.reload.signatures import NotSigned, verify
from service.settings import state_folder

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from policy.rules.loader import Sources
    from service.settings import Settings

log = logging.getLogger("runner_policy")
TIMEOUT: Final = 10.0
"""Seconds a remote may take to connect, or to send more data."""
SSH: Final = (
    f"ssh -o BatchMode=yes -o ConnectTimeout={TIMEOUT:.0f} "
    f"-o ServerAliveInterval={TIMEOUT:.0f} -o ServerAliveCountMax=1"
)
"""The ``ssh`` command without GIT_SSH_COMMAND: it never prompts, and times out."""
SMALL_FILES: Final = b"blob:limit=%d" % (MAX_BYTES + 1)
"""The filter for remotes that support it: no file that is too large for a rule."""
FIRST_DEPTH: Final = 1
"""The depth of the first fetch, when no commit was accepted before."""
WHOLE_HISTORY: Final = 0x7FFFFFFF
"""The depth by which git fetches the whole history, including what was left out before."""


class RollbackRefused(RulesSourceFailed):
    """The branch points to a commit that does not descend from the accepted one."""


class Remote:
    """A branch of a remote as the source of rules."""

    def __init__(self, settings: Settings) -> None:
        assert settings.rules_git is not None
        self._address = read_address(settings.rules_git)
        self._branch, self._interval = settings.rules_git_branch, settings.rules_git_poll_interval
        self._path = settings.rules_git_path.removeprefix(".").strip("/")
        self._signers = settings.rules_git_allowed_signers
        self._allow_rollback = settings.rules_git_allow_rollback
        self._folder = state_folder() / f"rules-{_digest(self._address.redacted())}.git"
        # Below refs/heads, so that a fetch announces it.
        self._ref = Ref(f"refs/heads/{_digest(self._branch)}".encode())
        self._commit: ObjectID | None = None
        self._accepted: ObjectID | None = None
        self._refused: tuple[ObjectID, ObjectID] | None = None

    @property
    def name(self) -> str:
        """The remote's URL without secrets, its branch and the commit."""
        commit = f" at {self._commit.decode()[:12]}" if self._commit is not None else ""
        return f"{self._address.redacted()} {self._branch}:{self._path}{commit}"

    def read(self) -> Sources:
        """Fetch the branch, and return the rules of its newest commit.

        If the remote is unavailable at start, or was rolled back, they are the rules accepted last.

        Raises:
            RulesSourceFailed: they cannot be fetched, or the commit is not signed as required, or does not descend
                from the accepted one.
            RulesInvalid: a file of the commit cannot be read.
        """
        with closing(self._repository()) as repository:
            accepted = self._accepted or self._read_accepted(repository)
            try:
                commit = self._newest(repository, accepted)
            except RulesSourceFailed as error:
                if self._commit is not None or accepted is None or accepted not in repository.object_store:
                    raise
                reason = (
                    "the branch was rolled back" if isinstance(error, RollbackRefused) else "the remote is unavailable"
                )
                log.warning("%s; the rules accepted last are used", reason, extra={"error": str(error)})
                commit = accepted
            short_id = commit.decode()[:12]
            found = self._commit_of(repository, commit)
            if self._signers is not None:
                try:
                    verify(found, self._signers)
                except NotSigned as error:
                    raise RulesSourceFailed(f"the commit {short_id} is refused: {error}") from error
            try:
                sources = read_commit(repository, commit.decode(), f"{self._path}/" if self._path else "")
            except RevisionNotFound as error:
                raise RulesSourceFailed(
                    f"the commit {short_id} has no rules in {quoted(self._path)}; see RUNNER_POLICY_RULES_GIT_PATH"
                ) from error
        self._commit = commit
        return sources

    def mark_accepted(self) -> None:
        """Store the commit read last: a start without the remote uses it, and later commits must descend from it."""
        assert self._commit is not None
        self._accepted = self._commit
        try:
            with closing(self._repository()) as repository:
                repository.refs[self._ref] = self._commit
        except (RulesSourceFailed, OSError, FileLocked) as error:
            message = "the accepted commit could not be stored; after a restart it is not known"
            log.error(message, extra={"error": str(error)})  # noqa: TRY400  # the traceback adds nothing

    def mark_unused(self) -> None:
        """Nothing to do for a remote, which is read at each interval."""

    def changes(self, stop: threading.Event) -> Iterator[None]:
        """One item for each poll interval, until ``stop``."""
        while not stop.wait(self._interval):
            yield

    def _repository(self) -> Repo:
        try:
            return Repo(str(self._folder))
        except NotGitRepository:
            try:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                return Repo.init_bare(str(self._folder))
            except OSError as error:
                raise RulesSourceFailed(f"{self._folder}: {error.strerror}") from error
        except (OSError, ValueError) as error:
            raise RulesSourceFailed(
                f"{self._folder} cannot be read: {error}; remove it to have it created again"
            ) from error

    def _read_accepted(self, repository: Repo) -> ObjectID | None:
        """The commit of this branch that an earlier process accepted."""
        sha = repository.refs.read_ref(self._ref)
        return ObjectID(sha) if sha is not None else None

    def _commit_of(self, repository: Repo, commit: ObjectID) -> Commit:
        try:
            return read_object(repository, commit, Commit)
        except ObjectUnreadable as error:
            raise RulesSourceFailed(
                f"the branch {quoted(self._branch)} points to a commit that cannot be read: {error}"
            ) from error

    def _newest(self, repository: Repo, accepted: ObjectID | None) -> ObjectID:
        """Fetch the newest commit of the branch.

        Raises:
            RollbackRefused: it does not descend from the accepted one, and that is not allowed.
            RulesSourceFailed: it cannot be fetched.
        """
        if accepted is None:
            return self._fetch(repository, FIRST_DEPTH)
        commit = self._fetch(repository)
        if (commit, accepted) == self._refused:
            is_descendant: bool | None = False
        else:
            is_descendant = descends(repository, commit, accepted)
            if is_descendant is None:
                commit = self._fetch(repository, WHOLE_HISTORY)
                is_descendant = descends(repository, commit, accepted)
        if is_descendant:
            return commit
        self._refused = commit, accepted
        ids = {"commit": commit.decode()[:12], "accepted": accepted.decode()[:12]}
        if not self._allow_rollback:
            raise RollbackRefused(
                f"the commit {ids['commit']} is refused: it does not descend from {ids['accepted']}, "
                "whose rules were accepted; "
                f"push one to {quoted(self._branch)} that does, or set RUNNER_POLICY_RULES_GIT_ALLOW_ROLLBACK=true"
            )
        if commit != self._commit:
            log.warning(
                "a commit that does not descend from the accepted one is used, as rollbacks are allowed", extra=ids
            )
        return commit

    def _fetch(self, repository: Repo, depth: int | None = None) -> ObjectID:
        """Fetch the newest commit with ``depth`` commits of its history; by default, all that are missing locally."""
        self._address.check()
        wanted = f"refs/heads/{self._branch}".encode()
        found: list[ObjectID] = []

        def wants(refs: Any, depth: int | None = None) -> list[ObjectID]:
            if wanted not in refs:
                raise RulesSourceFailed(f"the remote has no branch {quoted(self._branch)}")
            found.append(refs[wanted])
            return [refs[wanted]] if depth == WHOLE_HISTORY or refs[wanted] not in repository.object_store else []

        url = self._address.text
        try:
            pool = default_urllib3_manager(None, base_url=url, timeout=TIMEOUT)
            assert isinstance(pool, PoolManager)
            with pool:
                # No retries, only redirects: the next poll is soon enough.
                pool.connection_pool_kw["retries"] = Retry(total=None, connect=0, read=0, redirect=3)
                # A thin pack may refer to files that were left out before.
                client, path = get_transport_and_path(
                    url, pool_manager=pool, thin_packs=False, ssh_command=os.environ.get("GIT_SSH_COMMAND", SSH)
                )
                client.fetch(path, repository, determine_wants=wants, depth=depth, filter_spec=SMALL_FILES)
        except RulesSourceFailed:
            raise
        except Exception as error:  # noqa: BLE001  # dulwich raises many kinds of error for malformed responses
            message = self._address.redact(str(error)).strip().partition("\n")[0] or type(error).__name__
            raise RulesSourceFailed(f"{message}; see RUNNER_POLICY_RULES_GIT") from None
        return found[0]


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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
