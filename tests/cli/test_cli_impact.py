"""The command ``impact``."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from configured import as_configured
from deployments import TODAY
from processes import forked_python
from tables import table

from policy.request.request import read_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from api.conftest import Done

    from policy.policy import Policy

RECORDINGS = Path(__file__).parents[1] / "recordings"
QWEN = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "max_position_embeddings": 40960,
    "hidden_size": 4096,
    "num_attention_heads": 32,
}
MODEL = "Qwen/Qwen3-8B"
FLEET = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: pinned, namespace: prod}
spec:
  template:
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.22.0
          command: ["vllm", "serve", "Qwen/Qwen3-8B"]
          env:
            - name: VLLM_USE_V2_MODEL_RUNNER
              value: "0"
---
apiVersion: v1
kind: Pod
metadata: {name: eagle}
spec:
  containers:
    - name: c
      image: vllm/vllm-openai:v0.21.0
      args:
        - Qwen/Qwen3-8B
        - --enforce-eager
---
apiVersion: v1
kind: Pod
metadata: {name: same}
spec:
  containers:
    - name: c
      image: vllm/vllm-openai:v0.33.0
      args: [Qwen/Qwen3-8B]
"""


def facts(name: str, architecture: str = "Qwen3ForCausalLM", version: str = "0.22.0", **fields: Any) -> dict[str, Any]:
    return {
        "request_id": name,
        "vllm_version": version,
        "facts": {"model_config": {"architectures": [architecture]}, **fields},
    }


def pod_of(image: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": image, "args": [MODEL]}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}


def lines(*documents: Any) -> str:
    return "".join(f"{json.dumps(document)}\n" for document in documents)


@pytest.fixture
def impact(call: Callable[..., Done], tmp_path: Path) -> Callable[..., tuple[int, dict[str, Any]]]:
    """The exit code and the document for a text as a file of this name."""

    def command(text: str | bytes, *options: str, name: str = "fleet.yaml") -> tuple[int, dict[str, Any]]:
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        done = call("impact", str(file), *options, "--json")
        return done.code, json.loads(done.out)

    return command


@pytest.fixture
def models(tmp_path: Path) -> str:
    folder = tmp_path / "models" / "Qwen" / "Qwen3-8B"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(QWEN))
    return str(tmp_path / "models")


def test_a_target_that_was_not_checked_has_a_warning(call: Callable[..., Done], tmp_path: Path) -> None:
    file = tmp_path / "fleet.json"
    file.write_text(json.dumps(facts("a")))
    done = call("impact", str(file), "--to", "0.33.7", "--json")
    assert done.code == 0
    assert done.err == "warning: vLLM 0.33.7 was not checked against these rules; decided as 0.33.0\n"
    assert json.loads(done.out)["targets"] == ["0.33.7"]


def test_a_gate_sees_the_launch_errors_of_a_target_that_was_not_checked(
    call: Callable[..., Done], tmp_path: Path
) -> None:
    deployment = {"args": ["serve", "q", "--swap-space", "4"], "model_configs": {"q": QWEN}}
    file = tmp_path / "fleet.json"
    file.write_text(json.dumps({"vllm_version": "0.17.1", "deployment": deployment}))
    done = call("impact", str(file), "--to", "0.33.7", "--fail-on", "launch-error", "--json")
    assert done.code == 1
    assert json.loads(done.out)["items"][0]["kind"] == "launch-error"
    assert done.err.startswith("warning: vLLM 0.33.7 was not checked against these rules; decided as 0.33.0\n")


@pytest.fixture
def shipped_command() -> list[str]:
    return [forked_python(), "-c", "from service.cli import main; main()"]


def check_sums(document: dict[str, Any]) -> None:
    """The counts add up to the input, in each release as well."""
    counts = document["counts"]
    assert counts["deployments"] == len(document["items"])
    assert counts["deployments"] == counts["undecided"] + counts["unchanged"] + sum(counts["kinds"].values())
    for release in document["targets"]:
        assert sum(counts["releases"][release].values()) == counts["deployments"] - counts["undecided"]


