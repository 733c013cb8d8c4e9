"""Kthena's ModelBooster: the workers of a disaggregated backend, and commands that it runs in a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shipped_images import read_manifest
from tables import table

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.23.0"
GPU = {"limits": {"nvidia.com/gpu": "1"}}
SKIP = "KTHENA_SKIP_ENGINE_DEPENDENCY_INSTALL"


def connector(name: str) -> dict[str, Any]:
    return {"kv-transfer-config": f'{{"kv_connector":"{name}","kv_role":"kv_both"}}'}


def worker(kind: str, config: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "image": IMAGE, "pods": 1, "config": config or {}, "resources": GPU, **fields}


def engines(kind: str, *workers: dict[str, Any], env: dict[str, str] | None = None) -> list[Container]:
    backend = {"type": kind, "modelURI": "hf://org/m", "cacheURI": "hostpath://cache", "workers": list(workers)}
    document = {
        "apiVersion": "workload.serving.volcano.sh/v1alpha1",
        "kind": "ModelBooster",
        "metadata": {"name": "b"},
        "spec": {
            "backend": {**backend, "env": [{"name": name, "value": value} for name, value in (env or {}).items()]}
        },
    }
    faults: list[RequestFault] = []
    found = read_manifest(document, "", faults)
    assert faults == []
    return found


def test_each_worker_of_a_disaggregated_backend_is_an_engine() -> None:
    found = engines("vLLMDisaggregated", worker("prefill", {"tensor-parallel-size": 2}), worker("decode"))
    assert [each.path for each in found] == ["spec.backend.workers[0]", "spec.backend.workers[1]"]
    assert [each.words[5:] for each in found] == [["--tensor-parallel-size", "2"], []]
    assert [each.path for each in engines("vLLM", worker("server"))] == ["spec.backend"]
    assert engines("vLLM", worker("prefill")) == engines("vLLMDisaggregated", worker("server")) == []


@table(
    ("config", "fields", "env", "count"),
    [
        (connector("MooncakeConnector"), {}, {}, 1),
        (connector("NixlConnector"), {}, {}, 1),
        (connector("NixlConnector"), {}, {SKIP: "true"}, 0),
        (connector("NixlConnector"), {}, {SKIP: "false"}, 1),
        (connector("NixlConnector"), {"resources": {}}, {}, 0),
        (connector("NixlConnector"), {"resources": {"limits": {"nvidia.com/gpu": "0"}}}, {}, 0),
        (connector("LMCacheConnectorV1"), {}, {}, 0),
        ({"kv-transfer-config": "not JSON"}, {}, {}, 0),
        ({"kv-transfer-config": "[1]"}, {}, {}, 0),
        ({"max-model-len": 1024}, {}, {}, 0),
    ],
)
def test_a_command_that_kthena_runs_in_a_shell_without_quotes_is_in_doubt(
    config: dict[str, Any], fields: dict[str, Any], env: dict[str, str], count: int
) -> None:
    (found,) = engines("vLLMDisaggregated", worker("prefill", config, **fields), env=env)
    assert [f"`{SKIP}=true`" in note for note in found.notes] == [True] * count
    assert ["`bash -c` without quotes" in doubt for doubt in found.doubts] == [True] * count


def test_a_server_on_several_pods_runs_in_a_shell_too() -> None:
    (plain,) = engines("vLLM", worker("server", {"tensor-parallel-size": 2}, pods=2))
    (changed,) = engines("vLLM", worker("server", {"hf-overrides": '{"a": 1}'}, pods=2))
    assert (plain.doubts, len(changed.doubts), changed.words[-2:]) == ([], 1, ["--distributed_executor_backend", "ray"])
