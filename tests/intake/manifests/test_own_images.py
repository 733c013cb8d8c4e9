"""Containers whose image is not known to run vLLM, and whose arguments are those of vLLM's server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

ENGINE = ["--model=Qwen/Qwen3-8B", "--tensor-parallel-size", "2", "--max-num-seqs=8"]
ASSUMED = (
    "the entry point of the image `{}` is not known; its arguments are those of vLLM's server, which it is "
    "assumed to be"
)


def engines(**container: Any) -> list[Container]:
    faults: list[RequestFault] = []
    found = read_manifest({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}, "", faults)
    assert faults == []
    return found


@pytest.mark.parametrize(
    ("image", "args", "words"),
    [
        ("team/chat:1.4", ENGINE, ENGINE),
        ("team/chat:1.4", ["--model", "/models/a", *ENGINE[1:]], ["--model", "/models/a", *ENGINE[1:]]),
        ("team/chat:1.4", ["Qwen/Qwen3-8B", *ENGINE[1:]], ["vllm", "serve", "Qwen/Qwen3-8B", *ENGINE[1:]]),
        ("team/chat:1.4", ["/models/a", *ENGINE[1:]], ["vllm", "serve", "/models/a", *ENGINE[1:]]),
        ("team/chat@sha256:" + "0" * 64, ["--model=a", "--max_num_seqs=8", "--gpu_memory_utilization=0.8"], None),
    ],
)
def test_an_own_image_with_the_arguments_of_vllms_server_is_decided_with_a_doubt(
    image: str, args: list[str], words: list[str] | None
) -> None:
    found = [(each.words, each.problem, each.doubts) for each in engines(image=image, args=args)]
    assert found == ([] if words is None else [(words, "", [ASSUMED.format(image)])])


@table(
    ("image", "args"),
    [
        ("team/chat:1.4", ENGINE[:3]),  # one flag of vLLM's own
        ("team/chat:1.4", ENGINE[1:]),  # no model
        ("team/chat:1.4", ["Qwen3-8B", *ENGINE[1:]]),  # may be a subcommand
        ("team/chat:1.4", ["Qwen/Qwen3-8B", "--enforce-eager", "--kv-cache-dtype=fp8"]),  # none of the usual flags
        ("team/chat:1.4", [*ENGINE, "--backend-url=http://vllm:8000"]),  # a flag that no release has
        ("team/chat:1.4", ["--model=http://vllm:8000/v1", *ENGINE[1:]]),
        ("ghcr.io/llm-d/llm-d-inference-sim:v0.9.2", ENGINE),
        ("alpindale/aphrodite-openai:latest", ENGINE),
    ],
)
def test_other_arguments_and_programs_are_ignored(image: str, args: list[str]) -> None:
    assert engines(image=image, args=args) == []


def test_the_platform_is_that_of_vllms_name_in_the_tag() -> None:
    (engine,) = engines(image="team/chat:vllm-ascend_v0.11.0", args=ENGINE)
    assert (engine.words, engine.vllm_version) == (ENGINE, None)
