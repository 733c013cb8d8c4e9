"""Long runs of ``impact``, ``pins`` and ``replay``: their progress, and what an interrupted run has."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from arro3.core import Array, DataType, RecordBatch
from arro3.io import read_parquet, write_parquet
from cli.test_cli_impact import FLEET, facts, lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RECORD = {
    "decision_id": "01a1feba-135c-7656-a303-4a8904f82d19",
    "requested_by": "argo",
    "input": {"vllm_version": "0.21.0", "facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}},
    "result": {
        "decision_id": "01a1feba-135c-7656-a303-4a8904f82d19",
        "runner": "v1",
        "outcome": "not-default",
        "starts": True,
        "startup_errors": [],
        "vllm_version": "0.21.0",
        "reasons": [{"rule": "opt-in", "effect": "not-default", "decisive": True, "message": "V2 has to be asked for"}],
    },
}
BROKEN = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{image: vllm/vllm-openai, args: [3]}]}\n"
COMMANDS = {"impact": ("--to", "0.33.0"), "pins": ("--to", "0.33.0"), "replay": ("--to", "0.33.0")}


def parquet_of(path: Path, column: str, documents: list[Any], **others: list[str]) -> str:
    texts = {column: [json.dumps(each) for each in documents], **others}
    columns: dict[str, Any] = {name: Array(each, DataType.string()) for name, each in texts.items()}
    write_parquet(RecordBatch.from_pydict(columns), str(path))
    return str(path)


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, list[str]]:
    """Inputs of each kind by a name."""
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "fleet.yaml").write_text(FLEET)
    (folder / "inner" / "broken.yaml").write_text(BROKEN)
    manifest, named_otherwise = tmp_path / "fleet.yaml", tmp_path / "requests"
    manifest.write_text(FLEET)
    requests = [facts("a"), facts("b")]
    (tmp_path / "fleet.jsonl").write_text(lines(*requests))
    named_otherwise.write_text(lines(*requests))
    unread = tmp_path / "unread"
    unread.mkdir()
    (unread / "a.yaml").write_text("a: [")
    (unread / "b.yaml").write_text("b: [")
    (tmp_path / "blank.jsonl").write_text("\n" + lines(*requests) + "\n \n" + json.dumps(facts("c")))
    (tmp_path / "lists.json").write_text(json.dumps([{"facts": {"no": 1}}, {"manifest": [*yaml.safe_load_all(FLEET)]}]))
    (tmp_path / "list.json").write_text(json.dumps([*requests, facts("c")]))
    parquet = parquet_of(tmp_path / "fleet.parquet", "request", requests)
    texts = {name: [RECORD[name]] * 2 for name in ("input", "result")}
    (tmp_path / "log.jsonl").write_text(lines(RECORD, RECORD))
    export = parquet_of(
        tmp_path / "log.parquet",
        "input",
        texts["input"],
        result=[json.dumps(each) for each in texts["result"]],
        decision_id=["d1", "d2"],
        requested_by=["argo", "argo"],
    )
    return {
        "folder": ["-R", str(folder)],
        "manifest": [str(manifest)],
        "lines": [str(tmp_path / "fleet.jsonl")],
        "lines by their content": [str(named_otherwise)],
        "blank lines": [str(tmp_path / "blank.jsonl")],
        "unread": [str(unread)],
        "lists": [str(tmp_path / "lists.json")],
        "list": [str(tmp_path / "list.json")],
        "parquet": [parquet],
        "several": ["-R", str(folder), str(tmp_path / "fleet.jsonl"), parquet],
        "log lines": [str(tmp_path / "log.jsonl")],
        "log parquet": [export],
    }


@pytest.mark.parametrize(
    ("command", "name", "number"),
    [
        ("impact", "folder", 4),
        ("impact", "manifest", 3),
        ("impact", "lines", 2),
        ("impact", "lines by their content", 2),
        ("impact", "blank lines", 3),
        ("impact", "unread", 2),
        ("impact", "list", 3),
        ("impact", "lists", 4),
        ("impact", "parquet", 2),
        ("impact", "several", 8),
        ("pins", "folder", 4),
        ("pins", "parquet", 2),
        ("replay", "log lines", 2),
        ("replay", "log parquet", 2),
    ],
)
def test_progress_has_a_rate_and_an_end(
    on_interactive_terminal: Callable[..., tuple[int, str]],
    inputs: dict[str, list[str]],
    command: str,
    name: str,
    number: int,
) -> None:
    code, out = on_interactive_terminal(command, *inputs[name], *COMMANDS[command], "--json")
    assert code in {0, 1}
    noun = "decisions" if command == "replay" else "deployments"
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out)
    assert re.search(rf"{noun} .* {number}/{number} +[\d,]+/s", shown), shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "form"),
    [
        ("impact", "text"),
        ("impact", "json"),
        ("impact", "html"),
        ("impact", "parquet"),
        ("impact", "markdown"),
        ("pins", "text"),
        ("pins", "json"),
        ("replay", "text"),
        ("replay", "json"),
    ],
)
def test_an_interrupted_run_says_what_it_has(command: str, form: str, tmp_path: Path) -> None:
    pinned: dict[str, Any] = {"env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}
    documents: list[Any] = (
        [RECORD] * 4_000 if command == "replay" else [facts(f"d{at}", **pinned) for at in range(4_000)]
    )
    output = tmp_path / f"out.{form}"
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", "from service.cli import main; main()"),
            *(command, "-", *COMMANDS[command], "--format", form, "-o", str(output), "--jobs", "1"),
        ],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(lines(*documents).encode())  # returns when the command has read most of it
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    code, err = process.wait(60), process.stderr.read().decode()
    process.stdin.close()
    process.stderr.close()
    assert code == 130
    found = re.search(r"interrupted: the report has the first ([\d,]+) (?:deployments|decisions)", err)
    assert found is not None, err
    number = int(found[1].replace(",", ""))
    assert 0 < number <= len(documents)
    match form:
        case "json":
            document = json.loads(output.read_text())
            counts = document["counts"]
            assert counts["decisions" if command == "replay" else "deployments"] == number
            assert document["complete"] is False
        case "parquet":
            assert sum(batch.num_rows for batch in read_parquet(str(output))) == 2 * number
        case "html":
            assert "interrupted" in output.read_text()
        case _:
            assert re.search(rf"\b{number:,}\b", output.read_text())
