"""The folder that the processes of a service share is deleted, replaced or full while the service runs."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from api.test_dry_run import dry_run_of_rules
from files import replace_file
from representatives import slow_except

from policy.checks.sandbox import INLINE

from .conftest import QWEN, RULE, TITLE, edit, retitle, until
from .test_metrics import DECISIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .conftest import Service, Tokens

ACCEPTED = 'runner_policy_reloads_total{result="accepted"}'
REJECTED = 'runner_policy_reloads_total{result="rejected"}'
USABLE = "runner_policy_run_folder_usable"
CREATED = "runner_policy_run_folder_created"
LARGE = "".join(f"# line {number} of a long comment\n" for number in range(4000))
"""More text than what is kept free for changed rules."""


def run_folder_of(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "tmp").glob("runner-policy-*")
    return found


def delete_folder(folder: Path) -> None:
    """Delete it in one step as seen by the service, which else creates files in it again meanwhile."""
    away = folder.parent.parent / f"deleted-{time.monotonic_ns()}"
    folder.rename(away)
    shutil.rmtree(away, ignore_errors=True)  # a file that was open may still be written there


def replace_folder(folder: Path, put: Callable[[Path], object]) -> None:
    """Put something in its place before the service has created it again."""
    while True:
        delete_folder(folder)
        with suppress(FileExistsError):  # it was faster
            put(folder)
            return


def is_locked(folder: Path) -> bool:
    """Whether the next start would take the folder for one in use."""
    try:
        with (folder / "lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def empty(folder: Path) -> None:
    """Delete old files, as cleaners of temporary files do."""
    for file in folder.iterdir():
        file.unlink(missing_ok=True)


def large_answers(service: Service) -> list[int]:
    """The statuses of a batch and a dry run whose complete answers would be files."""
    with service.client() as client:
        answers = [client.post("/v1/decisions/batch", json={"items": [QWEN] * 2000}), dry_run_of_rules(client, 1)]
    for answer in answers:
        if answer.status_code == 200:
            assert len(answer.content) > INLINE
            answer.json()
        else:
            assert answer.json()["type"] == "urn:runner-policy:problem:busy"
    return [answer.status_code for answer in answers]


def is_usable(service: Service) -> bool:
    return bool(service.metrics()[USABLE] == 1 and service.state()["run_folder"]["last_error"] is None)


# deleted


@pytest.mark.parametrize(
    "delete", slow_except([delete_folder], [delete_folder, empty]), ids=["the folder", "its files"]
)
def test_a_deleted_folder_is_created_again(
    serve: Callable[..., Any], folder: Path, tmp_path: Path, delete: Callable[[Path], None]
) -> None:
    with serve("--rules", str(folder)) as service:
        run = run_folder_of(tmp_path)
        assert service.state()["run_folder"] == {"created": 0, "last_created_at": None, "last_error": None}
        delete(run)
        until(lambda: is_locked(run))
        assert run.stat().st_mode & 0o777 == 0o700
        until(lambda: service.metrics()[f"{CREATED}_total"] >= 1 and is_usable(service))
        state = service.state()["run_folder"]
        assert (state["created"] >= 1, state["last_created_at"] is not None) == (True, True)
        (line, *_) = service.messages("the run folder was deleted, or files in it; they are created again")
        assert (line["folder"], "lock" in line["names"]) == (str(run), True)
        assert large_answers(service) == [200, 200]
        retitle(folder, "Afterwards")
        until(lambda: service.get("/v1/rules/kv-connector-fallback")["title"] == "Afterwards")
        assert service.metrics()[ACCEPTED] == 1
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.slow
def test_a_worker_that_dies_after_the_folder_was_deleted_is_replaced_with_the_last_good_rules(
    serve: Callable[..., Any], folder: Path, tokens: Tokens, tmp_path: Path
) -> None:
    first = tokens.add("first", "read", "decide")
    with serve("--rules", str(folder), "--workers", "2", "--tokens", str(tokens.path), token=first) as service:
        before = service.revision()
        retitle(folder, "Published")
        until(lambda: len(service.messages("rules loaded")) == 2)
        good = service.revision()
        with service.client() as client:
            for _ in range(7):
                client.post("/v1/decisions", json=QWEN).raise_for_status()
        until(lambda: service.metrics()[DECISIONS] == 7)
        for number in (3, 4):
            edit(folder / RULE, "title: Published", "title: [")
            replace_file(tokens.path, "tokens: [")
            until(lambda: service.state()["rules"]["last_error"])
            victim, other = service.workers()
            delete_folder(run_folder_of(tmp_path))
            os.kill(victim, signal.SIGKILL)
            until(lambda number: service.times_ready() >= number, number)
            (fresh,) = set(service.workers()) - {other}
            client = service.client_of_each()[fresh]
            assert (client.get("/v1/policy").json()["revision"], good != before) == (good, True)
            assert client.get("/v1/policy").json()["last_reload_error"]["errors"]
            until(lambda: service.metrics()["runner_policy_workers"] == 2)
            edit(folder / RULE, "title: [", "title: Published")
            tokens.write()
            service.everywhere("/readyz?verbose", lambda state: state["rules"]["last_error"] is None)
        assert "Traceback" not in service.log.read_text()


@pytest.mark.slow
def test_what_ended_processes_have_counted_outlives_the_folder(serve: Callable[..., Any], tmp_path: Path) -> None:
    with serve("--workers", "2") as service:
        (victim, client), (other, _) = service.client_of_each().items()
        for _ in range(7):
            client.post("/v1/decisions", json=QWEN).raise_for_status()
        until(lambda: service.client_of_each()[other].get("/metrics").text.count(f"{DECISIONS} 7.0"))
        (run_folder_of(tmp_path) / "lock").unlink()
        until(lambda: service.state()["run_folder"]["created"] >= 1)  # the first process has seen every file since
        os.kill(victim, signal.SIGKILL)
        delete_folder(run_folder_of(tmp_path))
        until(lambda: service.times_ready() >= 3)
        until(lambda: service.metrics()["runner_policy_workers"] == 2 and service.metrics()[DECISIONS] == 7)


@pytest.mark.slow
def test_without_reloading_a_replaced_worker_has_the_rules_of_the_start(
    serve: Callable[..., Any], folder: Path, tmp_path: Path
) -> None:
    with serve("--rules", str(folder), "--no-reload", "--workers", "2") as service:
        before = service.revision()
        retitle(folder, "Unseen")
        delete_folder(run_folder_of(tmp_path))
        os.kill(service.workers()[0], signal.SIGKILL)
        until(lambda: service.times_ready() >= 3)
        assert {client.get("/v1/policy").json()["revision"] for client in service.client_of_each().values()} == {before}


# replaced


def of_another_user(path: Path) -> None:
    """What another user can put where the folder was, as its name is no secret."""
    path.mkdir(mode=0o777)
    path.chmod(0o777)
    (path / "rules.json").write_text("{}")
    (path / "metrics-1-1.json").write_text('{"pid":1,"samples":[["forged",[],1]],"durations":[],"seconds":0}')
    os.chown(path, 65534, 65534)


REPLACED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file": (lambda path: path.touch(exist_ok=False), "expected a folder, got a file"),
    "a link": (lambda path: path.symlink_to(path.parent), "expected a folder, got a symbolic link"),
    **({"a folder of another user": (of_another_user, "belongs to another user")} if os.geteuid() == 0 else {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", REPLACED)
def test_what_is_in_the_place_of_the_folder_is_never_used(
    serve: Callable[..., Any], folder: Path, tmp_path: Path, kind: str
) -> None:
    put, fault = REPLACED[kind]
    with serve("--rules", str(folder), "--workers", "2") as service:
        run = run_folder_of(tmp_path)
        replace_folder(run, put)
        service.everywhere("/readyz?verbose", lambda state: fault in (state["run_folder"]["last_error"] or ""))
        assert service.metrics()[USABLE] == 0
        retitle(folder, "Meanwhile")
        service.everywhere("/v1/rules/kv-connector-fallback", lambda rule: rule["title"] == "Meanwhile")
        os.kill(service.workers()[0], signal.SIGKILL)
        until(lambda: service.times_ready() >= 3)
        service.everywhere("/v1/rules/kv-connector-fallback", lambda rule: rule["title"] == "Meanwhile")
        assert large_answers(service) == [200, 200]
        if run.is_dir() and not run.is_symlink():
            assert sorted(path.name for path in run.iterdir()) == ["metrics-1-1.json", "rules.json"]
            delete_folder(run)
        else:
            run.unlink()
        until(lambda: is_locked(run))
        service.everywhere("/readyz?verbose", lambda state: state["run_folder"]["last_error"] is None)
        until(lambda: service.metrics()["runner_policy_workers"] == 2 and is_usable(service))
        assert "Traceback" not in service.log.read_text()


def test_a_service_ends_without_what_is_in_the_place_of_its_folder(serve: Callable[..., Any], tmp_path: Path) -> None:
    with serve() as service:
        run = run_folder_of(tmp_path)
        run.rename(tmp_path / "away")
        run.touch()
        os.kill(service.process.pid, signal.SIGTERM)
        assert service.process.wait(60) == 0
        assert ("Traceback" in service.log.read_text(), run.is_file()) == (False, True)


# full


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes for temporary files."""
    disk = tmp_path / "tmp"
    disk.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mounted, check=False, capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """Fill the file system for the block."""
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
    yield
    (disk / "filler").unlink()


