"""The decision log as a fleet: ``impact --log`` and ``pins --log`` decide the requests that it has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from policy.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Callable

    from api.conftest import Done

DOCUMENTS: list[dict[str, Any]] = [
    {
        "facts": {"model_config": {"architectures": [architecture]}, "env": {"VLLM_USE_V2_MODEL_RUNNER": False}},
        "request_id": architecture,
        "vllm_version": "0.23.0",
    }
    for architecture in ("Qwen3ForCausalLM", "OPTForCausalLM")
]


@pytest.mark.parametrize("command", ["impact", "pins"])
def test_a_command_decides_the_requests_of_the_log(
    call: Callable[..., Done], log_of: Callable[..., str], command: str
) -> None:
    done = call(command, "--log", log_of(DOCUMENTS), "--to", "0.33.0", "--format", "jsonl", "--jobs", "1")
    *items, last = map(json.loads, done.out.splitlines())
    assert (done.code, done.err) == (0, "")
    assert [item["request_id"] for item in items] == ["Qwen3ForCausalLM", "OPTForCausalLM"]
    assert last["counts"]["deployments"] == len(DOCUMENTS)


@pytest.mark.parametrize("command", ["impact", "pins"])
@pytest.mark.parametrize(("time", "numbers"), [("1h", (2, 0)), ("2100-01-01", (0, 2))])
def test_times_select_requests_of_the_log(
    call: Callable[..., Done], log_of: Callable[..., str], command: str, time: str, numbers: tuple[int, int]
) -> None:
    url = log_of(DOCUMENTS)
    for option, number in zip(("--since", "--until"), numbers, strict=True):
        done = call(command, "--log", url, option, time, "--to", "0.33.0", "--format", "jsonl", "--jobs", "1")
        assert json.loads(done.out.splitlines()[-1])["counts"]["deployments"] == number


@pytest.mark.parametrize("command", ["impact", "pins"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-", "--since", "1h"), "`--since` and `--until` go with `--log`, the decision log\n"),
        (("--log", "", "--until", "yesterday"), "--until: `yesterday` is not legal"),
    ],
)
def test_times_that_cannot_be_used_are_wrong_usage(
    call: Callable[..., Done], command: str, arguments: tuple[str, ...], message: str
) -> None:
    done = call(command, *arguments, "--to", "0.33.0", stdin="")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(message)


@pytest.mark.parametrize("command", ["impact", "pins"])
@pytest.mark.usefixtures("call")  # which compiles no rules
def test_a_program_without_a_log_says_so(command: str) -> None:
    done = CliRunner().invoke(app, [command, "--log", "", "--to", "0.33.0"])
    assert (done.exit_code, done.stderr) == (2, "--log: the log is read by the installed command `runner-policy`\n")
