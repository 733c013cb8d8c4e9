"""`python -m policy.vllm.tablegen.request_fields FOLDER...`: make the table of the fields of requests by release.

Owns which classes of vLLM a request is read into. Each folder has the name of a release and contains ``vllm/``; its
files are read as text. The table is ``policy/sampling/data/fields.json``: for each form of a request its fields, each
with the first release that has it and the first that no longer has it.
"""

import ast
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from packaging.version import Version

from policy.sampling.fields import TABLE_FILE

CLASSES: Mapping[str, tuple[str, ...]] = {
    "sampling_params": ("SamplingParams",),
    "beam_search_params": ("BeamSearchParams",),
    "pooling_params": ("PoolingParams",),
    "chat": ("ChatCompletionRequest",),
    "completion": ("CompletionRequest",),
    "pooling": (
        *("EmbeddingCompletionRequest", "EmbeddingChatRequest", "PoolingCompletionRequest", "PoolingChatRequest"),
        *("ClassificationCompletionRequest", "ClassificationChatRequest", "RerankRequest"),
        *("ScoreDataRequest", "ScoreQueriesDocumentsRequest", "ScoreTextRequest", "IOProcessorRequest"),
    ),
}
INTERNAL = frozenset({"output_text_buffer_length", "field_names"})
"""Fields that no request has."""


def fields_of(folder: Path) -> dict[str, set[str]]:
    """The fields of each form of a request in the release unpacked in a folder."""
    root = folder / "vllm"
    files = [root / "sampling_params.py", root / "pooling_params.py", *root.glob("entrypoints/**/protocol.py")]
    known: dict[str, tuple[list[str], list[str]]] = {}
    for path in files:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                known[node.name] = [_base(base) for base in node.bases], _own_fields(node)
    return {form: {name for each in classes for name in _fields(each, known)} for form, classes in CLASSES.items()}


def _base(node: ast.expr) -> str:
    return ast.unparse(node).partition("[")[0]


def _own_fields(node: ast.ClassDef) -> list[str]:
    return [
        item.target.id
        for item in node.body
        if isinstance(item, ast.AnnAssign)
        and isinstance(item.target, ast.Name)
        and not item.target.id.startswith("_")
        and item.target.id not in INTERNAL
        and "ClassVar" not in ast.unparse(item.annotation)
    ]


def _fields(name: str, known: Mapping[str, tuple[list[str], list[str]]]) -> set[str]:
    bases, own = known.get(name, ([], []))
    return {*own, *(field for base in bases for field in _fields(base, known))}


def table(folders: Mapping[str, Path]) -> dict[str, dict[str, list[str | None]]]:
    """The table of all releases, each in its folder."""
    releases = sorted(folders, key=Version)
    by_release = {release: fields_of(folders[release]) for release in releases}
    found: dict[str, dict[str, list[str | None]]] = {form: {} for form in CLASSES}
    for form, fields in found.items():
        for name in sorted({name for each in by_release.values() for name in each[form]}):
            having = [release for release in releases if name in by_release[release][form]]
            after = releases[releases.index(having[-1]) + 1 :]
            fields[name] = [having[0], after[0] if after else None]
    return found


def main() -> None:
    """Write the table of the releases whose folders are given."""
    folders = {path.name: path for path in map(Path, sys.argv[1:])}
    TABLE_FILE.write_text(json.dumps(table(folders), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
