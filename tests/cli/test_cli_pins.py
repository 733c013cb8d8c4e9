"""The command ``pins``, and the removal of redundant pins by ``fix``."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from cli.test_cli_impact import MODEL, QWEN, facts, lines, models

from policy.pins.verdicts import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from api.conftest import Done

__all__ = ["models"]
NAME = "VLLM_USE_V2_MODEL_RUNNER"
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
            # a crash of last year
            - name: VLLM_USE_V2_MODEL_RUNNER
              value: "0"
---
apiVersion: v1
kind: Pod
metadata: {name: script}
spec:
  containers:
    - name: c
      image: vllm/vllm-openai:v0.33.0
      command: [sh, -c, "export VLLM_USE_V2_MODEL_RUNNER=1; exec vllm serve Qwen/Qwen3-8B --enforce-eager"]
---
apiVersion: v1
kind: Pod
metadata: {name: bare}
spec:
  containers:
    - {name: c, image: "vllm/vllm-openai:v0.33.0", args: [Qwen/Qwen3-8B]}
---
apiVersion: v1
kind: Pod
metadata: {name: both}
spec:
  containers:
    - name: c
      image: vllm/vllm-openai:v0.33.0
      command: [env, VLLM_USE_V2_MODEL_RUNNER=1, vllm, serve, Qwen/Qwen3-8B]
      env: [{name: VLLM_USE_V2_MODEL_RUNNER, value: "0"}]
---
apiVersion: ray.io/v1
kind: RayService
metadata: {name: ray}
spec:
  serveConfigV2: |
    applications:
      - name: llm
        import_path: ray.serve.llm:build_openai_app
        args: {llm_configs: [{model_loading_config: {model_id: Qwen/Qwen3-8B}}]}
  rayClusterConfig:
    headGroupSpec:
      template: {spec: {containers: [{name: ray, image: "rayproject/ray-llm:2.58.0"}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: elsewhere}
spec:
  containers:
    - name: c
      image: vllm/vllm-openai:v0.33.0
      args: [Qwen/Qwen3-8B]
      env: [{name: VLLM_USE_V2_MODEL_RUNNER, valueFrom: {configMapKeyRef: {name: x, key: y}}}]
"""


def check_sums(document: dict[str, Any]) -> None:
    """The counts add up to the input, now and in each release."""
    counts, items = document["counts"], document["items"]
    assert counts["deployments"] == counts["unread"] + counts["unpinned"] + counts["pinned"]
    assert counts["unread"] == sum("problem" in item for item in items)
    assert counts["pins"] == sum(counts["now"].values()) == sum("verdict" in item for item in items)
    for release, found in counts["releases"].items():
        assert sum(found.values()) == counts["pins"]
        given = [item["releases"][release]["verdict"] for item in items if "verdict" in item]
        assert found == {str(verdict): given.count(str(verdict)) for verdict in VERDICTS}


def pins_in(done: Done) -> list[tuple[Any, ...]]:
    found = json.loads(done.out)
    check_sums(found)
    return [
        (item["name"], item["place"]["line"], item["place"]["column"], item["set_by"], item["value"], item["verdict"])
        for item in found["items"]
    ]


EXPECTED = [
    ("prod/Deployment/pinned/vllm", 13, 15, "variables", "0", "needed"),
    ("Pod/script/c", 23, 33, "command", "1", "redundant"),
    ("Pod/both/c", 40, 13, "variables", "0", "redundant"),
    ("Pod/both/c", 39, 22, "command", "1", "needed"),
    ("RayService/ray", 46, 18, "image", "0", "needed"),
    ("Pod/elsewhere/c", 63, 13, "variables", None, "undecided"),
]


def test_names_places_and_verdicts(call: Callable[..., Done], tmp_path: Path, models: str) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    done = call("pins", str(tmp_path / "fleet.yaml"), "--to", "0.33.0", "--models", models, "--json")
    found = pins_in(done)
    assert (done.code, done.err) == (1, "")
    assert found == EXPECTED


def test_standard_input_has_the_same_lines(call: Callable[..., Done], tmp_path: Path, models: str) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    of_file = pins_in(call("pins", str(tmp_path / "fleet.yaml"), "--models", models, "--json"))
    of_input = pins_in(call("pins", "-", "--models", models, "--json", stdin=FLEET))
    of_folder = pins_in(call("pins", str(tmp_path), "--models", models, "--json"))
    assert of_folder == of_file
    # the column of a word inside a script is known of files only
    assert [each[:2] + each[3:] for each in of_input] == [each[:2] + each[3:] for each in of_file]


