"""`runner-policy decide` and `dry-run`, and what all commands have in common: exit codes, streams, terminals, help."""

from __future__ import annotations

import gc
import json
import os
import re
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
from processes import forked_program
from tables import table

from policy.cli.console import Output
from policy.errors import EngineFailed
from service.cli.app import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from api.conftest import Done

QWEN: dict[str, Any] = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}
NIXL: dict[str, Any] = {**QWEN, "kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}}
REQUEST = json.dumps({"facts": NIXL, "vllm_version": "0.23.0"})
ESCAPE = "\x1b"


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "deployment.json"
    found.write_text(REQUEST)
    return found


# decide


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deployment.json", REQUEST),
        (
            "deployment.yaml",
            (
                "vllm_version: 0.23.0\nfacts:\n  model_config: {architectures: [Qwen3ForCausalLM]}\n"
                "  kv_transfer_config: {kv_connector: NixlConnector}\n"
            ),
        ),
        ("deployment", REQUEST),
        (
            "flow.yaml",
            (
                "{vllm_version: 0.23.0, facts: {model_config: {architectures: [Qwen3ForCausalLM]},\n"
                "  kv_transfer_config: {kv_connector: NixlConnector}}}  # a comment\n"
            ),
        ),
        (
            "flow-and-document",
            (
                '\n{"vllm_version": "0.23.0", "facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]},\n'
                ' "kv_transfer_config": {"kv_connector": "NixlConnector"},}}\n---\n'
            ),
        ),
        (
            "yaml-in-name.json",
            (
                "vllm_version: 0.23.0\n"
                "facts: {kv_transfer_config: {kv_connector: NixlConnector}, model_config: {architectures: "
                "[Qwen3ForCausalLM]}}\n"
            ),
        ),
    ],
)
def test_a_file_is_read_as_json_or_yaml_whatever_its_name(
    call: Callable[..., Done], tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    done = call("decide", str(tmp_path / name))
    answer = json.loads(done.out)
    assert (done.code, done.err, answer["summary"], answer["set_env"]) == (
        0,
        "",
        "V1: a KV connector (NixlConnector) keeps this deployment on V1",
        {"VLLM_USE_V2_MODEL_RUNNER": "0"},
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["decide", "/dev/zero"],
        ["dry-run", "/dev/zero"],
        ["dry-run", "-", "--candidate", "/dev/zero"],
        ["dry-run", "-", "--candidate", "PIPE"],
        ["decide", "-", "--model-config", "m=/dev/zero"],
        ["rules", "diff", "--fleet", "/dev/zero", "rules", "rules"],
        ["serve", "--port", "0", "--tokens", "/dev/zero"],
        ["serve", "--port", "0", "--tokens", "PIPE"],
    ],
)
def test_devices_and_pipes_without_a_writer_are_refused(
    run: Callable[..., Done], tmp_path: Path, arguments: list[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    stdin = json.dumps({"deployment": {"args": ["serve", "m"]}}) if "--model-config" in arguments else REQUEST
    done = run(*(str(pipe) if each == "PIPE" else each for each in arguments), stdin=stdin, RUNNER_POLICY_LOG="off")
    what = "a named pipe" if "PIPE" in arguments else "a device"
    assert (
        done.code,
        f"cannot be read: expected a file, got {what}" in done.err,
        "Traceback" in done.err,
    ) == (2, True, False)


@pytest.mark.parametrize(
    "command", ["{} decide - < /dev/zero", "{} decide <(cat /dev/zero)", "{} decide <(head -c 33554433 /dev/zero)"]
)
def test_endless_input_is_read_up_to_the_limit(run: Callable[..., Done], tmp_path: Path, command: str) -> None:
    done = run("-c", command.format(forked_program(tmp_path)), program="bash")
    assert (done.code, "more than 33,554,432 bytes" in done.err) == (2, True)


@pytest.mark.parametrize("file_", ["-", "/dev/stdin", "<(cat)", "PIPE"])
def test_pipes_are_read(run: Callable[..., Done], tmp_path: Path, file_: str) -> None:
    program, pipe = forked_program(tmp_path), tmp_path / "pipe"
    command = f"{program} decide {file_}"
    if file_ == "PIPE":
        command = f"mkfifo {pipe}; (sleep 0.5; cat > {pipe}) <&0 & {program} decide {pipe}"
    done = run("-c", command, program="bash", stdin=REQUEST)
    assert (done.code, done.err, json.loads(done.out)["runner"]) == (0, "", "v1")


@pytest.mark.parametrize("text", [REQUEST, "facts: {kv_transfer_config: {kv_connector: NixlConnector}}\n"])
def test_a_dash_reads_standard_input(call: Callable[..., Done], text: str) -> None:
    done = call("decide", "-", stdin=text)
    assert (done.code, done.err, json.loads(done.out)["runner"]) == (0, "", "v1")


def test_the_answer_in_a_pipe_is_the_service_s_answer_on_one_line(
    run: Callable[..., Done], decide: Callable[..., Any]
) -> None:
    done = run("decide", "-", stdin=REQUEST)
    assert done.out.count("\n") == 1
    assert {**json.loads(done.out), "decision_id": None} == {**decide(json.loads(REQUEST)), "decision_id": None}


@pytest.mark.parametrize("request_", [{}, {"explain": True}])
@pytest.mark.parametrize("flag", [[], ["--explain"]])
def test_explain_is_a_flag_or_a_field(call: Callable[..., Done], flag: list[str], request_: dict[str, bool]) -> None:
    done = call("decide", "-", *flag, stdin=json.dumps({"facts": {}, **request_}))
    assert ("trace" in json.loads(done.out), done.code) == (bool(flag or request_), 0)


def test_the_default_release_is_a_flag_or_a_variable_and_the_flag_wins(call: Callable[..., Done]) -> None:
    variable = {"RUNNER_POLICY_DEFAULT_RELEASE": "0.24.0"}
    answers = [
        call("decide", "-", stdin='{"facts": {}}'),
        call("decide", "-", stdin='{"facts": {}}', **variable),
        call("decide", "-", "--default-release", "0.25", stdin='{"facts": {}}', **variable),
    ]
    assert [json.loads(done.out)["release"]["decided_as"] for done in answers] == ["0.23.0", "0.24.0", "0.25.0"]


def test_a_deployment_that_will_not_start_is_still_decided(call: Callable[..., Done]) -> None:
    facts = {**QWEN, "env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}, "parallel_config": {"enable_dbo": True}}
    done = call("decide", "-", stdin=json.dumps({"facts": facts, "vllm_version": "0.24.0"}))
    assert (done.code, json.loads(done.out)["starts"]) == (0, False)


# on a terminal


def test_on_a_terminal_a_decision_is_a_table_in_colours(
    on_terminal: Callable[..., tuple[int, str]], file: Path
) -> None:
    code, out = on_terminal("decide", str(file))
    assert (code, ESCAPE in out) == (0, True)
    assert [
        line.rstrip()
        for line in plain(out).splitlines()
        if not set(line) <= {"─", " "} and "to be reviewed" not in line
    ] == [
        "V1  fallback  starts  vLLM 0.23.0 (verified)",
        "V1: a KV connector (NixlConnector) keeps this deployment on V1",
        (
            "    rule                    layer   effect        reason                                                  "
            "     facts"
        ),
        (
            "*   kv-connector-fallback   house   fallback-v1   a KV connector (NixlConnector) keeps this deployment "
            "on V1   kv_transfer_config.kv_connector = NixlConnector"
        ),
        "* decided",
        (
            "remedy (kv-connector-fallback): drop `--kv-transfer-config` and `--kv-offloading-size`, or set "
            "`VLLM_USE_V2_MODEL_RUNNER` to 1, for V2"
        ),
        "set VLLM_USE_V2_MODEL_RUNNER=0  so that vLLM follows this decision",
        "vLLM alone: V2, default, starts",
    ]


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        (
            {"facts": {**QWEN, "env": {"VLLM_USE_V2_MODEL_RUNNER": "[bold]"}}},
            [
                "no runner  no outcome  does not start  vLLM 0.23.0 (the default release)",
                "refuses to start: invalid literal for int() with base 10: '[bold]'",
                "vLLM alone: no runner, no outcome, does not start",
            ],
        ),
        (
            {"facts": {**QWEN, "omni": True}, "vllm_version": "0.30.0"},
            [
                "own runner  not-applicable  starts  vLLM 0.30.0 (verified)",
                "vLLM alone: own runner, not-applicable, starts",
            ],
        ),
        (
            {
                "facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}},
                "vllm_version": "0.24.0rc1",
            },
            [
                "V2  default  starts  vLLM 0.24.0rc1 (decided as 0.24.0)",
                "warning: vLLM 0.24.0rc1 was not checked against these rules; decided as 0.24.0",
            ],
        ),
    ],
)
def test_errors_and_warnings_are_shown_and_texts_of_users_are_not_markup(
    on_terminal: Callable[..., tuple[int, str]], tmp_path: Path, document: dict[str, Any], shown: list[str]
) -> None:
    (tmp_path / "x.json").write_text(json.dumps(document))
    code, out = on_terminal("decide", str(tmp_path / "x.json"))
    lines = [line.rstrip() for line in plain(out).splitlines()]
    assert (code, [line for line in lines if line in shown]) == (0, shown)


def test_on_a_terminal_the_json_flag_prints_json(on_terminal: Callable[..., tuple[int, str]], file: Path) -> None:
    code, out = on_terminal("decide", str(file), "--json")
    assert (code, ESCAPE in out, json.loads(out)["runner"]) == (0, False, "v1")


def test_no_color_switches_colours_off(on_terminal: Callable[..., tuple[int, str]], file: Path) -> None:
    coloured, bare = (
        on_terminal("decide", str(file), "--explain", **variables) for variables in ({}, {"NO_COLOR": "1"})
    )
    colours = [
        [code for code in re.findall(r"\x1b\[[0-9;]*m", out) if code not in EMPHASIS] for _, out in (coloured, bare)
    ]
    assert (coloured[0], bare[0], colours[0] != [], colours[1]) == (0, 0, True, [])
    assert plain(coloured[1]) == plain(bare[1])


EMPHASIS = {"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[3m"}


def test_an_explanation_on_a_terminal_says_why_each_rule_did_not_fire(
    on_terminal: Callable[..., tuple[int, str]], file: Path
) -> None:
    code, out = on_terminal("decide", str(file), "--explain", NO_COLOR="1")
    lines = [re.sub(r"\s{2,}", "  ", line).strip() for line in plain(out).splitlines()]
    assert code == 0
    assert "kv-connector-fallback  fallback-v1  yes" in lines
    assert any(
        re.fullmatch(r"\d+ facts were not stated; another value of \d+ of them would change the answer", line)
        for line in lines
    )
    assert any(line.startswith("env.VLLM_USE_V2_MODEL_RUNNER  null  1: V2, starts") for line in lines)


# dry-run

CANDIDATE = """\
id: kv-connector-fallback
title: KV connectors stay on V1
effect: fallback-v1
owner: inference-platform
review_by: 2099-12-31
blocked_by: https://github.com/vllm-project/vllm/issues/42846
why: For the test.
references: [https://github.com/vllm-project/vllm/issues/42846]
releases:
  - vllm: ">=0.22,<0.25"
    message: an active KV connector
    when:
      kv_transfer_config.kv_connector: {in: [LMCacheConnectorV1]}
"""


@pytest.fixture
def candidate(tmp_path: Path) -> Path:
    found = tmp_path / "candidate.yaml"
    found.write_text(CANDIDATE)
    return found


def test_a_dry_run_without_a_candidate_explains_the_decision(call: Callable[..., Done], file: Path) -> None:
    done = call("dry-run", str(file))
    assert (done.code, done.err, "trace" in json.loads(done.out)) == (0, "", True)


def test_a_dry_run_with_a_candidate_says_what_it_would_change(
    call: Callable[..., Done], file: Path, candidate: Path
) -> None:
    done = call("dry-run", str(file), "--candidate", str(candidate))
    answer = json.loads(done.out)
    assert (
        done.code,
        done.err,
        [
            (change["member"], change["from"], change["to"], change["rules"])
            for change in answer["changes"]
            if change["member"] != "known_problems"
        ][:3],
    ) == (
        0,
        "",
        [
            ("runner", "v1", "v2", ["kv-connector-fallback"]),
            ("outcome", "fallback", "default", ["kv-connector-fallback"]),
            ("set_env", {"VLLM_USE_V2_MODEL_RUNNER": "0"}, {}, ["kv-connector-fallback"]),
        ],
    )


def test_several_candidates_and_removals_are_evaluated_together(
    call: Callable[..., Done], file: Path, tmp_path: Path
) -> None:
    files = []
    for name in ("one-more", "two-more"):
        files += ["--candidate", str(tmp_path / name)]
        (tmp_path / name).write_text(
            CANDIDATE.replace("id: kv-connector-fallback", f"id: {name}").replace(
                "{in: [LMCacheConnectorV1]}", "present"
            )
        )
    done = call("dry-run", str(file), *files, "--remove", "kv-connector-fallback")
    assert [reason["rule"] for reason in json.loads(done.out)["candidate"]["reasons"]] == ["one-more", "two-more"]


def test_the_request_of_a_dry_run_may_come_from_standard_input(call: Callable[..., Done]) -> None:
    done = call("dry-run", "-", "--remove", "kv-connector-fallback", stdin=REQUEST)
    assert (done.code, json.loads(done.out)["candidate"]["runner"]) == (0, "v2")


def test_on_a_terminal_a_dry_run_shows_the_changes_first(
    on_terminal: Callable[..., tuple[int, str]], file: Path, candidate: Path
) -> None:
    code, out = on_terminal("dry-run", str(file), "--candidate", str(candidate), NO_COLOR="1")
    lines = [re.sub(r"\s{2,}", "  ", line).strip() for line in plain(out).splitlines()]
    assert (code, lines[0], lines[2]) == (0, "field  from  to  rules", "runner  v1  v2  kv-connector-fallback")


# exit codes and streams

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)
TOO_DEEP = "[" * 100_000
SMALLER = "write the file as JSON, which may have more, or in parts"
UNCLOSED = "not YAML: the bracket `{}` is not closed with `{}`, or a comma is missing between its items"