def test_names_places_and_kinds(impact: Callable[..., tuple[int, dict[str, Any]]], models: str) -> None:
    code, found = impact(FLEET, "--to", "0.33.0", "--models", models)
    check_sums(found)
    rows = [
        (item["name"], item["place"]["line"], item["place"]["column"], item["from"], item["kind"])
        for item in found["items"]
    ]
    assert code == 0
    assert rows == [
        ("prod/Deployment/pinned/vllm", 8, 11, "0.22.0", None),
        ("Pod/eagle/c", 20, 7, "0.21.0", "runner-v1-to-v2"),
        ("Pod/same/c", 31, 7, "0.33.0", None),
    ]


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "eagle", "labels": {"é": "𝔘"}},
    "spec": {"containers": [{"name": "c", "image": "vllm/vllm-openai:v0.21.0", "args": [MODEL, "--enforce-eager"]}]},
}


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (json.dumps(POD, indent=2, ensure_ascii=False), [(12, 7)]),
        (json.dumps([POD, POD], ensure_ascii=False), [(1, 115), (1, 329)]),
        (json.dumps([{"manifest": POD}], indent=1).replace("\n", "\r\n"), [(14, 6)]),
        (json.dumps([facts("a"), facts("b")], indent=1), [(2, 2), (13, 2)]),
        (json.dumps({**POD, "x": "y" * (4 << 20)}, indent=2), [(0, 0)]),
    ],
)
def test_places_in_json_have_lines_and_columns(
    impact: Callable[..., tuple[int, dict[str, Any]]], models: str, text: str, places: list[tuple[int, int]]
) -> None:
    _, found = impact(text, "--to", "0.33.0", "--models", models, name="f.json")
    assert [(each["place"].get("line", 0), each["place"].get("column", 0)) for each in found["items"]] == places
    lines = text.splitlines()
    assert {lines[line - 1][column - 1] for line, column in places if line} <= {"{"}


def test_removal_of_v1_changes_what_is_pinned(impact: Callable[..., tuple[int, dict[str, Any]]], models: str) -> None:
    code, found = impact(FLEET, "--releases", "0.33.0,v1-removed", "--models", models)
    check_sums(found)
    assert code == 0
    assert found["targets"] == ["0.33.0", "v1-removed"]
    assert [item["kind"] for item in found["items"]] == ["runner-v1-to-v2", None, None]


def test_release_without_v1_keeps_launch_errors(impact: Callable[..., tuple[int, dict[str, Any]]]) -> None:
    deployment = {"args": ["serve", MODEL, "--no-such-flag"], "model_configs": {MODEL: QWEN}}
    _, found = impact(lines({"deployment": deployment}), "--releases", "0.33.0,v1-removed", name="f.jsonl")
    (item,) = found["items"]
    assert [answer["launch_errors"] != [] for answer in item["releases"].values()] == [True, True]
    assert [answer["starts"] for answer in item["releases"].values()] == [False, False]


@pytest.mark.parametrize(
    ("options", "targets"),
    [
        (("--to", "0.33.0"), ["0.33.0"]),
        (("--to", "v0.33.0"), ["0.33.0"]),
        (("--from", "0.22.0", "--to", "v1-removed"), ["0.22.0", "v1-removed"]),
        (("--from", "0.33.0", "--to", "0.22.0"), ["0.33.0", "0.22.0"]),
        (("--releases", "0.22.0,0.23.0"), ["0.22.0", "0.23.0"]),
        (("--releases", "0.22.0,0.22.0 v0.23.0,"), ["0.22.0", "0.23.0"]),
        (("--releases", "v1-removed"), ["0.33.0", "v1-removed"]),
        (("--releases", "0.31.0..v1-removed"), ["0.31.0", "0.32.0", "0.33.0", "v1-removed"]),
    ],
)
def test_targets(
    impact: Callable[..., tuple[int, dict[str, Any]]], options: tuple[str, ...], targets: list[str]
) -> None:
    code, found = impact(lines(facts("a")), *options, name="f.jsonl")
    assert code == 0
    assert [name for name in found["targets"] if name in targets] == targets
    assert found["items"][0]["changes"] == [] or found["items"][0]["changes"][0]["from"] in {"0.22.0", *targets}


@pytest.mark.parametrize(
    "names",
    ["0.31.0..0.33.0", "0.31.0 ..0.33.0", "0.31.0.. 0.33.0", "0.31.0 .. 0.33.0", "0.31.0, 0.32.0 ..", " 0.31.0.."],
)
def test_a_range_may_have_blanks(impact: Callable[..., tuple[int, dict[str, Any]]], names: str) -> None:
    _, found = impact(lines(facts("a")), "--releases", names, name="f.jsonl")
    assert list(found["targets"]) == ["0.31.0", "0.32.0", "0.33.0"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "name what to compare: `--to "),
        (("--to", "0.33.0", "--releases", "all"), "name what to compare: `--to "),
        (("--to", "9.9.9"), "known releases"),
        (("--releases", "0.33.0..0.22.0"), "the earlier one is first: `0.22.0..0.33.0`"),
        (("--releases", "0.33.0"), "name two or more, or with `--to 0.33.0` compare it with what each image says"),
        (("--releases", "0.33.0..0.33.0"), "name two or more, or with `--to 0.33.0`"),
        (("--releases", "0.33.0,v0.33.0"), "name two or more, or with `--to 0.33.0`"),
        (("--releases", "0.23.0,0.22.0"), "`0.22.0,0.23.0`; `--from 0.23.0 --to 0.22.0` compares two releases in any"),
        (("--releases", "v1-removed,0.33.0"), "the earlier one is first: `0.33.0,v1-removed`"),
        (("--releases", "all", "--from", "0.22.0"), "`--from` goes with `--to`"),
        (("--from", "0.33.0", "--to", "0.33.0"), "name two releases"),
        (("--to", "0.33.0", "--format", "xml"), "--format: expected one of"),
        (("--to", "0.33.0", "--format", "parquet"), "name one with --output"),
        (("--to", "0.33.0", "--fail-on", "flip"), "--fail-on: expected one of"),
    ],
)
def test_wrong_usage(call: Callable[..., Done], options: tuple[str, ...], message: str) -> None:
    done = call("impact", "-", *options, stdin=lines(facts("a")))
    assert (done.code, done.out) == (2, "")
    assert message in done.err


