"""Which commands of a script an edit may change: those that start vLLM, and no other with the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from policy.decision.remedies import Change

if TYPE_CHECKING:
    from collections.abc import Callable

DBO = "--enable-dbo"
OTHER_COMMANDS = [
    f"guard {DBO} || rm -rf /data",
    f'test "$(cat /mode)" = {DBO} || rm -rf /data',
    f'[ x = {DBO} ] || [ "$MODE" != {DBO} ] && rm -rf /data/tmp',
    f'[[ "$1" == {DBO} ]] && shift',
    f"echo {DBO} > /marker",
    f"printf '%s\\n' {DBO} | tee /marker",
    f"rm -rf /cache {DBO} /scratch",
    f"check-gpus {DBO} yes && echo ok",
    f"for f in {DBO} --port; do echo $f; done",
    f'case "$1" in {DBO}) shift;; esac',
    f"logger vllm serve Qwen/Qwen3-8B {DBO}",
    f"echo vllm serve Qwen/Qwen3-8B {DBO} >> /log",
    f"while read -r line; do grep -q -- {DBO} <<< $line; done < /list",
    f"mytool {DBO}=1 --x {DBO} 2>&1 | cat {DBO}",
    f"(cd /app; prepare {DBO})",
]
OTHER_ASSIGNMENTS = [
    '[ "$1" = VLLM_USE_V2_MODEL_RUNNER=1 ] || rm -rf /data',
    "other-tool --with VLLM_USE_V2_MODEL_RUNNER=1",
    "VLLM_USE_V2_MODEL_RUNNER=1 other-tool",
    "env A=b VLLM_USE_V2_MODEL_RUNNER=1 other-tool",
    "echo VLLM_USE_V2_MODEL_RUNNER=1 >> /marker",
    "docker run -e VLLM_USE_V2_MODEL_RUNNER=1 nginx",
]


def script(*commands: str) -> str:
    return "\n".join(("#!/bin/bash", *commands, ""))


def pod(*commands: str) -> str:
    lines = "".join(f"          {command}\n" for command in commands)
    return (
        "kind: Pod\napiVersion: v1\nmetadata: {name: a}\nspec:\n  containers:\n"
        f"    - image: vllm/vllm-openai:v0.33.0\n      command: [bash, -c]\n      args:\n        - |\n{lines}"
    )


def drop(argument: str) -> Change:
    return Change(argument=argument, from_="", to=None)


@pytest.mark.parametrize(("name", "text_of"), [("s.sh", script), ("p.yaml", pod)])
@pytest.mark.parametrize("other", OTHER_COMMANDS)
def test_an_option_of_another_command_is_left(
    changed: Callable[..., tuple[list[str], str]], name: str, text_of: Callable[..., str], other: str
) -> None:
    for before, after in (((other,), ()), ((), (other,))):
        text = text_of(*before, f"vllm serve Qwen/Qwen3-8B {DBO} --port 1", *after)
        expected = text_of(*before, "vllm serve Qwen/Qwen3-8B --port 1", *after)
        assert changed(name, text, drop(DBO)) == ([], expected)


@pytest.mark.parametrize("other", OTHER_ASSIGNMENTS)
def test_an_assignment_of_another_command_is_left(changed: Callable[..., tuple[list[str], str]], other: str) -> None:
    text = script(other, "export VLLM_USE_V2_MODEL_RUNNER=1", "vllm serve Qwen/Qwen3-8B")
    assert changed("s.sh", text) == ([], script(other, "vllm serve Qwen/Qwen3-8B"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["vllm serve Qwen/Qwen3-8B > /log 2>&1 --enable-dbo"], ["vllm serve Qwen/Qwen3-8B > /log 2>&1"]),
        (["nohup vllm serve Qwen/Qwen3-8B --enable-dbo &> /log &"], ["nohup vllm serve Qwen/Qwen3-8B &> /log &"]),
        (
            ["python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B --enable-dbo"],
            ["python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B"],
        ),
        (
            ["args=(", "  --enable-dbo", "  --port 1", ")", 'vllm serve Qwen/Qwen3-8B "${args[@]}"'],
            ["args=(", "  --port 1", ")", 'vllm serve Qwen/Qwen3-8B "${args[@]}"'],
        ),
        (
            ["args=(--port 1)", "args+=(--enable-dbo -tp 1)", 'vllm serve Qwen/Qwen3-8B "${args[@]}"'],
            ["args=(--port 1)", "args+=(-tp 1)", 'vllm serve Qwen/Qwen3-8B "${args[@]}"'],
        ),
        (
            ["guard --enable-dbo", "set -- --enable-dbo --port 1", 'vllm serve Qwen/Qwen3-8B "$@"'],
            ["guard --enable-dbo", "set -- --port 1", 'vllm serve Qwen/Qwen3-8B "$@"'],
        ),
        (
            ["set -- --enable-dbo --port 1", 'vllm serve Qwen/Qwen3-8B --enable-dbo "$@"'],
            ["set -- --port 1", 'vllm serve Qwen/Qwen3-8B "$@"'],
        ),
    ],
)
def test_an_option_is_dropped_wherever_the_command_takes_it_from(
    changed: Callable[..., tuple[list[str], str]], before: list[str], after: list[str]
) -> None:
    assert changed("s.sh", script(*before), drop(DBO)) == ([], script(*after))


@pytest.mark.parametrize(
    "use", ["rm -rf /x$EXTRA", 'rm -rf "/x${EXTRA}"', "rm -rf /x${EXTRA:-}", "guard $EXTRA || halt"]
)
@pytest.mark.parametrize("place", ["variable", "map"])
def test_a_variable_that_another_command_uses_is_left(
    changed: Callable[..., tuple[list[str], str]], use: str, place: str
) -> None:
    head = (
        "kind: Pod\napiVersion: v1\nmetadata: {name: a}\nspec:\n  containers:\n    - image: vllm/vllm-openai:v0.33.0\n"
    )
    variables = '      env: [{name: EXTRA, value: "--enable-dbo"}]\n'
    command = f"      command: [bash, -c, '{use}; vllm serve Qwen/Qwen3-8B $EXTRA']\n"
    name, text = "p.yaml", head + command + variables
    if place == "map":
        name = "compose.yaml"
        text = (
            "services:\n  a:\n    image: vllm/vllm-openai:v0.33.0\n"
            f"    entrypoint: [bash, -c, '{use.replace('$', '$$')}; vllm serve Qwen/Qwen3-8B $$EXTRA']\n"
            '    environment: {EXTRA: "--enable-dbo"}\n'
        )
    assert changed(name, text, drop(DBO)) == (["the text here cannot be edited with certainty"], text)
    alone = text.replace(f"{use}; ", "").replace(f"{use.replace('$', '$$')}; ", "")
    assert changed(name, alone, drop(DBO)) == ([], alone.replace('"--enable-dbo"', '""'))
