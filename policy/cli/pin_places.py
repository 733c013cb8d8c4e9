"""Where the texts of a fleet set the operator's variable: file, line and column.

Owns how the place of a pin is found. A file is read again for it, with the spans of its values; in standard input only
YAML has places. A pin that is not in the text, such as one of an image, has the place of its engine.
"""

from __future__ import annotations

from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from policy.cli.requests import Unreadable, load_text
from policy.decision.remedies import Change
from policy.edits.layers import Lines, TextLayer, documents_of
from policy.edits.nodes import Node, node_at
from policy.edits.places import places_of
from policy.edits.sources import EditedEngine, located
from policy.edits.variable_places import variable_places
from policy.errors import RulesInvalid
from policy.facts.vocabulary import VARIABLE
from policy.pins.pins import VariableSource
from policy.remedies.changes import VARIABLE_NAME
from policy.request.manifest import path_steps
from policy.request.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.cli.fleet import FleetEntry, FleetPlace
    from policy.parser.yamltree import YamlNode
    from policy.pins.decider import PinVerdicts

COMMAND: Final = ("command", "args", "entrypoint")
"""The fields of an engine that have its command; they do not list its variables."""
MAX_TRIES: Final = 8
"""The most places of a variable that are looked at for one pin."""
MAX_NODES: Final = 100_000
"""The most values of a text without spans in which the variable is looked for."""


class PinPlaces:
    """The places of pins; the text that was read last is cached, because pins of the same file follow each other."""

    def __init__(self) -> None:
        self._file: Path | None = None
        self._text = ""
        self._documents: list[Node] = []
        self._lines = Lines("")

    def of(self, entry: FleetEntry, pin: PinVerdicts) -> FleetPlace:
        """The place of a pin, or else that of its engine."""
        if pin.source is VariableSource.IMAGE:
            return _of_image(entry)
        found = None
        if entry.place.file != "-" and not _is_line(entry):
            found = self._in_file(entry, pin)
        found = found or _in_tree(entry, pin)
        return entry.place if found is None else replace(entry.place, line=found[0], column=found[1])

    def _in_file(self, entry: FleetEntry, pin: PinVerdicts) -> tuple[int, int] | None:
        path = Path(entry.root) / entry.place.file
        if path != self._file:
            self._read(path)
        if not self._documents or not isinstance(entry.request, Request):
            return None
        steps = _steps(entry, self._documents)
        engine = EditedEngine(entry.place.path, entry.place.file, steps, entry.request)
        layer = TextLayer(self._text)
        _, document, node = located(layer, self._documents, engine)
        if pin.source is VariableSource.FACTS:
            fact = node_at(node, ("facts", *VARIABLE.split("."))) or node_at(node, ("facts", VARIABLE))
            return None if fact is None else self._lines.position(fact.start)
        change = Change(variable=VARIABLE_NAME, to=None)
        offset = self._of_command(layer, node, pin) if pin.source is VariableSource.COMMAND else None
        if offset is None:
            offsets = [place.offset for place in islice(places_of(layer, document, node, engine, change), MAX_TRIES)]
            words = [each for name in COMMAND if (each := node_at(node, (name,))) is not None]
            beside = [each for each in offsets if not any(word.start <= each < word.end for word in words)]
            found = offsets if pin.source is VariableSource.COMMAND else beside or offsets
            offset = next(iter(found), None)
        return None if offset is None else self._lines.position(offset)

    def _of_command(self, layer: TextLayer, node: Node, pin: PinVerdicts) -> int | None:
        """The offset of the word of the command that sets the variable."""
        word = node_at(node, tuple(path_steps(pin.at))) or node_at(node, ("deployment", *path_steps(pin.at)))
        if word is None:
            return None
        place = next(variable_places(layer, word, VARIABLE_NAME, None), None)
        return word.start if place is None else place.offset

    def _read(self, path: Path) -> None:
        self._file, self._text, self._documents, self._lines = path, "", [], Lines("")
        try:
            text = load_text(path)
            self._documents = documents_of(text, path.name)
        except (Unreadable, RulesInvalid, ValueError):
            return  # it was changed meanwhile, or it is no text such as a Parquet file
        self._text, self._lines = text, Lines(text)


def _is_line(entry: FleetEntry) -> bool:
    """Whether an entry is a line of JSON or a row of a file that is not read as one text."""
    return entry.place.line > 0 and entry.node is None and entry.place.column == 0


def _of_image(entry: FleetEntry) -> FleetPlace:
    """The place of the engine's image."""
    node = entry.node
    image = node.value.get("image") if node is not None and isinstance(node.value, dict) else None
    return entry.place if image is None else replace(entry.place, line=image.line, column=image.column)


def _steps(entry: FleetEntry, documents: list[Node]) -> tuple[str, ...]:
    """The steps from a file's documents to an engine, which begin with the index of the document."""
    steps = path_steps(entry.place.path)
    if len(documents) > 1 and steps and steps[0].isdecimal():
        return tuple(steps)
    if len(documents) == 1:
        root = documents[0].value
        within = isinstance(root, dict) and "manifest" in root and (not steps or steps[0] not in root)
        return ("0", *(["manifest"] if within else []), *steps)
    # a request beside one object: the object is the document that has the first step
    for index, document in enumerate(documents):
        if steps and isinstance(document.value, dict) and steps[0] in document.value:
            return (str(index), *steps)
    return ("0", *steps)


def _in_tree(entry: FleetEntry, pin: PinVerdicts) -> tuple[int, int] | None:
    """The place of the variable in the engine's own values, of a text that was read as a stream."""
    node = entry.node
    if node is None:
        return None
    fields = node.value if isinstance(node.value, dict) else {}
    words = [fields[name] for name in COMMAND if name in fields]
    others = [each for name, each in fields.items() if name not in COMMAND]
    first, second = (words, others) if pin.source is VariableSource.COMMAND else (others, words)
    found = next(chain(_settings(first), _settings(second), _settings([node])), None)
    return None if found is None else (found.line, found.column)


def _settings(roots: list[YamlNode]) -> Iterator[YamlNode]:
    """The nodes that set the variable: its value in a map, its item in a list, or a text with its assignment."""
    pending, seen = [*reversed(roots)], set[int]()
    while pending and len(seen) < MAX_NODES:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        value = node.value
        if isinstance(value, dict):
            if VARIABLE_NAME in value:
                yield value[VARIABLE_NAME]
            name = value.get("name")
            if name is not None and name.value == VARIABLE_NAME:
                yield node
            pending.extend(reversed([*value.values()]))
        elif isinstance(value, list):
            pending.extend(reversed(value))
        elif isinstance(value, str) and f"{VARIABLE_NAME}=" in value:
            yield node
