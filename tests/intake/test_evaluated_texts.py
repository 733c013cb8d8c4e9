"""Scripts that start vLLM from a text that a shell evaluates later: a value, a word, or a variable of the shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tables import table

from policy.intake.command.launcher import find_server, read_command
from policy.intake.command.vllm_command import ServerCommand, UnreadableCommand

if TYPE_CHECKING:
    from policy.errors import RequestFault

START = "$(vllm serve a/b --enable-dbo)"


def read(script: str, env: dict[str, str | None] | None = None) -> tuple[list[str], list[str], list[str]]:
    """vLLM's words in a script, its doubts, and the faults."""
    faults: list[RequestFault] = []
    found = read_command(["bash", "-c", script], ["a"] * 3, env or {}, faults, "")
    return found.words, found.doubts, [fault.message for fault in faults]


@table(
    "script",
    [
        f"PS4='{START}'; set -x; true",
        f"A='a[{START}]'; echo $((A))",
        f"A='a[{START}]'; (( A ))",
        f"A='a[{START}]'; for ((i=A;;)); do break; done",
        f"A='a[{START}]'; [[ $A -eq 1 ]]",
        f"A='a[{START}]'; [ -v \"$A\" ]",
        f"A='a[{START}]'; echo ${{B:A}}",
        f"A='a[{START}]'; echo ${{B[A]}}",
        f"A='a[{START}]'; B[A]=1",
        f"A='a[{START}]'; declare -i B=A",
        f"A='a[{START}]'; echo ${{!A}}",
        f"A='{START}'; echo ${{A@P}}",
        f"A='{START}'; B=${{A@P}}",
        f'A="\\{START}"; echo ${{A@P}}',
        "A='`vllm serve a/b`'; echo ${A@P}",
        "A='$(v\"\"llm serve a/b)'; echo ${A@P}",
        f"set -- '{START}'; echo ${{1@P}}",
        f"printf -v A %s '{START}'; echo ${{A@P}}",
        f"export A='{START}'; echo ${{A@P}}",
        f"declare A='{START}'; echo ${{A@P}}",
        f"A=$'{START}'; echo ${{A@P}}",
        f"true && A='{START}' && echo ${{A@P}}",
        f"[[ -v 'a[{START}]' ]]",
        f"printf -v 'a[{START}]' 1",
    ],
)
def test_a_text_that_a_shell_may_evaluate_is_not_read(script: str) -> None:
    words, _, (fault,) = read(script)
    assert (words, "so it is not known whether it starts vLLM" in fault) == ([], True)
    words, (doubt, *_), faults = read(f"vllm serve c/d; {script}")
    assert (words, doubt != "", faults) == (["c/d"], True, [])


@pytest.mark.parametrize("name", ["PS4", "BASH_ENV", "BASH_FUNC_x%%"])
def test_a_variable_that_bash_evaluates_is_not_read(name: str) -> None:
    words, _, (fault,) = read("true", {name: START})
    assert (words, f"the variable `{name}` names vLLM's server" in fault) == ([], True)
    assert read("nginx", {name: "/etc/profile"})[2] == read("nginx")[2]


@pytest.mark.parametrize("script", [f"A='{START}'; echo \"$A\"", "A='`vllm serve c/d`'; B=$A", f"echo '{START}' >&2"])
def test_a_text_that_nothing_evaluates_starts_nothing(script: str) -> None:
    assert read(f"{script}; vllm serve a/b") == (["a/b"], [], [])


@pytest.mark.parametrize("script", ["A='$(date)'; echo ${A@P}", "A='vllm serve c/d'; echo $((A))", "A='$(vllm bench)'"])
def test_other_texts_are_no_command(script: str) -> None:
    assert "does not start vLLM's server" in read(script)[2][0]


SERVER = "vllm serve a/b --enable-dbo"
MAY_RUN = "the variable `X` has a command of vLLM's server"


@table(
    "command",
    [
        ["flock", "/tmp/l", "-c", "$X"],
        ["find", "/", "-maxdepth", "0", "-exec", "sh", "-c", "$X", ";"],
        ["script", "-qec", "$X", "/dev/null"],
        ["su", "-m", "root", "-c", "$X"],
        ["runuser", "-c", "$X"],
        ["sed", "1e $X", "/etc/hostname"],
        ["tar", "cf", "/tmp/a", "/etc/hostname", "--checkpoint-action=exec=$X"],
        ["git", "-c", "alias.x=!$X", "x"],
        ["split", "--filter", "$X"],
        ["dpkg", "--pre-invoke=$X", "-i", "a"],
        ["apt-get", "-o", "DPkg::Pre-Invoke::=$X", "install", "a"],
        ["python3", "-m", "timeit", "import os; os.system(os.environ['X'])"],
        ["python3", "-c", "import os; print(os.environ)"],
        ["python3", "-m", "webbrowser", "http://x"],
        ["timeout", "5", "flock", "/tmp/l", "-c", "$X"],
        ["less", "/etc/hostname"],
        ["bash", "-i"],
        ["sh", "-c", "flock /tmp/l -c '$$X'"],
        ["sh", "-c", "sleep 1; trap '$$X' EXIT"],
        ["sh", "-c", "sh -c \"flock /tmp/l -c '\\$$X'\""],
    ],
)
@table("value", [SERVER, "exec v''llm serve a/b", "nohup python3 -m vllm.entrypoints.openai.api_server --model=a/b &"])
def test_another_program_may_run_the_value_of_a_variable(command: list[str], value: str) -> None:
    found = find_server(command, {"X": value}, is_command=True)
    assert isinstance(found, UnreadableCommand)
    assert (found.why.startswith(MAY_RUN), found.names_vllm) == (True, True)


