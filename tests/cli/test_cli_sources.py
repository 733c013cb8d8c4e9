"""`verify --source` with what is no release: other kinds of files, and more than any has. Each is refused in a line."""

from __future__ import annotations

import gzip
import os
import tarfile
import zipfile
from io import BytesIO
from typing import TYPE_CHECKING

import pytest
from vllmsource import EQUIVALENT, OTHERS, write_source

from policy.vllm.tablegen.wheels import MAX_ARCHIVE, MAX_FILE, MAX_FILES, MAX_READ, MAX_UNPACKED
from policy.vllm.verify.worker import MEMORY_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from api.conftest import Done

CONFIG = "vllm/config/vllm.py"
LARGE = [(CONFIG, b"#" * (MAX_FILE + 1))]
MANY = [(f"vllm/{number}", b"") for number in range(MAX_FILES + 1)]
SUM = [(f"vllm/config/a{number}.py", b"#" * MAX_FILE) for number in range(MAX_READ // MAX_FILE + 1)]


def wheel(place: Path, members: Iterable[tuple[str, bytes]]) -> Path:
    with zipfile.ZipFile(place / "vllm.whl", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        for name, data in members:
            target.writestr(name, data)
    return place / "vllm.whl"


def archive(place: Path, members: Iterable[tuple[str, bytes]]) -> Path:
    with tarfile.open(place / "vllm.tar.gz", "w:gz", compresslevel=1) as target:
        for name, data in members:
            member = tarfile.TarInfo(f"vllm-1/{name}")
            member.size = len(data)
            target.addfile(member, BytesIO(data))
    return place / "vllm.tar.gz"


def header(place: Path, size: int, kind: bytes, data: int = 0) -> Path:
    """An archive with one member, which ends after some zero bytes."""
    member = tarfile.TarInfo("vllm-1/model")
    member.size, member.type = size, kind
    with gzip.open(place / "vllm.tar.gz", "wb", compresslevel=1) as target:
        target.write(member.tobuf(tarfile.GNU_FORMAT))
        for _ in range(data >> 20):
            target.write(bytes(1 << 20))
    return place / "vllm.tar.gz"


def pipe(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    return file


def device(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    file.symlink_to("/dev/zero")
    return file


def sparse(file: Path) -> Path:
    with file.open("wb") as target:
        target.truncate(MAX_ARCHIVE + 1)
    return file


def folder_of(place: Path, make: Callable[[Path], Path]) -> Path:
    make(write_source(place, EQUIVALENT) / CONFIG)
    return place


SOURCES: list[tuple[Callable[[Path], Path], str]] = [
    (lambda place: pipe(place / "vllm.whl"), "expected a file or a folder, got a named pipe"),
    (lambda place: pipe(place / "vllm.tar.gz"), "expected a file or a folder, got a named pipe"),
    (lambda place: device(place / "vllm.whl"), "expected a file or a folder, got a device"),
    (lambda place: device(place / "vllm.tar"), "expected a file or a folder, got a device"),
    (lambda place: folder_of(place, pipe), "expected a file, got a named pipe"),
    (lambda place: folder_of(place, device), "expected a file, got a device"),
    (lambda place: write_source(place, "#" * (MAX_FILE + 1)), f"`{CONFIG}` has more than {MAX_FILE:,} bytes"),
    (
        lambda place: sparse(place / "vllm.whl"),
        f"the file has {MAX_ARCHIVE + 1:,} bytes; expected at most {MAX_ARCHIVE:,}",
    ),
    (
        lambda place: sparse(place / "a.tgz"),
        f"the file has {MAX_ARCHIVE + 1:,} bytes; expected at most {MAX_ARCHIVE:,}",
    ),
    (lambda place: wheel(place, LARGE), f"`{CONFIG}` has more than {MAX_FILE:,} bytes"),
    (lambda place: wheel(place, SUM), f"its Python files have more than {MAX_READ:,} bytes"),
    (lambda place: wheel(place, MANY), f"more than {MAX_FILES:,} files"),
    (lambda place: archive(place, LARGE), f"`{CONFIG}` has more than {MAX_FILE:,} bytes"),
    (lambda place: archive(place, SUM), f"its Python files have more than {MAX_READ:,} bytes"),
    (lambda place: archive(place, MANY), f"more than {MAX_FILES:,} files"),
    (
        lambda place: header(place, MAX_UNPACKED + 1, tarfile.REGTYPE),
        f"its files have more than {MAX_UNPACKED:,} bytes",
    ),
    (
        lambda place: header(place, MEMORY_LIMIT, tarfile.GNUTYPE_LONGNAME, MEMORY_LIMIT),
        f"it takes more than {MEMORY_LIMIT >> 30} GiB of memory",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "fault"), SOURCES)
def test_a_source_without_bounds_is_refused(
    call: Callable[..., Done], tmp_path: Path, make: Callable[[Path], Path], fault: str
) -> None:
    source = make(tmp_path)
    done = call("verify", "0.33.0", "--source", str(source), "--samples", "1")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"vLLM 0.33.0: the decision was not found in {source}: {fault}\n"


def test_a_pipe_is_not_waited_for(call: Callable[..., Done], tmp_path: Path) -> None:
    source = pipe(tmp_path / "vllm.whl")
    done = call("verify", "0.33.0", "--source", str(source))
    assert (done.code, done.out, done.err.endswith("got a named pipe\n")) == (2, "", True)


@pytest.mark.parametrize("make", [wheel, archive])
def test_a_source_within_the_bounds_is_read(
    call: Callable[..., Done], tmp_path: Path, make: Callable[[Path, Iterable[tuple[str, bytes]]], Path]
) -> None:
    texts = {CONFIG: EQUIVALENT, **OTHERS, "vllm/large.so": "x" * (MAX_FILE + 1)}
    source = make(tmp_path, [(name, text.encode()) for name, text in texts.items()])
    done = call("verify", "0.33.0", "--source", str(source), "--samples", "1")
    assert (done.code < 2, done.err) == (True, "")
