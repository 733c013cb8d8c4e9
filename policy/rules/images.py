"""The files of ``images/`` → the table of the container images that contain vLLM.

Owns the format of these files, and the search for the row and the release of an image's name, tag and digest. Not
here: how an image's name is split (``policy.intake.manifests.images``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from policy.errors import Fault
from policy.messages import listed, nearest, quoted
from policy.parser.fields import NAME, FieldReader, add_fault
from policy.rules.image_patterns import ANY, InvalidPattern, NamePattern, TagPattern, read_name, read_tag
from policy.rules.versions import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policy.parser.yamltree import YamlNode

FOLDER: Final = "images"
MAX_ROWS: Final = 256
MAX_TAGS: Final = 1024
"""The maximum number of tags of a row."""
DIGEST: Final = re.compile("sha256:[0-9a-f]{64}")
WHOLE_VERSION: Final = re.compile(VERSION)
WORKING_FOLDER: Final = re.compile("/(?:[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}){0,7})?")
VARIABLE: Final = re.compile("[A-Z][A-Z0-9_]{0,63}")
PLATFORMS: Final = (
    *("cuda", "rocm", "cpu", "xpu", "tpu", "out-of-tree"),
    *("ascend", "gaudi", "metal", "neuron", "openvino", "rbln", "spyre", "tenstorrent"),
)
"""The values of `environment.platform`."""
NO_PLATFORM: Final = "unknown"
"""Stands for a platform that an image does not show."""
NEVER: Final = "never"
"""Stands for no release, where a row or an image's name could show the first one with something."""
FOLDER_FIELDS: Final = (*PLATFORMS, NO_PLATFORM)
ROW_REQUIRED: Final = ("id", "names", "references")
ROW_OPTIONAL: Final = (
    "title",
    "platform",
    "entry_point",
    "working_folder",
    "triton_since",
    "custom",
    "presumed",
    "tags",
)
TAG_FIELDS: Final = ("tag", "digest", "release", "platform", "working_folder", "custom", "env", "references")
EXAMPLES: Final = {
    "names": "[llm-d/llm-d-cuda]",
    "references": "[https://github.com/llm-d/llm-d/releases/tag/v0.8.1]",
    "images": "[{id: llm-d-cuda, …}]",
}
"""Example values, for messages about missing fields."""


class EntryPoint(StrEnum):
    """What a container of an image runs if the manifest has no command."""

    VLLM_SERVE = "vllm-serve"
    VLLM = "vllm"
    VLLM_OMNI = "vllm-omni"
    HUGGINGFACESERVER = "huggingfaceserver"
    OTHER = "other"


ENTRY_POINTS: Final = {
    EntryPoint.VLLM_SERVE: "`vllm serve` with the container's arguments, whatever they are",
    EntryPoint.VLLM: "`vllm serve` with the container's arguments, or the arguments if they are a command",
    EntryPoint.VLLM_OMNI: "`vllm serve --omni` with the container's arguments, or the arguments if they are a command",
    EntryPoint.HUGGINGFACESERVER: "KServe's Hugging Face server, which has arguments of its own",
    EntryPoint.OTHER: "another program, even if its arguments are like vLLM's, such as a simulator",
}


@dataclass(frozen=True, slots=True)
class ImageRelease:
    """The version of vLLM in an image.

    ``is_custom``: whether its code may differ from that release. ``is_presumed``: whether the tag may be another
    project's version, so that it counts only if vLLM has a known release of that version. ``platform`` is None if it is
    not known. ``env`` has the variables that the image sets. ``working_folder`` is empty if only the row may state it.
    """

    version: str
    is_custom: bool = False
    is_presumed: bool = False
    platform: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    working_folder: str = ""


@dataclass(frozen=True, slots=True)
class ImageTag:
    """A pattern of tags with the release that they mean; its ``version`` is empty if the tag contains it."""

    pattern: TagPattern
    release: ImageRelease

    def release_of(self, tag: str) -> ImageRelease | None:
        """The release of a tag; None if the tag does not match."""
        found = self.pattern.version(tag)
        if found is None:
            return None
        return replace(self.release, version=found) if found else self.release