@pytest.mark.parametrize(
    "request_of",
    [
        facts("a", version="9.9.9"),
        {"vllm_version": "9.9.9", "deployment": {"args": ["serve", MODEL], "model_configs": {MODEL: QWEN}}},
        {"vllm_version": "9.9.9", "manifest": pod_of("vllm/vllm-openai:v9.9.9")},
    ],
)
def test_named_releases_are_compared_whatever_a_request_states(
    impact: Callable[..., tuple[int, dict[str, Any]]], models: str, request_of: dict[str, Any]
) -> None:
    for options in (("--from", "0.21.0", "--to", "0.33.0"), ("--releases", "0.21.0,0.33.0")):
        code, found = impact(lines(request_of), *options, "--models", models, name="f.jsonl")
        assert (code, [item.get("kind") for item in found["items"]]) == (0, ["runner-v1-to-v2"])
    code, _ = impact(lines(request_of), "--to", "0.33.0", "--models", models, name="f.jsonl")
    assert code == 1


def test_no_fleet(call: Callable[..., Done]) -> None:
    done = call("impact", "--to", "0.33.0")
    assert (done.code, done.out) == (2, "")
    assert "name the fleet" in done.err


BROKEN = {
    "lines": (
        lines(facts("a")) + "{broken\n\n[1]\n" + lines(facts("b")) + '"text"\n',
        "f.jsonl",
        ["a", None, None, "b", None],
        [1, 2, 4, 5, 6],
    ),
    "lines with a broken first one": (
        '{"request_id": "x", broken\n' + lines(facts("a"), facts("b")),
        "f",
        [None, "a", "b"],
        [1, 2, 3],
    ),
    "lines, the first of which is not text": (b"\xff{\n\n" + lines(facts("a")).encode(), "f", [None, "a"], [1, 3]),
    "lines after blank ones": ("\n \r\n" + lines(facts("a")) + "{\n", "f", ["a", None], [3, 4]),
    "lines after a byte order mark": ("\ufeff" + lines(facts("a")) + "{\n", "f", ["a", None], [1, 2]),
    "named lines after a byte order mark": ("\ufeff" + lines(facts("a")) + "{\n", "f.jsonl", ["a", None], [1, 2]),
    "a byte order mark and a blank line": ("\ufeff\n" + lines(facts("a")) + "{\n", "f", ["a", None], [2, 3]),
    "a YAML text with an indented object": ('a: [\n  |\n  {"facts": {}}\n', "f.yaml", [None], [0]),
    "records of the log": (
        lines({"decision_id": "1", "input": facts("a"), "result": {}}, {"decision_id": "2", "input": 5}),
        "f.jsonl",
        ["a", None],
        [1, 2],
    ),
    "a YAML document": (
        FLEET.replace("kind: Pod\nmetadata: {name: eagle}", "kind: Pod\nmetadata: {name: [eagle}"),
        "f.yaml",
        ["prod/Deployment/pinned/vllm", None, "Pod/same/c"],
        [8, 17, 31],
    ),
    "binary": (b"\x00\xff\x1b[2J\n" + lines(facts("a")).encode(), "f.jsonl", [None, "a"], [1, 2]),
    "deep": ("[" * 100_000 + "\n" + lines(facts("a")), "f.jsonl", [None, "a"], [1, 2]),
    "long": ("x" * (9 << 20) + "\n" + lines(facts("a")), "f.jsonl", [None, "a"], [1, 2]),
    "a request of a list": (json.dumps([facts("a"), {"fact": 1}, facts("b")]), "f.json", ["a", None, "b"], [1, 0, 1]),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_entries(impact: Callable[..., tuple[int, dict[str, Any]]], case: str, models: str) -> None:
    text, name, names, places = BROKEN[case]
    code, found = impact(text, "--to", "0.33.0", "--models", models, name=name)
    check_sums(found)
    assert code == 1
    assert [item["name"] if "problem" not in item else None for item in found["items"]] == names
    assert [item["place"].get("line", 0) for item in found["items"]] == places
    assert all(item["problem"]["detail"] for item in found["items"] if "problem" in item)


@pytest.mark.parametrize("case", [case for case in BROKEN if "lines" in case or "mark" in case])
def test_broken_lines_of_standard_input(call: Callable[..., Done], case: str) -> None:
    text, _, names, places = BROKEN[case]
    done = call("impact", "-", "--to", "0.33.0", "--json", stdin=text)
    found = json.loads(done.out)
    check_sums(found)
    assert done.code == 1
    assert [item["name"] if "problem" not in item else None for item in found["items"]] == names
    assert [item["place"].get("line", 0) for item in found["items"]] == places


def test_more_lines_than_a_text_may_have_are_read_after_a_broken_one(
    call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("policy.cli.fleet_sources.MAX_FILE", 300)
    done = call("impact", "-", "--to", "0.33.0", "--json", stdin="{\n" + lines(*(facts(str(n)) for n in range(9))))
    assert [item["place"]["line"] for item in json.loads(done.out)["items"]] == [*range(1, 11)]


@pytest.mark.parametrize(
    ("name", "text"),
    [("f.yaml", b""), ("f.json", b"{"), ("f.yaml", b"\xff\xfe"), ("f.parquet", b"PAR1 no"), ("f.hcl.nomad", b"job {}")],
)
def test_files_that_cannot_be_read(impact: Callable[..., tuple[int, dict[str, Any]]], name: str, text: bytes) -> None:
    code, found = impact(text, "--to", "0.33.0", name=name)
    check_sums(found)
    assert code == 1
    assert [item["place"]["file"].endswith(name) for item in found["items"]] == [True]


def test_folder_with_a_link_that_leads_out(call: Callable[..., Done], tmp_path: Path, models: str) -> None:
    folder = tmp_path / "fleet"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.yaml").write_text(FLEET)
    (folder / "b.yaml").symlink_to("/etc/passwd")
    done = call("impact", str(folder), "-R", "--to", "0.33.0", "--models", models, "--json")
    found = json.loads(done.out)
    check_sums(found)
    assert done.code == 1
    assert [item["name"] for item in found["items"] if "problem" not in item] == [
        "prod/Deployment/pinned/vllm",
        "Pod/eagle/c",
        "Pod/same/c",
    ]
    assert {item["place"]["file"] for item in found["items"] if "problem" not in item} == {"deep/a.yaml"}
    assert [item["problem"]["detail"] for item in found["items"] if "problem" in item] == [
        "not read, because the link leads out of the folder"
    ]


@pytest.mark.parametrize(
    ("folder", "name", "text", "place", "detail"),
    [
        (
            "two",
            "x.yaml",
            '{"apiVersion": "v1", "kind": Pod,,',
            {"line": 1, "column": 1},
            "not JSON: JSON is malformed: invalid character (byte 29); not YAML: the bracket",
        ),
        ("fold: er", "x.yaml", "a: [\n", {"line": 1, "column": 4}, "not YAML: the bracket `[` is not closed"),
        ("two", "x.json", "{", {}, "not JSON: "),
        ("fold: er", "x: y.nomad", "job {}", {}, "HCL is not read; run `nomad job run -output fold: er/x: y.nomad"),
    ],
)
def test_a_file_of_a_folder_that_cannot_be_read_counts_once_with_its_place(
    call: Callable[..., Done],
    tmp_path: Path,
    models: str,
    monkeypatch: pytest.MonkeyPatch,
    folder: str,
    name: str,
    text: str,
    place: dict[str, int],
    detail: str,
) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "a.yaml").write_text(OLD_FLAG)
    (tmp_path / folder / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    options = ("impact", folder, "--to", "0.30.0", "--models", models)
    found = json.loads(call(*options, "--json").out)
    check_sums(found)
    (item,) = (each for each in found["items"] if "problem" in each)
    assert (len(found["items"]), item["place"]) == (2, {"file": f"{folder}/{name}", **place})
    assert item["problem"]["detail"][: len(detail)] == detail
    results = json.loads(call(*options, "--format", "sarif").out)["runs"][0]["results"]
    (where,) = (each["locations"][0]["physicalLocation"] for each in results if each["ruleId"] == "not-decided")
    assert where["artifactLocation"]["uri"] == quote(f"{folder}/{name}")
    assert where["region"] == {"startLine": place.get("line", 1), "startColumn": place.get("column", 1)}


def test_one_broken_object_of_a_list(impact: Callable[..., tuple[int, dict[str, Any]]], models: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    spec = {"containers": [{"name": "c", "image": "vllm/vllm-openai:v0.22.0", "args": [MODEL]}]}
    broken = {**pod, "spec": {"containers": [{"name": "c", "image": 5, "args": 7}]}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [{**pod, "spec": spec}, broken, {**pod, "spec": spec}]}
    code, found = impact(json.dumps(listed), "--to", "0.33.0", "--models", models, name="f.json")
    check_sums(found)
    assert code in {0, 1}
    assert [item["name"] for item in found["items"] if "problem" not in item] == ["Pod/a/c", "Pod/a/c"]


def test_fail_on(call: Callable[..., Done], models: str) -> None:
    options = ("impact", "-", "--to", "0.33.0", "--models", models, "--fail-on")
    codes = [call(*options, kind, stdin=FLEET).code for kind in ("no-start", "runner-v1-to-v2", "reasons")]
    assert codes == [0, 1, 1]


def test_a_launch_error_fails_on_no_start(call: Callable[..., Done], models: str) -> None:
    options = ("impact", "-", "--to", "0.30.0", "--models", models, "--fail-on", "no-start")
    assert call(*options, stdin=OLD_FLAG).code == 1


OLD_FLAG = """\
apiVersion: v1
kind: Pod
metadata: {name: old}
spec:
  containers:
    - name: c
      image: vllm/vllm-openai:v0.17.1
      args: [Qwen/Qwen3-8B, --swap-space, "4"]
"""
DROPPED = "to start: drop --swap-space (V2)"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("text", f"What helps\n1× {DROPPED} [Pod/old/c]\n"),
        ("csv", f",{DROPPED}\n"),
        ("markdown", f"| `{DROPPED}` |\n"),
        ("markdown", f"- 1× `{DROPPED}`: `Pod/old/c`\n"),
        ("sarif", f"; {DROPPED}"),
        ("jsonl", '"remedies":{"0.30.0":[{"for":"start","change":[{"argument":"--swap-space",'),
    ],
)
def test_what_helps_is_in_each_format(call: Callable[..., Done], models: str, form: str, expected: str) -> None:
    options = ("impact", "-", "--to", "0.30.0", "--models", models, "--format", form)
    assert expected in call(*options, "--explain", stdin=OLD_FLAG).out
    assert "drop --swap-space" not in call(*options, stdin=OLD_FLAG).out


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("text", f"What helps\n1× to start in 0.18.0: {DROPPED.removeprefix('to start: ')[:-4]}(V1) [Pod/old/c]\n"),
        ("markdown", "- 1× `to start in 0.18.0: drop --swap-space (V1)`: `Pod/old/c`\n"),
        ("csv", ",to start: drop --swap-space (V1)\nPod/old/c,,'-,6,7,0.30.0,"),
        ("csv", f",{DROPPED}\n"),
    ],
)
def test_each_release_of_a_strip_has_what_helps(
    call: Callable[..., Done], models: str, form: str, expected: str
) -> None:
    options = ("impact", "-", "--releases", "0.17.1,0.18.0,0.30.0", "--models", models, "--format", form)
    assert expected in call(*options, "--explain", stdin=OLD_FLAG).out