@pytest.fixture
def no_garbage() -> None:
    """What other tests left is not finalized within the deep calls of a reader, where no call is left."""
    gc.collect()


@pytest.mark.usefixtures("no_garbage")
@table("command", ["decide", "dry-run"])
@table(
    ("text", "message"),
    [
        ("", "{file}:1:1: empty; expected a document"),
        ("{", "{file}: not JSON: Input data was truncated\n{file}:1:1: " + UNCLOSED.format("{", "}")),
        ('[1, "x"', "{file}: not JSON: Input data was truncated\n{file}:1:1: " + UNCLOSED.format("[", "]")),
        (
            '{"facts": {"a": "\\ud800"}}',
            (
                "{file}: not JSON: half of a surrogate pair (byte 17)\n{file}:1:20: not YAML: an unknown escape in a "
                "text in double quotes; write `\\\\` for a backslash, or single quotes"
            ),
        ),
        ("[" + "[]," * 100_000 + "[]]", "{file}: more than 200000 keys and values in JSON; write it in parts"),
        (
            "a: [\n",
            "{file}:1:4: not YAML: the bracket `[` is not closed with `]`, or a comma is missing between its items",
        ),
        ("facts: {}\nfacts: {}\n", "{file}:2:1: duplicate key `facts`; keep one, or merge the two"),
        (b"\xff", "{file}: cannot be read: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (TOO_DEEP, "{file}: nested too deeply: at most 64 levels are read"),
        (TOO_DEEP + "]" * 100_000, "{file}: nested too deeply: at most 64 levels are read"),
        (
            '{"facts": {"model_config": {"is_moe": ' + "[" * 800 + "]" * 800 + "}}}",
            "{file}: nested too deeply: at most 64 levels are read",
        ),
        (
            '{"facts": {"model_config": {"logits_processors": ' + "[" * 960 + "]" * 960 + "}}}",
            "{file}: nested too deeply: at most 64 levels are read",
        ),
        (BOMB, "{file}:5:10: more than 10000 values in YAML; " + SMALLER),
        ("- 1\n" * 10_000, "{file}:10000:3: more than 10000 values in YAML; " + SMALLER),
        ("null", 'expected an object, got `null`; write a request such as `{"facts": {"model_config": {}}}`'),
        (
            "{}",
            'expected one of `facts`, `deployment`, `manifest`; add one, or write `"facts": {}` for the defaults',
        ),
        (
            '{"facts": {"model_config": {"is_moe": 1}}}',
            "/facts/model_config/is_moe: `1` is not legal for `model_config.is_moe`; legal: `true`, `false`",
        ),
        (
            "facts: {}\nvllm_version: 0.23\n",
            '/vllm_version: expected a string, got `0.23`; write the version in quotes, such as `"0.23.0"`',
        ),
        (
            '{"facts": {}, "explain": 1, "request_id": 2}',
            (
                "/request_id: expected a string of at most 256 characters, got `2`\n"
                "/explain: expected `true` or `false`, got `1`"
            ),
        ),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_unreadable_input_exits_with_2_and_a_message_on_standard_error(
    call: Callable[..., Done],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
    text: str | bytes,
    message: str,
) -> None:
    monkeypatch.setattr("policy.cli.requests.MAX_VALUES", 10_000)  # a million take many seconds to read
    monkeypatch.setattr("policy.cli.requests.MAX_JSON_VALUES", 200_000)
    file = tmp_path / "in"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    done = call(command, str(file))
    assert (done.code, done.out, done.err.rstrip("\n")) == (2, "", message.replace("{file}", str(file)))


def test_a_file_that_is_named_json_is_not_read_as_yaml(call: Callable[..., Done], tmp_path: Path) -> None:
    file = tmp_path / "deployment.json"
    file.write_text('{"facts": {},}')
    done = call("decide", str(file))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"{file}: not JSON: JSON is malformed: ")
    assert done.err.count("\n") == 1


@table(
    ("arguments", "message"),
    [
        (["decide", "no-such-file"], "no-such-file: cannot be read: [Errno 2] No such file or directory"),
        (
            ["decide", "docs"],
            (
                "docs: no file with the ending .json, .yaml, .yml, .sh, .service, .container, .nomad, .nomad.hcl; "
                "`--recursive` reads its subfolders\n"
            ),
        ),
        (["dry-run", "-", "--candidate", "."], ".: cannot be read: expected a file, got a folder\n"),
        (["decide"], "Missing argument 'FILE'"),
        (["decide", "-", "-"], "unexpected extra argument"),
        (["decide", "-", "--explian"], "No such option: --explian"),
        (["decide", "-", "--default-release", "0.99"], "--default-release: unknown release `0.99`"),
        (["decide", "-", "--default-release", "latest"], "--default-release: invalid version `latest`"),
        (["dry-run", "-", "--candidate", "no-such-file"], "no-such-file: cannot be read"),
        (
            ["dry-run", "-", "--remove", "kv-conector-fallback"],
            "--remove: unknown rule `kv-conector-fallback`; did you mean `kv-connector-fallback`?",
        ),
        (["rules", "check", "--format", "xml"], "'text'"),
        (["rules", "test", "--format", "xml"], "'text'"),
        (["rules", "show", "kv-conector"], "unknown rule `kv-conector`; did you mean `kv-connector-fallback`?"),
        (["rules", "show", "--vllm-version", "0.99"], "unknown release `0.99`"),
        (["rules", "show", "--vllm-version", "latest"], "invalid version `latest`"),
        (["rules", "show", "moe", "fp8"], "unexpected extra argument"),
        (["rules", "proof"], "No such command 'proof'"),
        (["rules", "diff"], "Missing argument 'BASE'"),
        (["verify"], "Missing argument 'VERSION'"),
        (
            ["verify", "0.33.0", "--draft"],
            "--draft: expected one final release newer than all known ones, got `0.33.0`; known releases: 0.3.0 to",
        ),
        (["verify", "0.34", "--draft"], "--draft: expected one final release newer than all known ones, got `0.34`"),
        (
            ["verify", "a", "b", "--draft"],
            "--draft: expected one final release newer than all known ones, got `a`, `b`",
        ),
        (["verify", "0.99.0"], "unknown release `0.99.0`; known releases: 0.3.0 to"),
        (["verify", "0.32.0", "0.33.0", "--source", "vllm"], "--source: expected one release, got `0.32.0`, `0.33.0`"),
        (["pin"], "No such command 'pin'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_exits_with_2_and_a_message_on_standard_error(
    call: Callable[..., Done], arguments: list[str], message: str
) -> None:
    done = call(*arguments, stdin='{"facts": {}}', COLUMNS="200")
    assert (done.code, done.out, message in done.err, "Traceback" in done.err) == (2, "", True, False), done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["decide", "-"],
        ["dry-run", "-"],
        ["rules", "check"],
        ["rules", "test"],
        ["rules", "show"],
        ["rules", "show", "moe"],
    ],
    ids=" ".join,
)
def test_invalid_rules_exit_with_3_and_every_fault_on_standard_error(
    call: Callable[..., Done], tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "house").mkdir()
    (tmp_path / "house/a.yaml").write_text("id: [\n")
    (tmp_path / "b.yaml").write_text("id: b\n")
    done = call(*arguments, "--rules", str(tmp_path), stdin='{"facts": {}}')
    assert (done.code, done.out, done.err.splitlines()) == (
        3,
        "",
        [
            f"{tmp_path}/b.yaml:1:1: a rule file must be under `upstream/`, `house/`, `images/`; move it there",
            (
                f"{tmp_path}/house/a.yaml:1:5: not YAML: the bracket `[` is not closed with `]`, or a comma is missing "
                "between its items"
            ),
            f"{tmp_path}/releases.yaml:1:1: missing; it lists the known releases and the default one",
        ],
    )


def test_the_rules_folder_is_a_flag_or_a_variable_and_the_flag_wins(call: Callable[..., Done], tmp_path: Path) -> None:
    elsewhere = {"RUNNER_POLICY_RULES": str(tmp_path / "nowhere")}
    assert call("decide", "-", stdin='{"facts": {}}', **elsewhere).code == 3
    assert call("decide", "-", "--rules", "rules", stdin='{"facts": {}}', **elsewhere).code == 0


def test_outside_the_project_the_bundled_rules_decide(run: Callable[..., Done], tmp_path: Path) -> None:
    done = run("decide", "-", stdin=REQUEST, cwd=tmp_path)
    assert (done.code, json.loads(done.out)["summary"]) == (
        0,
        "V1: a KV connector (NixlConnector) keeps this deployment on V1",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "candidate.yaml:1:1: empty; expected a document"),
        ("id: x\n", "house/x.yaml:1:1: the house rule has no `effect`; add it"),
        (
            CANDIDATE.replace("kv_connector:", "kv_conector:"),
            "house/kv-connector-fallback.yaml:13:7: unknown fact `kv_transfer_config.kv_conector`",
        ),
    ],
    ids=["empty", "only an id", "unknown fact"],
)
def test_an_invalid_candidate_exits_with_3_and_its_faults_on_standard_error(
    call: Callable[..., Done], tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "candidate.yaml").write_text(text)
    done = call("dry-run", "-", "--candidate", str(tmp_path / "candidate.yaml"), stdin=REQUEST)
    assert (done.code, done.out, message in done.err) == (3, "", True), done.err


