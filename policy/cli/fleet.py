"""The deployments of a fleet, one by one, with their names and places.

Reads files, folders, standard input, lines of JSON and Parquet. What cannot be read is an entry too, with the reason,
so that nothing is lost. Lines and Parquet are streamed. ``fleet_sources`` reads the documents.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from policy.cli.fleet_sources import DECISION, Found, documents_of
from policy.errors import RequestFault, RequestInvalid
from policy.messages import counted
from policy.request.manifest import MAX_NAME, name_of, path_steps, requests_of, values_along
from policy.request.request import (
    NEAREST,
    Manifest,
    Request,
    is_bare_manifest,
    read_request_or_manifest,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policy.cli.fleet_size import FleetSize
    from policy.cli.folder import FilePlace
    from policy.errors import Remedies
    from policy.parser.yamltree import YamlNode
    from policy.rules.releases import Releases

LISTS: Final = ("items", "resources")
"""The fields in which an object lists others, such as kubectl's `List`."""


class FleetPlace(Struct, frozen=True, gc=False, omit_defaults=True):
    """Where a deployment is: its file, the line and column of the engine if the input has any, and its path."""

    file: str
    line: int = 0
    column: int = 0
    path: str = ""

    @property
    def text(self) -> str:
        """The place, such as ``fleet.yaml:12:9``."""
        position = f":{self.line}" + (f":{self.column}" if self.column else "") if self.line else ""
        return f"{self.file}{position}"


class FleetEntry(Struct, frozen=True, gc=False):
    """A deployment of a fleet: its name, its place, and its request or why there is none.

    ``node`` is the engine in a YAML text, whose arguments have positions. ``root`` is the folder to which the file of
    the place is relative, empty if it is not.
    """

    name: str
    place: FleetPlace
    request: Request | RequestInvalid
    node: YamlNode | None = None
    root: str = ""
    request_id: str | None = None

    @property
    def title(self) -> str:
        """The name with the place, unless the place is the name."""
        where = self.place.text
        return where if self.name.startswith(self.place.file) else f"{self.name} ({where})"

    @property
    def path(self) -> str:
        """The path of the file, relative to the working folder if the file is below that folder."""
        path = Path(self.root, self.place.file)
        here = Path.cwd()
        if path.is_absolute() and path.is_relative_to(here):
            path = path.relative_to(here)
        return str(path)


class FleetOptions(Struct, frozen=True, kw_only=True):
    """How a fleet is read.

    ``version`` is the release for which a deployment is read, whatever its image or its request says; ``None``: what
    these say. ``nearest`` is whether unknown releases are decided as the closest known one. ``environment`` has fields
    for deployments that do not state them.
    """

    recursive: bool = False
    render: bool = False
    version: str | None = None
    nearest: bool = False
    environment: Mapping[str, str] = {}
    remedies: Remedies


def read_fleet(
    names: Sequence[str],
    releases: Releases,
    options: FleetOptions,
    ignored: list[str],
    command: str = "impact",
    size: FleetSize | None = None,
) -> Iterator[FleetEntry]:
    """The deployments in these files and folders, in their order; ``-`` is standard input.

    The names of objects in which nothing that starts vLLM was found are appended to ``ignored``. ``size`` counts the
    deployments.
    """
    if size is not None:
        size.start(names)
    for name in names:
        found = documents_of(name, recursive=options.recursive, render=options.render, command=command)
        if size is None or size.is_counted(name):
            for each in found:
                yield from entries_of(each, releases, options, ignored)
        else:
            yield from _counted(found, releases, options, ignored, size)


def request_of(entry: FleetEntry) -> Request | RequestInvalid:
    """The request of a deployment, or why there is none."""
    return entry.request


def _counted(
    found: Iterable[Found], releases: Releases, options: FleetOptions, ignored: list[str], size: FleetSize
) -> Iterator[FleetEntry]:
    """The deployments of the documents of an input, each document, or item of a list, counted before it is used."""
    has_ended = False
    for each in found:
        if each.is_last:
            has_ended = True
            size.end()
        is_list = _is_list(each, each.document, releases)
        parts, left = (_items(each, each.document), len(each.document)) if is_list else (iter([each]), 1)
        for part in parts:
            left -= 1
            entries = [*entries_of(part, releases, options, ignored)]
            size.add(len(entries), left)
            yield from entries
    if not has_ended:
        size.end()


def entries_of(found: Found, releases: Releases, options: FleetOptions, ignored: list[str]) -> Iterator[FleetEntry]:
    """The deployments of a document, or the reason why it cannot be read."""
    place = FleetPlace(found.file, found.line, found.column)
    if found.fault is not None:
        yield FleetEntry(_shown(place), place, RequestInvalid([RequestFault("", found.fault)]))
        return
    document = _without_record(found)
    if _is_list(found, document, releases):
        for part in _items(found, document):
            yield from entries_of(part, releases, options, ignored)
        return
    try:
        yield from _entries(found, document, place, releases, options, ignored)
    except RequestInvalid as error:
        parts = _parts(document)
        if parts is None:
            name = _name_of(document, "") or found.name
            root = found.root if found.places is None else ""
            yield FleetEntry(name[:MAX_NAME] or _shown(place, found.index), place, error, root=root)
            return
        for index, each in parts:
            path = _places_of(found, index)
            tree = _child(found.tree, *path[1])
            part = Found(path[0], each, tree, line=found.line, index=index, name=path[2], root=found.root)
            yield from entries_of(part, releases, options, ignored)


def _is_list(found: Found, document: Any, releases: Releases) -> bool:
    """Whether a document lists others that are read one by one."""
    return type(document) is list and found.places is None and not is_bare_manifest(document, releases.images)


