"""KAITO: what its controller computes from the model and the nodes, and what its start program makes of a ConfigMap."""

from __future__ import annotations

from typing import Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.errors import RequestFault

LMCACHE = '--kv-transfer-config={"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
NIXL = '--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both","kv_load_failure_policy":"fail"}'
COMMON = [
    *("python3", "-m", "vllm.entrypoints.openai.api_server"),
    *("--trust-remote-code", "--compilation-config.pass_config.fuse_allreduce_rms=False"),
]
SHARES = ("--gpu-memory-utilization=0.84", "--gpu-memory-utilization=0.82")
UNKNOWN = "$(GPUs of a node)"
UNKNOWN_SIZES = ["--tensor-parallel-size", UNKNOWN, "--data-parallel-size", UNKNOWN]
A10, A10_2 = "Standard_NV36ads_A10_v5", "Standard_NV72ads_A10_v5"
A100, A100_8 = "Standard_NC24ads_A100_v4", "Standard_ND96amsr_A100_v4"


def workspace(preset: str = "phi-4", instance_type: str | None = A100, **members: Any) -> dict[str, Any]:
    inference = {"preset": {"name": preset}, **members.pop("inference", {})}
    resource = {"instanceType": instance_type, **members.pop("resource", {})}
    return {
        "apiVersion": "kaito.sh/v1beta1",
        "kind": "Workspace",
        "resource": resource,
        "inference": inference,
        **members,
    }


def config_map(text: Any, key: str = "inference_config.yaml") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {key: text}}


def added(document: object) -> list[str]:
    """The words of the only engine, without those that every engine has, the share of memory, and the model."""
    faults: list[RequestFault] = []
    [engine] = read_manifest(document, "", faults)
    assert faults == []
    assert [word for word in engine.words if word in COMMON] == COMMON
    assert len([word for word in engine.words if word in SHARES]) == 1
    return [word for word in engine.words if word not in {*COMMON, *SHARES} and not word.startswith("--model=")]


def configured(text: str, preset: str = "phi-4", instance_type: str | None = A100) -> list[str]:
    return added([config_map(text), workspace(preset, instance_type, inference={"config": "c"})])


@table(
    ("preset", "instance_type", "expected"),
    [
        ("phi-4-mini-instruct", A10, ["--tensor-parallel-size=1", LMCACHE]),
        ("PHI-4-mini-instruct", A10, ["--tensor-parallel-size=1", LMCACHE]),
        ("phi-4-mini-instruct", A10_2, ["--tensor-parallel-size=1", "--data-parallel-size=2"]),
        ("llama-3.1-8b-instruct", A10_2, ["--tensor-parallel-size=2", LMCACHE]),
        ("phi-4", A100_8, ["--tensor-parallel-size=1", "--data-parallel-size=8"]),
        ("llama-3.3-70b-instruct", A100_8, ["--tensor-parallel-size=8", LMCACHE]),
        (
            "llama-3.3-70b-instruct",
            A100,
            ["--tensor-parallel-size=1", "--pipeline-parallel-size=3", "--distributed-executor-backend=ray"],
        ),
        (
            "deepseek-ai/DeepSeek-V3.2",
            A100_8,
            [
                "--reasoning-parser=deepseek_v3",
                *("--tensor-parallel-size=8", "--pipeline-parallel-size=2", "--distributed-executor-backend=ray"),
            ],
        ),
        # architectures for which KAITO does without LMCache
        ("gpt-oss-120b", A100_8, ["--reasoning-parser=openai_gptoss", "--tensor-parallel-size=8"]),
        ("google/gemma-4-31b-it", A100, ["--reasoning-parser=gemma4", "--tensor-parallel-size=1"]),
        # not in the catalog
        ("Qwen/Qwen3-8B", A100, ["--reasoning-parser=qwen3", "--tensor-parallel-size=1", LMCACHE]),
        ("Qwen/Qwen3-8B", A100_8, ["--reasoning-parser=qwen3", *UNKNOWN_SIZES, LMCACHE]),
        # not in the table of instance types
        ("phi-4", "m5.large", [*UNKNOWN_SIZES, LMCACHE]),
        ("phi-4", None, [*UNKNOWN_SIZES, LMCACHE]),
    ],
)
def test_the_sizes_follow_from_the_model_and_the_instance_type(
    preset: str, instance_type: str | None, expected: list[str]
) -> None:
    assert added(workspace(preset, instance_type)) == expected