@dataclass(frozen=True, slots=True)
class ImageRow:
    """A row of the table: images with the same numbering, for the same hardware.

    ``platform`` and ``entry_point`` are None if the row does not state them. ``working_folders`` maps platforms to
    working folders, and `""` to that of all other platforms. ``triton_since`` is the first release whose images for
    CPUs have Triton on x86-64, empty if that is not known. ``document`` is the row as written.
    """

    id: str
    names: tuple[NamePattern, ...]
    platform: str | None
    entry_point: EntryPoint | None
    working_folders: Mapping[str, str]
    triton_since: str
    literals: Mapping[str, ImageRelease]
    patterns: tuple[ImageTag, ...]
    digests: Mapping[str, ImageRelease]
    path: str
    place: tuple[int, int]
    document: dict[str, Any] = field(compare=False)

    @property
    def has_releases(self) -> bool:
        """Whether some tag or digest shows a release."""
        return bool(self.literals or self.patterns or self.digests)

    def by_digest(self, digest: str) -> ImageRelease | None:
        """The release of the image with this digest, if it is known."""
        return self.digests.get(digest)

    def by_tag(self, tag: str) -> ImageRelease | None:
        """The release of a tag: of the tag itself if it is listed, else of the first pattern that matches."""
        found = self.literals.get(tag)
        if found is not None:
            return found
        return next((found for each in self.patterns if (found := each.release_of(tag)) is not None), None)


class ImageTable:
    """The rows by the names of images: of several that match, the one with the most specific pattern."""

    def __init__(self, rows: Iterable[ImageRow] = ()) -> None:
        self.rows = tuple(rows)
        pairs = [(pattern, row) for row in self.rows for pattern in row.names]
        ordered = sorted(pairs, key=lambda pair: (*(-n for n in pair[0].precedence), pair[1].id))
        self._by_last: dict[str, list[tuple[NamePattern, ImageRow]]] = {}
        self._others = [pair for pair in ordered if ANY in pair[0].parts[-1]]
        for last in {pattern.parts[-1] for pattern, _ in ordered if ANY not in pattern.parts[-1]}:
            self._by_last[last] = [pair for pair in ordered if pair[0].parts[-1] == last or ANY in pair[0].parts[-1]]

        # The images of a manifest and of a cluster repeat, and each is looked up several times for an engine.
        self.row_of = lru_cache(maxsize=256)(self._row_of)
        self.release_of = lru_cache(maxsize=256)(self._release_of)

    def _row_of(self, name: str) -> ImageRow | None:
        """The row for an image's name in lower case, without tag and digest."""
        parts = name.split("/")
        pairs = self._by_last.get(parts[-1], self._others)
        return next((row for pattern, row in pairs if pattern.matches(parts)), None)

    def _release_of(self, name: str, tag: str | None, digest: str | None) -> ImageRelease | None:
        """The release of an image according to the table: by its digest, else by its tag."""
        row = self.row_of(name)
        if row is None:
            return None
        found = None if digest is None else row.by_digest(digest)
        return row.by_tag(tag) if found is None and tag is not None else found

    def row(self, row_id: str) -> ImageRow | None:
        """The row with this id, if there is one."""
        return next((row for row in self.rows if row.id == row_id), None)


NO_IMAGES: Final = ImageTable()


def read_images(node: YamlNode, reader: FieldReader) -> list[ImageRow]:
    """The rows of a file that have no fault."""
    fields = reader.fields(node, "file of images", ("images",), examples=EXAMPLES)
    rows = [_read_row(item, reader) for item in reader.items(fields.get("images"), "images", MAX_ROWS)]
    return [row for row in rows if row is not None]