def _items(found: Found, document: list[Any]) -> Iterator[Found]:
    for index, each in enumerate(document):
        yield Found(found.file, each, _child(found.tree, str(index)), line=found.line, index=index)


def _entries(
    found: Found,
    document: Any,
    place: FleetPlace,
    releases: Releases,
    options: FleetOptions,
    ignored: list[str],
) -> Iterator[FleetEntry]:
    request = read_request_or_manifest(_with_options(document, releases, options), releases)
    if isinstance(request, Request):
        node = found.tree
        where = place if node is None else replace(place, line=node.line, column=node.column)
        name = request.request_id or found.name or _shown(place, found.index)
        yield FleetEntry(name, where, request, _child(node, "deployment"), found.root, request.request_id)
        return
    if options.version is not None:
        request = replace(request, overrides=True)
    skipped: list[str] = []
    rows = requests_of(request, releases, options.remedies, skipped)
    base = "" if request.models_at is None else "/manifest"
    ignored.extend(_engine_name(found, request, path) for path in skipped)
    for path, each in rows:
        file, rest = _file_of(found, path)
        node = _node_at(found.tree, base, path)
        line, column = (found.line, found.column) if node is None else (node.line, node.column)
        where = FleetPlace(file, line, column, rest)
        own = _alone(each, request, path)
        name = _engine_name(found, request, path)[:MAX_NAME]
        yield FleetEntry(name, where, own, node, found.root, request.request.request_id)


def _alone(request: Request | RequestInvalid, manifest: Manifest, path: str) -> Request | RequestInvalid:
    """The request with pointers below its engine, and without the rest of its manifest.

    Equal engines of different places are then equal, and small.
    """
    if isinstance(request, RequestInvalid):
        return request
    return replace(request, pointer="", manifest=("", values_along(manifest.document, path)[-1]))


def _with_options(document: Any, releases: Releases, options: FleetOptions) -> Any:
    """The document with the options where it does not state their fields."""
    if not (options.nearest or options.environment or options.version is not None):
        return document
    is_bare = is_bare_manifest(document, releases.images)
    if type(document) is not dict and not is_bare:
        return document
    request: dict[str, Any] = {"manifest": document} if is_bare else {**document}
    changed = False
    if options.nearest and "beyond_verified" not in request:
        request["beyond_verified"], changed = NEAREST, True
    if options.version is not None and any(name in request for name in ("manifest", "facts", "deployment")):
        request["vllm_version"], changed = options.version, True
    if options.environment and "environment" not in request and "facts" not in request:
        inner = request.get("deployment")
        if "manifest" in request:
            request["environment"], changed = {**options.environment}, True
        elif type(inner) is dict and "environment" not in inner:
            request["deployment"], changed = {**inner, "environment": {**options.environment}}, True
    return request if changed else document


def _without_record(found: Found) -> Any:
    """The request in a record of the decision log, which gets the decision's name; any other document as it is."""
    document = found.document
    if type(document) is dict and DECISION in document and "input" in document:
        found.name = found.name or str(document[DECISION])[:MAX_NAME]
        return document["input"]
    return document


def _parts(document: Any) -> list[tuple[int, Any]] | None:
    """The objects that a document lists, by their numbers; ``None`` if it lists at most one."""
    items = document
    if type(document) is dict:
        items = next((document[name] for name in LISTS if type(document.get(name)) is list), None)
    return [*enumerate(items)] if type(items) is list and len(items) > 1 else None


def _places_of(found: Found, index: int) -> tuple[str, tuple[str, ...], str]:
    """The file of a part of a document, its steps in the tree, and a name if it has none of its own."""
    places: list[FilePlace] | None = found.places
    if places is not None:
        return places[index].file, (str(index),), f"{places[index].file}: {places[index].path}".removesuffix(": ")
    steps = (str(index),) if type(found.document) is list else ("items", str(index))
    return found.file, steps, ""


def _file_of(found: Found, path: str) -> tuple[str, str]:
    """The file of an engine, and its path in the file."""
    if found.places is None:
        return found.file, path
    number, _, rest = path.removeprefix("[").partition("]")
    place = found.places[int(number)]
    return place.file, place.path_of(rest)


def _engine_name(found: Found, manifest: Manifest, path: str) -> str:
    name = name_of(manifest.document, path)
    file, rest = _file_of(found, path)
    if name != path:
        return name
    return f"{file}: {rest}" if rest else found.name or _shown(FleetPlace(file, found.line), found.index)


def _name_of(document: Any, path: str) -> str:
    return name_of(document, path) if type(document) is dict else ""


def _shown(place: FleetPlace, index: int | None = None) -> str:
    """A name for a deployment without one: its file, line and number in a list."""
    if index is not None and not place.line:
        return f"{place.file}:{index + 1}"
    line = f":{place.line}" if place.line else ""
    return f"{place.file}{line}" + ("" if index is None else f"[{index}]")


def _node_at(tree: YamlNode | None, base: str, path: str) -> YamlNode | None:
    """The node of an engine, or the closest around it."""
    if tree is None:
        return None
    if base and isinstance(tree.value, dict) and "manifest" in tree.value:
        tree = tree.value["manifest"]
    return walk(tree, path_steps(path))


def _child(tree: YamlNode | None, *steps: str) -> YamlNode | None:
    return None if tree is None else walk(tree, steps)


def walk(tree: YamlNode, steps: Iterable[str]) -> YamlNode:
    """The node at the end of the steps, or the last one that exists."""
    for step in steps:
        value = tree.value
        if isinstance(value, dict) and step in value:
            tree = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            tree = value[int(step)]
        else:
            break
    return tree


def ignored_line(names: list[str]) -> str:
    """A line about the objects in which no engine was found."""
    return f"{counted(len(names), 'object', 'objects')} without anything that starts vLLM"
