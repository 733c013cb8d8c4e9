"""The files that commands write: none is an input, and each is replaced as a whole or not at all."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from cli.test_cli_impact import FLEET, facts, lines
from cli.test_progress import COMMANDS, RECORD
from log.conftest import LogTarget, created
from log.test_reading import ROWS, filled_store

from policy.cli import replaced_files
from policy.cli.replaced_files import written
from service.log.store import StoreFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from api.conftest import Done


@pytest.fixture
def sqlite(tmp_path: Path) -> LogTarget:
    return created(LogTarget(f"sqlite:///{tmp_path}/log.db", tmp_path, None))


def content_of(command: str) -> str:
    return lines(RECORD, RECORD) if command == "replay" else lines(facts("a"), facts("b"))


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
@pytest.mark.parametrize("named", ["own.jsonl", "./own.jsonl", "link", "hard"])
@pytest.mark.parametrize("command", COMMANDS)
def test_an_input_is_no_output(call: Callable[..., Done], tmp_path: Path, command: str, named: str, form: str) -> None:
    own, output = tmp_path / "own.jsonl", f"{tmp_path}/{named}"
    own.write_text(content_of(command))
    (tmp_path / "link").symlink_to(own)
    (tmp_path / "hard").hardlink_to(own)
    done = call(command, str(own), *COMMANDS[command], "--format", form, "-o", output)
    shown = str(Path(output))
    assert (done.code, done.out, done.err) == (2, "", f"{shown}: the output is also an input; name another file\n")
    assert own.read_text() == content_of(command)


def test_a_file_of_a_folder_that_is_read_is_no_output(call: Callable[..., Done], tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    for file in tmp_path / "web.yaml", inner / "web.yaml":
        file.write_text(FLEET)
    options = ("--to", "0.33.0", "--format", "json", "-o")
    for words, file in (("-R",), inner / "web.yaml"), ((), tmp_path / "web.yaml"):
        done = call("impact", *words, str(tmp_path), *options, str(file))
        assert (done.code, done.err) == (
            2,
            f"{file}: the output is also an input, in {tmp_path}; name another file\n",
        )
        assert file.read_text() == FLEET
    assert call("impact", str(tmp_path), *options, str(inner / "web.yaml")).code == 1  # that folder is not read
    assert json.loads((inner / "web.yaml").read_text())["complete"] is True
    for _ in range(2):
        assert call("impact", "-R", str(tmp_path), *options, str(inner / "out.csv")).code == 1


@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+pysqlite"])
def test_the_log_is_no_output(call: Callable[..., Done], sqlite: LogTarget, scheme: str) -> None:
    file = Path(sqlite.url.removeprefix("sqlite:///"))
    before = file.read_bytes()
    url = ("--log", sqlite.url.replace("sqlite", scheme, 1))
    for words in (
        ("log", "export", str(file), *url),
        ("replay", *url, "--json", "-o", str(file)),
        ("impact", *url, "--to", "0.33.0", "--json", "-o", str(file)),
        ("pins", *url, "--json", "-o", str(file)),
    ):
        done = call(*words)
        assert (done.code, done.err) == (2, f"{file}: the output is also an input; name another file\n"), words
    assert file.read_bytes() == before


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "existing"])
@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_a_failed_export_leaves_the_file_as_it_was(
    call: Callable[..., Done],
    sqlite: LogTarget,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    *,
    is_new: bool,
) -> None:
    def failing(*_: Any) -> Iterator[Any]:
        yield []
        raise StoreFailed("a bad record")

    monkeypatch.setattr("service.log.query.stream", failing)
    folder = tmp_path / "out"
    folder.mkdir()
    if not is_new:
        (folder / name).write_text("before")
    done = call("log", "export", str(folder / name), RUNNER_POLICY_LOG=sqlite.url)
    assert (done.code, done.err.strip()) == (2, "the log cannot be read: a bad record")
    assert {file.name: file.read_text() for file in folder.iterdir()} == ({} if is_new else {name: "before"})


@pytest.mark.parametrize("command", COMMANDS)
def test_a_failed_report_leaves_the_file_as_it_was(
    call: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    class Broken(Exception):
        pass

    def failing(*_: Any) -> Iterator[Any]:
        yield from ()
        raise Broken

    monkeypatch.setattr("policy.impact.run.Run.results", failing)
    (tmp_path / "in.jsonl").write_text(content_of(command))
    output = tmp_path / "out.json"
    output.write_text("before")
    with pytest.raises(Broken):
        call(command, str(tmp_path / "in.jsonl"), *COMMANDS[command], "-o", str(output))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.jsonl", "out.json"]
    assert output.read_text() == "before"


def write(path: Path, data: bytes = b"new") -> None:
    with written(path) as file:
        file.write(data)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_a_file_keeps_its_mode_and_its_link(tmp_path: Path, mode: int) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("a longer text")
    file.chmod(mode)
    link.symlink_to("file")
    write(link)
    assert link.is_symlink()
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", mode)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "link"]


def test_a_new_file_has_the_mode_of_a_file_that_is_opened(tmp_path: Path) -> None:
    (tmp_path / "opened").write_bytes(b"")
    (tmp_path / "link").symlink_to("linked")
    for name in "file", "link":
        write(tmp_path / name)
    modes = {(tmp_path / name).stat().st_mode for name in ("opened", "file", "linked")}
    assert len(modes) == 1
    assert (tmp_path / "linked").read_bytes() == b"new"


@pytest.mark.parametrize("failing", ["_create", "_set_owner_and_mode"])
def test_a_file_that_cannot_be_replaced_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*_: Any) -> Any:
        raise PermissionError

    monkeypatch.setattr(replaced_files, failing, fail)
    file = tmp_path / "file"
    file.write_text("a longer text")
    number = file.stat().st_ino
    write(file)
    assert (file.read_bytes(), file.stat().st_ino) == (b"new", number)
    assert list(tmp_path.iterdir()) == [file]


def test_a_pipe_is_written_directly(call: Callable[..., Done], tmp_path: Path) -> None:
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    (tmp_path / "in.jsonl").write_text(content_of("impact"))
    assert call("impact", str(tmp_path / "in.jsonl"), "--to", "0.33.0", "--json", "-o", str(pipe)).code == 0
    reader.join(60)
    assert json.loads(found[0])["complete"] is True
    assert pipe.is_fifo()


def test_an_error_of_the_block_leaves_no_other_file(tmp_path: Path) -> None:
    for each in OSError, KeyboardInterrupt:
        with suppress(each), written(tmp_path / "file") as file:
            file.write(b"half")
            raise each
    assert list(tmp_path.iterdir()) == []


ENDED = """
import os, signal, sys
import msgspec
from policy.cli import compare
from service.cli import main
from service.log import query

