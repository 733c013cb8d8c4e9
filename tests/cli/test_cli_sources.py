"""`verify --source` with other kinds of files, and with more than a release has: each is refused in one line."""

from __future__ import annotations

import gzip
import os
import tarfile
import zipfile
from io import BytesIO
from typing import TYPE_CHECKING

import pytest
from vllmsource import EQUIVALENT, OTHER_FILES, write_source

from policy.vllm.tablegen.wheels import MAX_ARCHIVE, MAX_FILE, MAX_FILES, MAX_READ, MAX_UNPACKED
from policy.vllm.verify.worker import MEMORY_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from api.conftest import Done

CONFIG = "vllm/config/vllm.py"
FULL = b"#" * MAX_FILE
LARGE = [(CONFIG, FULL + b"#")]
MANY = [(f"vllm/{number}", b"") for number in range(MAX_FILES + 1)]
SUM = [(f"vllm/config/a{number}.py", FULL) for number in range(MAX_READ // MAX_FILE + 1)]


def wheel(folder: Path, members: Iterable[tuple[str, bytes]]) -> Path:
    with zipfile.ZipFile(folder / "vllm.whl", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        for name, data in members:
            target.writestr(name, data)
    return folder / "vllm.whl"


def archive(folder: Path, members: Iterable[tuple[str, bytes]]) -> Path:
    with tarfile.open(folder / "vllm.tar.gz", "w:gz", compresslevel=1) as target:
        for name, data in members:
            member = tarfile.TarInfo(f"vllm-1/{name}")
            member.size = len(data)
            target.addfile(member, BytesIO(data))
    return folder / "vllm.tar.gz"


def header(folder: Path, size: int, kind: bytes, data: int = 0) -> Path:
    """An archive with one member, which ends after some zero bytes."""
    member = tarfile.TarInfo("vllm-1/model")
    member.size, member.type = size, kind
    with gzip.open(folder / "vllm.tar.gz", "wb", compresslevel=1) as target:
        target.write(member.tobuf(tarfile.GNU_FORMAT))
        for _ in range(data >> 20):
            target.write(bytes(1 << 20))
    return folder / "vllm.tar.gz"


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


def folder_of(folder: Path, make: Callable[[Path], Path]) -> Path:
    make(write_source(folder, EQUIVALENT) / CONFIG)
    return folder


SOURCES: list[tuple[Callable[[Path], Path], str]] = [
    (lambda folder: pipe(folder / "vllm.whl"), "expected a file or a folder, got a named pipe"),
    (lambda folder: pipe(folder / "vllm.tar.gz"), "expected a file or a folder, got a named pipe"),
    (lambda folder: device(folder / "vllm.whl"), "expected a file or a folder, got a device"),
    (lambda folder: device(folder / "vllm.tar"), "expected a file or a folder, got a device"),
    (lambda folder: folder_of(folder, pipe), "expected a file, got a named pipe"),
    (lambda folder: folder_of(folder, device), "expected a file, got a device"),
    (lambda folder: write_source(folder, "#" * (MAX_FILE + 1)), f"`{CONFIG}` has more than {MAX_FILE:,} bytes"),
    (
        lambda folder: sparse(folder / "vllm.whl"),
        f"the file has {MAX_ARCHIVE + 1:,} bytes; expected at most {MAX_ARCHIVE:,}",
    ),
    (
        lambda folder: sparse(folder / "a.tgz"),
        f"the file has {MAX_ARCHIVE + 1:,} bytes; expected at most {MAX_ARCHIVE:,}",
    ),
    (lambda folder: wheel(folder, LARGE), f"`{CONFIG}` has more than {MAX_FILE:,} bytes"),
    (lambda folder: wheel(folder, SUM), f"its Python files have more than {MAX_READ:,} bytes"),
    (lambda folder: wheel(folder, MANY), f"more than {MAX_FILES:,} files"),
    (lambda folder: archive(folder, LARGE), f"`{CONFIG}` has more than {MAX_FILE:,} bytes"),
    (lambda folder: archive(folder, SUM), f"its Python files have more than {MAX_READ:,} bytes"),
    (lambda folder: archive(folder, MANY), f"more than {MAX_FILES:,} files"),
    (
        lambda folder: header(folder, MAX_UNPACKED + 1, tarfile.REGTYPE),
        f"its files have more than {MAX_UNPACKED:,} bytes",
    ),
    (
        lambda folder: header(folder, MEMORY_LIMIT, tarfile.GNUTYPE_LONGNAME, MEMORY_LIMIT),
        f"it takes more than {MEMORY_LIMIT >> 30} GiB of memory",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "fault"), SOURCES)
def test_a_special_or_oversized_source_is_refused(
    call: Callable[..., Done], tmp_path: Path, make: Callable[[Path], Path], fault: str
) -> None:
    source = make(tmp_path)
    done = call("verify", "0.33.0", "--source", str(source), "--samples", "1")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"vLLM 0.33.0: the decision was not found in {source}: {fault}\n"


def test_a_pipe_is_refused_without_waiting(call: Callable[..., Done], tmp_path: Path) -> None:
    source = pipe(tmp_path / "vllm.whl")
    done = call("verify", "0.33.0", "--source", str(source))
    assert (done.code, done.out, done.err.endswith("got a named pipe\n")) == (2, "", True)


@pytest.mark.parametrize("make", [wheel, archive])
def test_a_source_within_the_limits_is_read(
    call: Callable[..., Done], tmp_path: Path, make: Callable[[Path, Iterable[tuple[str, bytes]]], Path]
) -> None:
    texts = {CONFIG: EQUIVALENT, **OTHER_FILES, "vllm/large.so": "x" * (MAX_FILE + 1)}
    source = make(tmp_path, [(name, text.encode()) for name, text in texts.items()])
    done = call("verify", "0.33.0", "--source", str(source), "--samples", "1")
    assert (done.code < 2, done.err) == (True, "")
