"""What a fleet is read from: documents of files and folders, lines of JSON, rows of Parquet.

Owns how each is found, the limits, and the messages about parts that cannot be read although the rest can.
``fleet_parquet`` reads Parquet.
"""

from __future__ import annotations

import sys
from codecs import BOM_UTF8
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct

from policy.cli import script_files
from policy.cli.fleet_parquet import PARQUET, PARQUET_MAGIC, TEXT_COLUMNS, parquet_rows, text_column
from policy.cli.folder import FilePlace, FolderContents, NothingFound, load_source
from policy.cli.requests import (
    MAX_FILE,
    MAX_VALUES,
    Unreadable,
    parse_documents,
    read_bounded,
)
from policy.defects import defect_fault, is_defect
from policy.errors import LimitExceeded, RulesInvalid
from policy.escaping import escape_line
from policy.intake.manifests.compose_yaml import resolve_variables
from policy.messages import listed
from policy.parser.files import read_at_most
from policy.parser.jsontext import NotJson
from policy.parser.yamltree import YamlNode, read_documents
from policy.request.documents import join_documents

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LINES: Final = (".jsonl", ".ndjson")
DECISION: Final = "decision_id"
"""The column, and the field of a record, that names a decision of the log."""
MAX_LINE: Final = 8 << 20
FIRST_LINES: Final = 100
"""The lines of a text that cannot be read as a whole, of which one shows that it is lines of JSON."""
MAX_SPLIT: Final = 10_000
"""The most YAML documents of a text that are read one by one after one of them could not be read."""
STANDARD_INPUT: Final = "-"


class Found(Struct):
    """A document and its file, or why it cannot be read.

    ``places`` has the files of the documents of a folder; ``index`` is the number in a list, ``name`` a name for a
    document without one. ``root`` is the folder to which the files are relative. ``is_last``: whether the input has no
    further document; false if that is not known, as with lines and rows. ``is_unread``: whether the fault is that there
    is no whole text, or more of it than is read; else it is in another format. ``is_empty``: whether the fault is a
    folder without a file to read.
    """

    file: str
    document: Any = None
    tree: YamlNode | None = None
    fault: str | None = None
    line: int = 0
    column: int = 0
    places: list[FilePlace] | None = None
    index: int | None = None
    name: str = ""
    root: str = ""
    is_last: bool = False
    is_unread: bool = False
    is_empty: bool = False


def documents_of(name: str, *, recursive: bool, render: bool, command: str) -> Iterator[Found]:
    """The documents of a file, a folder or standard input; a part that cannot be read has a ``fault``."""
    shown = escape_line(name)
    try:
        if name == STANDARD_INPUT or Path(name).is_file() or Path(name).is_fifo():
            yield from _of_stream(name, shown, render=render, command=command)
            return
        trees: list[YamlNode | None] = []
        source = load_source(name, recursive=recursive, render=render, command=command, trees=trees)
    except Unreadable as error:
        yield _unread(error, shown)
        return
    except (OSError, ValueError) as error:
        yield Found(shown, fault=f"cannot be read: {error}", is_last=True, is_unread=True)
        return
    if not isinstance(source, FolderContents):
        yield Found(shown, source, is_last=True)
        return
    for number, each in enumerate(source.unread, 1):
        is_last = number == len(source.unread) and not source.documents
        yield Found(
            each.file,
            fault=each.message,
            line=each.line,
            column=each.column,
            is_last=is_last,
            is_unread=each.is_unread,
        )
    if source.documents:
        root = YamlNode([each or YamlNode(None, 0, 0) for each in trees], 1, 1)
        yield Found(shown, source.documents, root, places=source.places, root=name, is_last=True)


def _of_stream(name: str, shown: str, *, render: bool, command: str) -> Iterator[Found]:
    """The documents of a file or of standard input: by its first bytes Parquet, lines of JSON, or one text.

    What cannot be read as one text, although it has lines of JSON, is read as lines.
    """
    with _opened(name) as stream:
        blank, first = first_lines(stream, MAX_FILE + 1)
        if name.endswith(PARQUET) or (not blank and first.startswith(PARQUET_MAGIC)):
            if name == STANDARD_INPUT:
                raise Unreadable(f"{shown}: Parquet is read from a file; name one")
            yield from _rows(name, shown)
            return
        if name.endswith(LINES) or is_line(first):
            yield from (each.found(shown) for each in lines_of(first, stream, len(blank), most=MAX_LINE))
            return
        is_file = Path(name).is_file()
        data = b"".join((*blank, first))
        try:
            if not is_file:
                data += stream.read(max(MAX_FILE + 1 - len(data), 0))
            yield from _of_text(name, shown, None if is_file else _decoded(data, shown), render=render, command=command)
        except Unreadable:
            if is_file:
                stream.seek(0)
            if render or name.endswith(script_files.ENDINGS) or not _has_line(stream if is_file else BytesIO(data)):
                raise
            if is_file:
                stream.seek(0)
            left = stream if is_file else _Again(data, stream)
            yield from (each.found(shown) for each in lines_of(left.readline(MAX_LINE + 1), left, most=MAX_LINE))


