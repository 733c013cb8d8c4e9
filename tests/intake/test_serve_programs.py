"""A program `serve` is not vLLM's command: no shell finds one in vLLM's images, and others have their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.command.launcher import find_server, read_text
from policy.intake.command.vllm_command import ServerCommand

if TYPE_CHECKING:
    from policy.errors import RequestFault

SCRIPTS = [
    *("serve M", "A=1 serve -s build -l 3000", "cd /x && serve M", "serve M &", "exec serve M", "env A=1 serve M"),
    *("if true; then serve M; fi", "bash -c 'serve M'", "npm ci; npx serve -s build", "/usr/local/bin/serve M"),
    *("serve M || exit 1", "serve run app:llm", "(serve M)", "f() { serve M; }; f", "eval serve M"),
]
SHELLS = [["sh", "-c"], ["bash", "-c"], ["env", "A=1", "sh", "-ec"], ["tini", "--", "sh", "-c"]]


def engines(container: dict[str, Any]) -> int:
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}}
    faults: list[RequestFault] = []
    found = read_manifest(document, "", faults)
    assert faults == []
    return len(found)


@table("script", SCRIPTS)
@table("shell", SHELLS)
def test_serve_in_a_script_is_a_program_of_its_own(script: str, shell: list[str]) -> None:
    assert find_server([*shell, script], {}, is_command=True) is None
    for image in ("node:20", "vllm/vllm-openai:v0.23.0"):
        assert engines({"name": "a", "image": image, "command": [*shell, script]}) == 0


@pytest.mark.parametrize("words", [["serve", "-s", "build"], ["serve", "M"], ["/usr/bin/serve", "M"], ["serve"]])
def test_serve_as_the_program_of_a_container_is_not_vllm(words: list[str]) -> None:
    for image in ("node:20", "vllm/vllm-openai:v0.23.0"):
        assert engines({"name": "a", "image": image, "command": words}) == 0


@pytest.mark.parametrize("script", ["serve -s build & vllm serve M", "serve a; vllm serve M", "vllm serve M; serve b"])
def test_serve_beside_vllm_has_no_effect(script: str) -> None:
    found = find_server(["sh", "-c", script], {}, is_command=True)
    assert isinstance(found, ServerCommand)
    assert (found.words, found.doubts, found.warnings) == (["M"], [], [])


@pytest.mark.parametrize("text", ["serve M --port 1", "A=1 serve M", "serve 'M' \\\n  --port 1"])
def test_a_text_of_vllms_arguments_may_begin_with_serve(text: str) -> None:
    faults: list[RequestFault] = []
    found = read_text(text, {}, faults, "/args")
    assert (found, faults) == (read_text(text.replace("serve", "vllm serve"), {}, [], "/args"), [])


def test_serve_in_a_text_of_several_commands_is_a_fault() -> None:
    faults: list[RequestFault] = []
    assert read_text("cd /x; serve M", {}, faults, "/args").words == []
    assert [fault.pointer for fault in faults] == ["/args"]


def test_ray_serve_as_the_command_of_a_container_is_not_read_as_vllms_arguments() -> None:
    container = {"name": "a", "image": "own:1", "command": ["serve", "run", "ray.serve.llm:build_openai_app"]}
    (found,) = read_manifest({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}, "", [])
    assert found.problem == (
        "`serve` starts an application of Ray Serve's that runs models with vLLM, which is not read, "
        "write its `llm_configs` in a RayService"
    )