@pytest.mark.slow
def test_rules_and_tokens_that_change_while_the_disk_is_full_are_loaded(
    serve: Callable[..., Any], folder: Path, tokens: Tokens, small_disk: Path
) -> None:
    first, revoked = tokens.add("first", "read", "decide", "dry-run"), tokens.add("revoked", "read")
    with serve("--rules", str(folder), "--tokens", str(tokens.path), "--workers", "2", token=first) as service:
        with full(small_disk):
            retitle(folder, "On a full disk")
            service.everywhere("/v1/rules/kv-connector-fallback", lambda rule: rule["title"] == "On a full disk")
            del tokens.entries["revoked"]
            tokens.write()
            until(
                lambda: all(
                    client.get("/v1/policy", headers={"authorization": f"Bearer {revoked}"}).status_code == 401
                    for client in service.client_of_each().values()
                )
            )
            service.everywhere(
                "/readyz?verbose", lambda state: "No space left" in (state["run_folder"]["last_error"] or "")
            )
            assert (service.metrics()[USABLE], service.metrics()[ACCEPTED]) == (0, 1)
            assert large_answers(service) == [200, 503]
            os.kill(service.workers()[0], signal.SIGKILL)
            until(lambda: service.times_ready() >= 3)
            service.everywhere("/v1/rules/kv-connector-fallback", lambda rule: rule["title"] == "On a full disk")
        until(lambda: is_usable(service))
        until(lambda: service.metrics()["runner_policy_workers"] == 2)
        for message in (
            "the run folder cannot be used; what the processes share is missing",
            "the run folder can be used again",
        ):
            until(service.messages, message)
            assert len(service.messages(message)) <= 3
        # What could not be copied is copied now, for a worker that starts while the tokens are broken.
        replace_file(tokens.path, "tokens: [")
        os.kill(service.workers()[0], signal.SIGKILL)
        until(lambda: service.times_ready() >= 4)
        assert service.everywhere("/v1/policy", lambda policy: policy["revision"]) is None
        assert "Traceback" not in service.log.read_text()


