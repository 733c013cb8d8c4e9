"""The texts of vLLM's logs, and the lines of its releases, are data that fits together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tables import table

from policy.observation.formats import EXCEPTION_KINDS, HOLE, LoggedText, Shows, formats, match_exception, match_record
from policy.observation.lines import LINES, place_lines, places
from policy.vllm.tablegen.log_lines import contradictions, line_table, lines_of, main, texts_of
from policy.vllm.tablegen.wheels import SourceReader

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """
def f(self):
    logger.info(
        "first %s "
        "second", 1)
    logger.warning_once("other")
    raise ValueError(f"bad: {', '.join(x)} end")

def create():
    config = VllmConfig(
        a=1)
"""


@table("form", formats(), ids=lambda form: form.id)
def test_each_text_is_recognised_with_its_values(form: LoggedText) -> None:
    text = form.text
    for number in range(form.text.count(HOLE)):
        text = text.replace(HOLE, f"value{number}", 1)
    found = match_exception(text) if form.shows in EXCEPTION_KINDS else match_record(text, next(iter(form.files)))
    assert found is not None
    assert found[0].shows == form.shows
    assert found[1] == {name: f"value{number}" for number, name in enumerate(form.values)}


def test_ids_are_unique_and_runners_are_those_of_the_texts() -> None:
    ids = [form.id for form in formats()]
    assert sorted(set(ids)) == sorted(ids)
    has_runner = {Shows.RUNNER, Shows.FALLBACK, Shows.OVERRIDE, Shows.REFUSAL}
    assert {form.id for form in formats() if (form.runner is not None) != (form.shows in has_runner)} == set()


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("Using V2 Model Runner", "other.py"),
        ("Using V2 Model Runner and more", "gpu_worker.py"),
        ("", None),
        ("x", None),
    ],
)
def test_another_text_or_file_is_not_recognised(text: str, file: str | None) -> None:
    assert match_record(text, file) is None


def test_each_place_has_lines_of_releases() -> None:
    assert [row.place for row in place_lines()] == list(places())
    assert [row.place for row in place_lines() if not row.lines] == []


def test_the_tool_reads_texts_and_lines_from_sources() -> None:
    assert {"first %s second", "other", "bad: %s end"} <= texts_of(SOURCE)
    place = places()[0]
    make = type(place)
    assert lines_of(make("a.py", text="first %s second"), SOURCE) == [3]
    assert lines_of(make("a.py", function="create", code="config = VllmConfig("), SOURCE) == [10]
    assert lines_of(make("a.py", function="f", code="config = VllmConfig("), SOURCE) == []
    assert lines_of(place, "") == []


def test_the_table_of_lines_is_made_again_release_by_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "0.99.0" / "vllm" / "config").mkdir(parents=True)
    (tmp_path / "0.99.0" / "vllm" / "config" / "model.py").write_text(
        '\n\nlogger.info("Resolved architecture: %s", a)\n'
    )
    assert main([str(tmp_path), "--check"]) == 1
    printed = capsys.readouterr().out
    assert "lines.yaml: the sources have other lines\n" in printed
    assert "architecture: the text is not in" not in printed
    assert "arguments: the text is not in vllm/entrypoints/common/startup.py of 0.99.0" in printed
    assert line_table({}) == LINES.read_text()


def test_a_source_that_lacks_a_text_is_reported() -> None:
    found = list(contradictions("0.26.0", SourceReader()))
    assert "configuration: the text is not in vllm/v1/engine/core.py of 0.26.0" in found