def test_a_flag_at_several_places_is_one_cause(call: Callable[..., Done], models: str) -> None:
    other = OLD_FLAG.replace("args: [", "command: [vllm, serve, ").replace("old", "other")
    done = call(
        "impact", "-", "--to", "0.30.0", "--models", models, "--format", "text", stdin=f"{OLD_FLAG}---\n{other}"
    )
    cause = (
        "2× launch refused at 0.30.0, vLLM 0.30.0 has no flag `--swap-space` and would not start; 0.3.0 to 0.17.1 have"
    )
    assert cause in done.out


def test_a_long_cause_shortens_no_heading(call: Callable[..., Done], models: str) -> None:
    done = call("impact", "-", "--to", "0.30.0", "--models", models, "--format", "text", stdin=OLD_FLAG)
    head, _, row = done.out.splitlines()[:3]
    assert head == "change           deployment   made by"
    assert row.startswith("launch refused   Pod/old/c    vLLM 0.30.0 has no flag `--swap-space`")


def test_text(call: Callable[..., Done], models: str) -> None:
    done = call("impact", "-", "--to", "0.33.0", "--models", models, "--format", "text", stdin=FLEET)
    assert done.code == 0
    assert done.out == (
        """\
change     deployment    made by
──────────────────────────────────────────────
V1 to V2   Pod/eagle/c   v2-by-default, opt-in

What makes the changes
1× V1 to V2 at 0.33.0, v2-by-default, opt-in: nothing keeps this deployment from V2, the default

1 of 3 deployments changes: 1 flips from V1 to V2

change      deployments
───────────────────────
V1 to V2              1
unchanged             2
all                   3

release   V1   V2
─────────────────
0.21.0     1    0
0.22.0     1    0
0.33.0     1    2
"""
    )


