"""Rules from a git remote: a branch, fetched every now and then, taken only where its commit is signed, if that is asked for.

Owns the copy of the branch and the questions to the remote. Nothing is checked out, and no program is run but
``ssh`` where the remote's address asks for it.
"""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

from dulwich.client import HttpGitClient, get_transport_and_path
from dulwich.errors import GitProtocolError, HangupException, NotGitRepository
from dulwich.objects import ObjectID
from dulwich.refs import Ref
from dulwich.repo import Repo
from dulwich.signature import BadSignature, SSHSigSignatureVendor, UntrustedSignature
from urllib3 import PoolManager, Timeout
from urllib3.exceptions import HTTPError

from policy.errors import quoted
from policy.revision import NoRevision, read_commit
from service.reload import OriginFailed
from service.settings import state_folder

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator
    from pathlib import Path

    from dulwich.objects import Commit

    from policy.folder import Sources
    from service.settings import Settings

log = logging.getLogger("runner_policy")
PATIENCE: Final = 10.0
"""Seconds that a remote may take to connect or to say more."""
KEPT: Final = Ref(b"refs/runner-policy/rules")


class Remote:
    """A branch of a remote as the origin of rules."""

    def __init__(self, settings: Settings) -> None:
        assert settings.rules_git is not None
        self._url = settings.rules_git
        self._branch, self._path, self._every = settings.rules_git_branch, settings.rules_git_path.strip("/"), settings.rules_git_every
        self._signers = settings.rules_git_signers
        self._folder = state_folder() / f"rules-{hashlib.sha256(self._url.encode()).hexdigest()[:16]}.git"
        self._commit: ObjectID | None = None

    @property
    def name(self) -> str:
        """The remote without what may be secret in its address, its branch and the commit."""
        parts = urlsplit(self._url)
        place = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if parts.scheme else self._url.rpartition("@")[2]
        commit = f" at {self._commit.decode()[:12]}" if self._commit is not None else ""
        return f"{place} {self._branch}:{self._path}{commit}"

    def read(self) -> Sources:
        """The rules of the branch's newest commit; where the remote is away when the first are needed, those that were had last.

        Raises:
            OriginFailed: they cannot be had, or the commit is not signed as it has to be.
            RulesInvalid: a file of it cannot be read.
        """
        repository = self._repository()
        try:
            commit = self._fetched(repository)
        except OriginFailed as error:
            kept = repository.refs.read_ref(KEPT) if self._commit is None else None
            if kept is None:
                raise
            log.warning("the remote is away; its rules of last time are taken", extra={"error": str(error)})
            commit = ObjectID(kept)
        found = repository[commit]
        if self._signers is not None:
            _verify(found, self._signers)  # type: ignore[arg-type]  # a branch's head is a commit
        try:
            sources = read_commit(repository, commit.decode(), f"{self._path}/" if self._path else "")
        except NoRevision as error:
            raise OriginFailed(f"the commit {commit.decode()[:12]} has no rules in {quoted(self._path)}; see RUNNER_POLICY_RULES_GIT_PATH") from error
        self._commit = commit
        repository.refs[KEPT] = commit
        return sources

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

        try:
            client, path = get_transport_and_path(self._url)
            if isinstance(client, HttpGitClient):
                client.pool_manager = PoolManager(timeout=Timeout(connect=PATIENCE, read=PATIENCE), retries=False)
            client.fetch(path, repository, determine_wants=wants, depth=1)
        except (GitProtocolError, HangupException, NotGitRepository, HTTPError, OSError, ValueError) as error:
            said = str(error).replace(self._url, "the remote") or type(error).__name__
            raise OriginFailed(f"{said.partition(chr(10))[0]}; see RUNNER_POLICY_RULES_GIT") from error
        return found[0]


def _verify(commit: Commit, signers: Path) -> None:
    payload, signature, _ = commit.extract_signature()
    shown = commit.id.decode()[:12]
    if signature is None:
        raise OriginFailed(f"the commit {shown} is not signed; only signed ones are taken")
    try:
        SSHSigSignatureVendor(allowed_signers_file=str(signers)).verify(payload, signature)
    except (BadSignature, UntrustedSignature, ValueError, OSError) as error:
        raise OriginFailed(f"the commit {shown} is not signed by an allowed signer: {error}") from error
