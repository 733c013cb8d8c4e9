"""The tables of all releases in one file: a line for each key, with its value under each release that changed it.

Owns the format on disk. A release that changes nothing adds nothing to a line; null means that the key was removed.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from packaging.version import Version

Table = Mapping[str, object]


def read_history(path: Path, releases: Iterable[str]) -> dict[str, dict[str, object]]:
    """Release → table, for the given releases; empty if there is no file."""
    ordered = sorted(releases, key=Version)
    tables: dict[str, dict[str, object]] = {release: {} for release in ordered}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        key, since = json.loads(line)
        current: object = None
        for release in ordered:
            current = since.get(release, current)
            if current is not None:
                tables[release][key] = current
    return tables


def write_history(path: Path, tables: Mapping[str, Table]) -> None:
    """Write one line for each key, sorted, so that the same tables give the same bytes."""
    ordered = sorted(tables, key=Version)
    lines = []
    for key in sorted({key for table in tables.values() for key in table}):
        since: dict[str, object] = {}
        current: object = None
        for release in ordered:
            found = tables[release].get(key)
            if _to_json(found) != _to_json(current):
                since[release] = current = found
        lines.append(_to_json([key, since]) + "\n")
    path.write_text("".join(lines), encoding="utf-8")


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
