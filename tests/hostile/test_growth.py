"""Reading users' texts takes instructions in proportion to their length."""

from __future__ import annotations

import pytest
from hostile.counting import ValgrindMissing, count, growth, readers_of

VALUES = ("json-or-text", "object", "devices", "human-or-auto")
INTAKE = (
    ("shell", "environment", "configurations of models"),
    ("arguments",),
    ("option files",),
    ("manifests",),
    tuple(f"values of {kind}" for kind in VALUES),
)
"""The readers of ``hostile.intake``, counted in several processes, as all together take ten minutes."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("hostile.documents", ()),
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
    found = {reader: growth(counts) is None for (reader, _), counts in count("hostile.quadratic", seconds=5).items()}
    assert found == {
        "linear": True,
        "scanned again from each quote": False,
        "copied for each part": False,
        "exponential in the letters": False,  # it ends the process, so nothing is read after it
    }


def test_counting_without_valgrind_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValgrindMissing, match="apt-get install valgrind"):
        count("hostile.quadratic")