@table(
    ("document", "shares"),
    [
        (workspace(), ["--gpu-memory-utilization=0.84"]),
        (workspace(instance_type="g5.xlarge"), ["--gpu-memory-utilization=0.84"]),
        (workspace(instance_type=None), ["--gpu-memory-utilization=0.84"]),
        (workspace(instance_type=A10), ["--gpu-memory-utilization=0.82"]),
        (workspace(instance_type=A10_2), ["--gpu-memory-utilization=0.82"]),
        (
            workspace(instance_type=A10, resource={"partition": {"mode": "mig", "profile": "1g.5gb"}}),
            ["--gpu-memory-utilization=0.84"],
        ),
        (
            [config_map("vllm: {gpu_memory_utilization: 0.95}"), workspace(inference={"config": "c"})],
            ["--gpu_memory_utilization", "0.95"],
        ),
    ],
)
def test_kaito_states_the_share_of_memory_unless_the_config_map_does(document: object, shares: list[str]) -> None:
    [engine] = read_manifest(document, "", [])
    assert [word for word in engine.words if "memory" in word or word == "0.95"] == shares


@table(
    ("members", "expected"),
    [
        ({"status": {"targetNodeCount": 0}}, ["--tensor-parallel-size=1", LMCACHE]),
        (
            {"status": {"targetNodeCount": 4}},
            ["--tensor-parallel-size=1", "--pipeline-parallel-size=4", "--distributed-executor-backend=ray"],
        ),
        ({"resource": {"partition": {"mode": "mig", "profile": "3g.40gb"}}}, ["--tensor-parallel-size=1"]),
        (
            {"resource": {"partition": {"mode": "accelerator", "count": 1}}},
            ["--tensor-parallel-size=1", LMCACHE],
        ),
        ({"resource": {"partition": {"mode": "accelerator", "count": 4}}}, [*UNKNOWN_SIZES, LMCACHE]),
        ({"metadata": {"labels": {"kaito.sh/inference-role": "decode"}}}, ["--tensor-parallel-size=1", NIXL]),
        ({"metadata": {"labels": {"kaito.sh/inference-role": "other"}}}, ["--tensor-parallel-size=1", LMCACHE]),
        ({"metadata": {"annotations": {"kaito.sh/runtime": "vllm"}}}, ["--tensor-parallel-size=1", LMCACHE]),
        ({"inference": {"adapters": []}}, ["--tensor-parallel-size=1", LMCACHE]),
        ({"inference": {"adapters": [{}]}}, ["--enable-lora", "--tensor-parallel-size=1", LMCACHE]),
    ],
)
def test_the_other_fields_of_a_workspace_count(members: dict[str, Any], expected: list[str]) -> None:
    assert added(workspace(**members)) == expected


@table(
    ("text", "expected"),
    [
        ("{}", ["--tensor-parallel-size=1", LMCACHE]),
        ("kv_cache_cpu_memory_utilization: 0", ["--tensor-parallel-size=1"]),
        ("kv_cache_cpu_memory_utilization: -0.5", ["--tensor-parallel-size=1"]),
        ("kv_cache_cpu_memory_utilization:", ["--tensor-parallel-size=1", LMCACHE]),
        ("max_probe_steps: 6\nvllm: {}", ["--tensor-parallel-size=1", LMCACHE]),
        (
            'vllm: {kv-transfer-config: \'{"kv_connector": "A"}\'}',
            ["--tensor-parallel-size=1", "--kv-transfer-config", '{"kv_connector": "A"}'],
        ),
        (
            "vllm: {kv_transfer_config.kv_connector: A}",
            ["--tensor-parallel-size=1", "--kv_transfer_config.kv_connector", "A"],
        ),
        ("vllm: {tensor_parallel_size: 2}", [LMCACHE, "--tensor_parallel_size", "2"]),
        # Python's text of the values
        (
            "vllm: {enable-prefix-caching: true, swap-space: 0x10, seed: null, a: 1e3, b: 1.0e+3, c: 2026-01-01}",
            [
                *("--tensor-parallel-size=1", LMCACHE, "--enable-prefix-caching", "True", "--swap-space", "16"),
                *("--seed", "None", "--a", "1e3", "--b", "1000.0", "--c", "2026-01-01"),
            ],
        ),
        # KAITO reserves memory for the longest context, and needs a second node
        (
            "vllm: {max-model-len: 262144}",
            [
                *("--tensor-parallel-size=1", "--pipeline-parallel-size=2", "--distributed-executor-backend=ray"),
                *("--max-model-len", "262144"),
            ],
        ),
        ("vllm: {max-model-len: auto}", ["--tensor-parallel-size=1", LMCACHE, "--max-model-len", "auto"]),
    ],
)
def test_the_options_of_a_config_map_follow(text: str, expected: list[str]) -> None:
    assert configured(text) == expected


