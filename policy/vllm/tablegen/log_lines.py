"""`python -m policy.vllm.tablegen.log_lines FOLDER`: compare the log formats with vLLM's sources, and make their lines.

FOLDER has a folder for each release, such as `0.23.0/`, which contains `vllm/`. Every format must be in the files that
it names, in these releases and in no other of the folder. The lines of releases that the folder does not have stay. The
sources are read as text and never run.
"""

from __future__ import annotations

import argparse
import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.version import Version

from policy.observation.formats import HOLE, LoggedText, formats
from policy.observation.lines import LINES, LogPlace, place_lines, places
from policy.vllm.tablegen.wheels import FolderSource, SourceReader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

HEAD: Final = "# Made by `python -m policy.vllm.tablegen.log_lines`; the places are in `places.yaml`.\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what contradicts the sources and write the lines; returns 1 if something contradicts them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true", help="do not write, but compare the lines too")
    options = parser.parse_args(arguments)
    sources = {path.name: SourceReader(FolderSource(path)) for path in _releases(options.folder)}
    faults = [fault for release, files in sources.items() for fault in contradictions(release, files)]
    text = line_table(sources)
    if not options.check:
        LINES.write_text(text, encoding="utf-8")
    elif text != LINES.read_text(encoding="utf-8"):
        faults.append(f"{LINES.name}: the sources have other lines")
    for fault in faults:
        sys.stdout.write(f"{fault}\n")
    sys.stdout.write(f"{len(formats())} formats, {len(sources)} releases, {len(faults)} faults\n")
    return 1 if faults else 0


def contradictions(release: str, files: SourceReader) -> Iterator[str]:
    """Where a release's sources have a text that no format's range has, or lack one that a range has."""
    for form in formats():
        for file in dict.fromkeys(source.file for source in form.sources):
            expected = any(source.file == file and source.has(release) for source in form.sources)
            if (written_text(form) in texts_of(_text(files, file))) != expected:
                state = "is not" if expected else "is, but should not be,"
                yield f"{form.id}: the text {state} in {file} of {release}"


def written_text(form: LoggedText) -> str:
    """The text of a format as its sources have it."""
    return form.written or form.text


def texts_of(source: str) -> frozenset[str]:
    """The texts in a Python file, joined if they are adjacent, with `%s` for each expression of an f-string."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
            found.update(node.value.splitlines(keepends=True))
        elif isinstance(node, ast.JoinedStr):
            found.add(_joined(node))
    return frozenset(found)


def _joined(node: ast.JoinedStr) -> str:
    return "".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in node.values)


def line_table(sources: dict[str, SourceReader]) -> str:
    """The text of ``lines.yaml`` with the lines of these sources; those of other releases stay."""
    rows = [HEAD]
    for place in places():
        lines = _kept_lines(place, sources.keys())
        for release, files in sources.items():
            for line in lines_of(place, _text(files, place.file)):
                lines.setdefault(line, []).append(release)
        parts = [
            f"{name}: {_quoted(getattr(place, name))}" for name in LogPlace.__struct_fields__ if getattr(place, name)
        ]
        rows.append(f"- place: {{{', '.join(parts)}}}\n  lines:\n")
        rows += [f"    {line}: [{', '.join(sorted(lines[line], key=Version))}]\n" for line in sorted(lines)]
    return "".join(rows)


def _kept_lines(place: LogPlace, made: Collection[str]) -> dict[int, list[str]]:
    """The lines of a place that the table has for releases that are not made again."""
    known = next((row.lines for row in (place_lines() if LINES.exists() else ()) if row.place == place), {})
    kept = {line: [release for release in releases if release not in made] for line, releases in known.items()}
    return {line: releases for line, releases in kept.items() if releases}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def lines_of(place: LogPlace, source: str) -> list[int]:
    """The lines of a place in its file."""
    if not source:
        return []
    tree = ast.parse(source)
    if place.text:
        return sorted(
            {call.lineno for call in ast.walk(tree) if isinstance(call, ast.Call) and _logs(call, place.text)}
        )
    lines = source.splitlines()
    return sorted(
        {
            number
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == place.function
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
            if lines[number - 1].strip() == place.code
        }
    )


def _logs(call: ast.Call, text: str) -> bool:
    """Whether a call is one of a logger with a text as its first argument."""
    method = call.func
    is_logger = isinstance(method, ast.Attribute) and isinstance(method.value, ast.Name) and method.value.id == "logger"
    if not (is_logger and call.args):
        return False
    begin = text.partition("%")[0]
    values = [node.value for node in ast.walk(call.args[0]) if isinstance(node, ast.Constant)]
    return any(isinstance(value, str) and value.startswith(begin) for value in values)


def _text(files: SourceReader, file: str) -> str:
    """The text of a file; empty if the release does not have it."""
    return files.text(file) if file in files else ""


def _releases(folder: Path) -> list[Path]:
    found = [path for path in folder.iterdir() if (path / "vllm").is_dir()]
    return sorted(found, key=lambda path: Version(path.name))


if __name__ == "__main__":
    sys.exit(main())