def test_other_errors_are_the_cause_if_nothing_else_changes(call: Callable[..., Done]) -> None:
    args = ["serve", MODEL, "--no-such-flag", "--swap-space", "4"]
    fleet = lines({"deployment": {"args": args, "model_configs": {MODEL: QWEN}}})
    done = call("impact", "-", "--releases", "0.17.1,0.18.0", "--format", "text", stdin=fleet)
    error = "vLLM 0.18.0 has no flag `--swap-space` and would not start; 0.3.0 to 0.17.1 have it"
    assert f"1× reasons only at 0.18.0, {error}" in done.out


def test_the_same_error_of_another_release_is_no_change(
    impact: Callable[..., tuple[int, dict[str, Any]]],
) -> None:
    fleet = lines({"deployment": {"args": ["serve", MODEL, "--no-such-flag"], "model_configs": {MODEL: QWEN}}})
    _, found = impact(fleet, "--releases", "0.23.0,0.24.0", name="f.jsonl")
    check_sums(found)
    assert [answer["launch_errors"] for answer in found["items"][0]["releases"].values()] == [
        ["vLLM 0.23.0 has no flag `--no-such-flag` (args[2]) and would not start"],
        ["vLLM 0.24.0 has no flag `--no-such-flag` (args[2]) and would not start"],
    ]
    assert (found["counts"]["unchanged"], found["items"][0]["changes"]) == (1, [])


