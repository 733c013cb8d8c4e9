"""The texts that vLLM logs at startup, by release, and what each shows.

Reads ``data/formats.yaml``. A file is a list of formats, each with

- ``id``; ``shows``: what it tells (``Shows``); ``runner``: the runner that it tells, if any;
- ``text``: the text as logged, with ``%s`` for each value; ``values``: their names, if they are read;
- ``sources``: the files of vLLM that log it, each with its releases; a record that names another file does not count;
- ``written``: the text in these files, if it differs from the logged one;
- ``is_anywhere``: the logged text may begin within the line.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec.yaml
from msgspec import Struct
from packaging.specifiers import SpecifierSet

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE: Final = Path(__file__).parent / "data" / "formats.yaml"
HOLE: Final = "%s"


class Shows(StrEnum):
    """What a text tells about an engine."""

    SERVER = "server"
    MODEL = "model"
    ARGUMENTS = "arguments"
    CONFIGURATION = "configuration"
    ARCHITECTURE = "architecture"
    RUNNER = "runner"
    FALLBACK = "fallback"
    OVERRIDE = "override"
    REFUSAL = "refusal"
    ENGINE_READY = "engine-ready"
    SERVER_READY = "server-ready"
    ENGINE_FAILED = "engine-failed"
    ENGINE_DIED = "engine-died"
    CALL_FAILED = "call-failed"
    SHUTDOWN = "shutdown"
    WRAPPER = "wrapper"


EXCEPTION_KINDS: Final = frozenset({Shows.REFUSAL, Shows.WRAPPER})
"""The kinds whose texts are those of exceptions; the texts of all others are records."""


class SourceFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of vLLM, and the releases in which it logs the text."""

    vllm: str
    file: str

    def has(self, release: str) -> bool:
        """Whether the release logs the text in this file."""
        return release in SpecifierSet(self.vllm)


class LoggedText(Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """One text; the fields are described above."""

    id: str
    shows: Shows
    text: str
    sources: tuple[SourceFile, ...]
    runner: str | None = None
    values: tuple[str, ...] = ()
    written: str = ""
    is_anywhere: bool = False

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The constant parts of the text, with a value between any two."""
        return tuple(self.text.split(HOLE))

    @cached_property
    def files(self) -> frozenset[str]:
        """The names of the files, as a record shows them."""
        return frozenset(source.file.rpartition("/")[2] for source in self.sources)

    def match(self, text: str) -> Mapping[str, str] | None:
        """The values in a logged text, by name; None if it is another text. Takes time linear in the text."""
        first, *rest = self.parts
        begin = text.find(first) if self.is_anywhere else (0 if text.startswith(first) else -1)
        if begin < 0:
            return None
        at = begin + len(first)
        found: list[str] = []
        for number, part in enumerate(rest, 1):
            if not part and number == len(rest):  # the last value extends to the end
                found.append(text[at:])
                at = len(text)
                continue
            end = text.find(part, at)
            if end < 0:
                return None
            found.append(text[at:end])
            at = end + len(part)
        if text[at:].strip():
            return None
        return {name: value.strip() for name, value in zip(self.values, found, strict=False)}


@cache
def formats() -> tuple[LoggedText, ...]:
    """All formats, in the order of the file."""
    return msgspec.yaml.decode(FILE.read_bytes(), type=tuple[LoggedText, ...])


@cache
def _by_kind() -> tuple[tuple[LoggedText, ...], tuple[LoggedText, ...]]:
    of_exceptions = tuple(each for each in formats() if each.shows in EXCEPTION_KINDS)
    return tuple(each for each in formats() if each.shows not in EXCEPTION_KINDS), of_exceptions


@cache
def logs_fallbacks(release: str) -> bool:
    """Whether a release logs why it falls back to V1."""
    return any(source.has(release) for each in formats() if each.shows is Shows.FALLBACK for source in each.sources)


def is_server(format_id: str) -> bool:
    """Whether a format is one of the first record of a server."""
    return any(each.id == format_id and each.shows is Shows.SERVER for each in formats())


def match_record(text: str, file: str | None) -> tuple[LoggedText, Mapping[str, str]] | None:
    """The format of a record's text and its values; ``file`` is the file that the record names, if it names one."""
    for each in _by_kind()[0]:
        if (file is None or file in each.files) and (values := each.match(text)) is not None:
            return each, values
    return None


def match_exception(text: str) -> tuple[LoggedText, Mapping[str, str]] | None:
    """The format of an exception's text and its values."""
    for each in _by_kind()[1]:
        if (values := each.match(text)) is not None:
            return each, values
    return None
