"""The test cases of the table of images: what the table knows of an image's name.

Owns the format of the ``…_test.yaml`` files in ``images/``, the running of their cases, and the requirement that every
row has cases: one, one for each tag with ``{release}``, and one for a tag that it does not know.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from policy.checks.cases import CaseResult, is_of_images, read_files
from policy.errors import Fault, RulesInvalid
from policy.intake.manifests.images import platform, split_name, triton_since, version_of, working_folder
from policy.messages import quoted
from policy.rules.images import (
    NEVER,
    PLATFORMS,
    read_choice,
    read_flag,
    read_release,
    read_variables,
    read_working_folder,
)
from policy.rules.loader import SUFFIX, TEST_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policy.parser.fields import FieldReader
    from policy.parser.yamltree import YamlNode
    from policy.rules.images import ImageRow, ImageTable

FIELDS: Final = ("row", "release", "platform", "working_folder", "triton_since", "custom", "env")
EXAMPLES: Final = {
    "image": "ghcr.io/llm-d/llm-d-cuda:v0.8.1",
    "cases": '[{image: "ghcr.io/llm-d/llm-d-cuda:v0.8.1", row: llm-d-cuda, release: "0.23.0"}]',
}
"""Example values, for messages about missing fields."""


@dataclass(frozen=True, slots=True)
class ImageCase:
    """A claim about an image: its row, release, platform, folder and Triton, and whether its vLLM is a custom build.

    None of a field means that the table does not know it, as does an empty ``working_folder`` or ``triton_since``.
    """

    image: str
    row: str | None
    release: str | None
    platform: str | None
    working_folder: str
    triton_since: str
    custom: bool
    env: Mapping[str, str]
    path: str = field(compare=False, default="")
    line: int = field(compare=False, default=1)

    @property
    def rule(self) -> str:
        """The id of the row; empty if the image is in no row."""
        return self.row or ""

    @property
    def name(self) -> str:
        """The image."""
        return self.image


def read_image_cases(texts: Mapping[str, str], table: ImageTable) -> list[ImageCase]:
    """The cases in the files of ``images/`` among these.

    Raises:
        RulesInvalid: with every fault, including missing cases of rows.
    """
    faults: list[Fault] = []
    own = {path: text for path, text in texts.items() if is_of_images(path)}
    cases = read_files(own, lambda node, reader: _read_file(node, reader, table), faults)
    if not faults:
        of_row: dict[str, list[ImageCase]] = {row.id: [] for row in table.rows}
        for case in cases:
            if case.row is not None:
                of_row[case.row].append(case)
        faults = [fault for row in table.rows for fault in _missing_cases(row, of_row[row.id])]
    if faults:
        raise RulesInvalid(faults)
    return cases


def _read_file(node: YamlNode, reader: FieldReader, table: ImageTable) -> Iterator[ImageCase]:
    fields = reader.fields(node, "file of cases", ("cases",), examples=EXAMPLES)
    for item in reader.items(fields.get("cases"), "cases"):
        parts = reader.fields(item, "case", ("image",), FIELDS, examples=EXAMPLES)
        image, row, release = (reader.text(parts.get(name)) for name in ("image", "row", "release"))
        if row is not None and table.row(row) is None:
            reader.fault(parts["row"], f"unknown row {quoted(row)}; name one of `images/`, or leave it out")
            continue
        runs_on = read_choice(parts.get("platform"), PLATFORMS, reader)
        folder, since = read_working_folder(parts.get("working_folder"), reader), parts.get("triton_since")
        triton = NEVER if since is not None and since.value == NEVER else read_release(since, reader)
        custom, env = read_flag(parts.get("custom"), reader), read_variables(parts.get("env"), reader)
        if image is not None:
            yield ImageCase(image, row, release, runs_on, folder, triton, custom, env, reader.path, item.line)


def _missing_cases(row: ImageRow, cases: list[ImageCase]) -> Iterator[Fault]:
    """A fault that names the cases that a row lacks, if any."""
    tags = [split_name(case.image)[1] or "" for case in cases]
    missing = [
        f"one whose tag matches `{pattern.text}`"
        for pattern in (each.pattern for each in row.patterns)
        if pattern.has_release and not any(pattern.version(tag) for tag in tags)
    ]
    if not cases:
        missing.append("one")
    elif row.has_releases and not any(case.release for case in cases):
        missing.append("one with a `release`")
    if row.has_releases and all(case.release for case in cases):
        missing.append("one for a tag of which it knows no release")
    if missing:
        path = cases[0].path if cases else row.path.removesuffix(SUFFIX) + TEST_SUFFIX
        message = f"the cases of the image {quoted(row.id)} lack {'; '.join(missing)}; add it"
        yield Fault(path, cases[0].line if cases else 1, 1, message)


def run_image_cases(cases: Iterable[ImageCase], table: ImageTable) -> Iterator[CaseResult[ImageCase]]:
    """Look up each case's image in the table."""
    for case in cases:
        yield CaseResult(case, case.release or "no release", _failure(case, table))


def _failure(case: ImageCase, table: ImageTable) -> str | None:
    version = version_of(case.image, table)
    release = table.release_of(*_named(case.image))
    custom = release is not None and release.is_custom
    found = ImageCase(
        case.image,
        version.row or None,
        version.version,
        platform(case.image, table),
        working_folder(case.image, table),
        triton_since(case.image, table),
        custom,
        version.env,
    )
    if found == case:
        return None
    differences = (
        f"`{name}` is {_shown(getattr(found, name))}, expected {_shown(getattr(case, name))}"
        for name in FIELDS
        if getattr(found, name) != getattr(case, name)
    )
    return "; ".join(differences)


def _shown(value: Any) -> str:
    return "none" if value is None else quoted(value)


def _named(image: str) -> tuple[str, str | None, str | None]:
    repository, tag, digest = split_name(image)
    return repository.lower(), tag, digest