def test_causes_are_indented_beside_their_numbers(call: Callable[..., Done]) -> None:
    connector = facts("x", version="0.23.0", kv_transfer_config={"kv_connector": "NixlConnector"})
    fleet = lines(*(facts(f"d{number}", version="0.21.0") for number in range(20)), connector)
    found = call("impact", "-", "--to", "0.33.0", "--format", "text", stdin=fleet).out.splitlines()
    start = found.index("What makes the changes") + 1
    assert [line[:20] for line in found[start : found.index("", start)]] == [
        "20× V1 to V2 at 0.33",
        " 1× V1 to V2 at 0.33",
        "    VLLM_USE_V2_MODE",
    ]


def test_hostile_names_obey_nothing(call: Callable[..., Done]) -> None:
    name = "=1+1|`\x1b[31m\n<script>"
    fleet = lines(facts(name, version="0.21.0"))
    for form in "text", "markdown", "csv":
        done = call("impact", "-", "--to", "0.33.0", "--format", form, stdin=fleet)
        assert "\x1b" not in done.out, form
        assert "\n<script>" not in done.out, form
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["deployment"] for row in rows] == ["'=1+1|`\\x1b[31m\\n<script>"] * 2
    markdown = call("impact", "-", "--to", "0.33.0", "--format", "markdown", stdin=fleet).out
    assert "``=1+1\\|`\\\\x1b[31m\\\\n<script>``" in markdown


@table(
    ("name", "cell"),
    [
        *((f"{first}1+1", f"'{first}1+1") for first in ("\uff1d", "\uff0b", "\uff0d", "\uff20", "@", "-", ",-", '"=')),
        (";=1", "';'=1"),
        ("; =1", "';' =1"),
        ("|@a", "'|'@a"),
        ("';+1", "'';'+1"),
        ("a;=1+1", "a;'=1+1"),
        ('a;"=1', "a;'\"=1"),
        ("a|-1;b;@c", "a|'-1;b;'@c"),
        ("a;b|c=d", "a;b|c=d"),
    ],
)
def test_no_cell_is_a_formula(call: Callable[..., Done], name: str, cell: str) -> None:
    fleet = lines(facts(name, version="0.21.0"))
    done = call("impact", "-", "--to", "0.33.0", "--format", "csv", stdin=fleet)
    assert {row["deployment"] for row in csv.DictReader(io.StringIO(done.out))} == {cell}


def test_several_files_for_one_report_are_refused(call: Callable[..., Done], tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.csv", "b.html")]
    done = call("impact", "-", "--to", "0.33.0", "-o", str(files[0]), "-o", str(files[1]), stdin=lines(facts("a")))
    assert (done.code, [path.exists() for path in files]) == (2, [False, False])
    assert "--output: a report is written to one file" in done.err


def test_no_message_of_sarif_has_a_link(call: Callable[..., Done]) -> None:
    fleet = lines(facts("[look](javascript:1)", version="0.21.0"))
    (run,) = json.loads(call("impact", "-", "--to", "0.33.0", "--format", "sarif", stdin=fleet).out)["runs"]
    assert [result["message"]["text"].partition(" ")[0] for result in run["results"]] == ["[look\\](javascript:1)"]


def test_markdown_of_many_folds_and_fits(call: Callable[..., Done]) -> None:
    fleet = lines(*(facts(f"d{number:04}", version="0.21.0") for number in range(1_000)))
    found = call("impact", "-", "--to", "0.33.0", "--format", "markdown", stdin=fleet).out
    head, _, folded = found.partition("<details>")
    assert len(head.splitlines()) < 24
    assert "| V1 to V2 at `0.33.0` | `d0000` | `v2-by-default, opt-in` |  |" in head
    assert len(found) < 65_536
    assert folded.count("<details>") + 1 == found.count("</details>")


def test_sarif_names_the_argument(call: Callable[..., Done], tmp_path: Path, models: str) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET)
    done = call("impact", str(file), "--releases", "0.33.0,v1-removed", "--models", models, "--format", "sarif")
    document = json.loads(done.out)
    (run,) = document["runs"]
    (result,) = run["results"]
    assert document["version"] == "2.1.0"
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "runner-v1-to-v2"
    (location,) = result["locations"]
    assert location["physicalLocation"]["region"] == {"startLine": 12, "startColumn": 15}
    assert location["logicalLocations"] == [{"fullyQualifiedName": "prod/Deployment/pinned/vllm"}]