def test_a_hostile_candidate_is_aborted_and_exits_with_3(
    call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("policy.cli.dry_run.CANDIDATE_SECONDS", 1)
    many = ", ".join(f"Connector{number}" for number in range(16_000))
    hostile = CANDIDATE.replace("{in: [LMCacheConnectorV1]}", f"{{not_in: [{many}]}}")
    arguments = []
    for number in range(12):  # three seconds of processor time
        path = tmp_path / f"hostile-{number}.yaml"
        path.write_text(
            hostile.replace("id: kv-connector-fallback", f"id: hostile-{number}").replace(
                "Connector0,", f"Other{number},"
            )
        )
        arguments += ["--candidate", str(path)]
    done = call("dry-run", "-", *arguments, stdin=REQUEST)
    assert (done.code, done.out, done.err) == (
        3,
        "",
        "the candidate rules took more than 1 s; make their conditions simpler\n",
    )


@pytest.mark.parametrize("command", ["decide", "rules test"])
def test_an_engine_failure_exits_with_3_and_without_a_traceback(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fired(*_: object) -> list[str]:
        raise EngineFailed("the engine stopped before the last rule")

    document = tmp_path / "facts.json"
    document.write_text('{"facts": {}}')
    monkeypatch.setattr("policy.engine.rete.Engine.fired", fired)
    monkeypatch.setattr(
        "sys.argv", ["runner-policy", *command.split(), *([str(document)] if command == "decide" else [])]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    assert (ended.value.code, shown.out) == (3, "")
    assert (
        shown.err.splitlines()[-1]
        == "the rule engine failed: the engine stopped before the last rule; no decision was made"
    )
    assert "Traceback" not in shown.err


@pytest.mark.parametrize(
    "arguments",
    [("serve",), ("health",), ("decide", "-"), ("rules", "check"), ("log", "query"), ("decide", "--help")],
    ids=" ".join,
)
def test_an_engine_that_cannot_be_imported_exits_with_3_and_one_line(
    run: Callable[..., Done], tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    reason = "undefined symbol: PyEval_CallObject"
    (tmp_path / "durable_rules_engine.py").write_text(f"raise ImportError({reason!r})\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    done = run(*arguments, stdin=REQUEST, PYTHONPATH=path)
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        "the rule engine (durable-rules) does not load; build it again: "
        "CPPFLAGS=-DPyEval_CallObject=PyObject_CallObject pip install --force-reinstall --no-deps --no-cache-dir "
        f"--no-binary durable-rules durable-rules==2.0.28 ({reason})\n"
    )


# help

COMMANDS = {
    (): "Which vLLM model runner (V1 or V2) a deployment gets, why, and whether vLLM will start.",
    ("serve",): "Serve the policy over HTTP.",
    ("decide",): "Decide one deployment, or each vLLM container of a manifest.",
    ("dry-run",): "Explain a decision, or show what candidate rules would change.",
    ("verify",): "Compare the upstream layer with what vLLM itself decides.",
    ("rules",): "Check, test, show, prove and compare the rules.",
    ("rules", "check"): "Validate every file and report all faults as file:line:column: message.",
    ("rules", "test"): "Run the cases of the rules.",
    (
        "rules",
        "show",
    ): "Show one rule's history as a table over the releases, or list all rules, those about requests last.",
    (
        "rules",
        "prove",
    ): "Prove, for each release and all facts, that no rule is unreachable or redundant and that some rule decides.",
    (
        "rules",
        "diff",
    ): "Show what an edit changes: the rules in words, then the deployments whose start, runner or reasons change.",
    ("log",): "The decision log: follow, query, export.",
    ("log", "tail"): "Show the newest decisions, the newest last.",
    ("log", "query"): "Find decisions, the newest first.",
    ("log", "export"): "Export decisions, the oldest first, in constant memory.",
    ("token",): "Manage API tokens.",
    ("token", "new"): "Make a token: it is printed once on standard error",
}


@table("command", COMMANDS, ids=" ".join)
def test_help_says_what_a_command_does(call: Callable[..., Done], command: tuple[str, ...]) -> None:
    done = call(*command, "--help", COLUMNS="200")
    assert (done.code, done.err, COMMANDS[command] in done.out) == (0, "", True), done.out


FILTERS = {"--runner", "--outcome", "--starts", "--no-starts", "--vllm-version", "--rule", "--requested-by"}


def test_the_version_is_that_of_the_package(call: Callable[..., Done]) -> None:
    done = call("--version")
    assert (done.code, done.out, done.err) == (0, f"runner-policy {version('runner-policy')}\n", "")


def test_help_names_every_command_and_flag(call: Callable[..., Done]) -> None:
    named = {
        command: set(re.findall(r"(?<![\w-])--[a-z-]+", call(*command, "--help", COLUMNS="200").out)) - {"--help"}
        for command in COMMANDS
    }
    assert named == {
        (): {"--version"},
        ("serve",): {
            *(
                "--host",
                "--port",
                "--root-path",
                "--workers",
                "--rules",
                "--rules-git",
                "--reload",
                "--no-reload",
                "--default-release",
                "--hub",
                "--no-hub",
            ),
            *(
                "--log",
                "--tokens",
                "--allow-anonymous",
                "--no-allow-anonymous",
                "--tls-cert",
                "--tls-key",
                "--tls-client-ca",
            ),
        },
        ("log",): set(),
        ("log", "tail"): {"--log", "--lines", "--follow", "--json"},
        ("log", "query"): {"--log", "--since", "--until", *FILTERS, "--limit", "--json"},
        ("log", "export"): {"--log", "--format", "--since", "--until", *FILTERS},
        ("token",): set(),
        ("token", "new"): {"--scope", "--until"},
        ("decide",): {
            "--rules",
            "--default-release",
            "--vllm-version",
            "--release",
            "--nearest",
            "--platform",
            "--model-config",
            "--models",
            "--hub",
            "--no-hub",
            "--explain",
            "--exit-code",
            "--recursive",
            "--render",
            "--json",
        },
        ("dry-run",): {
            "--rules",
            "--default-release",
            "--vllm-version",
            "--release",
            "--nearest",
            "--model-config",
            "--models",
            "--hub",
            "--no-hub",
            "--candidate",
            "--remove",
            "--json",
        },
        ("rules",): set(),
        ("rules", "check"): {"--rules", "--format"},
        ("rules", "test"): {"--rules", "--format", "--mutate"},
        ("rules", "show"): {"--rules", "--vllm-version", "--release", "--json"},
        ("rules", "prove"): {"--rules", "--format"},
        ("rules", "diff"): {
            "--rules",
            "--format",
            "--fleet",
            "--markdown",
            "--model-config",
            "--models",
            "--hub",
            "--no-hub",
            "--full",
            "--exit-code",
        },
        ("verify",): {"--rules", "--source", "--cache", "--samples", "--seed", "--draft", "--json", "--requests"},
    }


METAVARS = {
    "--rules": "FOLDER",
    "--default-release": "VERSION",
    "--vllm-version": "VERSION",
    "--rule": "ID",
    "--remove": "ID",
    "--log": "URL",
}


def test_help_has_one_name_for_each_kind_of_value(call: Callable[..., Done]) -> None:
    shown: dict[tuple[tuple[str, ...], str], str] = {}
    for command in COMMANDS:
        text = call(*command, "--help", COLUMNS="200").out
        shown |= {
            (command, option): value
            for option, value in re.findall(r"(?m)^│ [ *]*(--[a-z-]+) +(\S+)", text)
            if option in METAVARS
        }
        assert "<bool>" not in text, command
    assert shown == {(command, option): METAVARS[option] for command, option in shown}
    assert {option for _, option in shown} == set(METAVARS)


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        (("rules", "check"), "[FOLDER]"),
        (("rules", "test"), "[FOLDER]"),
        (("rules", "prove"), "[FOLDER]"),
        (("rules", "show"), "[ID]"),
        (("rules", "diff"), "{BASE} [HEAD]"),
        (("verify",), "{VERSION}..."),
        (("log", "export"), "{FILE}"),
        (("token", "new"), "{NAME}"),
    ],
)
def test_usage_names_the_arguments(call: Callable[..., Done], command: tuple[str, ...], usage: str) -> None:
    lines = call(*command, "--help", COLUMNS="200").out.splitlines()
    assert lines[1].strip() == f"Usage: runner-policy {' '.join(command)} [OPTIONS] {usage}"


@pytest.mark.parametrize("arguments", [[], ["rules"]])
def test_a_group_without_a_command_shows_its_help_and_is_wrong_usage(
    call: Callable[..., Done], arguments: list[str]
) -> None:
    done = call(*arguments)
    assert (done.code, "Usage: runner-policy" in done.out + done.err) == (2, True)


# progress


@pytest.mark.parametrize("forced", [True, False])
def test_a_slow_block_shows_its_progress_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, forced: bool
) -> None:
    monkeypatch.setattr("policy.cli.console.DELAY", 0.0)
    for name in ("TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1") if forced else monkeypatch.delenv("FORCE_COLOR", raising=False)
    seen = ""
    with Output(is_error=True).working("loading [the] rules"):
        while forced and "loading [the] rules" not in seen:
            seen += capsys.readouterr().err
    rest = capsys.readouterr()
    assert (rest.out, "loading" in seen) == ("", forced)
    assert forced or rest.err == ""


def test_a_fast_block_shows_no_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("policy.cli.console.DELAY", 1000.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with pytest.raises(KeyError), Output(is_error=True).working("loading"):
        raise KeyError
    assert capsys.readouterr() == ("", "")
