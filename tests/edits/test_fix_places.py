"""Where ``fix`` finds and writes a change, and where it writes nothing."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING

import pytest
from edits.test_fix_kinds import DEPLOYMENT, REQUEST, VARIABLE, fixed

from policy.cli.fix_report import FixChange
from policy.decision.remedies import Change

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from api.conftest import Done


HEAD = """\
kind: Pod
apiVersion: v1
metadata: {name: a}
spec:
  containers:
    - image: vllm/vllm-openai:v0.33.0
"""
ARGS = HEAD + "      args: [--model=Qwen/Qwen3-8B, --enable-lora]\n"
COMPOSE = """\
services:
  a:
    image: vllm/vllm-openai:v0.33.0
    command: ["--model", "Qwen/Qwen3-8B", "--enable-lora"]
"""
SPECULATION = (
    """{"method": "draft_model", "model": "Qwen/Qwen3-8B", "num_speculative_tokens": 3, "parallel_drafting": true}"""
)
TWICE = ("--max-num-seqs", "4", "-tp", "1", "--max-num-seqs=5")
LINE = "            - --enable-dbo   # faster\n"
FACTS = {
    "model_config": {"architectures": ["Qwen3ForCausalLM"]},
    "parallel_config": {"enable_dbo": True},
    "lora_config": {},
    "env": {"VLLM_USE_V2_MODEL_RUNNER": "1"},
}


def dropped(text: str, gone: str) -> tuple[str, str]:
    assert gone in text
    return text, text.replace(gone, "")


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        pytest.param(
            "d.yaml",
            *dropped(VARIABLE.replace("--enable-lora", "--enable-dbo"), ", --enable-dbo"),
            id="an argument of two",
        ),
        pytest.param(
            "d.yaml",
            *dropped(
                ARGS.replace("--enable-lora", "--swap-space, '4', --no_such=1"), ", --swap-space, '4', --no_such=1"
            ),
            id="flags that the release does not have",
        ),
        pytest.param(
            "d.yaml",
            *dropped(
                HEAD + "      args: ['vllm serve Qwen/Qwen3-8B --swap-space 4 --port 80']\n      command: [sh, -c]\n",
                "--swap-space 4 ",
            ),
            id="a flag that the release does not have in a shell text",
        ),
    ],
)
def test_the_cheapest_remedy_is_written(
    call: Callable[..., Done], tmp_path: Path, name: str, before: str, after: str
) -> None:
    done, found = fixed(call, tmp_path, name, before, "--write")
    assert (done.code, found) == (0, after)


def shown(done: Done) -> list[list[tuple[str, str, int | None, int | None, str | None]]]:
    engine = json.loads(done.out)
    return [
        [
            (
                change.get("argument") or change.get("variable") or change.get("fact") or change.get("field"),
                str(change["to"]),
                change.get("line"),
                change.get("column"),
                change.get("written"),
            )
            for change in remedy["change"]
        ]
        for remedy in engine["remedies"]
    ]


def test_each_change_has_its_place_and_the_words_there(call: Callable[..., Done], tmp_path: Path) -> None:
    assert shown(fixed(call, tmp_path, "d.yaml", DEPLOYMENT)[0]) == [[("--enable-dbo", "None", 14, 15, "--enable-dbo")]]
    assert shown(fixed(call, tmp_path, "r.json", REQUEST)[0]) == [[("--enable-dbo", "None", 7, 7, "--enable-dbo")]]


ENV = """\
      env:
        # the runner
        - name: VLLM_USE_V2_MODEL_RUNNER
          value: "1"  # V2
        - {name: HF_HOME, value: /cache}
