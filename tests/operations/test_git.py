"""Rules from a git remote: a branch's newest commit, with its signature if that is required.

If the remote is unavailable, the rules that were loaded last stay.
"""

from __future__ import annotations

import base64
import gc
import hashlib
import os
import re
import resource
import shutil
import socket
import struct
import subprocess
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path
from random import Random
from time import sleep
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import pytest
from dulwich.objects import Blob, Commit, ObjectID, Tree
from dulwich.refs import Ref
from dulwich.repo import Repo
from msgspec.structs import replace
from ports import port_of_nobody

from policy.errors import RulesInvalid
from service.reload import git as gitrules
from service.reload.address import RulesSourceFailed
from service.reload.fetch import outcome_of
from service.reload.fetch_messages import FetchJob, FetchOutcome
from service.reload.local_copy import open_repository
from service.reload.signatures import NotSigned, SignersInvalid, read_signers, verify
from service.settings import Settings

from .conftest import RULE, TITLE, read, started, until
from .test_life import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .conftest import Service

HAS_GIT = shutil.which("git") is not None
HAS_KEYGEN = shutil.which("ssh-keygen") is not None
SECRET = "hunter22-secret"
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
AUTHOR = b"A Committer <committer@example.org>"


class Remote:
    """A repository whose branch has rules."""

    def __init__(self, folder: Path, rules: Path) -> None:
        self.path = folder / "remote.git"
        self.repository = Repo.init_bare(str(self.path), mkdir=True)
        self.repository.refs.set_symbolic_ref(Ref(b"HEAD"), Ref(b"refs/heads/main"))
        self.files = {
            f"rules/{path.relative_to(rules).as_posix()}": path.read_bytes() for path in rules.rglob("*.yaml")
        }
        self.files["README.md"] = b"beside the rules\n"
        self.now = 1_790_000_000

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def head(self, branch: str = "main") -> ObjectID | None:
        """The newest commit of a branch."""
        found = self.repository.refs.read_ref(Ref(f"refs/heads/{branch}".encode()))
        return ObjectID(found) if found is not None else None

    def move(self, target: ObjectID, branch: str = "main") -> str:
        """Force a branch to another commit, and return the first twelve digits of its id."""
        self.repository.refs[Ref(f"refs/heads/{branch}".encode())] = target
        return target.decode()[:12]

    def commit(
        self,
        title: str | None = None,
        *,
        forced: bool = False,
        branch: str = "main",
        key: Path | None = None,
        broken: bool = False,
    ) -> str:
        """Commit the rules with another title, on top of the branch or instead of it.

        Returns the first twelve digits of the commit.
        """
        head = self.head(branch)
        files = dict(self.files)
        name = f"rules/{RULE}"
        if title is not None:
            files[name] = files[name].replace(TITLE.encode(), f"title: {'[' if broken else ''}{title}".encode())
        made = Commit()
        made.tree = self._tree(files)
        made.parents = [head] if head is not None and not forced else []
        made.author = made.committer = AUTHOR
        made.author_time = made.commit_time = self.now
        made.author_timezone = made.commit_timezone = 0
        made.encoding = b"UTF-8"
        made.message = f"rules: {title}\n".encode()
        if key is not None:
            made.gpgsig = signature(made.as_raw_string(), key)
        self.repository.object_store.add_object(made)
        self.repository.refs[Ref(f"refs/heads/{branch}".encode())] = made.id
        return made.id.decode()[:12]

    def _tree(self, files: dict[str, bytes]) -> ObjectID:
        tree = Tree()
        folders: dict[str, dict[str, bytes]] = {}
        for name, data in files.items():
            first, _, rest = name.partition("/")
            if rest:
                folders.setdefault(first, {})[rest] = data
            else:
                blob = Blob.from_string(data)
                self.repository.object_store.add_object(blob)
                tree.add(first.encode(), 0o100644, blob.id)
        for name, inside in folders.items():
            tree.add(name.encode(), 0o040000, self._tree(inside))
        self.repository.object_store.add_object(tree)
        return tree.id


def signature(payload: bytes, key: Path, namespace: str = "git") -> bytes:
    """The signature that `git commit -S` adds to a commit."""
    done = subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-n", namespace, "-f", key], input=payload, capture_output=True, check=True
    )
    return done.stdout.rstrip(b"\n")


def key_of(folder: Path, name: str, kind: str = "ed25519") -> Path:
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", name, "-f", path], check=True)
    return path


@pytest.fixture
def remote(tmp_path: Path, few_rules: Path) -> Remote:
    return Remote(tmp_path, few_rules)