class _Again:
    """The bytes that were read from a stream, and then what is left of it."""

    def __init__(self, data: bytes, stream: IO[bytes]) -> None:
        self._data, self._stream = BytesIO(data), stream

    def readline(self, size: int, /) -> bytes:
        line = self._data.readline(size)
        return line if line.endswith(b"\n") or len(line) == size else line + self._stream.readline(size - len(line))


def _has_line(stream: IO[bytes]) -> bool:
    """Whether one of the first lines is a whole object, not indented as one in a YAML text is."""
    lines = (stream.readline(MAX_LINE + 1) for _ in range(FIRST_LINES))
    return any(line.startswith(b"{") and is_line(line) for line in lines)


def _of_text(name: str, shown: str, text: str | None, *, render: bool, command: str) -> Iterator[Found]:
    """The documents of a text.

    Raises:
        Unreadable: it cannot be read, and has no other documents to report.
    """
    trees: list[YamlNode | None] = []
    try:
        if text is None:
            source = load_source(name, recursive=False, render=render, command=command, trees=trees)
        else:
            source = join_documents(parse_documents(text, name, trees))
        yield Found(shown, source, _joined(source, trees), is_last=True)
    except Unreadable:
        if text is None and _is_yaml(name):
            data = read_at_most(Path(name), MAX_FILE + 1)
            text = data.decode(errors="replace") if len(data) <= MAX_FILE else None
        parts = [] if text is None or len(text) > MAX_FILE else _split(text)
        if len(parts) < 2:  # noqa: PLR2004  # one document has no others to report
            raise
        yield from _one_by_one(parts, shown)


def _one_by_one(parts: list[tuple[int, str]], shown: str) -> Iterator[Found]:
    """Each document of a text, or its fault; ``parts`` has the number of lines before each document, and its text."""
    left = MAX_VALUES
    for before, text in parts:
        trees: list[YamlNode] = []

        def resolve(tree: YamlNode, trees: list[YamlNode] = trees) -> None:
            resolve_variables(tree)
            trees.append(tree)

        try:
            documents = read_documents(text, shown, MAX_FILE, left, resolve)
        except RulesInvalid as error:
            fault = error.faults[0]
            is_unread = isinstance(error, LimitExceeded)
            yield Found(shown, fault=fault.message, line=fault.line + before, column=fault.column, is_unread=is_unread)
            continue
        except Exception as error:
            if not is_defect(error):
                raise
            yield Found(shown, fault=defect_fault(error).message, line=before + 1)
            continue
        for document, tree in zip(documents, trees, strict=True):
            _move(tree, before)
            yield Found(shown, document, tree, line=before + 1)


def _move(tree: YamlNode, lines: int) -> None:
    """Add lines to the positions of a tree, in which an alias may share nodes."""
    open_nodes, seen = [tree], set[int]()
    while open_nodes:
        node = open_nodes.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        node.line += lines
        if isinstance(node.value, dict):
            open_nodes.extend(node.value.values())
        elif isinstance(node.value, list):
            open_nodes.extend(node.value)


def _split(text: str) -> list[tuple[int, str]]:
    """The YAML documents of a text by their first lines: the number of lines before each, and its text."""
    parts: list[tuple[int, list[str]]] = [(0, [])]
    for number, line in enumerate(text.split("\n")):
        if line.rstrip() == "---" or line.startswith("--- "):
            parts.append((number, []))
        parts[-1][1].append(line)
    found = [(before, "\n".join(lines)) for before, lines in parts if any(line.strip(" -\r\t") for line in lines)]
    return found if len(found) <= MAX_SPLIT else []


def _joined(source: Any, trees: list[YamlNode | None]) -> YamlNode | None:
    """The tree of joined documents, if all have one."""
    found = [each for each in trees if each is not None]
    if not found or len(found) != len(trees):
        return None
    if len(found) == 1:
        return found[0]
    if isinstance(source, list):
        return YamlNode([*found], 1, 1) if len(source) == len(found) else None
    # a request beside its objects: the trees of the objects are those that are not the request's fields
    objects = [each for each in found if not (isinstance(each.value, dict) and each.value.keys() <= source.keys())]
    whole = objects[0] if len(objects) == 1 else YamlNode([*objects], 1, 1)
    return YamlNode({"manifest": whole}, 1, 1)