def test_parquet_has_the_rows_of_csv(call: Callable[..., Done], tmp_path: Path) -> None:
    from arro3.io import read_parquet  # noqa: PLC0415

    fleet = tmp_path / "fleet.jsonl"
    fleet.write_text(lines(*(facts(f"d{n}", f"A{n % 3}ForCausalLM") for n in range(50))) + "{\n")
    for name in "a.csv", "a.parquet":
        done = call("impact", str(fleet), "--releases", "0.22.0..0.24.0", "-o", str(tmp_path / name))
        assert done.code == 1, done.err
    rows = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text())))
    columns: dict[str, list[Any]] = {}
    for batch in read_parquet(str(tmp_path / "a.parquet")):
        for name in batch.schema.names:
            columns.setdefault(name, []).extend(batch.column(name).to_pylist())
    assert len(rows) == len(columns["release"])
    for name, values in columns.items():
        shown = ["" if value is None else str(value).lower() if type(value) is bool else str(value) for value in values]
        assert [row[name] for row in rows] == shown


def test_parquet_as_input(call: Callable[..., Done], tmp_path: Path) -> None:
    from arro3.core import Array, DataType, RecordBatch  # noqa: PLC0415
    from arro3.io import write_parquet  # noqa: PLC0415

    values = [json.dumps(facts("a")), "{", None]
    write_parquet(RecordBatch.from_pydict({"input": Array(values, DataType.string())}), str(tmp_path / "f.parquet"))
    done = call("impact", str(tmp_path / "f.parquet"), "--to", "0.33.0", "--json")
    found = json.loads(done.out)
    check_sums(found)
    assert done.code == 1
    assert ["problem" in item for item in found["items"]] == [False, True, True]
    assert [item["place"]["line"] for item in found["items"]] == [1, 2, 3]


@pytest.mark.slow
def test_any_number_of_processes_writes_the_same(call: Callable[..., Done], tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.jsonl"
    fleet.write_text(
        lines(*(facts(f"d{n}", f"A{n % 900}ForCausalLM") for n in range(4_000))) + "{\n" + lines(facts("last"))
    )
    for jobs in "1", "2":
        done = call(
            "impact", str(fleet), "--releases", "0.22.0,0.33.0", "--jobs", jobs, "-o", str(tmp_path / f"{jobs}.jsonl")
        )
        assert done.code == 1, done.err
    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / "2.jsonl").read_bytes()


def test_recordings_agree_in_every_release(call: Callable[..., Done], policy: Policy, tmp_path: Path) -> None:
    """What impact says of each release is what the recorded release did."""
    for release in "0.22.0", "0.27.0", "0.33.0":
        with gzip.open(RECORDINGS / f"{release}.jsonl.gz", "rt") as file:
            recorded = [json.loads(line) for line, _ in zip(file, range(300), strict=False)]
        fleet = tmp_path / f"{release}.jsonl"
        fleet.write_text(
            lines(*({**each["request"], "vllm_version": release, "layers": ["upstream"]} for each in recorded))
        )
        found = json.loads(call("impact", str(fleet), "--to", "0.33.0", "--json").out)
        check_sums(found)
        for each, item in zip(recorded, found["items"], strict=True):
            answer = item["releases"][release]
            recorded_fields = {name: answer[name] for name in each["expected"]}
            found_fields = as_configured(policy, recorded_fields, answer["startup_errors"])
            assert found_fields == each["expected"], each["id"]


def test_a_file_that_does_not_exist_is_wrong_usage(call: Callable[..., Done], tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.jsonl"
    fleet.write_text(lines(facts("a")))
    done = call("impact", str(fleet), str(tmp_path / "nnoe.yaml"), "a\0b", "--to", "0.33.0")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == [
        f"{tmp_path}/nnoe.yaml: there is no such file or folder",
        "a\\x00b: there is no such file or folder",
    ]


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (("fix", "{}"), "run `helm template {} | runner-policy fix -`\n"),
        (
            ("impact", "{}", "--to", "0.33.0", "--json"),
            'run `helm template {} | runner-policy impact -`, or add `--render`, which runs that command"',
        ),
    ],
)
def test_only_a_command_that_renders_advises_its_option(
    call: Callable[..., Done], tmp_path: Path, command: tuple[str, ...], advice: str
) -> None:
    chart = tmp_path / "chart"
    chart.mkdir()
    (chart / "Chart.yaml").write_text("name: c\n")
    done = call(*(word.format(chart) for word in command))
    assert done.code in {1, 2}
    assert f"Helm has to render it; {advice.format(chart)}" in f"{done.out}{done.err}"