@table(
    "script",
    [
        'echo "$X" | sh',
        '. <(echo "$X")',
        "$(printenv X)",
        'echo "$X" | xargs -0 sh -c',
        "xargs flock /tmp/l -c '$X'",
        "perl -e 'exec $ENV{X}'",
        """awk 'BEGIN { system(ENVIRON["X"]) }'""",
        "make",
    ],
)
def test_a_command_that_cannot_be_read_names_vllm_by_a_variable(script: str) -> None:
    found = find_server(["bash", "-c", script.replace("$", "$$")], {"X": SERVER}, is_command=True)
    assert (isinstance(found, UnreadableCommand) and found.names_vllm) is True


@table(
    "script",
    [
        *(f"export X='{SERVER}'; {run}" for run in ("flock /tmp/l -c '$X'", "unknown")),
        *(f"X='{SERVER}' {run}" for run in ("flock /tmp/l -c '$X'", "unknown", "sh -c 'flock /tmp/l -c \"\\$X\"'")),
        *(f"env {option}X='{SERVER}' flock /tmp/l -c '$X'" for option in ("", "-i ")),
        f"X='{SERVER}'; flock /tmp/l -c '$X'",
        f"X='{SERVER}'; N=X; unknown \"${{!N}}\"",
        f"set -a; X='{SERVER}'; flock /tmp/l -c '$X'",
        f"declare -x X='{SERVER}'; flock /tmp/l -c '$X'",
        f"export X=\"{SERVER} $M\"; flock /tmp/l -c '$X'",
        f"printf -v X '{SERVER}'; export X; flock /tmp/l -c '$X'",
        f"set -- '{SERVER}'; export X=$1; flock /tmp/l -c '$X'",
        f"if a; then export X='{SERVER}'; fi; flock /tmp/l -c '$X'",
        "A=serve; export X=\"vllm $A a/b\"; flock /tmp/l -c '$X'",
    ],
)
def test_another_program_may_run_a_variable_of_the_script(script: str) -> None:
    words, _, (fault,) = read(script)
    assert (words, MAY_RUN in fault) == ([], True)
    words, doubts, faults = read(f"{script} & vllm serve c/d")
    assert (words, any(MAY_RUN in doubt for doubt in doubts), faults) == (["c/d"], True, [])


@table("script", ["export A=vllm; flock /tmp/l -c '$A serve M'", "A=vllm B='serve M' flock /tmp/l -c '${A} $B'"])
def test_another_program_may_put_variables_together(script: str) -> None:
    words, _, (fault,) = read(script)
    assert (words, "`flock` has variables among its arguments that name vLLM's server" in fault) == ([], True)


@table(
    "script",
    [
        "exec $X",
        "echo $X; nvidia-smi; mkdir -p /a; sleep 1; exec $X",
        "pip install a; python3 -m pip install b; python3 -c 'import a; print(a)'; exec $X",
        "until curl -sf http://a; do sleep 1; done; exec $X",
    ],
)
def test_a_variable_that_only_the_server_uses_is_no_doubt(script: str) -> None:
    assert read(script, {"X": SERVER}) == (["a/b", "--enable-dbo"], [], [])
    assert read(f"export X='{SERVER}'; {script}")[0::2] == (["a/b", "--enable-dbo"], [])
    assert not any(MAY_RUN in doubt for doubt in read(f"X='{SERVER}'; unknown a; {script}")[1])


@table(
    "command",
    [
        *(["sleep", "9"], ["curl", "http://x"], ["bash", "-c", "sleep 9"], ["grep", "X", "/etc/hostname"]),
        *(["pip", "install", "a"], ["python3", "--version"], ["bash", "--version"], ["sh", "-c", "echo $$X"]),
    ],
)
def test_a_program_that_runs_no_text_starts_nothing(command: list[str]) -> None:
    assert find_server(command, {"X": SERVER}, is_command=True) is None


@pytest.mark.parametrize("value", ["nginx", "http://vllm:8000/serve", "vllm bench serve", "the server of vllm"])
def test_a_variable_with_another_text_starts_nothing(value: str) -> None:
    assert find_server(["flock", "/tmp/l", "-c", "$X"], {"X": value}, is_command=True) is None


def test_more_variables_than_are_compared_may_all_be_run() -> None:
    env = {f"X{n}": SERVER for n in range(100)}
    found = find_server(["sh", "-c", "apt-get install a; vllm serve c/d"], env, is_command=True)
    assert isinstance(found, ServerCommand)
    assert found.doubts == [
        "the variable `X0` has a command of vLLM's server, and `apt-get` may run it, and the script runs it as well"
    ]
