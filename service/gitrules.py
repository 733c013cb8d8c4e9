"""Rules from a git remote: a branch, fetched every now and then, taken only where its commit is signed, if that is asked for.

Owns the copy of the branch and the questions to the remote. Nothing is checked out, and no program is run but
``ssh`` where the remote's address asks for it.
"""

from __future__ import annotations

import hashlib
import logging
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from dulwich.client import default_urllib3_manager, get_transport_and_path
from dulwich.errors import NotGitRepository
from dulwich.objects import Commit, ObjectID
from dulwich.refs import Ref
from dulwich.repo import Repo
from urllib3 import PoolManager, Retry

from policy.errors import quoted
from policy.revision import NoRevision, read_commit
from service.reload import OriginFailed
from service.settings import state_folder
from service.signers import NotSigned, verify

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from policy.folder import Sources
    from service.settings import Settings

log = logging.getLogger("runner_policy")
PATIENCE: Final = 10.0
"""Seconds that a remote may take to connect or to say more."""
SSH: Final = f"ssh -o BatchMode=yes -o ConnectTimeout={PATIENCE:.0f} -o ServerAliveInterval={PATIENCE:.0f} -o ServerAliveCountMax=1"
"""How ``ssh`` is called where GIT_SSH_COMMAND does not say it: it asks nobody anything, and does not wait for ever."""
ACCEPTED: Final = Ref(b"refs/runner-policy/rules")
"""The commit whose rules passed last."""


class Remote:
    """A branch of a remote as the origin of rules."""

    def __init__(self, settings: Settings) -> None:
        assert settings.rules_git is not None
        self._url = settings.rules_git
        self._branch, self._every = settings.rules_git_branch, settings.rules_git_every
        self._path = settings.rules_git_path.removeprefix(".").strip("/")
        self._signers = settings.rules_git_signers
        self._folder = state_folder() / f"rules-{hashlib.sha256(self._url.encode()).hexdigest()[:16]}.git"
        self._commit: ObjectID | None = None

    @property
    def name(self) -> str:
        """The remote without what may be secret in its address, its branch and the commit."""
        commit = f" at {self._commit.decode()[:12]}" if self._commit is not None else ""
        return f"{shown(self._url)} {self._branch}:{self._path}{commit}"

    def read(self) -> Sources:
        """The rules of the branch's newest commit; where the remote is away when the first are needed, those that passed last.

        Raises:
            OriginFailed: they cannot be had, or the commit is not signed as it has to be.
            RulesInvalid: a file of it cannot be read.
        """
        with closing(self._repository()) as repository:
            try:
                commit = self._fetched(repository)
            except OriginFailed as error:
                kept = repository.refs.read_ref(ACCEPTED) if self._commit is None else None
                if kept is None or ObjectID(kept) not in repository.object_store:
                    raise
                log.warning("the remote is away; its rules of last time are taken", extra={"error": str(error)})
                commit = ObjectID(kept)
            found = repository[commit]
            brief = commit.decode()[:12]
            if not isinstance(found, Commit):
                raise OriginFailed(f"the branch {quoted(self._branch)} is at {brief}, which is no commit")
            if self._signers is not None:
                try:
                    verify(found, self._signers)
                except NotSigned as error:
                    raise OriginFailed(f"the commit {brief} is not taken: {error}") from error
            try:
                sources = read_commit(repository, commit.decode(), f"{self._path}/" if self._path else "")
            except NoRevision as error:
                raise OriginFailed(f"the commit {brief} has no rules in {quoted(self._path)}; see RUNNER_POLICY_RULES_GIT_PATH") from error
        self._commit = commit
        return sources

    def accepted(self) -> None:
        """The rules that were read last are those to begin with where the remote is away."""
        assert self._commit is not None
        with closing(self._repository()) as repository:
            repository.refs[ACCEPTED] = self._commit

    def changes(self, stop: threading.Event) -> Iterator[None]:
        """One item every now and then, until ``stop``."""
        while not stop.wait(self._every):
            yield

    def _repository(self) -> Repo:
        try:
            return Repo(str(self._folder))
        except NotGitRepository:
            try:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                return Repo.init_bare(str(self._folder))
            except OSError as error:
                raise OriginFailed(f"{self._folder}: {error.strerror}") from error

    def _fetched(self, repository: Repo) -> ObjectID:
        """The newest commit of the branch, whose objects are here now."""
        wanted = f"refs/heads/{self._branch}".encode()
        found: list[ObjectID] = []

        def wants(refs: Any, depth: int | None = None) -> list[ObjectID]:  # noqa: ARG001  # dulwich's signature
            if wanted not in refs:
                raise OriginFailed(f"the remote has no branch {quoted(self._branch)}")
            found.append(refs[wanted])
            return [] if refs[wanted] in repository.object_store else [refs[wanted]]

        pool = default_urllib3_manager(None, base_url=self._url, timeout=PATIENCE)
        assert isinstance(pool, PoolManager)
        try:
            pool.connection_pool_kw["retries"] = Retry(total=None, connect=0, read=0, redirect=3)  # the next look is soon enough
            client, path = get_transport_and_path(self._url, pool_manager=pool, ssh_command=os.environ.get("GIT_SSH_COMMAND", SSH))
            client.fetch(path, repository, determine_wants=wants, depth=1)
        except OriginFailed:
            raise
        except Exception as error:  # noqa: BLE001  # a remote may say anything, and dulwich raises as much
            said = without_secrets(str(error), self._url).strip().partition("\n")[0] or type(error).__name__
            raise OriginFailed(f"{said}; see RUNNER_POLICY_RULES_GIT") from None
        finally:
            pool.clear()
        return found[0]


def shown(url: str) -> str:
    """An address without what may be secret in it."""
    parts = urlsplit(url)
    if not parts.scheme or not parts.netloc:
        return url.partition("?")[0]
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def without_secrets(text: str, url: str) -> str:
    """A text in which the address stands as it is shown, and no user or password of it."""
    parts = urlsplit(url)
    user, _, _ = parts.netloc.rpartition("@") if parts.scheme else ("", "", "")
    secrets = {user, *user.split(":", 1), parts.query}
    text = text.replace(url, shown(url))
    for secret in sorted((each for part in secrets for each in {part, unquote(part)} if len(each) > SHORT), key=len, reverse=True):
        text = text.replace(secret, "…")
    return text


SHORT: Final = 3
"""Characters of what is nobody's secret, such as `git`."""