@table(
    ("data", "message"),
    [
        (config_map("", "other.yaml"), "expected `inference_config.yaml` in the ConfigMap `c`, which KAITO requires"),
        (config_map(1), "expected `inference_config.yaml` in the ConfigMap `c`, which KAITO requires"),
        (config_map(""), "expected a map in `inference_config.yaml`, got `null`"),
        (config_map("[a]"), 'expected a map in `inference_config.yaml`, got `["a"]`'),
        (
            config_map("vllm:\n  # nothing\n"),
            "expected a map as `vllm` in `inference_config.yaml`, got `null`; write `vllm: {}` for none",
        ),
        (
            config_map("vllm: {a: {b: 1}}"),
            "expected a text as `vllm.a` in `inference_config.yaml`; put it in quotes, as JSON",
        ),
        (
            config_map("kv_cache_cpu_memory_utilization: '0'"),
            "expected a number as `kv_cache_cpu_memory_utilization` in `inference_config.yaml`, got `0`",
        ),
    ],
)
def test_a_config_map_that_kaito_cannot_read_is_a_fault(data: dict[str, Any], message: str) -> None:
    faults: list[RequestFault] = []
    [engine] = read_manifest([data, workspace(inference={"config": "c"})], "", faults)
    assert (faults, engine.faults) == ([], (RequestFault("/1/inference/config", message),))


def test_yaml_that_cannot_be_read_is_a_fault_with_its_line() -> None:
    [engine] = read_manifest([config_map("vllm:\n\t- {"), workspace(inference={"config": "c"})], "", [])
    [fault] = engine.faults
    assert fault.pointer == "/1/inference/config"
    assert fault.message.startswith("`inference_config.yaml`, line 2, column ")


@pytest.mark.parametrize(
    ("document", "doubts"),
    [
        (workspace(), []),
        (
            workspace("Example/Other"),
            [
                (
                    "KAITO may add `--reasoning-parser` for the architecture of `Example/Other`, which it reads on the "
                    "hub; none is assumed"
                ),
                (
                    "KAITO computes the number of nodes from the size of `Example/Other` and the GPUs of a node, which "
                    "the manifest does not show; one node is assumed"
                ),
                (
                    "KAITO keeps the KV cache on the CPU through LMCache, unless `Example/Other` has a hybrid "
                    "architecture or fits on one GPU of several; that it does is assumed"
                ),
            ],
        ),
        (
            [
                config_map("kv_cache_cpu_memory_utilization: 0\nvllm: {reasoning-parser: x}"),
                workspace("Example/Other", inference={"config": "c"}, status={"targetNodeCount": 1}),
            ],
            [],
        ),
        (
            workspace(inference={"config": "c"}),
            ["the options of the ConfigMap `c` are not in the manifest; none are assumed"],
        ),
    ],
)
def test_what_the_manifest_does_not_show_is_a_doubt(document: object, doubts: list[str]) -> None:
    [engine] = read_manifest(document, "", [])
    assert engine.doubts == doubts


@pytest.mark.parametrize(
    ("preset", "suggested"), [("falcon-7b", ""), ("phi4", "; did you mean `phi-4`?"), ("", ""), ("a/", ""), ("/b", "")]
)
def test_a_preset_that_kaito_does_not_have_is_a_problem(preset: str, suggested: str) -> None:
    [engine] = read_manifest(workspace(preset), "", [])
    assert engine.problem == (
        f"KAITO has no preset `{preset}`; write the model's name on the hub, ORGANISATION/MODEL{suggested}"
    )


def test_a_workspace_has_no_spec() -> None:
    faults: list[RequestFault] = []
    document = {"apiVersion": "kaito.sh/v1beta1", "kind": "Workspace", "spec": {"inference": {}}}
    assert read_manifest(document, "", faults) == []
    assert faults == [
        RequestFault("/spec", "expected `resource` and `inference` at the top level of a Workspace, not in `spec`")
    ]


@pytest.mark.parametrize(
    ("own", "template", "expected"),
    [(None, "prefill", NIXL), ("other", "prefill", LMCACHE), ("decode", None, NIXL), (None, None, LMCACHE)],
)
def test_the_role_of_an_inference_set_is_its_own_before_its_templates(
    own: str | None, template: str | None, expected: str
) -> None:
    def labelled(role: str | None) -> dict[str, Any]:
        return {"labels": {} if role is None else {"kaito.sh/inference-role": role}}

    parts = workspace()
    document = {
        "apiVersion": "kaito.sh/v1beta1",
        "kind": "InferenceSet",
        "metadata": labelled(own),
        "spec": {
            "template": {
                "metadata": labelled(template),
                "resource": parts["resource"],
                "inference": parts["inference"],
            }
        },
    }
    assert added(document) == ["--tensor-parallel-size=1", expected]


def test_a_preset_with_another_runtime_is_listed_as_ignored() -> None:
    ignored: list[str] = []
    document = workspace(metadata={"annotations": {"kaito.sh/runtime": "transformers"}})
    assert read_manifest(document, "", [], ignored=ignored) == []
    assert ignored == ["inference.preset"]
