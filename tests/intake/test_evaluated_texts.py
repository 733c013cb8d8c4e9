"""Scripts that start vLLM from a text that a shell evaluates later: a value, a word, or a variable of the shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tables import table

from policy.intake.command.launcher import read_command

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