def test_no_decision_log(call: Callable[..., Done], tmp_path: Path) -> None:
    missing = call("impact", "--log", f"sqlite:///{tmp_path}/none.db", "--to", "0.33.0")
    assert (missing.code, missing.out) == (2, "")
    assert "no log found at" in missing.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_says_what_it_has(number: signal.Signals, shipped_command: list[str], tmp_path: Path) -> None:
    # not measured: a signal within the tracer of coverage leaves its lock held, and the command hangs
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    output = tmp_path / "out.jsonl"
    with (
        output.open("wb") as target,
        subprocess.Popen(
            [*shipped_command, "impact", "-", "--to", "0.33.0", "--format", "jsonl", "--jobs", "1"],
            stdin=subprocess.PIPE,
            stdout=target,
            stderr=subprocess.PIPE,
            env=env,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stderr is not None
        try:
            process.stdin.write(lines(*(facts(f"d{at}") for at in range(2_000))).encode())
            process.stdin.flush()
            while process.poll() is None and not output.stat().st_size:
                time.sleep(0.05)  # until a chunk is written: then the command reads on, and nothing comes
            process.send_signal(number)
            code, err = process.wait(30), process.stderr.read().decode()
        finally:
            process.kill()
    found = [json.loads(line) for line in output.read_text().splitlines()]
    last = found.pop()
    assert code == 130
    assert [item["name"] for item in found] == [f"d{at}" for at in range(len(found))]
    assert last["complete"] is False
    assert last["counts"]["deployments"] == len(found) > 0
    assert f"interrupted: the report has the first {len(found):,} deployments" in err


def test_each_release_is_decided_as_alone(call: Callable[..., Done], policy: Policy) -> None:
    """Impact over releases says what the decision for each release says, for facts and deployments of all kinds."""
    chance = random.Random(16)
    flags = [
        ["--enforce-eager"],
        ["--enable-dbo"],
        ["--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'],
        ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}'],
        ["-pp", "2"],
        ["--no-such-flag"],
        ["--swap-space", "4"],
        ["--max-model-len", "1k"],
    ]
    documents = []
    for number in range(40):
        args = ["serve", MODEL, *(word for each in chance.sample(flags, chance.randrange(4)) for word in each)]
        deployment: dict[str, Any] = {"args": args, "model_configs": {MODEL: QWEN}}
        if chance.random() < 0.3:
            deployment["env"] = {"VLLM_USE_V2_MODEL_RUNNER": chance.choice(["0", "1", "x"])}
        documents.append({"request_id": f"d{number}", "deployment": deployment})
    options = ("impact", "-", "--releases", "0.22.0,0.27.0,0.33.0", "--json")
    found = json.loads(call(*options, stdin=lines(*documents)).out)
    check_sums(found)
    for document, item in zip(documents, found["items"], strict=True):
        for release, answer in item["releases"].items():
            request = read_request({**document, "vllm_version": release}, policy.releases)
            alone = json.loads(policy.answer(request, TODAY).json)
            names = (
                "runner",
                "outcome",
                "starts",
                "startup_errors",
                "launch_errors",
                "set_env",
                "unsupported_features",
            )
            assert {name: answer[name] for name in names} == {name: alone[name] for name in names}, (document, release)
            # impact leaves advice out, and has refusals apart
            reasons = [each for each in alone["reasons"] if not each["effect"].startswith(("advise", "refuse"))]
            rules = [(each["rule"], each["decisive"]) for each in answer["reasons"]]
            assert rules == [(each["rule"], each["decisive"]) for each in reasons]
            problems = [each["rule"] for each in answer["known_problems"]]
            assert problems == [each["rule"] for each in alone["known_problems"]]


def test_remedies_that_are_not_listed_are_counted(
    call: Callable[..., Done], models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("policy.impact.rows.MAX_CAUSES", 1)
    other = OLD_FLAG.replace('"4"]', '"4", --max-seq-len-to-capture, "8"]').replace("old", "other")
    options = ("impact", "-", "--to", "0.30.0", "--models", models, "--format", "text", "--explain")
    out = call(*options, stdin=f"{OLD_FLAG}---\n{other}").out
    assert (
        f"What helps\n1× {DROPPED} [Pod/old/c]\n… and 1 deployment by other changes; `--format json` has all\n" in out
    )
