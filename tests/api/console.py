"""The commands in the fenced blocks of a Markdown text, with the output that they show.

A ``console`` block shows a session: a line that begins with ``$ `` is a command, with the lines that
belong to it (after a backslash at its end, or up to the end of its here-document); the lines up to the
next command are what it prints, in which ``…`` matches anything. An ``sh`` or ``bash`` block contains
only commands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ANYTHING: Final = "…"
PROMPT: Final = "$ "
SESSION: Final = "console"
SCRIPTS: Final = ("sh", "bash", "shell")
FENCE: Final = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})\s*(?P<language>[\w+-]*)")
HERE: Final = re.compile(r"<<-?\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)")


@dataclass(slots=True)
class Command:
    """A command as typed, with its line number and the lines that it prints."""

    text: str
    line: int
    printed: list[str] = field(default_factory=list)

    @property
    def expected(self) -> str:
        """The expected output, without blank lines around it."""
        return "\n".join(line.rstrip() for line in self.printed).strip("\n")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the line of its first fence, and its commands in order."""

    language: str
    line: int
    commands: tuple[Command, ...]

    @property
    def shows_output(self) -> bool:
        """Whether it includes the output of its commands."""
        return self.language == SESSION


class InvalidBlock(Exception):
    """A block that cannot be read as commands."""


def blocks(text: str) -> Iterator[Block]:
    """The blocks of commands in a text.

    Raises:
        InvalidBlock: a fence or a here-document has no end, or a session does not begin with a command.
    """
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opening = FENCE.match(lines[number])
        start = number + 1
        number = start
        if opening is None:
            continue
        closing = re.compile(rf"^ *{re.escape(opening['fence'][0])}{{{len(opening['fence'])},}}\s*$")
        while number < len(lines) and not closing.match(lines[number]):
            number += 1
        if number == len(lines):
            raise InvalidBlock(f"line {start}: the block has no end")
        inside = [line.removeprefix(opening["indent"]) for line in lines[start:number]]
        number += 1
        if opening["language"] == SESSION:
            yield Block(SESSION, start, tuple(_session(inside, start + 1)))
        elif opening["language"] in SCRIPTS:
            yield Block(opening["language"], start, tuple(_script(inside, start + 1)))


def _session(lines: list[str], first: int) -> Iterator[Command]:
    found: list[Command] = []
    number = 0
    while number < len(lines):
        if lines[number].startswith(PROMPT):
            length = _length(lines, number, first)
            text = "\n".join(lines[number : number + length])
            found.append(Command(text.removeprefix(PROMPT), first + number))
            number += length
        elif found:
            found[-1].printed.append(lines[number])
            number += 1
        elif lines[number].strip():
            raise InvalidBlock(f"line {first + number}: output without a command; write commands as `{PROMPT}…`")
        else:
            number += 1
    yield from found


def _script(lines: list[str], first: int) -> Iterator[Command]:
    number = 0
    while number < len(lines):
        length = _length(lines, number, first)
        text = "\n".join(lines[number : number + length])
        if text.strip() and not text.lstrip().startswith("#"):
            yield Command(text, first + number)
        number += length


def _length(lines: list[str], start: int, first: int) -> int:
    """The number of lines of a command, with its continuation lines and here-documents."""
    end = start
    while lines[end].endswith("\\") and end + 1 < len(lines):
        end += 1
    for here in [match["end"] for line in lines[start : end + 1] for match in HERE.finditer(line)]:
        while True:
            end += 1
            if end == len(lines):
                raise InvalidBlock(f"line {first + start}: the here-document `{here}` has no end")
            if lines[end].strip() == here:
                break
    return end - start + 1


def matches(expected: str, printed: str) -> bool:
    """Whether the output matches a block; ``…`` matches anything, and on its own line any number of lines.

    The text between two ``…`` is searched for once, from the left: if there is a match, this finds one, and it is fast.
    """
    shown = "\n".join(line.rstrip() for line in printed.splitlines()).strip("\n")
    parts = [""]
    for line in expected.split("\n"):
        if line.strip() == ANYTHING:
            parts[-1] += "(?=\n)"
            parts.append("")
        else:
            first, *rest = (re.escape(part) for part in line.split(ANYTHING))
            parts[-1] += f"\n{first}"
            parts += rest
    first, *rest = parts
    if rest:
        *middle, last = rest
        pattern = first + "".join(f"(?>.*?{part})" for part in middle) + f".*{last}"
    else:
        pattern = first
    return re.fullmatch(f"{pattern}\n", f"\n{shown}\n", re.DOTALL) is not None