def _read_row(node: YamlNode, reader: FieldReader) -> ImageRow | None:
    count = len(reader.faults)
    fields = reader.fields(node, "image", ROW_REQUIRED, ROW_OPTIONAL, examples=EXAMPLES)
    row_id = reader.text(fields.get("id"))
    if row_id is not None and NAME.fullmatch(row_id) is None:
        reader.fault(fields["id"], f"invalid id {quoted(row_id)}; use lower-case words with hyphens")
    reader.text(fields.get("title"))
    _read_references(fields.get("references"), reader)
    names = _read_names(fields.get("names"), reader)
    platform = read_choice(fields.get("platform"), PLATFORMS, reader)
    entry_point = read_choice(fields.get("entry_point"), tuple(map(str, EntryPoint)), reader)
    working_folders = _read_working_folders(fields.get("working_folder"), reader)
    triton_since = read_release(fields.get("triton_since"), reader)
    is_custom, is_presumed = (read_flag(fields.get(name), reader) for name in ("custom", "presumed"))
    releases = ImageRelease("", is_custom, is_presumed, platform)
    tags = _Tags({}, [], {}, {})
    for item in reader.items(fields.get("tags"), "tags", MAX_TAGS):
        _read_tags(item, reader, releases, tags)
    if len(reader.faults) > count or row_id is None:
        return None
    return ImageRow(
        row_id,
        names,
        platform,
        EntryPoint(entry_point) if entry_point else None,
        working_folders,
        triton_since,
        tags.literals,
        tuple(tags.patterns),
        tags.digests,
        reader.path,
        (node.line, node.column),
        node.plain(),
    )


@dataclass(frozen=True, slots=True)
class _Tags:
    """The tags and digests of a row so far; ``entries`` has the release and the place of each."""

    literals: dict[str, ImageRelease]
    patterns: list[ImageTag]
    digests: dict[str, ImageRelease]
    entries: dict[str, tuple[ImageRelease, YamlNode]]

    def add_entry(self, text: str, found: ImageRelease, node: YamlNode, reader: FieldReader) -> bool:
        """Note the place of a tag or digest; false, with a fault, if an earlier entry has it."""
        earlier, place = self.entries.setdefault(text, (found, node))
        if earlier is found:
            return True
        where = f"{reader.path}:{place.line}:{place.column}"
        reader.fault(node, f"{quoted(text)} is already in the entry at {where}; remove one")
        return False


def read_choice(node: YamlNode | None, legal: tuple[str, ...], reader: FieldReader) -> str | None:
    """One of the legal texts; None for an absent node or after a fault."""
    text = reader.text(node)
    if node is None or text is None or text in legal:
        return text
    reader.fault(node, f"expected one of {listed(legal)}, got {quoted(text)}{nearest(text, legal)}")
    return None


def _read_working_folders(node: YamlNode | None, reader: FieldReader) -> dict[str, str]:
    """The working folder of every image under `""`, or those by platform; a faulty one is left out."""
    if node is None or not isinstance(node.value, dict):
        folder = read_working_folder(node, reader)
        return {"": folder} if folder else {}
    fields = reader.fields(node, "working folder", (), FOLDER_FIELDS)
    found = {name: read_working_folder(child, reader) for name, child in fields.items()}
    return {name: folder for name, folder in found.items() if folder}


def read_working_folder(node: YamlNode | None, reader: FieldReader) -> str:
    """An absolute path; empty for an absent node or after a fault."""
    return _read_matching(node, WORKING_FOLDER, "the absolute path of a folder, such as `/workspace`, got {}", reader)


def read_release(node: YamlNode | None, reader: FieldReader) -> str:
    """A version of vLLM; empty for an absent node or after a fault."""
    return _read_matching(node, WHOLE_VERSION, 'a version of vLLM, got {}; write it as `"0.23.0"`', reader)


def _read_matching(node: YamlNode | None, pattern: re.Pattern[str], expected: str, reader: FieldReader) -> str:
    """A text that matches; empty for an absent node or after a fault."""
    text = reader.text(node)
    if node is None or text is None or pattern.fullmatch(text) is not None:
        return text or ""
    reader.fault(node, f"expected {expected.format(quoted(text))}")
    return ""


def _read_references(node: YamlNode | None, reader: FieldReader) -> None:
    for link in reader.texts(node, "links"):
        if node is not None and not link.startswith("https://"):
            reader.fault(node, f"expected a link that begins with `https://`, got {quoted(link)}")


def _read_names(node: YamlNode | None, reader: FieldReader) -> tuple[NamePattern, ...]:
    names = []
    items = node.value if node is not None and isinstance(node.value, list) else [node]
    for item, text in zip(items, reader.texts(node, "names"), strict=False):
        try:
            names.append(read_name(text))
        except InvalidPattern as error:
            assert item is not None
            reader.fault(item, f"invalid name {quoted(text)}; {error}")
    return tuple(names)