# changed rules that cannot be published


@contextmanager
def file_limit(pid: int, size: int) -> Iterator[None]:
    """The largest file that a running process may write, for the block."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_rules_that_cannot_be_published_are_reported_once_and_tried_until_they_are(
    serve: Callable[..., Any], folder: Path, workers: str
) -> None:
    with serve("--rules", str(folder), "--workers", workers) as service:
        good = service.revision()
        with file_limit(service.process.pid, 1 << 15):
            edit(folder / RULE, TITLE, f"{LARGE}title: Large")
            service.everywhere("/readyz?verbose", lambda state: "File too large" in str(state["rules"]["last_error"]))
            tried = service.state()["rules"]["last_tried_at"]
            until(lambda: service.state()["rules"]["last_tried_at"] > tried)
            metrics = service.metrics()
            assert (metrics[REJECTED], metrics[ACCEPTED], service.revision()) == (1, 0, good)
            assert metrics["runner_policy_last_reload_successful"] == 0
            assert len(service.messages("rules rejected; the loaded ones stay in use")) == 1
        service.everywhere("/v1/rules/kv-connector-fallback", lambda rule: rule["title"] == "Large")
        until(lambda: service.metrics()["runner_policy_last_reload_successful"])
        metrics = service.metrics()
        assert (metrics[REJECTED], metrics[ACCEPTED]) == (1, 1)
        assert service.state()["rules"]["last_error"] is None
        assert "Traceback" not in service.log.read_text()
