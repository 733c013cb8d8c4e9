"""The exceptions in a log: the tracebacks of each process, and the errors of a parser of arguments.

Owns how a traceback is found among the lines of several processes. Not here: which exception ended the engine
(``reader``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from policy.observation.lines import releases_of_step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.observation.records import PrintedLine

BEGIN: Final = "Traceback (most recent call last):"
CHAINS: Final = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
STEP: Final = re.compile(r'\s*+File "([^"]{1,1024}+)", line (\d{1,7}+), in (\S{1,255}+)')
EXCEPTION: Final = re.compile(r"([A-Za-z_][\w.]{0,255}+)(?:: ?|$)")
PARSER_ERROR: Final = re.compile(r"(?:[\w./-]{1,128}+)(?: [a-z-]{1,32}+)?: error: ")
"""What argparse prints before it exits with 2, after the usage."""
DETAIL_END: Final = " [type="
"""Where the repetition of the input begins in an error of pydantic."""
FURTHER: Final = "For further information visit"
MAX_STEPS: Final = 64
MAX_DETAILS: Final = 8
MAX_TEXT: Final = 2000
V1_FILE, V2_FILE = "vllm/v1/worker/gpu_model_runner.py", "vllm/v1/worker/gpu/model_runner.py"
PROGRAM_ENDS: Final = frozenset({"KeyboardInterrupt", "SystemExit"})


@dataclass(slots=True)
class LoggedException:
    """An exception that was logged or printed: ``text`` is `Name: message`, ``causes`` those before it in its chain."""

    text: str
    line: int
    level: str | None
    causes: list[str] = field(default_factory=list)

    @property
    def message(self) -> str:
        """The text without the exception's name."""
        return self.text.partition(": ")[2]


@dataclass(slots=True)
class _Open:
    """The traceback that a process is printing."""

    level: str | None
    file: str | None
    line: int
    causes: list[str] = field(default_factory=list)
    exception: str = ""
    details: list[str] = field(default_factory=list)
    is_in_steps: bool = True
    is_chained: bool = False
    step: tuple[str, int, str] | None = None

    @property
    def text(self) -> str:
        return " ".join([self.exception, *self.details])[:MAX_TEXT].strip()


class Tracebacks:
    """Reads tracebacks line by line, those of several processes at once.

    ``steps`` has the releases that known steps show, ``runners`` the files of runners among the steps.
    ``has_uncaught`` is whether an exception was printed that no logger wrote, so that its process ended.
    """

    def __init__(self) -> None:
        self.steps: list[frozenset[str]] = []
        self.runners: set[str] = set()
        self.has_uncaught = False
        self._open: dict[str, _Open] = {}

    def read(self, record: PrintedLine, number: int) -> Iterator[LoggedException]:
        """Read a line, and yield the exceptions that ended before it."""
        text = record.text.rstrip()
        current = self._open.get(record.process)
        if text == BEGIN:
            causes = self._chained(current, record)
            if current is not None and causes is None:
                yield from self._end(record.process)
            self._open[record.process] = _Open(record.level, record.file, number, causes or [])
            return
        if current is None:
            if record.level is None and (found := PARSER_ERROR.match(text)) is not None:
                self.has_uncaught = True
                yield LoggedException(f"error: {text[found.end() :]}"[:MAX_TEXT], number, None)
            return
        if (record.level, record.file) != (current.level, current.file):
            yield from self._end(record.process)
        elif current.is_in_steps:
            self._read_step(current, text)
        elif text and text[0].isspace() and FURTHER not in text:
            if len(current.details) < MAX_DETAILS:
                current.details.append(text.strip().partition(DETAIL_END)[0])
        elif text in CHAINS:
            current.is_chained = True
        elif text and FURTHER not in text:
            yield from self._end(record.process)

    def end(self) -> Iterator[LoggedException]:
        """The exceptions of all tracebacks that are not ended yet."""
        for process in [*self._open]:
            yield from self._end(process)

    def _read_step(self, current: _Open, text: str) -> None:
        if not text or text[0].isspace():
            found = STEP.match(text)
            if found is not None:
                path, line, function = found.group(1), int(found.group(2)), found.group(3)
                current.step = path, line, function
                self.runners.update(file for file in (V1_FILE, V2_FILE) if path.endswith(f"/{file}"))
            elif current.step is not None:
                releases = releases_of_step(*current.step, text.strip())
                current.step = None
                if releases is not None and len(self.steps) < MAX_STEPS:
                    self.steps.append(releases)
            return
        found = EXCEPTION.match(text)
        if found is None:
            return
        name = found.group(1).rpartition(".")[2]
        current.exception = f"{name}{text[found.end(1) :]}".partition(DETAIL_END)[0]
        current.is_in_steps = False
        self.has_uncaught = self.has_uncaught or current.level is None

    @staticmethod
    def _chained(current: _Open | None, record: PrintedLine) -> list[str] | None:
        """The causes of a traceback that continues a chain; None if it begins anew."""
        if current is None or not current.is_chained or (record.level, record.file) != (current.level, current.file):
            return None
        return [*current.causes, current.text][:MAX_DETAILS]

    def _end(self, process: str) -> Iterator[LoggedException]:
        current = self._open.pop(process, None)
        if current is not None and current.exception and current.exception not in PROGRAM_ENDS:
            yield LoggedException(current.text, current.line, current.level, current.causes)
