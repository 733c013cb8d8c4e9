"""The here-documents of a script: where their texts are, and what a command gets in one.

A text is read up to its delimiter. A shell that gets it as its program runs it as with `-c`, and so does Python. For
any other program it counts as one more argument.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.ambiguous_text import OTHER_READING
from policy.intake.command.expansion import ShellSyntaxError
from policy.intake.command.programs import PYTHON, SHELLS
from policy.intake.command.shell_options import shell_options
from policy.intake.command.words import Unknown, replaced_names
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

REST_OF_LINE: Final = re.compile(
    r"""(?:(?<=[ \t])\#[^\n]*+|[^'"\\\n`]|\\[^\n]|'[^'\n]*+'|"(?:[^"\\\n]|\\[^\n])*+"|`[^`\n]*+`)*+(?=\n|\Z)"""
)
"""Matches the rest of a line that ends no word in the middle, so that the next line is not a part of it."""
EXPANDED_CHARACTER: Final = re.compile(r"[$`\\]")
"""Matches what a shell replaces in the text of a here-document whose delimiter is not quoted."""
EXPANDED_LINE: Final = re.compile(r"^[ \t]*+[$`]", re.MULTILINE)
"""Matches the beginning of a line that starts with an expansion."""

STDIN_OPTIONS: Final = frozenset({"-", "-s", "--"})
"""The options after which a shell reads its program from its input."""


class HereDocuments(Struct):
    """The here-documents of the line that is read: they are between ``line_end``, its line feed, and ``end``."""

    text: str
    line_end: int = -1
    end: int = -1
    doubt: str = ""
    """Why one of them may end elsewhere; empty if none does."""

    def is_pending(self, at: int) -> bool:
        """Whether texts follow the line with the position ``at``."""
        return at <= self.line_end

    def read(self, at: int, start: int, delimiter: str, *, strips_tabs: bool, is_joined: bool) -> str:
        """Read the here-document with its operator at ``start`` and its delimiter up to ``at``, and return its text.

        The text is an Unknown if something in it is replaced before the shell reads it. If the delimiter is not quoted
        (``is_joined``), bash also ends the text at lines that backslashes join to the delimiter.

        Raises:
            ShellSyntaxError: the text does not begin with the next line, or its end is missing.
        """
        text = self.text
        if not self.is_pending(at):
            rest = REST_OF_LINE.match(text, at)
            if rest is None:
                raise ShellSyntaxError(
                    f"the line of the here-document at character {start + 1} goes on in the next one; write it as one"
                )
            self.line_end = self.end = rest.end()
        begin = line = self.end + 1
        joined = ""
        while line < len(text):
            stop = text.find("\n", line)
            stop = len(text) if stop < 0 else stop
            found = text[line:stop].removesuffix("\r")
            found = found.lstrip("\t") if strips_tabs else found
            if is_joined and (joined or found.endswith("\\")):
                joined = self._join(joined, found, delimiter)
            if found == delimiter:
                self.end = stop
                body = text[begin:line]
                is_replaced = isinstance(text, Unknown) and EXPANDED_CHARACTER.search(body) is not None
                return Unknown(body, names=replaced_names([text])) if is_replaced else body
            line = stop + 1
        raise ShellSyntaxError(
            f"the here-document at character {start + 1} has no end; write {quoted(delimiter)} alone in a line"
        )

    def _join(self, joined: str, line: str, delimiter: str) -> str:
        """The beginning of a delimiter with a line joined to it, and a character before it; empty if none goes on."""
        continues = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        whole = (joined or ">") + (line[:-1] if continues else line)
        is_begin = f">{delimiter}".startswith(whole)
        if joined and (line == delimiter or whole == f">{delimiter}"):
            self.doubt = self.doubt or f"a line continuation within a here-document {OTHER_READING}"
        if not continues:
            return ""
        return whole if is_begin else "<"


def with_here_documents(words: Sequence[str], texts: Sequence[str]) -> list[str]:
    """The words of a command that gets ``texts``; a program reads only the last one."""
    if not texts:
        return list(words)
    text = texts[-1]
    for at, word in enumerate(words):
        program = word.rpartition("/")[2]
        if program in SHELLS:
            options = shell_options(program, words, at + 1)
            if not options.has_script and all(option.startswith("-") for option in words[at + 1 :]):
                return [
                    *words[: at + 1],
                    *(option for option in words[at + 1 :] if option not in STDIN_OPTIONS),
                    "-c",
                    text,
                ]
        elif PYTHON.fullmatch(program) is not None and words[at + 1 : at + 2] in ([], ["-"]):
            is_code = EXPANDED_LINE.search(text) is None
            return [*words[: at + 1], "-c", str(text) if is_code else text, *words[at + 2 :]]
    return [*words, *texts]