@pytest.fixture
def _fetched_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetch in this process, for tests whose claim is not about that of a fetch, which takes most of the time."""

    def run(job: FetchJob) -> FetchOutcome:
        found = outcome_of(msgspec.json.decode(msgspec.json.encode(job), type=FetchJob))
        return msgspec.json.decode(msgspec.json.encode(found), type=FetchOutcome)

    monkeypatch.setattr(gitrules, "_run", run)


def title(service: Service) -> str:
    return str(service.get("/v1/rules/kv-connector-fallback")["title"])


def error_of(state: Any) -> str:
    return str((state["rules"]["last_error"] or [""])[0])


def error(service: Service) -> str:
    return error_of(service.state())


STATE = "/readyz?verbose"
GIT: dict[str, Any] = {"RULES_GIT_POLL_INTERVAL": "1"}
MAIN = Ref(b"refs/heads/main")


@pytest.mark.slow
def test_a_branch_is_cloned_and_followed_and_its_rules_stay_when_it_is_gone(
    serve: Callable[..., Any], remote: Remote
) -> None:
    first = remote.commit("First")
    remote.commit("Elsewhere", branch="other")
    with serve("--rules-git", remote.url, "--workers", "2", **GIT) as service:
        assert (title(service), service.get("/v1/policy")["source"]) == ("First", f"{remote.url} main:rules at {first}")
        second = remote.commit("Second")
        service.everywhere("/v1/policy", lambda policy: policy["source"].endswith(second))
        good = service.revision()
        remote.commit("Broken", broken=True)
        service.everywhere(STATE, lambda state: RULE in error_of(state))
        assert (title(service), service.revision()) == ("Second", good)
        head = remote.head()
        assert head is not None
        del remote.repository.refs[MAIN]
        service.everywhere(STATE, lambda state: "the remote has no branch `main`" in error_of(state))
        remote.path.rename(remote.path.with_name("away.git"))
        service.everywhere(STATE, lambda state: "see RUNNER_POLICY_RULES_GIT" in error_of(state))
        assert (service.revision(), service.metrics()["runner_policy_last_reload_successful"]) == (good, 0)
        remote.path.with_name("away.git").rename(remote.path)
        remote.move(head)
        back = remote.commit("Back")
        service.everywhere("/v1/policy", lambda policy: policy["source"].endswith(back))
        assert (title(service), error(service)) == ("Back", "")
        assert not service.messages("the rules could not be checked")


# rollback


def refusal(commit: str, accepted: ObjectID | None) -> str:
    assert accepted is not None
    return (
        f"the commit {commit} is refused: it does not descend from {accepted.decode()[:12]}, whose rules were "
        "accepted; push one to `main` that does, or set RUNNER_POLICY_RULES_GIT_ALLOW_ROLLBACK=true"
    )


def replaced(remote: Remote) -> str:
    """Replace the history by another one."""
    remote.commit("Replaced", forced=True)
    return remote.commit("Replaced again")


ROLLBACKS: dict[str, Callable[[Remote, ObjectID], str]] = {
    "to an earlier commit": lambda remote, first: remote.move(first),
    "to a commit beside": lambda remote, first: (remote.move(first), remote.commit("Beside"))[1],
    "to another history": lambda remote, _: replaced(remote),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ROLLBACKS)
def test_a_branch_that_was_rolled_back_is_refused_even_after_a_restart(
    tmp_path: Path, remote: Remote, kind: str
) -> None:
    remote.commit("First")
    first = remote.head()
    remote.commit("Second")
    with started(tmp_path, "--rules-git", remote.url, **GIT) as service:
        third = remote.commit("Third")
        until(lambda: service.get("/v1/policy")["source"].endswith(third))
        accepted = remote.head()
        assert first is not None
        assert accepted is not None
        message = refusal(ROLLBACKS[kind](remote, first), accepted)
        until(lambda: error(service) == message)
        assert title(service) == "Third"
        assert service.messages("rules rejected; the loaded ones stay in use")[-1]["faults"] == [message]
    with started(tmp_path, "--rules-git", remote.url, **GIT) as service:
        assert title(service) == "Third"
        assert "the branch was rolled back; the rules accepted last are used" in service.log.read_text()
        until(lambda: error(service) == message)
        remote.move(accepted)
        until(lambda: error(service) == "")
        fourth = remote.commit("Fourth")
        until(lambda: service.get("/v1/policy")["source"].endswith(fourth))
        assert not service.messages("the rules could not be checked")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ROLLBACKS)
def test_a_rollback_is_accepted_with_a_warning_if_allowed(tmp_path: Path, remote: Remote, kind: str) -> None:
    remote.commit("First")
    first = remote.head()
    second = remote.commit("Second")
    with started(tmp_path, "--rules-git", remote.url, RULES_GIT_ALLOW_ROLLBACK="true", **GIT) as service:
        assert first is not None
        back = ROLLBACKS[kind](remote, first)
        until(lambda: service.get("/v1/policy")["source"].endswith(back))
        warned = service.messages(
            "a commit that does not descend from the accepted one is used, as rollbacks are allowed"
        )
        assert [(line["level"], line["commit"], line["accepted"]) for line in warned] == [("warning", back, second)]
    # Later commits must descend from the one that was accepted.
    with started(tmp_path, "--rules-git", remote.url, **GIT) as service:
        later = remote.commit("Later")
        until(lambda: service.get("/v1/policy")["source"].endswith(later))


@pytest.mark.usefixtures("_fetched_here")
def test_each_branch_has_its_own_accepted_commit(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    remote.commit("First")
    first = remote.head()
    assert first is not None
    remote.commit("Second")
    accepted = remote.head()
    remote.move(first, "prod")
    assert [accepted_title(remote), accepted_title(remote, "prod"), accepted_title(remote)] == [
        "Second",
        "First",
        "Second",
    ]
    remote.move(first)
    assert accepted_title(remote) == "Second"  # the branch was rolled back, so the rules accepted last are used
    remote.commit("On prod", branch="prod")
    remote.move(remote.head("prod") or first)
    assert [accepted_title(remote, "prod"), accepted_title(remote)] == ["On prod", "Second"]
    assert accepted is not None
    remote.move(accepted)
    remote.commit("Third")
    remote.move(remote.head() or first, "prod")
    assert [accepted_title(remote, "prod"), accepted_title(remote)] == ["On prod", "Third"]


def accepted_title(remote: Remote, branch: str = "main", **settings: Any) -> str:
    """The title of the rules with which a service would start; they become the accepted ones."""
    origin = gitrules.Remote(Settings(rules_git=remote.url, rules_git_branch=branch, **settings))
    text = origin.read().rules[RULE]
    origin.mark_accepted()
    return next(line for line in text.splitlines() if line.startswith("title: ")).removeprefix("title: ")


@pytest.mark.usefixtures("_fetched_here")
def test_a_history_that_was_fetched_in_part_is_fetched_completely_if_needed(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    remote.commit("First")
    assert accepted_title(remote) == "First"
    for number in range(5):
        remote.now -= 1000  # a wrong clock changes nothing
        remote.commit(f"Number {number}")
    remote.move(remote.head() or ObjectID(b""), "prod")
    assert [accepted_title(remote, "prod"), accepted_title(remote)] == ["Number 4", "Number 4"]


def test_an_unknown_scheme_is_not_taken_for_a_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("GIT_SSH_COMMAND", f"touch {tmp_path / 'started'} #")
    code, (line,) = refused(RULES_GIT="gopher://example.org/rules.git")
    assert (code, line.partition(";")[0]) == (2, "--rules-git: unsupported scheme `gopher`")
    assert not (tmp_path / "started").exists()


@pytest.mark.usefixtures("_fetched_here")
def test_the_scheme_of_an_address_may_be_in_upper_case(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    remote.commit("First")
    origin = gitrules.Remote(Settings(rules_git=remote.url.replace("file://", "FILE://")))
    assert "title: First" in origin.read().rules[RULE]


@pytest.mark.usefixtures("_fetched_here")
@pytest.mark.parametrize(
    "address",
    [
        f"user:{SECRET}@host://rules.git",
        f"{SECRET}@host://rules.git",
        f"user:{SECRET}@host:rules.git",
        f"gopher://user:{SECRET}@localhost/rules.git",
        f"GOPHER://{SECRET}@localhost/rules.git",
        f"https://user:{SECRET}@[localhost/rules.git",
        f"https://[user:{SECRET}@localhost/rules.git",
        f"https://user:{SECRET}/more@localhost/rules.git",
        f"https://user:more/{SECRET}@localhost/rules.git",
        f"https://user:more?{SECRET}@localhost/rules.git",
        f"https://localhost:{SECRET}@/rules.git",
        f"file:///nothing.git?token={SECRET}",
        f"file:///nothing.git#{SECRET}",
        f"user:more/{SECRET}@host:rules.git",
        f"user:more?{SECRET}@host:rules.git",
    ],
)
def test_no_message_shows_a_secret_of_an_invalid_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("GIT_SSH_COMMAND", "echo >&2")
    code, lines = refused(RULES_GIT=address)
    assert (code, SECRET in "\n".join(lines), lines[-1].startswith("--rules-git: ")) == (2, False, True)


def test_a_password_in_the_address_does_not_make_another_remote() -> None:
    folders = {
        gitrules.Remote(Settings(rules_git=f"https://{user}example.org/rules.git"))._folder
        for user in ("", "a:b@", "c:d@")
    }
    assert len(folders) == 1


def test_another_branch_and_folder_are_pulled_if_configured(serve: Callable[..., Any], remote: Remote) -> None:
    remote.commit("On main")
    remote.files = {name.removeprefix("rules/"): data for name, data in remote.files.items()}
    remote.commit(branch="at/root")
    with serve("--rules-git", remote.url, RULES_GIT_BRANCH="at/root", RULES_GIT_PATH=".") as service:
        assert title(service) == "KV connectors stay on V1"


@pytest.mark.slow
def test_if_the_remote_is_unavailable_at_the_start_the_rules_accepted_last_are_used(
    tmp_path: Path, remote: Remote
) -> None:
    remote.commit("Good")
    with started(tmp_path, "--rules-git", remote.url, **GIT) as service:
        remote.commit("Broken", broken=True)
        until(lambda: error(service))
    remote.path.rename(remote.path.with_name("away.git"))
    with started(tmp_path, "--rules-git", remote.url, **GIT) as service:
        assert title(service) == "Good"
        assert "the remote is unavailable; the rules accepted last are used" in service.log.read_text()
        remote.path.with_name("away.git").rename(remote.path)
        remote.commit("Back")
        until(lambda: title(service) == "Back")


@pytest.mark.usefixtures("_fetched_here")
def test_missing_and_broken_rules_prevent_the_start(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.commit("Good")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    commit = remote.repository.refs[MAIN].decode()[:12]
    message = f"--rules-git: the commit {commit} has no rules in `policy`; see RUNNER_POLICY_RULES_GIT_PATH"
    assert refused("--rules-git", remote.url, RULES_GIT_PATH="policy") == (2, [message])
    assert refused("--rules-git", remote.url, RULES_GIT_BRANCH="none") == (
        2,
        ["--rules-git: the remote has no branch `none`"],
    )
    remote.commit("Broken", broken=True)
    code, lines = refused("--rules-git", remote.url)
    assert (code, lines[0].startswith(f"{RULE}:")) == (3, True), lines


# signed commits


@pytest.mark.slow
@pytest.mark.skipif(not HAS_KEYGEN, reason="needs ssh-keygen")
def test_only_commits_of_allowed_signers_are_accepted(
    serve: Callable[..., Any], remote: Remote, tmp_path: Path
) -> None:
    keys = {name: key_of(tmp_path, name) for name in ("allowed", "stranger", "expired", "later")}
    keys["rsa"] = key_of(tmp_path, "rsa", "rsa")
    keys["ecdsa"] = key_of(tmp_path, "ecdsa", "ecdsa")
    public = {name: " ".join(path.with_suffix(".pub").read_text().split()[:2]) for name, path in keys.items()}
    signers = tmp_path / "signers"
    signers.write_text(
        f"# who may\n\n*@example.org {public['allowed']} with a comment\n"
        f'a@example.org valid-before="20200101" {public["expired"]}\n'
        f'a@example.org valid-after="29990101Z" {public["later"]}\n'
        f'a@example.org namespaces="git,file" {public["rsa"]}\n'
        f"a@example.org {public['ecdsa']}\n"
        f'a@example.org namespaces="file" {public["stranger"]}\n'
    )
    for name, why in {
        "allowed": "",
        "rsa": "",
        "stranger": "its signer is not an allowed signer",
        "expired": "its signer is not an allowed signer",
        "later": "its signer is not an allowed signer",
        "ecdsa": "invalid signature: Public key algorithm not supported: ecdsa-sha2-nistp256.",
    }.items():
        assert (name, refusal_of(new_commit(remote, key=keys[name]), signers)) == (name, why)
    changes: list[tuple[str, Callable[[Commit], None]]] = [
        ("invalid signature: ", lambda commit: setattr(commit, "message", b"rules: others\n")),
        (
            "invalid signature: ",
            lambda commit: setattr(commit, "gpgsig", signature(commit.raw_without_sig(), keys["allowed"], "file")),
        ),
        (
            "invalid signature: ",
            lambda commit: setattr(
                commit, "gpgsig", b"-----BEGIN PGP SIGNATURE-----\n\nx\n-----END PGP SIGNATURE-----"
            ),
        ),
        (
            "invalid signature: ",
            lambda commit: setattr(
                commit, "gpgsig", b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----"
            ),
        ),
        ("the signature cannot be read: ", lambda commit: setattr(commit, "gpgsig", b"signed, me")),
        ("it is not signed", lambda commit: setattr(commit, "gpgsig", None)),
    ]
    for why, change in changes:
        commit = new_commit(remote, key=keys["allowed"])
        change(commit)
        found = refusal_of(commit, signers)
        assert found[: len(why)] == why, found
    remote.commit("Unsigned")
    code, lines = refused(
        "--rules-git", remote.url, RULES_GIT_ALLOWED_SIGNERS=str(signers), RULES_GIT_POLL_INTERVAL="1"
    )
    assert (code, lines[0].endswith("is refused: it is not signed")) == (2, True)
    remote.commit("Signed", key=keys["allowed"])
    with serve("--rules-git", remote.url, RULES_GIT_ALLOWED_SIGNERS=str(signers), **GIT) as service:
        assert title(service) == "Signed"
        for key in (None, keys["stranger"]):
            brief = remote.commit("Refused", key=key)
            until(lambda brief: f"the commit {brief} is refused: " in error(service), brief)
            assert title(service) == "Signed"
        text = signers.read_text()
        signers.write_text("broken\n")
        remote.commit("By rsa", key=keys["rsa"])
        until(lambda: "signers:1: invalid entry: " in error(service))
        signers.write_text(text)
        until(lambda: title(service) == "By rsa")
        assert not service.messages("the rules could not be checked")


def new_commit(remote: Remote, **options: Any) -> Commit:
    remote.commit("Any", branch="any", **options)
    found = remote.repository[remote.repository.refs[Ref(b"refs/heads/any")]]
    assert isinstance(found, Commit)
    return found


def refusal_of(commit: Commit, signers: Path) -> str:
    """Why a commit is refused; empty if it is accepted."""
    try:
        verify(commit, signers)
    except NotSigned as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("name", "reason"), [("", "expected a file, got a folder"), ("none", "No such file or directory")]
)
def test_an_unreadable_file_of_allowed_signers_is_reported(tmp_path: Path, name: str, reason: str) -> None:
    file = tmp_path / name
    with pytest.raises(SignersInvalid, match=re.escape(f"{file} cannot be read: {reason}")):
        read_signers(file)


ENTRIES = {
    "a@example.org": True,
    "!a@example.org": False,
    "!a@example.org,!b@example.org": False,
    "!*@example.org": False,
    "!*": False,
    "a@example.org,!a@example.org": False,
    "!a@example.org,a@example.org": False,
    "a@example.org,!*": False,
    "a@example.org,b@example.com,!?@example.*": False,
    "a@example.org,b@example.org,!a@example.org": True,
    "*@example.org,!a@example.org": True,
    "*,!*@example.org": True,
    "*@example.org,!*@*.org": False,
    '"a@example.org,!a@example.org"': False,
    "a@example.org,!A@example.org": True,
    "a@example.org,!a@example.org.": True,
    "a@example.org,![a]@example.org": True,
    "a@example.org,!" + "*" * 1022: False,
    "a@example.org," + "b" * 1023: False,
    'a@example.org namespaces="git,!git"': False,
    'a@example.org namespaces="!g*,git"': False,
    'a@example.org namespaces="!git"': False,
    'a@example.org namespaces="!file"': False,
    'a@example.org namespaces="git,!file"': True,
    'a@example.org namespaces="g?t"': True,
    'a@example.org namespaces="*,!file"': True,
    'a@example.org namespaces="*,!git"': False,
}
"""Whether a key may sign by what precedes it in the file."""


@pytest.mark.parametrize(("entry", "expected"), ENTRIES.items())
def test_a_negated_pattern_excludes_as_in_ssh_keygen(tmp_path: Path, entry: str, *, expected: bool) -> None:
    file = tmp_path / "signers"
    file.write_text(f"{entry} {PUBLIC_KEY}\n")
    assert bool(read_signers(file)) is expected


@pytest.mark.parametrize("separator", ["\r", "\v", "\f", "\x1c", "\x85", "\u2028"])
def test_only_a_line_feed_ends_a_comment(tmp_path: Path, separator: str) -> None:
    file = tmp_path / "signers"
    file.write_bytes(f"# no longer{separator}a@example.org {PUBLIC_KEY}\r\n".encode())
    assert read_signers(file) == []
    file.write_bytes(f"# no longer\r\na@example.org {PUBLIC_KEY}\r\n".encode())
    assert len(read_signers(file)) == 1


@pytest.mark.slow
@pytest.mark.skipif(not HAS_KEYGEN, reason="needs ssh-keygen")
def test_ssh_keygen_lets_the_same_entries_sign(tmp_path: Path) -> None:
    key = key_of(tmp_path, "key")
    public = key.with_suffix(".pub").read_text()
    file, signed = tmp_path / "signers", tmp_path / "signed"
    signed.write_bytes(signature(b"text", key))
    found = {}
    for entry in ENTRIES:
        file.write_text(f"{entry} {public}")
        verified: list[str | Path] = ["ssh-keygen", "-Y", "verify", "-n", "git", "-f", file, "-s", signed]
        identities = [each for each in entry.split(" ")[0].strip('"').split(",") if not each.startswith("!")]
        found[entry] = any(
            subprocess.run([*verified, "-I", each], input=b"text", capture_output=True, check=False).returncode == 0
            for each in identities
        )
    assert found == ENTRIES


# over HTTP, with a password


class Backend(BaseHTTPRequestHandler):
    """``git http-backend`` behind a password."""

    root: ClassVar[Path]
    requested: ClassVar[list[str]]
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        expected = "Basic " + base64.b64encode(f"reader:{SECRET}".encode()).decode()
        if self.headers.get("authorization") != expected:
            self.send_response(401)
            self.send_header("www-authenticate", "Basic")
            self.end_headers()
            return
        self.requested.append(self.path)
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        variables = {
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }
        done = subprocess.run(
            ["git", "http-backend"], input=body, env={**os.environ, **variables}, capture_output=True, check=True
        )
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(headers.pop("Status", "200 OK").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET  # noqa: N815  # the library's names

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served(folder: Path, handler: type[Backend] | None = None) -> Iterator[tuple[int, list[str]]]:
    handler = handler or type("Handler", (Backend,), {"root": folder, "requested": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_port, handler.requested
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.slow
# dulwich leaves a refusing response to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(not HAS_GIT, reason="needs git http-backend")
def test_credentials_of_the_remote_are_used_and_never_shown(tmp_path: Path, remote: Remote) -> None:
    remote.commit("Over HTTP")
    with served(tmp_path) as (port, requested):
        url = f"http://reader:{SECRET}@127.0.0.1:{port}/remote.git"
        with started(tmp_path, RULES_GIT=url, **GIT) as service:
            source = service.get("/v1/policy")["source"]
            assert (title(service), source.partition(" at ")[0]) == (
                "Over HTTP",
                f"http://127.0.0.1:{port}/remote.git main:rules",
            )
            remote.commit("Again")
            until(lambda: title(service) == "Again")
            until(lambda: len(requested) > 6)
            del remote.repository.refs[MAIN]
            until(lambda: error(service))
            remote.path.rename(remote.path.with_name("unavailable.git"))
            until(lambda: "see RUNNER_POLICY_RULES_GIT" in error(service))
            with service.client() as client:
                answers = b"".join(
                    client.get(path).content for path in ("/v1/policy", "/readyz?verbose", "/metrics", "/openapi.json")
                )
            commands = b"".join(read(path) for path in Path("/proc").glob("[0-9]*/cmdline"))
            files = b"".join(read(path) for path in tmp_path.rglob("*") if path.is_file())
        wrong = refused(RULES_GIT=f"http://reader:{SECRET}-no@127.0.0.1:{port}/remote.git")
    unavailable = refused(RULES_GIT=f"http://reader:{SECRET}@127.0.0.1:1/remote.git")
    unsupported = refused(RULES_GIT=f"gopher://reader:{SECRET}@127.0.0.1:1/remote.git?token={SECRET}")
    gc.collect()  # now, while its warning is expected
    assert [found[0] for found in (wrong, unavailable, unsupported)] == [2, 2, 2]
    assert [found[1][0].startswith("--rules-git: ") for found in (wrong, unavailable, unsupported)] == [True] * 3
    everything = answers + commands + files + repr([wrong, unavailable, unsupported]).encode()
    assert SECRET.encode() not in everything
    assert base64.b64encode(f"reader:{SECRET}".encode()) not in everything


def test_a_remote_that_sends_nothing_is_not_waited_for_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    limits = replace(gitrules.LIMITS, silence=0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        remote = gitrules.Remote(Settings(rules_git=f"http://127.0.0.1:{server.getsockname()[1]}/remote.git"), limits)
        with pytest.raises(RulesSourceFailed, match="timed out"):
            remote.read()


# remotes that never end


def packet(data: bytes) -> bytes:
    return b"%04x" % (len(data) + 4) + data


def band(number: int, data: bytes) -> bytes:
    """Data in a side band."""
    return b"".join(packet(bytes([number]) + data[at : at + 60_000]) for at in range(0, len(data), 60_000))


def endless(data: bytes) -> Iterator[bytes]:
    while True:
        yield data


def slow_progress() -> Iterator[bytes]:
    while True:
        yield band(2, b".")
        sleep(0.05)


def bomb(size: int) -> bytes:
    """A pack with one file of zeros."""
    head, rest = 3 << 4 | size & 15, size >> 4
    header = bytearray()
    while rest:
        header.append(head | 0x80)
        head, rest = rest & 0x7F, rest >> 7
    header.append(head)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    megabyte = deflate.compress(bytes(1 << 20)) + deflate.flush(zlib.Z_FULL_FLUSH)  # it can be repeated
    checksum = size % 65521 << 16 | 1  # Adler-32 of zeros
    zeros = b"\x78\xda" + megabyte * (size >> 20) + deflate.flush() + checksum.to_bytes(4, "big")
    pack = b"PACK" + struct.pack(">II", 2, 1) + bytes(header) + zeros
    return pack + hashlib.sha1(pack, usedforsecurity=False).digest()


SMALL_FILE = b"\x34" + zlib.compress(b"rule")
HOSTILE: dict[str, Callable[[], Iterator[bytes]]] = {
    "refs": lambda: endless(b"".join(packet(b"%040x refs/heads/%d\n" % (at, at)) for at in range(1000))),
    "progress": lambda: endless(band(2, bytes(60_000))),
    "slow progress": slow_progress,
    "pack": lambda: chain([band(1, b"PACK" + struct.pack(">II", 2, 1 << 31))], endless(band(1, SMALL_FILE * 3000))),
    "large file": lambda: iter([band(1, bomb(512 << 20)), b"0000"]),
}
"""What a remote sends, by what has no end."""


class HostileBackend(Backend):
    """A git remote that sends what has no end, until nobody reads it; without a ``kind`` it is an ordinary one."""

    kind: ClassVar[str]

    def do_GET(self) -> None:
        """Send the list of refs."""
        if not self.kind:
            super().do_GET()
            return
        self._begin("advertisement")
        capabilities = b"side-band-64k ofs-delta filter shallow"
        begin = packet(b"# service=git-upload-pack\n") + b"0000"
        begin += packet(b"a" * 40 + b" refs/heads/main\0" + capabilities + b"\n")
        self._send(chain([begin], HOSTILE["refs"]()) if self.kind == "refs" else [begin, b"0000"])

    def do_POST(self) -> None:
        """Send the pack."""
        if not self.kind:
            super().do_POST()
            return
        asked = self.rfile.read(int(self.headers["content-length"]))
        self.requested.append(self.kind)
        self._begin("result")
        shallow = packet(b"shallow " + b"a" * 40 + b"\n") + b"0000" if b"deepen" in asked else b""
        self._send(chain([shallow, packet(b"NAK\n")], HOSTILE[self.kind]()))
        self.requested.append("ended")

    def _begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", f"application/x-git-upload-pack-{kind}")
        self.end_headers()

    def _send(self, parts: Iterable[bytes]) -> None:
        with suppress(OSError):
            for part in parts:
                self.wfile.write(part)


@contextmanager
def hostile(folder: Path, kind: str) -> Iterator[tuple[str, type[HostileBackend]]]:
    """The address of a remote that has no end, and its class."""
    handler = type("Handler", (HostileBackend,), {"root": folder, "requested": [], "kind": kind})
    with served(folder, handler) as (port, _):
        yield f"http://reader:{SECRET}@127.0.0.1:{port}/remote.git", handler


SMALL_LIMITS = replace(gitrules.LIMITS, seconds=20.0, refs=1 << 20, received=4 << 20)
BEYOND = {
    "refs": (SMALL_LIMITS, "the remote sent more than 1,048,576 bytes as its list of refs"),
    "progress": (SMALL_LIMITS, "the remote sent more than 4,194,304 bytes"),
    "slow progress": (replace(SMALL_LIMITS, seconds=3.0), "the fetch took more than 3 s"),
    "pack": (SMALL_LIMITS, "the remote sent more than 4,194,304 bytes"),
    "large file": (
        SMALL_LIMITS,
        (
            "reading what the remote sent takes more than 268,435,456 bytes of memory; "
            "keep large files in another repository"
        ),
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_remote_that_never_ends_is_refused_within_the_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    limits, message = BEYOND[kind]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with hostile(tmp_path, kind) as (url, _), pytest.raises(RulesSourceFailed) as raised:
        gitrules.Remote(Settings(rules_git=url), limits).read()
    assert str(raised.value) == message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 5 << 20


def test_ssh_ends_with_the_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, started_as = tmp_path / "ssh", tmp_path / "pid"
    program.write_text(f"#!/bin/sh\necho $$ > {started_as}\nexec sleep 1000\n")
    program.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(program))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    origin = gitrules.Remote(Settings(rules_git="git@localhost:rules.git"), replace(gitrules.LIMITS, seconds=5.0))
    with pytest.raises(RulesSourceFailed, match=re.escape("the fetch took more than 5 s")):
        origin.read()
    until(lambda: b"sleep" not in read(Path(f"/proc/{int(started_as.read_text())}/cmdline")))


@pytest.mark.usefixtures("_fetched_here")
def test_a_local_copy_that_is_too_large_does_not_grow(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    remote.commit("First")
    assert accepted_title(remote) == "First"
    remote.commit("Second")
    origin = gitrules.Remote(Settings(rules_git=remote.url), replace(gitrules.LIMITS, stored=100))
    assert "title: First" in origin.read().rules[RULE]  # the rules accepted last
    with pytest.raises(RulesSourceFailed, match="has more than 100 bytes; remove it to have it created again"):
        origin.read()


@pytest.mark.usefixtures("_fetched_here")
def test_what_an_ended_fetch_left_is_removed(remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    remote.commit("First")
    assert accepted_title(remote) == "First"
    folder = gitrules.Remote(Settings(rules_git=remote.url))._folder
    left = [folder / name for name in ("objects/pack/tmpabc.pack", "objects/pack/pack-1.idx.lock", "shallow.lock")]
    ended_creation = folder.with_name(f"{folder.name}.abc")
    ended_creation.mkdir()
    os.utime(ended_creation, (0, 0))
    for path in left:
        path.touch()
        os.utime(path, (0, 0))
    remote.commit("Second")
    assert accepted_title(remote) == "Second"
    assert [path for path in (*left, ended_creation) if path.exists()] == []


@pytest.mark.usefixtures("_fetched_here")
def test_an_accepted_commit_is_stored_once_the_lock_of_a_killed_service_is_old(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    remote.commit("First")
    first = remote.head()
    assert accepted_title(remote) == "First"
    origin = gitrules.Remote(Settings(rules_git=remote.url))
    stored = origin._folder / origin._ref
    lock = stored.with_name(f"{stored.name}.lock")
    lock.touch()
    remote.commit("Second")
    origin.read()
    origin.mark_accepted()
    origin.read()
    assert [each.message for each in caplog.records] == [
        "the accepted commit could not be stored; after a restart it is not known; this is tried again"
    ]
    assert first is not None
    assert stored.read_text().strip() == first.decode()
    os.utime(lock, (0, 0))
    origin.read()
    second = remote.head()
    assert second is not None
    assert stored.read_text().strip() == second.decode()
    assert not lock.exists()


CREATED = ("branches", "refs", "refs/tags", "refs/heads", "hooks", "info", "objects", "objects/info", "objects/pack")
"""The folders of a local copy, in the order in which they are created before its files."""


@pytest.mark.parametrize("number", [0, 1, 7, 9])
def test_a_local_copy_whose_creation_was_ended_is_created_again(tmp_path: Path, number: int) -> None:
    """By several processes at once."""
    folder = tmp_path / "state" / "rules.git"
    folder.parent.mkdir()
    for name in ("", *CREATED[:number]):
        (folder / name).mkdir(mode=0o700)
    with ThreadPoolExecutor(4) as pool:
        for repository in pool.map(open_repository, [folder] * 4):
            repository.close()
    assert (folder.stat().st_mode & 0o777, [path.name for path in folder.parent.iterdir()]) == (0o700, ["rules.git"])
    assert {path.name for path in folder.iterdir()} >= {"HEAD", "config"}


@pytest.mark.usefixtures("_fetched_here")
def test_a_local_copy_that_lacks_a_part_keeps_its_commits(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    remote.commit("First")
    assert accepted_title(remote) == "First"
    origin = gitrules.Remote(Settings(rules_git=remote.url))
    for name in ("config", "objects"):
        (origin._folder / name).rename(tmp_path / name)
    with pytest.raises(RulesSourceFailed, match=r"\.git cannot be read: .*; remove it to have it created again"):
        origin.read()
    for name in ("config", "objects"):
        (tmp_path / name).rename(origin._folder / name)
    assert "title: First" in origin.read().rules[RULE]


@pytest.mark.slow
@pytest.mark.skipif(not HAS_GIT, reason="needs git http-backend")
def test_a_remote_that_never_ends_leaves_the_rules_loaded_and_does_not_delay_the_end_of_the_service(
    tmp_path: Path, remote: Remote
) -> None:
    remote.commit("First")
    with hostile(tmp_path, "") as (url, handler):
        with started(tmp_path, RULES_GIT=url, **GIT) as service:
            good = service.revision()
            for kind, message in {
                "refs": "the remote sent more than 16,777,216 bytes as its list of refs",
                "pack": "the remote sent more than 67,108,864 bytes",
            }.items():
                handler.kind = kind
                until(lambda message: error(service) == message, message)
                assert (title(service), service.revision()) == ("First", good)
            handler.kind = ""
            remote.commit("Second")
            until(lambda: title(service) == "Second")
            handler.kind = "slow progress"
            until(lambda: handler.requested[-1] == "slow progress")
        until(lambda: handler.requested[-1] == "ended")
        assert "the fetch took more than" not in service.log.read_text()  # the service ended before that


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[str]:
    """The address of a git server for the folder."""
    port = port_of_nobody()
    command = [
        "git",
        "daemon",
        f"--base-path={tmp_path}",
        "--export-all",
        "--listen=127.0.0.1",
        f"--port={port}",
        "--verbose",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert b"Ready to rumble" in process.stderr.readline()
        yield f"git://127.0.0.1:{port}"
        process.terminate()


@pytest.mark.skipif(not HAS_GIT, reason="needs git")
def test_a_file_too_large_for_a_rule_is_not_fetched(
    daemon: str, remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    subprocess.run(["git", "-C", str(remote.path), "config", "uploadpack.allowFilter", "true"], check=True)
    origin = gitrules.Remote(Settings(rules_git=f"{daemon}/remote.git"))
    remote.files["large.bin"] = Random(1).randbytes(8 << 20)
    remote.commit()
    assert origin.read().rules.keys() >= {RULE}
    origin.mark_accepted()
    remote.files["large.bin"] = remote.files["large.bin"][:100_000]  # built upon the large one in a thin pack
    remote.commit("Smaller")
    assert "title: Smaller" in origin.read().rules[RULE]
    origin.mark_accepted()
    remote.files["rules/large.yaml"] = Random(1).randbytes(8 << 20)
    remote.commit("Large")
    with pytest.raises(RulesInvalid, match="split a rule file of more than 262,144 bytes"):
        origin.read()
    assert sum(path.stat().st_size for path in (tmp_path / "state").rglob("*") if path.is_file()) < 2 << 20
