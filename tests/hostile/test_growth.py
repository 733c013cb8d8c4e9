"""Reading what users send takes instructions in proportion to its length."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile.counting import ValgrindMissing, count, growth

MODULES = [f"hostile.{name}" for name in ("documents", "intake") if Path(__file__).with_name(f"{name}.py").exists()]


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_instructions_grow_no_faster_than_the_text(module: str) -> None:
    found = {place: counts for place, counts in count(module).items() if growth(counts) is not None}
    assert found == {}


@pytest.mark.slow
def test_what_grows_faster_is_found() -> None:
    found = {reader: growth(counts) is None for (reader, _), counts in count("hostile.quadratic", seconds=5).items()}
    assert found == {
        "linear": True,
        "scanned again from each quote": False,
        "copied for each part": False,
        "twice the ways for each letter": False,  # it ends the process, so nothing is read after it
    }


def test_nothing_is_skipped_without_valgrind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValgrindMissing, match="apt-get install valgrind"):
        count("hostile.quadratic")
