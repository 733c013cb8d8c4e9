"""The platform that a manifest shows by the hardware it asks for, for every kind with hardware of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shipped_images import read_manifest
from tables import table

from policy.request.manifest import requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest

if TYPE_CHECKING:
    from deployments import Asking

    from policy.errors import RequestFault

SERVE = ["vllm", "serve", "Qwen/Qwen3-8B"]
PLAIN = "example.com/serving:v1"


def shown(document: object) -> list[list[tuple[str, str]]]:
    """The platforms and places that each engine's hardware shows."""
    faults: list[RequestFault] = []
    containers = read_manifest(document, "", faults)
    assert faults == []
    assert not any(container.faults for container in containers)
    return [[(sign.platform, sign.place) for sign in container.hardware] for container in containers]


def limits(name: str, quantity: object = 1) -> dict[str, Any]:
    return {"resources": {"limits": {"cpu": "4", name: quantity}}}


def pod(spec: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    containers = [{"name": "vllm", "image": PLAIN, "command": SERVE, **container}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": containers, **(spec or {})},
    }


@table(
    ("name", "platform"),
    [
        ("nvidia.com/gpu", "cuda"),
        ("nvidia.com/gpu.shared", "cuda"),
        ("nvidia.com/mig-1g.10gb", "cuda"),
        ("amd.com/gpu", "rocm"),
        ("amd.com/cpx_nps4", "rocm"),
        ("google.com/tpu", "tpu"),
        ("habana.ai/gaudi", "gaudi"),
        ("gpu.intel.com/i915", "xpu"),
        ("gpu.intel.com/xe", "xpu"),
        ("huawei.com/Ascend910", "ascend"),
        ("huawei.com/ascend-1980", "ascend"),
        ("aws.amazon.com/neuron", "neuron"),
        ("aws.amazon.com/neuroncore", "neuron"),
        ("ibm.com/spyre_pf", "spyre"),
        ("ibm.com/aiu_pf", "spyre"),
        ("rebellions.ai/ATOM", "rbln"),
        ("tenstorrent.com/blackhole", "tenstorrent"),
        ("cpu", None),
        ("example.com/gpu", None),
        ("nvidia.com/hostdev", None),
        ("rdma/nvidia.com/gpu", None),
        ("x" * 5000, None),
    ],
)
def test_a_resource_shows_its_platform(name: str, platform: str | None) -> None:
    assert shown(pod(**limits(name))) == [[(platform, f"resources.limits.{name}")] if platform else []]
    requested = {"resources": {"requests": {name: "2"}}}
    assert shown(pod(**requested)) == [[(platform, f"resources.requests.{name}")] if platform else []]


@table("quantity", [0, "0", 0.0, "0.0", None, [], {}])
def test_none_of_a_resource_shows_nothing(quantity: object) -> None:
    assert shown(pod(**limits("nvidia.com/gpu", quantity))) == [[]]


@table("resources", [None, [], "x", {"limits": []}, {"limits": "nvidia.com/gpu"}, {"claims": [{}]}])
def test_resources_that_kubernetes_refuses_show_nothing(resources: object) -> None:
    assert shown(pod(resources=resources)) == [[]]


def affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": [expression]} for expression in expressions]
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


def preferred(expression: dict[str, Any]) -> dict[str, Any]:
    terms = [{"weight": 1, "preference": {"matchExpressions": [expression]}}]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


TPU_NODE = {"key": "cloud.google.com/gke-tpu-accelerator", "operator": "Exists"}
GPU_NODE = {"key": "cloud.google.com/gke-accelerator", "operator": "In", "values": ["nvidia-l4"]}


@table(
    ("spec", "signs"),
    [
        ({"runtimeClassName": "nvidia"}, [("cuda", "runtimeClassName")]),
        ({"runtimeClassName": "habana"}, [("gaudi", "runtimeClassName")]),
        ({"runtimeClassName": "kata"}, []),
        ({"nodeSelector": {"nvidia.com/gpu.present": "true"}}, [("cuda", "nodeSelector.nvidia.com/gpu.present")]),
        ({"nodeSelector": {"nvidia.com/gpu.present": "false"}}, []),
        (
            {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100"}},
            [("cuda", "nodeSelector.nvidia.com/gpu.product")],
        ),
        ({"nodeSelector": {"amd.com/gpu.family": "AI"}}, [("rocm", "nodeSelector.amd.com/gpu.family")]),
        (
            {"nodeSelector": {"feature.node.kubernetes.io/amd-gpu": "true"}},
            [("rocm", "nodeSelector.feature.node.kubernetes.io/amd-gpu")],
        ),
        (
            {"nodeSelector": {"feature.node.kubernetes.io/pci-10de.present": "true"}},
            [("cuda", "nodeSelector.feature.node.kubernetes.io/pci-10de.present")],
        ),
        (
            {"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-l4"}},
            [("cuda", "nodeSelector.cloud.google.com/gke-accelerator")],
        ),
        ({"nodeSelector": {"cloud.google.com/gke-accelerator": "other"}}, []),
        (
            {"nodeSelector": {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice"}},
            [("tpu", "nodeSelector.cloud.google.com/gke-tpu-accelerator")],
        ),
        (
            {"nodeSelector": {"karpenter.k8s.aws/instance-gpu-manufacturer": "amd"}},
            [("rocm", "nodeSelector.karpenter.k8s.aws/instance-gpu-manufacturer")],
        ),
        ({"nodeSelector": {"accelerator": "huawei-Ascend910"}}, [("ascend", "nodeSelector.accelerator")]),
        ({"nodeSelector": {"kubernetes.io/arch": "amd64"}}, []),
        ({"nodeSelector": ["nvidia.com/gpu"]}, []),
        (
            affinity({"key": "nvidia.com/gpu.product", "operator": "In", "values": ["A", "B"]}),
            [("cuda", "affinity.nvidia.com/gpu.product")],
        ),
        (affinity({"key": "amd.com/gpu", "operator": "Exists"}), [("rocm", "affinity.amd.com/gpu")]),
        (affinity({"key": "nvidia.com/gpu.present", "operator": "DoesNotExist"}), []),
        (affinity({"key": "nvidia.com/gpu.present", "operator": "NotIn", "values": ["true"]}), []),
        (affinity({"key": 1, "operator": "In", "values": 1}), []),
        (affinity(TPU_NODE, {"key": "kubernetes.io/os", "operator": "Exists"}), []),
        (affinity({"key": "kubernetes.io/os", "operator": "Exists"}, TPU_NODE), []),
        (affinity(TPU_NODE, {"key": "nvidia.com/gpu.present", "operator": "Exists"}), []),
        (affinity(*[TPU_NODE] * 256, {"key": "kubernetes.io/os", "operator": "Exists"}), []),
        (affinity({**GPU_NODE, "values": ["nvidia-l4"] * 256 + ["other"]}), []),
        (
            affinity(GPU_NODE, {"key": "nvidia.com/gpu.product", "operator": "Exists"}),
            [("cuda", "affinity.cloud.google.com/gke-accelerator"), ("cuda", "affinity.nvidia.com/gpu.product")],
        ),
        (preferred(TPU_NODE), []),
        ({"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}, [("cuda", "tolerations.nvidia.com/gpu")]),
        ({"tolerations": [{"operator": "Exists"}, "x", {"key": "dedicated"}]}, []),
    ],
)
def test_a_pod_shows_the_platform_of_its_nodes(spec: dict[str, Any], signs: list[tuple[str, str]]) -> None:
    assert shown(pod(spec)) == [signs]


def compose(**service: Any) -> dict[str, Any]:
    return {"services": {"vllm": {"image": PLAIN, "command": SERVE, **service}}}


def reserved(**device: Any) -> dict[str, Any]:
    return {"deploy": {"resources": {"reservations": {"devices": [device]}}}}


RESERVED = "deploy.resources.reservations.devices"


@table(
    ("service", "signs"),
    [
        ({"runtime": "nvidia"}, [("cuda", "runtime")]),
        ({"runtime": "habana"}, [("gaudi", "runtime")]),
        ({"runtime": "runc"}, []),
        ({"gpus": "all"}, [("cuda", "gpus")]),
        ({"gpus": [{"driver": "nvidia", "count": 2}]}, [("cuda", "gpus")]),
        ({"gpus": [{"count": 2}]}, [("cuda", "gpus")]),
        (reserved(driver="nvidia", count=1, capabilities=["gpu"]), [("cuda", RESERVED)]),
        (reserved(count="all", capabilities=["gpu"]), [("cuda", RESERVED)]),
        (reserved(driver="amd", capabilities=["gpu"]), [("rocm", RESERVED)]),
        (reserved(driver="cdi", device_ids=["amd.com/gpu=all"], capabilities=["gpu"]), [("rocm", RESERVED)]),
        (reserved(capabilities=["tpu"]), []),
        ({"devices": ["/dev/kfd", "/dev/dri"]}, [("rocm", "devices")]),
        ({"devices": ["/dev/dri:/dev/dri"]}, [("xpu", "devices")]),
        ({"devices": ["/dev/davinci0", "/dev/davinci_manager"]}, [("ascend", "devices")]),
        ({"devices": [{"source": "/dev/neuron0", "target": "/dev/neuron0"}]}, [("neuron", "devices")]),
        ({"devices": ["nvidia.com/gpu=all"]}, [("cuda", "devices")]),
        ({"devices": ["/dev/accel/accel0", "/dev/fuse", 1, None]}, []),
        ({"devices": "x", "deploy": [], "gpus": 1}, []),
    ],
)
def test_a_compose_service_shows_its_platform(service: dict[str, Any], signs: list[tuple[str, str]]) -> None:
    assert shown(compose(**service)) == [signs]


@table(
    ("accelerators", "platforms"),
    [
        ("H100:8", ["cuda"]),
        ("L4", ["cuda"]),
        ({"A100-80GB": 8}, ["cuda"]),
        (["A100:8", "H100:8"], ["cuda", "cuda"]),
        ("MI300X:8", ["rocm"]),
        ("tpu-v6e-8", ["tpu"]),
        ("Gaudi HL-205", ["gaudi"]),
        ("Trainium2:16", ["neuron"]),
        (["MI300X", "H200"], ["rocm", "cuda"]),
        ("Unknown:1", []),
        (None, []),
        (1, []),
    ],
)
def test_a_skypilot_task_shows_its_platform(accelerators: object, platforms: list[str]) -> None:
    task = {"resources": {"accelerators": accelerators}, "run": "vllm serve Qwen/Qwen3-8B"}
    assert shown(task) == [[(platform, "resources.accelerators") for platform in platforms][: len(set(platforms))]]


def engine(kind: str, version: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "m"}, "spec": spec}


LLM_CONFIG = {
    "applications": [
        {
            "name": "llm",
            "import_path": "ray.serve.llm:build_openai_app",
            "args": {
                "llm_configs": [
                    {
                        "model_loading_config": {"model_id": "Qwen/Qwen3-8B"},
                        "accelerator_type": "AMD-Instinct-MI300X-OAM",
                    }
                ]
            },
        }
    ]
}
KINDS: dict[str, tuple[dict[str, Any], list[list[tuple[str, str]]]]] = {
    "kserve": (
        engine(
            "InferenceService",
            "serving.kserve.io/v1beta1",
            {
                "predictor": {
                    "nodeSelector": {"nvidia.com/gpu.present": "true"},
                    "model": {
                        "modelFormat": {"name": "huggingface"},
                        "storageUri": "hf://Qwen/Qwen3-8B",
                        **limits("nvidia.com/gpu"),
                    },
                }
            },
        ),
        [[("cuda", "resources.limits.nvidia.com/gpu"), ("cuda", "nodeSelector.nvidia.com/gpu.present")]],
    ),
    "kthena": (
        engine(
            "ModelBooster",
            "workload.serving.volcano.sh/v1alpha1",
            {
                "backend": {
                    "type": "vLLM",
                    "modelURI": "hf://Qwen/Qwen3-8B",
                    "cacheURI": "hostpath:///c",
                    "workers": [{"type": "server", "image": PLAIN, **limits("huawei.com/ascend-1980")}],
                }
            },
        ),
        [[("ascend", "resources.limits.huawei.com/ascend-1980")]],
    ),
    "kubeai": (
        engine(
            "Model",
            "kubeai.org/v1",
            {"engine": "VLLM", "url": "hf://Qwen/Qwen3-8B", "resourceProfile": "amd-gpu-mi300x:1"},
        ),
        [[("rocm", "resourceProfile")]],
    ),
    "production-stack": (
        {
            "servingEngineSpec": {
                "runtimeClassName": "nvidia",
                "modelSpec": [
                    {
                        "repository": "a/b",
                        "tag": "1",
                        "modelURL": "m",
                        "requestGPU": 1,
                        "requestGPUType": "amd.com/gpu",
                    },
                    {"repository": "a/b", "tag": "1", "modelURL": "m", "requestGPU": 1, "runtimeClassName": ""},
                    {"repository": "a/b", "tag": "1", "modelURL": "m", "requestGPU": 0},
                ],
            }
        },
        [
            [("rocm", "requestGPU"), ("cuda", "runtimeClassName")],
            [("cuda", "requestGPU")],
            [("cuda", "runtimeClassName")],
        ],
    ),
    "vllmruntime": (
        engine(
            "VLLMRuntime",
            "production-stack.vllm.ai/v1alpha1",
            {
                "model": {"modelURL": "m"},
                "deploymentConfig": {
                    "image": {"name": PLAIN},
                    "resources": {"gpu": "1", "gpuType": "amd.com/gpu"},
                },
            },
        ),
        [[("rocm", "deploymentConfig.resources.gpu")]],
    ),
    "dynamo": (
        engine(
            "DynamoGraphDeployment",
            "nvidia.com/v1alpha1",
            {
                "services": {
                    "Worker": {
                        "resources": {"limits": {"gpu": "1", "gpuType": "gpu.intel.com/xe"}},
                        "extraPodSpec": {"mainContainer": {"image": PLAIN, "command": SERVE}},
                    }
                }
            },
        ),
        [[("xpu", "resources.limits.gpu")]],
    ),
    "leaderworkerset": (
        engine(
            "LeaderWorkerSet",
            "leaderworkerset.x-k8s.io/v1",
            {"leaderWorkerTemplate": {"workerTemplate": {"spec": pod(**limits("google.com/tpu"))["spec"]}}},
        ),
        [[("tpu", "resources.limits.google.com/tpu")]],
    ),
    "ray": (LLM_CONFIG, [[("rocm", "accelerator_type")]]),
    "modelservice": (
        {
            "modelArtifacts": {"name": "m", "uri": "hf://Qwen/Qwen3-8B"},
            "accelerator": {"type": "intel-gaudi"},
            "decode": {"containers": [{"name": "vllm", "image": PLAIN, "modelCommand": "vllmServe"}]},
        },
        [[("gaudi", "accelerator.type")]],
    ),
}


@table("kind", KINDS)
def test_a_kind_with_resources_of_its_own_shows_its_platform(kind: str) -> None:
    document, signs = KINDS[kind]
    assert shown(document) == signs


def environment_of(ask: Asking, manifest: dict[str, Any], platform: str | None) -> tuple[str, str, list[str]]:
    """The platform, its origin, and the notes about platforms."""
    document: dict[str, Any] = {"manifest": manifest, "vllm_version": "0.33.0"}
    if platform is not None:
        document["environment"] = {"platform": platform}
    asked = read_request_or_manifest(document, ask.policy.releases)
    assert isinstance(asked, Manifest)
    ((_, request),) = requests_of(asked, ask.policy.releases)
    assert isinstance(request, Request)
    assert request.deployment is not None
    environment = request.deployment.environment
    notes = [note for note in request.deployment.notes if "platform" in note]
    return environment.platform, environment.origin("platform"), notes


NVIDIA, AMD = "resources.limits.nvidia.com/gpu", "resources.limits.amd.com/gpu"
BUILD = "because the image has vLLM's build"
STATED = "which the request states"
PERMITTED = (
    "only a toleration shows the platform: `tolerations.google.com/tpu` (tpu); it permits such nodes and does not "
    "require them; decided for `tpu`; request the hardware's resource, or state the platform"
)
CUDA_IMAGE = {"image": "vllm/vllm-openai:v0.33.0"}
TOLERATED = {"tolerations": [{"key": "google.com/tpu", "operator": "Exists"}]}
BUILT: tuple[str, str, list[str]] = ("cuda", "image", [])
SEVERAL = (
    f"the manifest shows several platforms: `{NVIDIA}` (cuda), `{AMD}` (rocm); decided for `cuda`, which is assumed; "
    "state the platform"
)


@table(
    ("container", "spec", "stated", "expected"),
    [
        (limits("amd.com/gpu"), {}, None, ("rocm", AMD, [])),
        ({}, {}, None, ("cuda", "assumed", [])),
        ({"image": "vllm/vllm-openai-rocm:v0.33.0", **limits("amd.com/gpu")}, {}, None, ("rocm", "image", [])),
        (
            {"image": "vllm/vllm-openai-rocm:v0.33.0", **limits("nvidia.com/gpu")},
            {},
            None,
            ("rocm", "image", [f"the manifest shows another platform: `{NVIDIA}` (cuda); decided for `rocm`, {BUILD}"]),
        ),
        (
            limits("nvidia.com/gpu"),
            {},
            "rocm",
            (
                "rocm",
                "environment.platform",
                [f"the manifest shows another platform: `{NVIDIA}` (cuda); decided for `rocm`, {STATED}"],
            ),
        ),
        (limits("habana.ai/gaudi"), {}, "out-of-tree", ("out-of-tree", "environment.platform", [])),
        (
            limits("amd.com/gpu"),
            {"tolerations": [{"key": "nvidia.com/gpu"}], "nodeSelector": {"amd.com/gpu": "true"}},
            None,
            ("rocm", AMD, []),
        ),
        (
            {},
            {"tolerations": [{"key": "nvidia.com/gpu"}], "nodeSelector": {"amd.com/gpu.family": "AI"}},
            None,
            ("rocm", "nodeSelector.amd.com/gpu.family", []),
        ),
        ({}, {"tolerations": [{"key": "google.com/tpu"}]}, None, ("tpu", "tolerations.google.com/tpu", [PERMITTED])),
        (CUDA_IMAGE, {"tolerations": [{"key": "google.com/tpu"}]}, None, ("cuda", "image", [])),
        (CUDA_IMAGE | limits("nvidia.com/gpu"), {"tolerations": [{"key": "habana.ai/gaudi"}]}, None, BUILT),
        (CUDA_IMAGE, affinity(TPU_NODE, {"key": "kubernetes.io/os", "operator": "Exists"}), None, BUILT),
        (CUDA_IMAGE, preferred(TPU_NODE), None, BUILT),
        ({"image": "ghcr.io/a/vllm/vllm-openai@sha256:" + "0" * 64}, TOLERATED, None, BUILT),
        ({"image": "team/vllm-openai:v0.33.0-cu129"}, TOLERATED, None, BUILT),
        ({"image": "rhaiis/vllm-cuda-rhel9:3.2.1"}, TOLERATED, None, BUILT),
        ({"image": "vllm/vllm-openai-cpu:v0.33.0"}, TOLERATED, None, ("cpu", "image", [])),
        ({"image": "vllm/vllm-tpu:v0.33.0"}, TOLERATED, None, ("tpu", "image", [])),
        ({}, TOLERATED | affinity(GPU_NODE), None, ("cuda", "affinity.cloud.google.com/gke-accelerator", [])),
        (limits("aliyun.com/gpu-mem", 4), TOLERATED, None, ("cuda", "resources.limits.aliyun.com/gpu-mem", [])),
        ({}, TOLERATED, "cuda", ("cuda", "environment.platform", [])),
        (
            CUDA_IMAGE,
            {"nodeSelector": {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice"}},
            None,
            (
                "cuda",
                "image",
                [
                    (
                        "the manifest shows another platform: `nodeSelector.cloud.google.com/gke-tpu-accelerator` "
                        f"(tpu); decided for `cuda`, {BUILD}"
                    )
                ],
            ),
        ),
        (
            {"resources": {"limits": {"nvidia.com/gpu": 1, "amd.com/gpu": 1}}},
            {},
            None,
            (
                "cuda",
                "assumed",
                [
                    SEVERAL,
                ],
            ),
        ),
    ],
)
def test_the_request_then_the_image_then_the_hardware_decides_the_platform(
    ask: Asking,
    container: dict[str, Any],
    spec: dict[str, Any],
    stated: str | None,
    expected: tuple[str, str, list[str]],
) -> None:
    assert environment_of(ask, pod(spec, **container), stated) == expected
