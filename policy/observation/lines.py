"""The release that line numbers in a log show, for a log that names none.

A start that is refused early logs no version, but each record names its file and line, and so does each step of a
traceback. ``data/places.yaml`` has places that are known, each with its ``file`` and

- ``text``: the text of a record, as it is in the source, or
- ``function`` and ``code``: the line of a step of a traceback.

``data/lines.yaml`` has for each of them its lines, with the releases in which it is on that line.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec.yaml
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER: Final = Path(__file__).parent / "data"
PLACES: Final = FOLDER / "places.yaml"
LINES: Final = FOLDER / "lines.yaml"
MIN_PLACES: Final = 2
"""How many places must agree: one line alone may be that of a release that was not read."""

Releases = frozenset[str]


class LogPlace(Struct, frozen=True, forbid_unknown_fields=True):
    """A place in vLLM that a log shows; its fields are described above."""

    file: str
    text: str = ""
    function: str = ""
    code: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What identifies the place in a log: the file and the beginning of the text, or the function and the code."""
        name = self.file.rpartition("/")[2]
        return (name, self.text.partition("%")[0]) if self.text else (f"{self.file}:{self.function}", self.code)


class PlaceLines(Struct, frozen=True, forbid_unknown_fields=True):
    """A place with its lines, and the releases of each."""

    place: LogPlace
    lines: dict[int, tuple[str, ...]]


@cache
def places() -> tuple[LogPlace, ...]:
    """The places that are known."""
    return msgspec.yaml.decode(PLACES.read_bytes(), type=tuple[LogPlace, ...])


@cache
def place_lines() -> tuple[PlaceLines, ...]:
    """The lines of all places."""
    return msgspec.yaml.decode(LINES.read_bytes(), type=tuple[PlaceLines, ...])


@cache
def checked_releases() -> frozenset[str]:
    """The releases whose sources the texts and the lines were compared with."""
    return frozenset(release for row in place_lines() for releases in row.lines.values() for release in releases)


@cache
def _by_file() -> dict[str, tuple[tuple[str, dict[int, Releases]], ...]]:
    found: dict[str, tuple[tuple[str, dict[int, Releases]], ...]] = {}
    for row in place_lines():
        file, begin = row.place.key
        lines = {line: frozenset(releases) for line, releases in row.lines.items()}
        found[file] = (*found.get(file, ()), (begin, lines))
    return found


def releases_of_record(file: str, line: int, text: str) -> Releases | None:
    """The releases that log this text from this line; None if the text is not one of a known place."""
    for begin, lines in _by_file().get(file, ()):
        if text.startswith(begin):
            return lines.get(line, frozenset())
    return None


def releases_of_step(path: str, line: int, function: str, code: str) -> Releases | None:
    """The releases with this step of a traceback; None if it is not one of a known place."""
    at = path.rfind("/vllm/")
    for known, lines in _by_file().get(f"{path[at + 1 :]}:{function}", ()) if at >= 0 else ():
        if code == known:
            return lines.get(line, frozenset())
    return None


def common_releases(found: Iterable[Releases]) -> tuple[str, ...]:
    """The releases in which all of the places are on their lines; empty if there are too few places or no release."""
    sets = list(found)
    if len(sets) < MIN_PLACES:
        return ()
    return tuple(sorted(frozenset.intersection(*sets)))