"""


@pytest.mark.parametrize(
    ("name", "text", "gone"),
    [
        pytest.param(
            "d.yaml",
            ARGS + ENV,
            '        - name: VLLM_USE_V2_MODEL_RUNNER\n          value: "1"  # V2\n',
            id="an object of a list",
        ),
        pytest.param(
            "d.yaml",
            ARGS + '      env: [{name: VLLM_USE_V2_MODEL_RUNNER, value: "1"}, {name: A, value: b}]\n',
            '{name: VLLM_USE_V2_MODEL_RUNNER, value: "1"}, ',
            id="an object of a list in brackets",
        ),
        pytest.param(
            "d.yaml",
            ARGS + '      env:\n      - {name: VLLM_USE_V2_MODEL_RUNNER, value: "1"}\n      ports: []\n',
            '      env:\n      - {name: VLLM_USE_V2_MODEL_RUNNER, value: "1"}\n',
            id="the only one",
        ),
        pytest.param(
            "c.yaml",
            COMPOSE + "    environment:\n      - VLLM_USE_V2_MODEL_RUNNER=1\n      - A=b\n",
            "      - VLLM_USE_V2_MODEL_RUNNER=1\n",
            id="a text of a list",
        ),
        pytest.param(
            "c.yaml",
            COMPOSE + "    environment:\n      A: b # ü\n      VLLM_USE_V2_MODEL_RUNNER: 1 # pin\n",
            "      VLLM_USE_V2_MODEL_RUNNER: 1 # pin\n",
            id="a field of a map",
        ),
        pytest.param(
            "c.yaml",
            COMPOSE.replace("services", "x-env: &env\n  A: b\n  VLLM_USE_V2_MODEL_RUNNER: '1'\nservices")
            + "    environment: *env\n",
            "  VLLM_USE_V2_MODEL_RUNNER: '1'\n",
            id="a field of an anchor that one engine uses",
        ),
        pytest.param(
            "s.sh",
            "set -e\nexport VLLM_USE_V2_MODEL_RUNNER=1\nvllm serve Qwen/Qwen3-8B --enable-lora\n",
            "export VLLM_USE_V2_MODEL_RUNNER=1\n",
            id="an export of a script",
        ),
        pytest.param(
            "s.sh",
            "set -e\nVLLM_USE_V2_MODEL_RUNNER=1 A=b vllm serve Qwen/Qwen3-8B --enable-lora\n",
            "VLLM_USE_V2_MODEL_RUNNER=1 ",
            id="before the command of a script",
        ),
        pytest.param(
            "s.sh",
            "export A=b VLLM_USE_V2_MODEL_RUNNER=1\nvllm serve Qwen/Qwen3-8B --enable-lora\n",
            " VLLM_USE_V2_MODEL_RUNNER=1",
            id="one of two exports",
        ),
        pytest.param(
            "s.service",
            "[Service]\nEnvironment=VLLM_USE_V2_MODEL_RUNNER=1\nExecStart=/bin/vllm serve Qwen/Qwen3-8B\n",
            "Environment=VLLM_USE_V2_MODEL_RUNNER=1\n",
            id="a line of a service",
        ),
        pytest.param(
            "d.yaml",
            HEAD + '      command: ["sh", "-c", "export VLLM_USE_V2_MODEL_RUNNER=1; vllm serve Qwen/Qwen3-8B"]\n',
            "export VLLM_USE_V2_MODEL_RUNNER=1; ",
            id="a statement of a text in a list",
        ),
        pytest.param(
            "r.json",
            '{"vllm_version": "0.33.0", "deployment": {"args": "vllm serve Qwen/Qwen3-8B --enable-lora", '
            '"env": {"A": "b", "VLLM_USE_V2_MODEL_RUNNER": "1"}}}',
            ', "VLLM_USE_V2_MODEL_RUNNER": "1"',
            id="a request",
        ),
    ],
)
def test_a_variable_is_removed_and_all_else_is_left(
    changed: Callable[..., tuple[list[str], str]], name: str, text: str, gone: str
) -> None:
    assert changed(name, text) == ([], text.replace(gone, ""))


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        pytest.param("d.yaml", ARGS, "the text does not show where it is set", id="not set"),
        pytest.param(
            "c.yaml",
            COMPOSE.replace("services", "x-env: &env\n  VLLM_USE_V2_MODEL_RUNNER: '1'\n  A: b\nservices")
            + "    environment: {<<: *env, C: d}\n",
            "the text here cannot be edited with certainty",
            id="merged",
        ),
        pytest.param(
            "d.yaml",
            ARGS + "      envFrom: [{configMapRef: {name: of}}]\n---\nkind: ConfigMap\napiVersion: v1\n"
            "metadata: {name: of}\ndata: {VLLM_USE_V2_MODEL_RUNNER: '1'}\n",
            "the text does not show where it is set",
            id="of a ConfigMap",
        ),
    ],
)
def test_where_the_text_is_not_certain_nothing_is_written(
    changed: Callable[..., tuple[list[str], str]], name: str, text: str, reason: str
) -> None:
    assert changed(name, text) == ([reason], text)


DRAFT = '{"model": "small/draft", "method": "eagle3", "num_speculative_tokens": 3, "parallel_drafting": true}'
MEMBER = ', "parallel_drafting": true'


def serve(*words: str) -> str:
    return HEAD + f"      args: {json.dumps(['--model=Qwen/Qwen3-8B', *words])}\n"


def drop(argument: str) -> Change:
    return Change(argument=argument, from_="", to=None)


@pytest.mark.parametrize(
    ("name", "text", "change", "old", "new"),
    [
        pytest.param(
            "d.yaml",
            serve("--speculative-config", DRAFT),
            drop("--speculative-config.parallel_drafting"),
            MEMBER.replace('"', '\\"'),
            "",
            id="a member of JSON in double quotes",
        ),
        pytest.param(
            "d.yaml",
            HEAD + f"      args:\n      - Qwen/Qwen3-8B\n      - '--speculative-config={DRAFT}' # x\n",
            drop("--speculative-config.parallel_drafting"),
            MEMBER,
            "",
            id="a member of an attached value",
        ),
        pytest.param(
            "s.sh",
            f"vllm serve Qwen/Qwen3-8B \\\n  --speculative-config '{DRAFT}' \\\n  --max-model-len 4096\n",
            drop("--speculative-config.parallel_drafting"),
            MEMBER,
            "",
            id="a member in a script",
        ),
        pytest.param(
            "s.sh",
            f"vllm serve Qwen/Qwen3-8B \\\n  --speculative-config '{DRAFT}' \\\n  --max-model-len 4096\n",
            drop("--speculative-config"),
            f"--speculative-config '{DRAFT}' \\\n  ",
            "",
            id="a value in quotes",
        ),
        pytest.param(
            "d.yaml",
            serve("-tp", "1", "--max-num-seqs", "4"),
            drop("--max-num-seqs"),
            ', "--max-num-seqs", "4"',
            "",
            id="a flag and its value",
        ),
        pytest.param(
            "d.yaml",
            serve("--max_num_seqs=4", "-tp", "1"),
            drop("--max-num-seqs"),
            '"--max_num_seqs=4", ',
            "",
            id="a flag with underscores",
        ),
        pytest.param(
            "d.yaml",
            serve("--max-num-seqs", "4", "-tp", "1", "--max-num-seqs=5"),
            drop("--max-num-seqs"),
            serve("--max-num-seqs", "4", "-tp", "1", "--max-num-seqs=5"),
            serve("-tp", "1"),
            id="a flag that is given twice",
        ),
        pytest.param(
            "d.yaml",
            serve("--async-scheduling"),
            Change(argument="--async-scheduling", from_=True, to=False),
            "--async-scheduling",
            "--no-async-scheduling",
            id="another value of a switch",
        ),
        pytest.param(
            "d.yaml",
            serve("--mamba-cache-mode", "none", "-tp", "1"),
            Change(argument="--mamba-cache-mode", from_="none", to="align"),
            '"--mamba-cache-mode", "none"',
            '"--mamba-cache-mode=align"',
            id="another value",
        ),
        pytest.param(
            "d.yaml",
            serve("-tp", "1"),
            Change(argument="--enforce-eager", to=True),
            '"1"]',
            '"1", "--enforce-eager"]',
            id="a new argument",
        ),
        pytest.param(
            "d.yaml",
            serve("-tp", "1", "--gpu-memory-utilization", "0.95"),
            Change(argument="--gpu-memory-utilization", from_=0.95, to=0.9),
            '"--gpu-memory-utilization", "0.95"',
            '"--gpu-memory-utilization=0.9"',
            id="another share",
        ),
        pytest.param(
            "s.sh",
            "pip install vllm\nvllm serve Qwen/Qwen3-8B -tp 1 2>&1 | tee /tmp/log &\nsleep 2\n",
            Change(argument="--enforce-eager", to=True),
            "-tp 1",
            "-tp 1 --enforce-eager",
            id="before a redirection",
        ),
        pytest.param(
            "d.yaml",
            HEAD + "      command: [vllm, serve, Qwen/Qwen3-8B]\n",
            Change(argument="--enforce-eager", to=True),
            "3-8B]",
            "3-8B, --enforce-eager]",
            id="the first flag",
        ),
        pytest.param(
            "d.yaml",
            HEAD + "      args: [vllm serve Qwen/Qwen3-8B]\n      command: [sh, -c]\n",
            Change(argument="--enforce-eager", to=True),
            "3-8B]",
            "3-8B --enforce-eager]",
            id="arguments before the command",
        ),
        pytest.param(
            "s.sh",
            "# a\nexport A=b\nvllm serve Qwen/Qwen3-8B \\\n  -tp 1 # c\necho\n",
            Change(argument="--enforce-eager", to=True),
            "-tp 1",
            "-tp 1 \\\n  --enforce-eager",
            id="in a script",
        ),
        pytest.param(
            "d.yaml",
            serve("-tp", "1"),
            Change(variable="VLLM_USE_V2_MODEL_RUNNER", to="0"),
            '"1"]\n',
            '"1"]\n      env:\n        - name: VLLM_USE_V2_MODEL_RUNNER\n          value: "0"\n',
            id="a new list",
        ),
        pytest.param(
            "c.yaml",
            COMPOSE,
            Change(variable="VLLM_USE_V2_MODEL_RUNNER", to="0"),
            'lora"]\n',
            'lora"]\n    environment:\n      VLLM_USE_V2_MODEL_RUNNER: "0"\n',
            id="a new map of variables",
        ),
        pytest.param(
            "c.yaml",
            COMPOSE + "    environment:\n    - A=b\n",
            Change(variable="VLLM_USE_V2_MODEL_RUNNER", to="0"),
            "    - A=b\n",
            "    - A=b\n    - VLLM_USE_V2_MODEL_RUNNER=0\n",
            id="a new variable of a list",
        ),
        pytest.param(
            "d.yaml",
            ARGS + ENV,
            Change(variable="VLLM_USE_V2_MODEL_RUNNER", from_="1", to="0"),
            '"1"',
            '"0"',
            id="another value of a variable",
        ),
        pytest.param(
            "s.sh",
            "export VLLM_USE_V2_MODEL_RUNNER='1'\nvllm serve Qwen/Qwen3-8B\n",
            Change(variable="VLLM_USE_V2_MODEL_RUNNER", from_="1", to="0"),
            "'1'",
            "'0'",
            id="in quotes of a script",
        ),
        pytest.param(
            "s.sh",
            "set -e\nvllm serve Qwen/Qwen3-8B\n",
            Change(variable="VLLM_USE_V2_MODEL_RUNNER", to="0"),
            "vllm serve",
            "VLLM_USE_V2_MODEL_RUNNER=0 vllm serve",
            id="a new variable of a script",
        ),
    ],
)
def test_a_change_is_made_and_all_else_is_left(
    changed: Callable[..., tuple[list[str], str]], name: str, text: str, change: Change, old: str, new: str
) -> None:
    assert old in text
    assert changed(name, text, change) == ([], text.replace(old, new))


def test_many_engines_of_a_file_are_written_together(changed: Callable[..., tuple[list[str], str]]) -> None:
    text = "---\n".join(f"# {n}\n{DEPLOYMENT}" for n in range(60))
    assert changed("d.yaml", text, drop("--enable-dbo")) == (
        [],
        text.replace("            - --enable-dbo   # faster\n", ""),
    )
    odd = text.replace("- --enable-dbo   # faster", "- --enable-$(A)", 1)
    assert changed("d.yaml", odd, drop("--enable-dbo")) == (
        ["the text does not show where it is set"],
        odd.replace(LINE, ""),
    )


SHARED = """\
x-env: &env
  VLLM_USE_V2_MODEL_RUNNER: "1"
  A: b