number = int(sys.argv.pop(1))

def end(*_):
    os.kill(os.getpid(), number)
    yield from ()

query.stream = end
compare.FORMATS["json"] = msgspec.structs.replace(compare.FORMATS["json"], write=lambda *_: [*end()])
main()
"""
"""Runs a command that gets a signal, whose number is the first argument, while it writes its output."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "words", [("log", "export"), ("compare", "in.jsonl", "in.jsonl", "-o")], ids=["log", "compare"]
)
def test_a_command_that_a_signal_ends_leaves_no_other_file(
    sqlite: LogTarget, tmp_path: Path, words: tuple[str, ...], number: signal.Signals
) -> None:
    # neither measured nor forked from what is measured: coverage handles SIGTERM itself
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    (tmp_path / "in.jsonl").write_text(lines(facts("a")))
    before = sorted(tmp_path.iterdir())
    done = subprocess.run(
        [sys.executable, "-c", ENDED, str(int(number)), *words, "out.json"],
        cwd=tmp_path,
        env=env | {"RUNNER_POLICY_LOG": sqlite.url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (sorted(tmp_path.iterdir()), done.returncode, done.stderr) == (before, 130, "")


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
@pytest.mark.parametrize("command", ["impact", "log export"])
def test_a_full_disk_is_reported_in_one_line(
    call: Callable[..., Done], sqlite: LogTarget, tmp_path: Path, command: str, form: str
) -> None:
    (tmp_path / "in.jsonl").write_text(lines(*(facts(f"d{at}") for at in range(50))))
    words: tuple[str, ...] = ("impact", str(tmp_path / "in.jsonl"), "--to", "0.33.0", "-o", "/dev/full")
    if command == "log export":
        filled_store(sqlite, ROWS).close()
        words = ("log", "export", "/dev/full")
    done = call(*words, "--format", form, RUNNER_POLICY_LOG=sqlite.url)
    assert (done.code, done.out, done.err) == (2, "", "/dev/full: No space left on device\n")
