"""llmaz's Playground and BackendRuntime: which arguments are chosen, and what cannot be known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

COMMAND = ["python3", "-m", "vllm.entrypoints.openai.api_server"]


def runtime(name: str, *configs: dict[str, Any], **fields: Any) -> dict[str, Any]:
    spec = {"command": COMMAND, "image": "vllm/vllm-openai", "version": "v0.23.0", **fields}
    return {
        "apiVersion": "inference.llmaz.io/v1alpha1",
        "kind": "BackendRuntime",
        "metadata": {"name": name},
        "spec": {**spec, "recommendedConfigs": list(configs)},
    }


def playground(models: dict[str, Any] | None = None, **config: Any) -> dict[str, Any]:
    return {
        "apiVersion": "inference.llmaz.io/v1alpha1",
        "kind": "Playground",
        "metadata": {"name": "p"},
        "spec": {**(models or {"modelClaim": {"modelName": "m"}}), "backendRuntimeConfig": config},
    }


def model(uri: str) -> dict[str, Any]:
    return {
        "apiVersion": "llmaz.io/v1alpha1",
        "kind": "OpenModel",
        "metadata": {"name": "m"},
        "spec": {"source": {"uri": uri}},
    }


def engines(*documents: dict[str, Any]) -> list[Container]:
    faults: list[RequestFault] = []
    found = read_manifest(list(documents), "", faults)
    assert faults == []
    return found


def test_a_runtime_has_an_engine_for_each_list_of_arguments_and_never_vllms_default_model() -> None:
    args = ["--model", "{{ .ModelPath }}"]
    found = engines(runtime("a", {"name": "default", "args": args}, {"name": "b", "args": [*args, "-tp", "2"]}))
    assert [each.words[3:] for each in found] == [args, [*args, "-tp", "2"]]
    assert engines(runtime("a")) == []


@table(
    ("documents", "words"),
    [
        ([playground()], ["--model", "/workspace/models/m", "--served-model-name", "m"]),
        ([model("host:///data/m"), playground()], ["--model", "/data/m", "--served-model-name", "m"]),
        (
            [model("s3://b/x/q.gguf"), playground()],
            ["--model", "/workspace/models/q.gguf", "--served-model-name", "m"],
        ),
        ([runtime("vllm", {"name": "default", "args": ["--model={{.ModelPath}}"]}), playground()], None),
        (
            [playground({"modelClaims": {"models": [{"name": "d", "role": "draft"}, {"name": "m"}]}})],
            [
                *("--model", "/workspace/models/m", "--served-model-name", "m"),
                *("--speculative_model", "/workspace/models/d", "--num_speculative_tokens", "5", "-tp", "1"),
            ],
        ),
        ([playground(args=["-tp", "2"])], ["--model", "/workspace/models/m", "--served-model-name", "m", "-tp", "2"]),
    ],
)
def test_the_arguments_of_a_playground(documents: list[dict[str, Any]], words: list[str] | None) -> None:
    found = engines(*documents)[-1]
    assert found.words == [*COMMAND, *(["--model=/workspace/models/m"] if words is None else words)]
    assert found.problem == ""


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"configName": "fast"}, "no arguments with the name `fast`, so that llmaz starts nothing"),
        ({"backendName": "my-vllm"}, "the BackendRuntime `my-vllm` is not in the manifest"),
        ({"backendName": "own", "args": ["--max-num-seqs", "8"]}, "the BackendRuntime `own` is not in the manifest"),
        ({"backendName": "own"}, None),
        ({"backendName": "sglang", "args": ["--max-num-seqs", "8"]}, None),
    ],
)
def test_a_backend_that_the_manifest_does_not_show(config: dict[str, Any], problem: str | None) -> None:
    assert [problem in each.problem for each in engines(playground(**config)) if problem] == [True] * bool(problem)
    assert len(engines(playground(**config))) == bool(problem)
