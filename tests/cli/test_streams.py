"""The streams of every command: hostile texts on a terminal, and outputs and inputs that are full or closed."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shutil
import subprocess
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from api.conftest import BIN, PATIENCE, ROOT, Server, environment, listening, serving
from processes import bound, forked_program
from rich.text import Text
from ruletexts import rule_text

from policy.escaping import escape_line, escape_lines
from policy.render import EscapingConsole

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from api.conftest import Done

OSC = "\x1b]52;c;cHduZWQ=\x1b\\"
INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u180b\u3164\ufe00\ufe0f\uffa0\U000e0100")
"""Letters and marks, all printable for Python, that no terminal shows."""
HOSTILE = [
    OSC,
    "\x9b31m",
    "\x7f\x08\x00\x07\r",
    "\u202egnp.exe\u2066\u2069",
    "\u200f\u061c\u2028\u2029\ufeff",
    "\U000e0041\U0001d173",
    "".join(sorted(INVISIBLE)),
    "\nerror: forged",
]
"""Control sequences in C0 and C1, line breaks, bidirectional, zero-width and other invisible characters."""
RICH_OUTPUT = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]")
"""The control sequences that rich writes: colours and cursor movements."""


def controls(text: str) -> list[str]:
    """The control and invisible characters in a text that rich did not write."""
    return [
        c
        for c in RICH_OUTPUT.sub("", text)
        if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} or c in INVISIBLE
    ]


def request(text: str) -> dict[str, Any]:
    model = {"architectures": ["Qwen3ForCausalLM"]}
    return {"facts": {"model_config": model, "kv_transfer_config": {"kv_connector": f"N{text}x"}}}


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Rules with hostile texts in every field that a command shows, with a redundant rule and a failing case."""
    folder = tmp_path / "rules"
    text = "".join(HOSTILE)
    when = {"kv_transfer_config.kv_connector": {"in": [text]}}
    case = {"name": text, "vllm": ["0.23.0"], "given": {"kv_transfer_config": {"kv_connector": text}}, "fires": False}
    files = {
        "releases.yaml": 'known: ["0.23.0"]\ndefault: "0.23.0"\n',
        "upstream/v2.yaml": rule_text("v2", "default-v2"),
        "upstream/moe.yaml": rule_text("moe", "not-default", when, words=text, title=text, why=text),
        "upstream/moe_test.yaml": yaml.safe_dump({"rule": "moe", "cases": [case]}),
        "upstream/late.yaml": rule_text("late", "not-default", when, words=text),
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log whose records have hostile texts, which callers sent over HTTP."""
    folder = tmp_path_factory.mktemp("log")
    url = f"sqlite:///{folder}/log.db"
    with serving(folder, RUNNER_POLICY_LOG=url) as server, server.client() as client:
        for text in HOSTILE:
            assert client.post("/v1/decisions", json=request(text)).status_code == 200
    return url


def assert_escaped(output: str) -> None:
    """Check that the output shows a hostile text without its control characters."""
    assert (controls(output), "cHduZWQ" in output) == ([], True), output


# terminals


@pytest.mark.parametrize(
    "command",
    [
        "log query",
        "log query --json",
        "log tail",
        "log tail --json",
        "log export -",
    ],
)
def test_the_log_on_a_terminal_escapes_what_callers_sent(
    on_terminal: Callable[..., tuple[int, str]], log: str, command: str
) -> None:
    code, out = on_terminal(*command.split(), "--log", log, COLUMNS="1000")
    assert code == 0
    assert_escaped(out)
    assert not any(line.startswith("error: forged") for line in out.splitlines())


@pytest.mark.slow
def test_records_that_a_service_prints_on_a_terminal_are_escaped(tmp_path: Path) -> None:
    reader, writer = pty.openpty()
    variables = {"PORT": "0", "LOG": "off", "LOG_STDOUT": "true"}
    settings = {f"RUNNER_POLICY_{name}": value for name, value in variables.items()}
    log = tmp_path / "serve.log"
    with (
        log.open("wb") as file,
        subprocess.Popen(
            bound([str(BIN / "runner-policy"), "serve"]),
            cwd=ROOT,
            env=environment(XDG_STATE_HOME=str(tmp_path), **settings),
            stdout=writer,
            stderr=file,
        ) as process,
    ):
        os.close(writer)
        with Server(process, listening(process, log), log).client() as client:
            assert client.post("/v1/decisions", json=request("".join(HOSTILE))).status_code == 200
        output = b""
        while not output.endswith(b"\n"):
            output += os.read(reader, 65536)
        process.terminate()
        assert process.wait(PATIENCE) == 0
        os.close(reader)
    assert_escaped(output.decode())
    assert "".join(HOSTILE).replace("\0", "\ufffd") in json.loads(output)["result"]["summary"]


@pytest.mark.parametrize("flags", ["", "--json", "--explain", "--explain --json"])
@pytest.mark.parametrize("command", ["decide", "dry-run"])
def test_a_decision_on_a_terminal_escapes_its_texts(
    on_terminal: Callable[..., tuple[int, str]], tmp_path: Path, command: str, flags: str
) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request("".join(HOSTILE))))
    code, out = on_terminal(command, str(file), *(flags.split() if command == "decide" else flags.split()[1:]))
    assert code == 0
    assert_escaped(out)
    assert not any(line.startswith("error: forged") for line in out.splitlines())


def test_json_on_a_terminal_is_the_same_document(
    on_terminal: Callable[..., tuple[int, str]], call: Callable[..., Done], log: str
) -> None:
    _, out = on_terminal("log", "query", "--json", "--log", log)
    piped = call("log", "query", "--json", "--log", log).out
    assert [json.loads(line) for line in out.splitlines()] == [json.loads(line) for line in piped.split("\n")[:-1]]
    assert [json.loads(escape_lines(json.dumps(text, ensure_ascii=False))) for text in HOSTILE] == HOSTILE


@pytest.mark.parametrize(
    "command",
    [
        "rules test",
        "rules test --format github",
        "rules test --format junit",
        "rules show moe",
        "rules show moe --json",
        "rules prove",
        "rules diff $BASE",
        "rules diff $BASE --format json",
        "rules diff $BASE --format markdown",
        "rules diff $BASE --format github",
    ],
)
def test_rules_on_a_terminal_escape_their_texts(
    on_terminal: Callable[..., tuple[int, str]], rules: Path, tmp_path: Path, command: str
) -> None:
    base = shutil.copytree(rules, tmp_path / "base")
    for name in ("moe.yaml", "moe_test.yaml", "late.yaml"):
        (base / "upstream" / name).unlink()
    _, out = on_terminal(*command.replace("$BASE", str(base)).split(), RUNNER_POLICY_RULES=str(rules))
    assert (controls(out), "Traceback" in out, out != "") == ([], False, True), out
    assert command == "rules show moe" or not any(line.startswith("error: forged") for line in out.splitlines())


@pytest.mark.parametrize(
    "arguments",
    [
        ["decide", OSC],
        ["decide", f"--{OSC}"],
        ["decide", "README.md", "--model-config", OSC],
        [OSC],
        ["rules", "show", OSC],
        ["rules", "diff", OSC],
        ["rules", "diff", "rules", "--fleet", OSC],
        ["rules", "diff", "rules", "--markdown", f"/nowhere/{OSC}"],
        ["log", "query", "--since", OSC],
        ["log", "query", "--log", f"sqlite:///{OSC}"],
        ["log", "export", f"/nowhere/{OSC}", "--log", "$LOG"],
        ["token", "new", "--scope", OSC, "a"],
        ["serve", "--log", OSC],
        ["verify", OSC],
        ["verify", "0.23.0", "--source", OSC],
    ],
)
def test_errors_on_a_terminal_escape_what_they_quote(
    on_terminal: Callable[..., tuple[int, str]], log: str, arguments: list[str]
) -> None:
    given = [argument.replace("$LOG", log) for argument in arguments]
    code, out = on_terminal(*given, RUNNER_POLICY_DEFAULT_RELEASE="")
    assert (controls(out), "Traceback" in out, code) == ([], False, 2), out


def test_a_hostile_variable_and_file_name_are_escaped(
    on_terminal: Callable[..., tuple[int, str]], rules: Path, tmp_path: Path
) -> None:
    code, out = on_terminal("serve", **{f"RUNNER_POLICY_{OSC.replace('=', '')}": "1"})
    assert (code, controls(out)) == (2, [])
    (rules / f"{OSC}\udcff.yaml").write_text("")
    code, out = on_terminal("rules", "check", str(rules))
    assert (code, controls(out), "not printable" in out) == (3, [], True)
    listed = tmp_path / "list.yaml"
    listed.write_text(yaml.safe_dump({"services": {f"a{text}": SERVICE for text in HOSTILE}}))
    code, out = on_terminal("decide", str(listed))
    assert (code, controls(out), "cHduZWQ" in out) == (1, [], True)


SERVICE = {"image": "vllm/vllm-openai:v0.23.0", "command": ["vllm", "serve", "a/b"]}


@pytest.mark.parametrize("text", HOSTILE)
def test_control_sequences_of_rich_are_kept(text: str) -> None:
    file = io.StringIO()
    console = EscapingConsole(file=file, force_terminal=True, color_system="standard", width=200)
    console.print(Text(f"a{text}b", "red"))
    assert (file.getvalue().startswith("\x1b[31ma"), controls(file.getvalue())) == (True, [])
    assert escape_line(text) == "".join(c if c.isprintable() and c not in INVISIBLE else escape_line(c) for c in text)


# outputs and inputs that are full or closed

COMMANDS = [
    "decide $REQUEST",
    "rules check",
    "rules show",
    "rules diff ./rules --format markdown",
    "log query --json --log $LOG",
    "log export - --log $LOG",
    "token new a --scope log",
    "--help",
]


@pytest.fixture
def shell(run: Callable[..., Done], log: str, tmp_path: Path) -> Callable[..., Done]:
    """Run ``runner-policy`` in a shell, with arguments and redirections, as the ``COMMAND`` of a line."""
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request("")))
    program = forked_program(tmp_path)

    def command(text: str, stdin: str = "", line: str = "COMMAND") -> Done:
        text = f"{program} {text}".replace("$REQUEST", str(file)).replace("$LOG", log)
        return run("-c", f"set -o pipefail; {line.replace('COMMAND', text)}", program="bash", stdin=stdin)

    return command


@pytest.mark.parametrize(
    ("target", "problem"), [("/dev/full", "No space left on device"), ("&-", "Bad file descriptor")]
)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_output_that_cannot_be_written_is_reported_in_one_line(
    shell: Callable[..., Done], command: str, target: str, problem: str
) -> None:
    done = shell(f"{command} >{target}")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1:] == [f"the output cannot be written: {problem}"]
    assert "Traceback" not in done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_pipe_ends_a_command_silently(shell: Callable[..., Done], command: str) -> None:
    line = "mkfifo $F; { read -r _ < $F; COMMAND; } | { exec <&-; echo > $F; }"
    done = shell(command, line=f"F=$(mktemp -u); {line}")
    assert (done.code, done.out) == (1, "")
    assert not any(word in done.err for word in ("Traceback", "Exception", "cannot"))


@pytest.mark.parametrize("command", ["decide -", "dry-run -", "rules diff ./rules --fleet -"])
def test_a_closed_input_is_reported_in_one_line(shell: Callable[..., Done], command: str) -> None:
    done = shell(f"{command} <&-")
    assert (done.code, done.out, done.err) == (2, "", "-: cannot be read: [Errno 9] Bad file descriptor\n")


@pytest.mark.parametrize("target", ["/dev/full", "&-"])
def test_diagnostics_that_cannot_be_written_give_no_traceback(shell: Callable[..., Done], target: str) -> None:
    done = shell(f"decide nowhere 2>{target}")
    assert (done.code, done.out, done.err) == (2, "", "")


def test_a_command_that_prints_nothing_needs_no_output(shell: Callable[..., Done]) -> None:
    done = shell("decide nowhere >&-")
    assert (done.code, done.err) == (2, "nowhere: cannot be read: [Errno 2] No such file or directory: 'nowhere'\n")