class RawDocument(Struct, frozen=True, gc=False):
    """The JSON text of a line, or of a row with the name of its decision, or why it cannot be read."""

    number: int
    text: bytes = b""
    fault: str | None = None
    name: str = ""
    is_unread: bool = False

    def found(self, shown: str) -> Found:
        """The document in a file of this name."""
        if self.fault is not None:
            return Found(shown, fault=self.fault, line=self.number, is_unread=self.is_unread)
        found = of_json(self.text, shown, self.number)
        found.name = self.name
        return found


class LineStream(Protocol):
    """What lines are read from."""

    def readline(self, size: int, /) -> bytes:
        """The next line, or its next ``size`` bytes."""


def lines_of(first: bytes, stream: LineStream, before: int = 0, *, most: int) -> Iterator[RawDocument]:
    """The document of each line after the ``before`` first ones; blank lines are skipped.

    A line of more than ``most`` bytes is a document with a fault. ``first`` is the first line, which was read already.
    The byte order mark of a file is no part of its first document.
    """
    line, number = first, before
    while line:
        number += 1
        if len(line) > most and not (line.endswith(b"\n") and len(line) <= most + 1):
            while line and not line.endswith(b"\n"):
                line = stream.readline(most)
            yield RawDocument(number, fault=f"a line of more than {most:,} bytes", is_unread=True)
        elif text := (line.removeprefix(BOM_UTF8) if number == 1 else line).strip():
            yield RawDocument(number, text)
        line = stream.readline(most + 1)


def row_of(number: int, column: str, value: Any, decision: Any) -> RawDocument:
    """The document of a row, from the text in its ``column``."""
    if type(value) is not str:
        return RawDocument(number, fault=f"expected a text in the column `{column}`")
    return RawDocument(number, value.encode(), name=decision if type(decision) is str else "")


def _rows(name: str, shown: str) -> Iterator[Found]:
    """The request of each row of a Parquet file; the file is read in parts."""

    def chosen(names: Sequence[str]) -> list[str]:
        column = text_column(names)
        if column is None:
            wanted = listed(TEXT_COLUMNS)
            raise Unreadable(f"{shown}: expected a column with requests as JSON ({wanted}), got {listed(names)}")
        return [column, DECISION]

    for number, row in enumerate(parquet_rows(name, shown, chosen), 1):
        (column, value), (_, decision) = row.items()
        yield row_of(number, column, value, decision).found(shown)


def of_json(text: bytes, shown: str, number: int) -> Found:
    """The document in a JSON text, or why there is none."""
    try:
        return Found(shown, read_bounded(text), line=number)
    except NotJson as error:
        return Found(shown, fault=str(error), line=number, is_unread=isinstance(error, LimitExceeded))


def first_lines(stream: LineStream, size: int) -> tuple[list[bytes], bytes]:
    """The blank lines at the start of a stream, of which ``size`` bytes are read, and the first other line."""
    blank: list[bytes] = []
    left = size
    while (line := stream.readline(size)) and left > 0 and not line.removeprefix(BOM_UTF8).strip():
        blank.append(line)
        left -= len(line)
    return blank, line


def is_line(line: bytes) -> bool:
    """Whether a first line is a whole object, as only lines of JSON begin."""
    text = line.removeprefix(BOM_UTF8).strip()
    if not (text.startswith(b"{") and text.endswith(b"}")):
        return False
    try:
        read_bounded(text)
    except NotJson:
        return False
    return True


def _is_yaml(name: str) -> bool:
    return name.endswith((".yaml", ".yml"))


@contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    if name == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    with Path(name).open("rb") as stream:
        yield stream


def _decoded(data: bytes, shown: str) -> str:
    if len(data) > MAX_FILE:
        raise Unreadable(f"{shown}: cannot be read: more than {MAX_FILE:,} bytes", is_unread=True)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"{shown}: cannot be read: {error}", is_unread=True) from error


def _unread(error: Unreadable, shown: str) -> Found:
    fault = _without_name("; ".join(error.lines), shown)
    return Found(shown, fault=fault, is_last=True, is_unread=error.is_unread, is_empty=isinstance(error, NothingFound))


def _without_name(text: str, shown: str) -> str:
    return text.removeprefix(f"{shown}: ")
