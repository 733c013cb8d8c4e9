"""How many instructions a reader takes for its hostile texts, counted by valgrind.

Times on a shared machine vary too much, and most containers cannot use the processor's counters. Callgrind counts each
instruction of the interpreter and of C code. It writes its count at each call of ``getppid``, which no reader makes, so
the process calls it before its first read and after each. Imports, and a first read of each text, come before it is
told to count, as counting makes them ten times slower.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import re
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
MAX_SECONDS: Final = 60
"""The processor time that one read may take under valgrind, which is about fifty times slower.

The longest takes a few seconds.
"""
START: Final = """
#include <valgrind/callgrind.h>
void start(void) { CALLGRIND_START_INSTRUMENTATION; }
"""
"""A program in C that tells callgrind to count. The header comes with valgrind."""
TOTALS: Final = re.compile(rb"^totals: (\d+)", re.MULTILINE)


class ValgrindMissing(Exception):
    """valgrind is not installed."""


def reads_of(readers: Mapping[str, Reader]) -> Iterator[tuple[str, str, int]]:
    """Reader, family and size of each text, in the order in which they are read."""
    for name, reader in readers.items():
        for family in reader.families:
            yield from ((name, family, reader.largest // part) for part in PARTS)


def readers_of(module: str, names: Sequence[str]) -> dict[str, Reader]:
    """The readers of a module with these names; without names all of them."""
    readers: dict[str, Reader] = importlib.import_module(module).READERS
    return {name: readers[name] for name in names or readers}


def count(module: str, seconds: int = MAX_SECONDS, names: Sequence[str] = ()) -> dict[tuple[str, str], list[int]]:
    """The instructions for the texts of each reader and family of a module, by ascending size; ``names`` selects some.

    A read that takes longer than ``seconds`` is the last one: its family has fewer counts, and those after it have
    none. If it was not to be counted, no family has any.

    Raises:
        ValgrindMissing: valgrind is not installed.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise ValgrindMissing(
            "valgrind, which counts the instructions, is not installed; install it: apt-get install valgrind"
        )
    with tempfile.TemporaryDirectory() as folder:
        out, source, library = (Path(folder) / name for name in ("count", "start.c", "start.so"))
        source.write_text(START)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        callgrind = (
            valgrind,
            "--tool=callgrind",
            "--quiet",
            "--instr-atstart=no",
            "--dump-before=getppid",
            f"--callgrind-out-file={out}",
        )
        environment = {
            name: text for name, text in os.environ.items() if not name.startswith("COV")
        }  # coverage's tracing would be counted
        environment |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "PYTHONHASHSEED": "0"}
        environment["MALLOC_MMAP_THRESHOLD_"] = "65536"  # otherwise chance decides whether a growing block is copied
        command = (*callgrind, sys.executable, __file__, str(library), module, str(seconds), *names)
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if run.returncode not in {0, -signal.SIGVTALRM}:
            raise RuntimeError(f"the reads of {module} ended with {run.returncode}: {run.stderr}")
        found: dict[tuple[str, str], list[int]] = {}
        for number, (reader, family, _) in enumerate(reads_of(readers_of(module, names))):
            counts = found.setdefault((reader, family), [])
            part = out.with_name(f"count.{number + 2}")  # the first part counts what precedes the reads
            if not part.exists():
                break
            total = TOTALS.search(part.read_bytes())
            assert total is not None
            counts.append(int(total[1]))
        return found


def growth(counts: list[int]) -> str | None:
    """A description of the growth; ``None`` if the instructions grow no faster than the text."""
    if len(counts) < len(PARTS):
        return f"did not finish; {counts} instructions for the sizes before"
    if counts[-1] <= MAX_GROWTH * counts[0]:
        return None
    return f"{counts} instructions for 1, 2 and 4 times the text"


def main(library: str, module: str, seconds: int, names: Sequence[str]) -> None:
    """Read every text of a module's readers, and call ``getppid`` before the first that is counted and after each."""
    gc.disable()
    readers = readers_of(module, names)
    reads = [(readers[name].read, readers[name].families[family](size)) for name, family, size in reads_of(readers)]
    first = [
        (reader.read, family(reader.largest // FIRST_PART))
        for reader in readers.values()
        for family in reader.families.values()
    ]

    def read_all(reads: Sequence[tuple[Callable[[bytes], object], bytes]], afterwards: Callable[[], object]) -> None:
        for read, text in reads:
            signal.setitimer(
                signal.ITIMER_VIRTUAL, seconds
            )  # its default action ends the process, even during a search of `re`
            with suppress(PolicyError):
                read(text)
            afterwards()

    read_all(first, lambda: None)
    ctypes.CDLL(library).start()
    os.getppid()
    read_all(reads, os.getppid)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