JSON_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "j"},
    "spec": {
        "containers": [
            {"name": "c", "image": "vllm/vllm-openai:v0.33.0", "args": [MODEL], "env": [{"name": NAME, "value": "1"}]}
        ]
    },
}
DEPLOYMENT = {"args": ["serve", MODEL], "env": {NAME: "1"}, "model_configs": {MODEL: QWEN}}
UNIT = f"[Service]\nEnvironment={NAME}=1\nExecStart=/usr/bin/vllm serve {MODEL}\n"


@pytest.mark.parametrize(
    ("name", "text", "line", "column"),
    [
        ("pod.json", json.dumps(JSON_POD, indent=1), 16, 6),
        ("request.json", json.dumps({"deployment": DEPLOYMENT, "vllm_version": "0.33.0"}, indent=1), 8, 4),
        ("facts.json", json.dumps(facts("f", version="0.33.0", env={NAME: "1"}), indent=1), 11, 32),
        ("run.sh", f"#!/bin/sh\nexport {NAME}=1\nvllm serve {MODEL}\n", 2, 8),
        ("vllm.service", UNIT, 2, 1),
        ("fleet.jsonl", lines(facts("a", version="0.33.0"), facts("b", version="0.33.0", env={NAME: "1"})), 2, None),
    ],
)
def test_places_in_files_of_all_kinds(
    call: Callable[..., Done], tmp_path: Path, models: str, name: str, text: str, line: int, column: int | None
) -> None:
    (tmp_path / name).write_text(text)
    done = call("pins", str(tmp_path / name), "--models", models, "--default-release", "0.33.0", "--json")
    (item,) = json.loads(done.out)["items"]
    assert (item["place"]["line"], item["place"].get("column"), item["verdict"]) == (line, column, "redundant")


VERDICTS_BY_FACTS = [
    (facts("opt-in", version="0.33.0", env={NAME: "1"}, parallel_config={"enable_dbo": True}), "needed"),
    (facts("opt-out", version="0.33.0", env={NAME: "0"}), "unexplained"),
    (facts("memory", version="0.22.0", env={NAME: "0"}), "needed"),
    (facts("same", version="0.33.0", env={NAME: True}), "redundant"),
    (facts("malformed", version="0.33.0", env={NAME: "maybe"}), "fatal"),
    (
        facts("house", version="0.23.0", env={NAME: "1"}, kv_transfer_config={"kv_connector": "NixlConnector"}),
        "harmful",
    ),
    (facts("needed by house", version="0.23.0", env={NAME: "0"}, kv_transfer_config={}), "needed"),
    (facts("not read", version="0.19.0", env={NAME: "0"}), "redundant"),
]


def test_a_verdict_of_each_kind(call: Callable[..., Done]) -> None:
    done = call("pins", "-", "--json", stdin=lines(*(document for document, _ in VERDICTS_BY_FACTS)))
    found = json.loads(done.out)
    check_sums(found)
    assert [(item["request_id"], item["verdict"]) for item in found["items"]] == [
        (document["request_id"], verdict) for document, verdict in VERDICTS_BY_FACTS
    ]
    assert done.code == 0


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--fail-on", "fatal"), 0),
        (("--fail-on", "needed"), 1),
        (("--fail-on", "unexplained", "--to", "0.33.0"), 1),
        ((), 0),
    ],
)
def test_fail_on(call: Callable[..., Done], options: tuple[str, ...], code: int) -> None:
    fleet = lines(facts("memory", version="0.22.0", env={NAME: "0"}))
    assert call("pins", "-", *options, "--json", stdin=fleet).code == code


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--to", "9.9"), "9.9"),
        (("--fail-on", "bad"), "--fail-on: expected one of `fatal`, `harmful`"),
        (("--format", "xml"), "--format: expected one of `text`, `json`"),
    ],
)
def test_wrong_usage(call: Callable[..., Done], options: tuple[str, ...], message: str) -> None:
    done = call("pins", "-", *options, stdin=lines(facts("a")))
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_no_fleet(call: Callable[..., Done]) -> None:
    assert "name the fleet" in call("pins").err


def test_broken_entries_are_listed_and_counted(call: Callable[..., Done]) -> None:
    done = call(
        "pins", "-", "--to", "0.33.0", "--json", stdin=lines(facts("a", env={NAME: "1"})) + "{\n" + '{"a": 1}\n'
    )
    found = json.loads(done.out)
    check_sums(found)
    assert done.code == 1
    assert found["counts"]["unread"] == 2
    assert [item["place"]["line"] for item in found["items"]] == [1, 2, 3]


