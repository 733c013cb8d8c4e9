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


UNCERTAIN = "the text here cannot be edited with certainty"


@pytest.mark.parametrize(
    "commands",
    [
        ["set -- --enable-dbo", 'other "$@"', 'vllm serve Qwen/Qwen3-8B "$@"'],
        ["set -- --enable-dbo --seed 1", "if [ $# -gt 2 ]; then other x; fi", 'vllm serve Qwen/Qwen3-8B "$@"'],
        ["set -- --enable-dbo", 'for a; do other "$a"; done', 'vllm serve Qwen/Qwen3-8B "$@"'],
        ["set -- --enable-dbo", 'other "$1"', 'vllm serve Qwen/Qwen3-8B "$@"'],
        ["A=(--enable-dbo --seed 1)", 'other "${A[0]}"', 'vllm serve Qwen/Qwen3-8B "${A[@]}"'],
        ["A=(--enable-dbo --seed 1)", 'other "${#A[@]}"', 'vllm serve Qwen/Qwen3-8B "${A[@]}"'],
        ["A=(--seed 1)", "A+=(--enable-dbo)", 'other "${A[@]}"', 'vllm serve Qwen/Qwen3-8B "${A[@]}"'],
        ["A=(", "  --enable-dbo", ")", "other $A", 'vllm serve Qwen/Qwen3-8B "${A[@]}"'],
    ],
)
def test_a_list_that_another_command_uses_is_left(
    changed: Callable[..., tuple[list[str], str]], commands: list[str]
) -> None:
    text = script(*commands)
    assert changed("s.sh", text, drop(DBO)) == ([UNCERTAIN], text)


@pytest.mark.parametrize(
    ("before", "is_left"),
    [
        ('my-check "$@" || exit 1; exec', True),
        ("shift; exec", True),
        ("[ $# -gt 0 ] || exit 1; exec", True),
        ("exec", False),
    ],
)
def test_arguments_of_a_script_that_another_command_uses_are_left(
    changed: Callable[..., tuple[list[str], str]], before: str, *, is_left: bool
) -> None:
    text = (
        "kind: Pod\napiVersion: v1\nmetadata: {name: a}\nspec:\n  containers:\n"
        "    - image: vllm/vllm-openai:v0.33.0\n"
        f"      command: [bash, -c, '{before} vllm serve Qwen/Qwen3-8B \"$@\"', _, --enable-dbo, --seed=1]\n"
    )
    if before == "shift; exec":
        text = text.replace("_, ", "_, a, ")
    expected = ([UNCERTAIN], text) if is_left else ([], text.replace("--enable-dbo, ", ""))
    assert changed("p.yaml", text, drop(DBO)) == expected


@pytest.mark.parametrize(
    "commands",
    [
        ['if [ "$VLLM_USE_V2_MODEL_RUNNER" = 1 ]; then other yes; fi'],
        ["other --runner=${VLLM_USE_V2_MODEL_RUNNER:-0}"],
        ["bash -c 'other $VLLM_USE_V2_MODEL_RUNNER'"],
    ],
)
def test_a_pin_that_another_command_uses_is_left(
    changed: Callable[..., tuple[list[str], str]], commands: list[str]
) -> None:
    text = script("export VLLM_USE_V2_MODEL_RUNNER=1", *commands, "vllm serve Qwen/Qwen3-8B")
    assert changed("s.sh", text) == ([UNCERTAIN], text)


@pytest.mark.parametrize(
    "use",
    [
        "env: [{name: VLLM_USE_V2_MODEL_RUNNER, value: '1'}, {name: B, value: $(VLLM_USE_V2_MODEL_RUNNER)}]",
        (
            "env: [{name: VLLM_USE_V2_MODEL_RUNNER, value: '1'}]\n      livenessProbe: "
            "{exec: {command: [sh, -c, 'test \"$VLLM_USE_V2_MODEL_RUNNER\" = 1']}}"
        ),
    ],
)
def test_a_pin_of_a_container_that_something_else_uses_is_left(
    changed: Callable[..., tuple[list[str], str]], use: str
) -> None:
    text = (
        "kind: Pod\napiVersion: v1\nmetadata: {name: a}\nspec:\n  containers:\n"
        f"    - image: vllm/vllm-openai:v0.33.0\n      args: [--model=Qwen/Qwen3-8B]\n      {use}\n"
    )
    assert changed("p.yaml", text) == ([UNCERTAIN], text)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("args: &x [Qwen/Qwen3-8B, --enable-dbo]", "args: *x"),
        ("args: *x", "args: &x [Qwen/Qwen3-8B, --enable-dbo]"),
    ],
)
def test_an_anchor_that_a_container_without_an_engine_shares_is_left(
    changed: Callable[..., tuple[list[str], str]], first: str, second: str
) -> None:
    engine, other = "image: vllm/vllm-openai:v0.33.0", "image: my/bench:1"
    containers = [f"    - {{name: a, {engine}, {first}}}\n", f"    - {{name: b, {other}, {second}}}\n"]
    if first == "args: *x":
        containers = [f"    - {{name: b, {other}, {second}}}\n", f"    - {{name: a, {engine}, {first}}}\n"]
    text = "kind: Pod\napiVersion: v1\nmetadata: {name: a}\nspec:\n  containers:\n" + "".join(containers)
    reasons, found = changed("p.yaml", text, drop(DBO))
    assert (len(reasons), found) == (1, text)


def test_a_unit_of_podman_is_edited(changed: Callable[..., tuple[list[str], str]]) -> None:
    text = (
        "[Unit]\nDescription=chat\n\n[Container]\nImage=docker.io/vllm/vllm-openai:v0.33.0\n"
        "Environment=VLLM_USE_V2_MODEL_RUNNER=1\nExec=Qwen/Qwen3-8B --enable-dbo --seed 1\n"
    )
    assert changed("a.container", text, drop(DBO)) == ([], text.replace("--enable-dbo ", ""))
    assert changed("b.container", text) == ([], text.replace("Environment=VLLM_USE_V2_MODEL_RUNNER=1\n", ""))