def read_flag(node: YamlNode | None, reader: FieldReader) -> bool:
    """A boolean; false for an absent node or after a fault."""
    if node is None or isinstance(node.value, bool):
        return node is not None and node.value is True
    reader.fault(node, f"expected `true` or `false`, got {quoted(node.plain())}")
    return False


def _read_tags(node: YamlNode, reader: FieldReader, row: ImageRelease, tags: _Tags) -> None:
    """Add the tags of an entry, which share a release; ``row`` has what the entries of the row share."""
    fields = reader.fields(node, "tag", (), TAG_FIELDS)
    _read_references(fields.get("references"), reader)
    is_custom = read_flag(fields.get("custom"), reader) or row.is_custom
    platform = read_choice(fields.get("platform"), PLATFORMS, reader) or row.platform
    env = read_variables(fields.get("env"), reader)
    folder = read_working_folder(fields.get("working_folder"), reader)
    count = len(reader.faults)
    release = read_release(fields.get("release"), reader)
    found = ImageRelease(release, is_custom, row.is_presumed, platform, env, folder)
    if len(reader.faults) > count:
        return
    for digest in reader.texts(fields.get("digest"), "digests"):
        if DIGEST.fullmatch(digest) is None:
            reader.fault(fields["digest"], f"expected a digest such as `sha256:…` with 64 digits, got {quoted(digest)}")
        elif not release:
            reader.fault(node, "the entry of a digest has no `release`; add it")
        elif tags.add_entry(digest, found, fields["digest"], reader):
            tags.digests[digest] = found
    if "tag" not in fields and "digest" not in fields and isinstance(node.value, dict):
        reader.fault(node, "the entry has neither `tag` nor `digest`; add one")
    for text in reader.texts(fields.get("tag"), "tags"):
        try:
            pattern = read_tag(text)
        except InvalidPattern as error:
            reader.fault(fields["tag"], f"invalid tag {quoted(text)}; {error}")
            continue
        if pattern.has_release == bool(release):
            advice = (
                f"the tag {quoted(text)} contains the version; remove `release`"
                if pattern.has_release
                else f'the tag {quoted(text)} has no `{{release}}`; add `release: "0.23.0"`, its version of vLLM'
            )
            reader.fault(fields["tag"], advice)
        elif not tags.add_entry(text, found, fields["tag"], reader):
            continue
        elif pattern.is_literal:
            tags.literals[text] = found
        else:
            tags.patterns.append(ImageTag(pattern, found))


def read_variables(node: YamlNode | None, reader: FieldReader) -> dict[str, str]:
    """Variables with their values; faulty ones are left out."""
    if node is None:
        return {}
    if not isinstance(node.value, dict):
        reader.fault(node, f"expected a map of variables, got {quoted(node.plain())}")
        return {}
    found: dict[str, str] = {}
    for name, child in node.value.items():
        value = child.value
        if VARIABLE.fullmatch(name) is None:
            reader.fault(child, f"expected the name of a variable, got {quoted(name)}", key=True)
        elif not isinstance(value, str):
            reader.fault(child, f"expected a string, got {quoted(child.plain())}; put it in quotes")
        else:
            found[name] = value
    return found


def duplicate_names(rows: Iterable[ImageRow]) -> list[Fault]:
    """A fault for each name that an earlier row has."""
    known: dict[tuple[str, ...], ImageRow] = {}
    faults: list[Fault] = []
    for row in rows:
        for pattern in row.names:
            earlier = known.setdefault(pattern.parts, row)
            if earlier is not row:
                name = quoted("/".join(pattern.parts))
                message = f"the name {name} is already in the row {quoted(earlier.id)} of {earlier.path}; remove one"
                add_fault(faults, Fault(row.path, *row.place, message))
    return faults


def contradicting_digests(rows: Iterable[ImageRow]) -> list[Fault]:
    """A fault for each digest that an earlier row has with another version: a digest is that of one image."""
    known: dict[str, ImageRow] = {}
    faults: list[Fault] = []
    for row in rows:
        for digest, release in row.digests.items():
            earlier = known.setdefault(digest, row)
            other = earlier.digests[digest].version
            if other != release.version:
                message = (
                    f"the digest {quoted(digest)} has vLLM {release.version} here, and {other} in the row "
                    f"{quoted(earlier.id)} of {earlier.path}; correct one"
                )
                add_fault(faults, Fault(row.path, *row.place, message))
    return faults