def test_a_missing_model_is_undecided(call: Callable[..., Done]) -> None:
    done = call("pins", "-", "--json", stdin=FLEET.partition("---")[0])
    (item,) = json.loads(done.out)["items"]
    assert (done.code, item["verdict"], item["place"]["line"]) == (1, "undecided", 13)
    assert "config.json" in item["releases"]["0.22.0"]["why"]


def test_text(call: Callable[..., Done], models: str) -> None:
    fleet = FLEET.partition("---\napiVersion: ray")[0]
    done = call("pins", "-", "--to", "0.30.0,v1-removed", "--models", models, "--format", "text", stdin=fleet)
    assert done.code == 0
    head = done.out.splitlines()[0]
    assert head.split() == ["verdict", "value", "deployment", "place", "later"]
    rows = [line.split() for line in done.out.splitlines()[2:6]]
    assert [row[:4] for row in rows] == [
        ["redundant", "1", "Pod/script/c", "-:23:25"],
        ["redundant", "0", "Pod/both/c", "-:40:13"],
        ["needed", "0", "prod/Deployment/pinned/vllm", "-:13:15"],
        ["needed", "1", "Pod/both/c", "-:39:22"],
    ]
    assert "3 of 4 deployments have a pin; 4 pins: 2 redundant, 2 needed" in done.out


def test_csv_has_a_row_for_each_pin_and_release(call: Callable[..., Done]) -> None:
    fleet = lines(facts("=1+1", version="0.22.0", env={NAME: "0"}), facts("bare"))
    done = call("pins", "-", "--to", "0.33.0", "--format", "csv", stdin=fleet)
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [(row["deployment"], row["release"], row["verdict"], row["runner_without"]) for row in rows] == [
        ("'=1+1", "0.22.0", "needed", "v2"),
        ("'=1+1", "0.33.0", "unexplained", "v2"),
    ]


def test_markdown_of_many_folds_and_fits(call: Callable[..., Done]) -> None:
    fleet = lines(*(facts(f"d{n:04}|`", version="0.22.0", env={NAME: "0"}) for n in range(1_000)))
    found = call("pins", "-", "--to", "0.33.0", "--format", "markdown", stdin=fleet).out
    head, _, folded = found.partition("<details>")
    assert len(head.splitlines()) < 24
    assert len(found) < 65_536
    assert folded.count("<details>") + 1 == found.count("</details>")
    assert "1,000 of 1000 deployments have a pin; 1000 pins: 1,000 needed" in head


@pytest.mark.slow
def test_any_number_of_processes_writes_the_same(call: Callable[..., Done], tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.jsonl"
    fleet.write_text(lines(*(facts(f"d{n}", f"A{n % 900}ForCausalLM", env={NAME: "0"}) for n in range(3_000))))
    for jobs in "1", "2":
        assert call("pins", str(fleet), "--to", "0.33.0", "--jobs", jobs, "-o", f"{tmp_path}/{jobs}.jsonl").code == 0
    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / "2.jsonl").read_bytes()


def test_fix_removes_the_redundant_ones_only(call: Callable[..., Done], tmp_path: Path, models: str) -> None:
    file = tmp_path / "fleet.yaml"
    text = FLEET.partition("---\napiVersion: ray")[0]
    file.write_text(text)
    before = json.loads(call("impact", str(file), "--to", "0.33.0", "--models", models, "--json").out)["items"]
    done = call("fix", str(file), "--for", "pins", "--write", "--models", models, "--json")
    assert done.code == 0, done.out + done.err
    assert file.read_text() == text.replace("export VLLM_USE_V2_MODEL_RUNNER=1; ", "").replace(
        "VLLM_USE_V2_MODEL_RUNNER=1, ", ""
    ).replace('      env: [{name: VLLM_USE_V2_MODEL_RUNNER, value: "0"}]\n', "")
    after = json.loads(call("impact", str(file), "--to", "0.33.0", "--models", models, "--json").out)["items"]

    def answers(items: list[dict[str, Any]]) -> list[Any]:
        names = ("runner", "starts", "startup_errors", "launch_errors", "known_problems", "set_env")
        return [[{key: each[key] for key in names} for each in item["releases"].values()] for item in items]

    assert [each[0] for each in answers(after)] == [each[0] for each in answers(before)]
    left = json.loads(call("pins", str(file), "--models", models, "--json").out)["items"]
    assert [item["verdict"] for item in left] == ["needed"]