services:
  a:
    image: vllm/vllm-openai:v0.33.0
    command: --model Qwen/Qwen3-8B --enable-dbo
    environment: &shared
      A: b
  b:
    image: vllm/vllm-openai:v0.33.0
    command: --model Qwen/Qwen3-8B
"""


def test_an_anchor_of_several_engines_is_edited_only_for_all(call: Callable[..., Done], tmp_path: Path) -> None:
    text = SHARED.replace(
        "command: --model Qwen/Qwen3-8B --enable-dbo", "command: &c --model Qwen/Qwen3-8B --enable-dbo"
    )
    both = text.replace("command: --model Qwen/Qwen3-8B\n", "command: *c\n")
    assert fixed(call, tmp_path, "c.yaml", both, "--write")[1] == both.replace(" --enable-dbo", "")
    other = both + "    environment: {VLLM_ALL2ALL_BACKEND: deepep_low_latency}\n"
    found = fixed(call, tmp_path, "c.yaml", other, "--write")[1]
    assert found in {other, other.replace(" --enable-dbo", "")}


def test_a_folder_is_written_file_by_file_and_links_out_of_it_are_left(
    call: Callable[..., Done], tmp_path: Path
) -> None:
    (tmp_path / "q.json").write_text(json.dumps({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}))
    folder = tmp_path / "of"
    folder.mkdir()
    (folder / "a.yaml").write_text(DEPLOYMENT)
    (folder / "a.yaml").chmod(0o640)
    (folder / "b.yaml").write_text(DEPLOYMENT.replace("            - --enable-dbo   # faster\n", ""))
    outside = tmp_path / "outside.yaml"
    outside.write_text(DEPLOYMENT)
    (folder / "c.yaml").symlink_to(outside)
    (folder / "d.yaml").symlink_to(folder / "a.yaml")
    done = call("fix", str(folder), "--model-config", f"Qwen/Qwen3-8B={tmp_path / 'q.json'}", "--write")
    assert done.code == 1
    assert "link leads out of the folder" in done.err
    assert outside.read_text() == DEPLOYMENT
    assert (folder / "a.yaml").read_text() == (folder / "b.yaml").read_text()
    assert stat.S_IMODE((folder / "a.yaml").stat().st_mode) == 0o640
    assert (folder / "d.yaml").is_symlink()
    assert sorted(path.name for path in folder.iterdir()) == ["a.yaml", "b.yaml", "c.yaml", "d.yaml"]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_a_file_keeps_its_owner_and_its_mode(call: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "q.json").write_text(json.dumps({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}))
    path = tmp_path / "a.yaml"
    path.write_text(DEPLOYMENT)
    os.chown(path, 4321, 4322)
    path.chmod(0o4640)
    call("fix", str(path), "--model-config", f"Qwen/Qwen3-8B={tmp_path / 'q.json'}", "--write")
    found = path.stat()
    assert path.read_text() != DEPLOYMENT
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (4321, 4322, 0o4640)


def test_a_file_that_is_not_replaced_is_not_shown_as_written(call: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "outside.yaml").write_text(DEPLOYMENT)
    link = tmp_path / "of" / "a.yaml"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "outside.yaml")
    done, found = fixed(call, tmp_path, "a.yaml", DEPLOYMENT, "--write")
    engine = json.loads(done.out)
    assert (done.code, found, done.err) == (1, DEPLOYMENT, f"{link}: not written: the link leads out of the folder\n")
    assert "written" not in engine
    assert engine["unwritten"]["reason"] == "the link leads out of the folder"
    assert engine["unwritten"]["remedy"]["change"][0]["argument"] == "--enable-dbo"


def test_a_file_with_two_names_in_the_folder_is_written_once(call: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "q.json").write_text(json.dumps({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}))
    folder = tmp_path / "of"
    folder.mkdir()
    (folder / "b.yaml").write_text(DEPLOYMENT)
    for link in ("a.yaml", "c.yaml"):
        (folder / link).symlink_to("b.yaml")
    done = call("fix", str(folder), "--model-config", f"Qwen/Qwen3-8B={tmp_path / 'q.json'}", "--write")
    assert (done.code, done.err, (folder / "b.yaml").read_text() != DEPLOYMENT) == (0, "", True)
    assert ["written" in json.loads(line) for line in done.out.splitlines()] == [True] * 3
    assert [path.name for path in sorted(folder.iterdir()) if path.is_symlink()] == ["a.yaml", "c.yaml"]


ODD = "            - --no-such=$(A)\n            - b c\n"
UNDECIDED = DEPLOYMENT.replace(LINE, ODD)


def test_an_engine_that_cannot_be_decided_is_shown_and_the_others_are_written(
    call: Callable[..., Done], tmp_path: Path
) -> None:
    text = f"{UNDECIDED}---\n{DEPLOYMENT}"
    done, found = fixed(call, tmp_path, "d.yaml", text, "--write")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [("problem" in line, line["path"][:3]) for line in lines] == [(True, "[0]"), (False, "[1]")]
    assert (done.code, found) == (1, text.replace(LINE, ""))
    (tmp_path / "of" / "d.yaml").write_text(text)
    done = call("fix", str(tmp_path / "of"), "--model-config", f"Qwen/Qwen3-8B={tmp_path / 'qwen.json'}")
    (first, *_) = [json.loads(line) for line in done.out.splitlines()]
    assert (first["file"], [fault["pointer"][:8] for fault in first["problem"]["errors"]]) == ("d.yaml", ["/0/spec/"])


def test_a_diff_is_of_the_lines_that_would_be_written(call: Callable[..., Done], tmp_path: Path) -> None:
    done, found = fixed(call, tmp_path, "d.yaml", DEPLOYMENT, "--diff")
    name = tmp_path / "of" / "d.yaml"
    assert (done.code, found) == (1, DEPLOYMENT)
    assert done.out.splitlines() == [
        f"--- {name}",
        f"+++ {name}",
        "@@ -11,6 +11,5 @@",
        "           args:",
        "             - --model=Qwen/Qwen3-8B",
        "             # two streams",
        "-            - --enable-dbo   # faster",
        "             - '--max-model-len'",
        '             - "4096"',
    ]


def test_the_name_of_a_file_is_on_one_line_of_a_diff(call: Callable[..., Done], tmp_path: Path) -> None:
    done, _ = fixed(call, tmp_path, "d\n::error::fake\x1b.yaml", DEPLOYMENT, "--diff")
    shown = f"{tmp_path / 'of'}/d\\n::error::fake\\x1b.yaml"
    assert done.out.splitlines()[:3] == [f"--- {shown}", f"+++ {shown}", "@@ -11,6 +11,5 @@"]


def test_another_release_is_written_only_if_it_is_allowed(call: Callable[..., Done], tmp_path: Path) -> None:
    text = ARGS.replace("v0.33.0", "v0.23.0").replace(
        "--enable-lora", '--kv-transfer-config={\\"kv_connector\\": \\"NixlConnector\\", \\"kv_role\\": \\"kv_both\\"}'
    )
    text = text.replace("[--model=Qwen/Qwen3-8B, --", '["--model=Qwen/Qwen3-8B", "--').replace("}]", '}"]')
    done, found = fixed(call, tmp_path, "d.yaml", text, "--for", "v2", "--write", "--choose", "2")
    assert (done.code, found, "--allow-upgrade" in done.out) == (1, text, True)
    done, found = fixed(call, tmp_path, "d.yaml", text, "--for", "v2", "--write", "--allow-upgrade")
    assert (done.code, found) == (0, text.replace("v0.23.0", "v0.25.0"))
    done, found = fixed(
        call, tmp_path, "d.yaml", text.replace("v0.23.0", "v0.23.0-cu129"), "--for", "v2", "--write", "--allow-upgrade"
    )
    assert (done.code, "v0.23.0-cu129" in found) == (1, True)


@pytest.mark.parametrize("text", ["", "{", "a: [", "\0", "a: &a [*a]", "%TAG"])
def test_what_cannot_be_read_is_said(call: Callable[..., Done], tmp_path: Path, text: str) -> None:
    done, found = fixed(call, tmp_path, "d.yaml", text, "--write")
    assert (done.code, found, "Traceback" in done.err) == (2, text, False)


def test_standard_input_is_shown_and_not_written(call: Callable[..., Done]) -> None:
    assert call("fix", "-", "--write", stdin="{}").code == 2
    text = json.dumps({"facts": FACTS, "vllm_version": "0.33.0"})
    done = call("fix", "-", "--diff", stdin=text)
    assert (done.code, done.out) == (1, "")


def test_on_a_terminal_it_is_a_table(on_terminal: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"vllm_version": "0.33.0", "facts": FACTS}))
    _, text = on_terminal("fix", str(path))
    assert "set `parallel_config.enable_dbo` to false" in text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (FixChange(argument="--enforce-eager", to=True), "add `--enforce-eager`"),
        (
            FixChange(argument="--async-scheduling", from_=True, to=False, written="- --async-scheduling"),
            "pass `--no-async-scheduling` instead of `- --async-scheduling`",
        ),
        (
            FixChange(argument="--async-scheduling", from_=True, to=False, written='- "--async-scheduling"'),
            'pass `--no-async-scheduling` instead of `- "--async-scheduling"`',
        ),
        (
            FixChange(argument="--async-scheduling", from_=True, to=False, written="'--async-scheduling'"),
            "pass `--no-async-scheduling` instead of `'--async-scheduling'`",
        ),
    ],
)
def test_a_switch_is_worded_as_vllm_takes_it(change: FixChange, text: str) -> None:
    assert change.in_words() == text


@pytest.mark.parametrize(
    "written", ["enable_prefix_caching: true", "enablePrefixCaching: true", '"enable_prefix_caching": true']
)
def test_a_field_is_set_to_a_value(written: str) -> None:
    change = FixChange(argument="--enable-prefix-caching", from_=True, to=False, written=written)
    assert change.in_words() == f"set `--enable-prefix-caching` to false instead of `{written}`"
