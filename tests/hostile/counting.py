"""How many instructions a reader takes for its hostile texts, counted by valgrind.

Times on a shared machine vary too much, and most containers cannot use the processor's counters. A tool of this project
for valgrind (``instructions.c``) counts each instruction of the interpreter and of C code, and the process asks it for
the count before each read and after it. A first read of each text, which imports and compiles, is not counted.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from policy.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hostile.reader import Reader

ROOT: Final = Path(__file__).resolve().parents[2]
PARTS: Final = (4, 2, 1)
"""A text is counted at its reader's largest size divided by each of these."""
FIRST_PART: Final = 64
"""It is read at the largest size divided by this before any is counted, as a first read imports and compiles."""
MAX_GROWTH: Final = 5.5
"""The factor by which the instructions may grow if the text grows by 4; 4 is linear, 16 quadratic."""
MAX_INSTRUCTIONS: Final = 8_000_000_000
"""The instructions that the read of the largest text may take; that of groups of a Ray cluster takes 6,000,000,000."""
MAX_SECONDS: Final = 120
"""The processor time after which a read under valgrind is ended, as it might never end.

6,000,000,000 instructions take more than 8 s on a busy machine.
"""
FOLDER: Final = Path(__file__).resolve().parent
INSTALL: Final = "install it: apt-get install valgrind"
MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""The names that valgrind has for the processors of ``platform.machine()``."""
TOOL: Final = (
    "-O2 -fno-builtin -fno-strict-aliasing -fno-stack-protector -fno-pie -no-pie -static -nodefaultlibs -nostartfiles "
    "-u _start -Wl,--build-id=none -Wl,-Ttext-segment=0x58000000 -I/usr/include/valgrind"
)
"""The options of the C compiler with which valgrind's own tools are built."""


class ValgrindMissing(Exception):
    """valgrind, or what is needed to build a tool for it, is not installed."""


def reads_of(readers: Mapping[str, Reader]) -> Iterator[tuple[str, str, int]]:
    """Reader, family and size of each text, in the order in which they are read."""
    for name, reader in readers.items():
        for family in reader.families:
            yield from ((name, family, reader.largest // part) for part in PARTS)


def readers_of(module: str, names: Sequence[str]) -> dict[str, Reader]:
    """The readers of a module with these names; without names all of them."""
    readers: dict[str, Reader] = importlib.import_module(module).READERS
    return {name: readers[name] for name in names or readers}


def build_tool(folder: Path) -> None:
    """Build the tool ``instructions`` and the library that asks it, where valgrind finds them as its own.

    Raises:
        ValgrindMissing: valgrind's libraries are not installed.
    """
    name = MACHINES[platform.machine()]
    define = (f"-DVGA_{name}=1", "-DVGO_linux=1", f"-DVGP_{name}_linux=1", f"-DVGPV_{name}_linux_vanilla=1")
    libraries = [_library(f"lib{library}-{name}-linux.a") for library in ("coregrind", "vex")]
    tool, source = folder / f"instructions-{name}-linux", FOLDER / "instructions.c"
    subprocess.run(["cc", *TOOL.split(), *define, "-o", tool, source, *libraries, "-lgcc"], check=True)
    # valgrind loads a library of this name into each program
    preloaded = folder / f"vgpreload_core-{name}-linux.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", preloaded, FOLDER / "executed.c"], check=True)
    (folder / "default.supp").touch()


def _library(name: str) -> str:
    """The path of a library that comes with valgrind."""
    command = ("cc", f"-print-file-name=valgrind/{name}")
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(path).is_absolute():
        raise ValgrindMissing(f"valgrind's library {name}, of which its tools are built, is not installed; {INSTALL}")
    return path


def count(module: str, seconds: int = MAX_SECONDS, names: Sequence[str] = ()) -> dict[tuple[str, str], list[int]]:
    """The instructions for the texts of each reader and family of a module, by ascending size; ``names`` selects some.

    A read that takes longer than ``seconds`` is the last one: its family has fewer counts, and those after it have
    none. If it was not to be counted, no family has any.

    Raises:
        ValgrindMissing: valgrind is not installed.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise ValgrindMissing(f"valgrind, which counts the instructions, is not installed; {INSTALL}")
    with tempfile.TemporaryDirectory() as folder:
        build_tool(Path(folder))
        environment = {
            name: text for name, text in os.environ.items() if not name.startswith("COV")
        }  # coverage's tracing would be counted
        environment |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "PYTHONHASHSEED": "0"}
        environment["MALLOC_MMAP_THRESHOLD_"] = "65536"  # otherwise chance decides whether a growing block is copied
        environment["VALGRIND_LIB"] = folder
        command = (valgrind, "--tool=instructions", "--quiet", sys.executable, __file__, module, str(seconds), *names)
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if run.returncode not in {0, -signal.SIGVTALRM}:
        raise RuntimeError(f"the reads of {module} ended with {run.returncode}: {run.stderr}")
    counts = map(int, run.stdout.split())
    found: dict[tuple[str, str], list[int]] = {}
    for reader, family, _ in reads_of(readers_of(module, names)):
        kept = found.setdefault((reader, family), [])
        if (number := next(counts, None)) is None:
            break
        kept.append(number)
    return found


def growth(counts: list[int]) -> str | None:
    """A description of the growth, or of too many instructions; ``None`` if they grow no faster than the text."""
    if len(counts) < len(PARTS):
        return f"did not finish; {counts} instructions for the sizes before"
    if counts[-1] > MAX_INSTRUCTIONS:
        return f"{counts[-1]} instructions for the largest text"
    if counts[-1] <= MAX_GROWTH * counts[0]:
        return None
    return f"{counts} instructions for 1, 2 and 4 times the text"


def main(module: str, seconds: int, names: Sequence[str]) -> None:
    """Read every text of a module's readers, and print the number of instructions of each read."""
    gc.disable()
    executed = ctypes.CDLL(None).executed
    executed.restype = ctypes.c_ulong
    readers = readers_of(module, names)
    reads = [(readers[name].read, readers[name].families[family](size)) for name, family, size in reads_of(readers)]
    first = [
        (reader.read, family(reader.largest // FIRST_PART))
        for reader in readers.values()
        for family in reader.families.values()
    ]

    def count_instructions(read: Callable[[bytes], object], text: bytes) -> int:
        # its default action ends the process, even during a search of `re`
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        before: int = executed()
        with suppress(PolicyError):
            read(text)
        return executed() - before  # type: ignore[no-any-return]

    for read, text in first:
        count_instructions(read, text)
    for read, text in reads:
        sys.stdout.write(f"{count_instructions(read, text)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
