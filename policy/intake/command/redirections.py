"""The redirections of a command: the files of its output, and the texts that it gets as its input.

Neither the operator nor what follows it is a word of the command. `here_documents` finds the texts of here-documents,
which are expanded here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.ambiguous_text import OTHER_READING
from policy.intake.command.expansion import ExpansionExhausted, ShellSyntaxError
from policy.intake.command.paths import is_device
from policy.intake.command.programs import STARTS_VLLM
from policy.intake.command.reading_programs import READERS
from policy.intake.command.words import Unknown
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.intake.command.command_builder import CommandBuilder
    from policy.intake.command.here_documents import HereDocuments
    from policy.intake.command.parameter_expansion import ParameterExpansion

REDIRECTION: Final = re.compile(r"<<<|<<-?|(?:>>|<>|>\||[<>]&?|&>>?)[-0-9]*")
"""Matches the operator, without the file descriptor before it, which is read as a word."""
DESCRIPTOR_VARIABLE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""Matches `{A}` before a redirection, which sets the variable to the file descriptor."""
WORD_AFTER: Final = re.compile(r"(?:[ \t]*+[0-9]?[<>]{1,2}&?[ \t]*+[^\s;&|<>()]++)*+[ \t]*+[^\s;&|<>()#]")
"""Matches a word after a redirection; after `&>`, it begins another command if the shell is not bash."""
HERE_DOCUMENT_TEXT: Final = re.compile(r"[^\\$`]+")
"""Matches literal characters in a here-document whose delimiter is not quoted."""


class Redirections:
    """Reads the redirections of a script, and holds those of the current command.

    ``read_file_name`` reads a word from a position on, and returns it with the position of its end.
    """

    def __init__(
        self,
        text: str,
        builder: CommandBuilder,
        expansion: ParameterExpansion,
        here_documents: HereDocuments,
        read_file_name: Callable[[int], tuple[str, int]],
    ) -> None:
        self.text = text
        self.builder = builder
        self.expansion = expansion
        self.here_documents = here_documents
        self.read_file_name = read_file_name
        self.has_any = False
        """Whether the command has a redirection, which may fail."""
        self.may_be_output = False
        """Whether one of them may redirect the standard output."""
        self.writes = False
        """Whether the output of the command goes to a file."""
        self.outputs: list[str] = []
        """The files of its output."""
        self.texts: list[str] = []
        """The texts of its here-documents."""

    def read(self, operator: str, start: int, end: int) -> int:
        """Read a redirection with its file; the operator is between ``start`` and ``end``. Returns where it ends.

        A here-string that may start vLLM is added as a command `<<<`: a shell may read it.
        """
        if operator.startswith("<<") and operator != "<<<":
            return self._read_here_document(operator, start, end)
        builder, text = self.builder, self.text
        script, variables, budget, words = builder.script, builder.variables, builder.budget, builder.command.words
        is_output = ">" in operator
        self.has_any = True
        if operator.startswith("&"):
            script.require_bash("`&>`")
        if operator in {"<", ">"} and text.startswith("(", end):
            script.doubt_all(f"`{operator}(…)` is not supported")
            if operator == "<" and words and words[0].rpartition("/")[2] not in READERS:
                budget.hidden = budget.hidden or f"{quoted(words[0])} may run what `<(…)` prints"
        before = "".join(builder.parts or ())
        if (descriptor := DESCRIPTOR_VARIABLE.fullmatch(before)) is not None:
            variables.assign(descriptor.group(1), None)
        is_descriptor = before.isdecimal() and builder.begins_bare
        self.may_be_output = self.may_be_output or (before.lstrip("0") == "1" if is_descriptor else is_output)
        if is_descriptor:
            is_output = is_output and builder.parts == ["1"]
            builder.parts = None  # the 2 of 2>&1
        builder.end_word()
        if operator[-1] in "-0123456789" and "&" in operator:
            return end
        file, at = self.read_file_name(end)
        if operator[0] == "&" and not script.is_bash and WORD_AFTER.match(text, at) is not None:
            budget.hidden = budget.hidden or f"`&>` {OTHER_READING}"
        if operator.endswith("<<<") and STARTS_VLLM.search(file) is not None:
            script.add([operator, file], variables.share_environment())
        is_file = not is_device(file)
        if ">" in operator and is_file:
            budget.add_word()
            self.outputs.append(file)
        self.writes = self.writes or (is_output and is_file)
        return at

    def _read_here_document(self, operator: str, start: int, end: int) -> int:
        """Read the delimiter of a here-document and its text, which the command gets."""
        builder = self.builder
        if "".join(builder.parts or ()).isdecimal() and builder.begins_bare:
            builder.parts = None  # the descriptor
        builder.end_word()
        self.has_any = True
        delimiter, at = self.read_file_name(end)
        written = self.text[end:at]
        is_quoted = any(mark in written for mark in "'\"\\")
        if not builder.script.is_bash and ("$'" in written or '$"' in written):
            builder.budget.hidden = builder.budget.hidden or f"the end of a here-document {OTHER_READING}"
        strips_tabs = operator.endswith("-")
        text = self.here_documents.read(at, start, delimiter, strips_tabs=strips_tabs, is_joined=not is_quoted)
        self.texts.append(text if is_quoted else self._expand_here_document(text))
        return at

    def _expand_here_document(self, text: str) -> str:
        """The text of a here-document with its variables replaced, before the program gets it.

        It is an Unknown if a value is not known, or if an expansion is not closed, which a shell refuses.
        """
        builder, command, expansion = self.builder, self.builder.command, self.expansion.for_text(text)
        words, command.words = command.words, [""]
        at, opened = 0, builder.open_quotes()
        try:
            while at < len(text):
                if (plain := HERE_DOCUMENT_TEXT.match(text, at)) is not None:
                    builder.put(plain.group(), bare=False)
                    at = plain.end()
                elif text[at] == "\\":
                    escaped = text[at + 1 : at + 2]
                    builder.put("" if escaped == "\n" else escaped if escaped in "\\$`" else f"\\{escaped}", bare=False)
                    at += 2
                else:
                    at = expansion.read(at, in_quotes=True)
            builder.close_quotes(opened)
            builder.is_kept = True
            builder.end_word()
            found = command.words[1:]
        except ExpansionExhausted:
            raise
        except ShellSyntaxError:
            found = []
        finally:
            builder.parts, command.words = None, words
        return found[0] if len(found) == 1 else Unknown(text)