def test_a_pin_of_what_never_starts_says_why_it_does_not(
    call: Callable[..., Done], models: str, tmp_path: Path
) -> None:
    """The verdict is about the pin alone; the errors are those that stand with it and without it."""
    fleet = tmp_path / "old.yaml"
    fleet.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: old}\nspec:\n  containers:\n"
        f"    - {{name: c, image: 'vllm/vllm-openai:v0.17.1', env: [{{name: {NAME}, value: '0'}}],\n"
        "       args: [Qwen/Qwen3-8B, --swap-space, '4']}\n"
    )
    done = call("pins", str(fleet), "--to", "0.33.0", "--models", models, "--json")
    [item] = json.loads(done.out)["items"]
    later = item["releases"]["0.33.0"]
    assert (later["verdict"], later["starts"], later["without"]["starts"]) == ("unexplained", False, False)
    begins = later["why"].partition("; 0.3.0")[0]
    assert begins == (
        "vLLM does not start, with it or without it: "
        "vLLM 0.33.0 has no flag `--swap-space` (args[1]) and would not start"
    )
    assert later["why"].endswith("; no worse problem of V2 is known")


SCRIPTS: list[tuple[str, str | None, list[tuple[Any, ...]]]] = [
    ('export NAME"="0', None, [("command", "0", "needed")]),
    ("export NAME\\=1", None, [("command", "1", "redundant")]),
    ("A=VLLM_USE_V2_MODEL; export ${A}_RUNNER=0", None, [("command", "0", "needed")]),
    (': "${NAME:=0}"; export NAME', None, [("command", "0", "needed")]),
    (': "${NAME:=0}"; export NAME', "1", [("variables", "1", "harmful")]),
    ("read -r NAME < /etc/runner; export NAME", None, [("command", None, "undecided")]),
    ("read -r NAME < /etc/runner; export NAME", "1", [("variables", "1", "redundant"), ("command", None, "undecided")]),
    ("printf -v NAME %s 0; export NAME", None, [("command", None, "undecided")]),
    ("[ -f /x ] && export NAME=0", None, [("command", None, "undecided")]),
    ("unset NAME", None, []),
    ("unset NAME", "1", [("variables", "1", "redundant")]),
    ("export NAME; echo NAME", None, []),
    ("exec env -i", "1", [("variables", "1", "redundant")]),
    ("exec env -u NAME", "1", [("variables", "1", "redundant")]),
]


def pod_of(script: str, value: str | None) -> str:
    joint = " " if script.startswith("exec") else "; "
    command = ["sh", "-c", script.replace("NAME", NAME) + joint + "vllm serve Qwen/Qwen3-8B"]
    env = [] if value is None else [{"name": NAME, "value": value}]
    container = {"name": "c", "image": "vllm/vllm-openai:v0.22.0", "command": command, "env": env}
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    )


@pytest.mark.parametrize(("script", "value", "expected"), SCRIPTS)
def test_whatever_sets_the_variable_is_a_pin_and_what_clears_it_is_none(
    call: Callable[..., Done], models: str, script: str, value: str | None, expected: list[tuple[Any, ...]]
) -> None:
    done = call("pins", "-", "--models", models, "--json", stdin=pod_of(script, value))
    found = json.loads(done.out)
    check_sums(found)
    assert [(item["set_by"], item["value"], item["verdict"]) for item in found["items"]] == expected


def test_fix_removes_a_redundant_one_however_it_is_quoted(
    call: Callable[..., Done], tmp_path: Path, models: str
) -> None:
    file = tmp_path / "pod.yaml"
    start = "exec vllm serve Qwen/Qwen3-8B --enforce-eager"
    pod = """\
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
  containers: [{{name: c, image: 'vllm/vllm-openai:v0.33.0', command: [sh, -c, '{}']}}]
"""
    file.write_text(pod.format(f'export {NAME}"="1; {start}'))
    done = call("fix", str(file), "--for", "pins", "--write", "--models", models)
    assert (done.code, file.read_text()) == (0, pod.format(start))


@pytest.mark.parametrize("command", ["vllm serve Qwen/Qwen3-8B", f"export {NAME}=$API_KEY; vllm serve Qwen/Qwen3-8B"])
def test_a_value_that_is_none_of_vllm_s_is_not_shown(call: Callable[..., Done], models: Path, command: str) -> None:
    env = [{"name": "API_KEY", "value": "Zq8JbhpkJG4r"}, {"name": NAME, "value": "$(API_KEY)"}]
    container = {"name": "c", "image": "vllm/vllm-openai:v0.33.0", "command": ["sh", "-c", command], "env": env}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    for options in ([], ["--json"]):
        done = call("pins", "-", "--models", models, *options, stdin=json.dumps(pod))
        assert ("…" in done.out or "\\u2026" in done.out, "Zq8Jbhpk" in done.out + done.err) == (True, False)
