"""Reading users' texts takes instructions in proportion to their length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hostile.counting import MAX_INSTRUCTIONS, ValgrindMissing, count, growth, readers_of

if TYPE_CHECKING:
    from pathlib import Path

VALUES = ("json-or-text", "object", "devices", "human-or-auto")
INTAKE = (
    ("shell", "configurations of models"),
    ("environment",),  # by itself: a process looks at each name of a variable once, and scripts use the same names
    ("arguments",),
    ("option files",),
    ("manifests",),
    ("Ray clusters", "Compose files"),
    tuple(f"values of {kind}" for kind in VALUES),
)
"""The readers of ``hostile.intake``, counted in several processes at once, as all together take two minutes."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("hostile.documents", ()),
        ("hostile.edits", ()),
        ("hostile.observations", ()),
        *(("hostile.intake", names) for names in INTAKE),
    ],
)
def test_instructions_grow_no_faster_than_the_text(module: str, names: tuple[str, ...]) -> None:
    found = {key: counts for key, counts in count(module, names=names).items() if growth(counts) is not None}
    assert found == {}


def test_each_reader_is_counted() -> None:
    assert sorted(name for names in INTAKE for name in names) == sorted(readers_of("hostile.intake", ()))


@pytest.mark.slow
def test_faster_growth_is_found() -> None:
    found = {reader: growth(counts) is None for (reader, _), counts in count("hostile.quadratic", seconds=1).items()}
    assert found == {
        "linear": True,
        "scanned again from each quote": False,
        "copied for each part": False,
        "exponential in the letters": False,  # it ends the process, so nothing is read after it
    }


def test_more_instructions_than_any_read_may_take_are_found() -> None:
    counts = [MAX_INSTRUCTIONS // 2, MAX_INSTRUCTIONS // 2, MAX_INSTRUCTIONS]
    assert growth(counts) is None
    assert growth([*counts[:2], MAX_INSTRUCTIONS + 1]) is not None


def test_counting_without_valgrind_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValgrindMissing, match="apt-get install valgrind"):
        count("hostile.quadratic")


def test_counting_without_the_libraries_of_valgrind_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, line in (("valgrind", "exit 1"), ("cc", 'echo "${1#*=}"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(ValgrindMissing, match=r"libcoregrind-.* is not installed; install it"):
        count("hostile.quadratic")
