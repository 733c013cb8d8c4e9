"""Manifests: the engines in each controller's own examples, what is refused, and that no input does harm.

The complete engines of each fixture are in ``gives/<fixture>``, each word with its position.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shipped_images import read_manifest, shipped_images
from tables import table

from policy.errors import MAX_FAULTS, RequestFault
from policy.intake.command_line import Container
from policy.intake.manifests import images
from policy.intake.manifests.reading import MAX_CONTAINERS, MAX_COPIED, MAX_DOCUMENTS
from policy.intake.manifests.registry import is_manifest
from policy.parser.yamltree import read_yaml

HERE = Path(__file__).parent
FIXTURES = sorted((HERE / "fixtures").glob("*.yaml"))


def content(path: Path) -> Any:
    return read_yaml(path.read_text(), path.name).plain()


SERVING = {"command": ["vllm", "serve", "a/b"]}


def read(document: object) -> tuple[list[Container], list[RequestFault]]:
    faults: list[RequestFault] = []
    return read_manifest(document, "/manifest", faults), faults


def shown(container: Container) -> dict[str, Any]:
    """A container as the expectation files write it: words with their positions, without empty fields."""
    members = msgspec.structs.asdict(container)
    if container.installation is not None:
        installation = msgspec.structs.asdict(container.installation)
        members["installation"] = {name: value for name, value in installation.items() if value or name != "likely"}
    members["hardware"] = [[sign.platform, sign.place] for sign in container.hardware]
    members["mounts"] = list(container.mounts)
    members["words"] = [list(pair) for pair in zip(members["words"], members.pop("places"), strict=True)]
    return {name: value for name, value in members.items() if value or name == "path"}


def pod(**container: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}


def llm(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "spec": {"model": {"uri": "hf://Qwen/Qwen3-8B"}, **spec},
    }


def predictor(**model: Any) -> dict[str, Any]:
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "spec": {"predictor": {"model": model}},
    }


def stack(**spec: Any) -> dict[str, Any]:
    return {
        "servingEngineSpec": {
            "modelSpec": [{"repository": "vllm/vllm-openai", "tag": "v0.23.0", "modelURL": "m/m", **spec}]
        }
    }


RAY = {"enabled": True}
"""The `raySpec` of an engine on a Ray cluster."""


def graph(*args: str) -> dict[str, Any]:
    main = {"image": "dynamo", "command": ["python3", "-m", "dynamo.vllm"], "args": list(args)}
    services = {"Worker": {"extraPodSpec": {"mainContainer": main}}}
    return {"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "spec": {"services": services}}


@pytest.mark.parametrize(("version", "kind"), [("v1", "PodList"), ("apps/v1", "DeploymentList"), ("v1", "List")])
def test_the_items_of_a_list_have_its_kind(version: str, kind: str) -> None:
    item = pod(image="vllm/vllm-openai:v0.23.0", args=["--model=a/b"])
    if kind == "DeploymentList":
        item["spec"] = {"template": {"spec": item["spec"]}}
    if kind != "List":
        del item["kind"], item["apiVersion"]
    containers, faults = read({"apiVersion": version, "kind": kind, "items": [item, item]})
    assert ([container.words for container in containers], faults) == ([["--model=a/b"]] * 2, [])


@table("path", FIXTURES, ids=lambda path: path.stem)
def test_a_manifest_gives_these_engines(path: Path) -> None:
    containers, faults = read(content(path))
    assert faults == []
    assert [shown(container) for container in containers] == content(HERE / "gives" / path.name)


@table(
    ("image", "version", "noted"),
    [
        ("vllm/vllm-openai:v0.23.0", "0.23.0", False),
        ("docker.io/vllm/vllm-openai:0.23.0", "0.23.0", False),
        ("mirror.example.com:5000/hub/vllm/vllm-openai:v0.11.2-x86_64", "0.11.2", False),
        ("vllm/vllm-openai-rocm:v0.25.1", "0.25.1", False),
        ("vllm/vllm-openai:v0.24.0rc2", "0.24.0rc2", False),
        ("vllm/vllm-openai:v0.21.0.post1-cu129", "0.21.0.post1", False),
        *(
            (f"vllm/vllm-openai:v0.23.0{suffix}", "0.23.0", False)
            for suffix in (
                "-cu129",
                "-CU130",
                "-aarch64",
                "-arm64",
                "-cpu",
                "-x86_64-cu129",
                "-cu130-ubuntu2404",
                "-rocm6.4.1",
                "-",
            )
        ),
        ("vllm/vllm-openai:v0.24.0.dev5", "0.24.0.dev5", False),
        ("vllm/vllm-openai:v0.24.0.dev5-cu129", "0.24.0.dev5", False),
        ("vllm/vllm-openai:v0.24.0-dev1.2", "0.24.0+dev1.2", False),
        ("vllm/vllm-openai:v0.24.0-rc1", "0.24.0rc1", False),
        ("vllm/vllm-openai:v0.24.0-rc.2-cu129", "0.24.0rc2", False),
        ("vllm/vllm-openai:v0.24.0-rc", "0.24.0+rc", False),
        ("vllm/vllm-openai:v0.24.0.dev5-rc1", "0.24.0.dev5+rc1", False),
        ("vllm/vllm-openai:v0.24.0.1", "0.24.0.1", False),
        ("vllm/vllm-openai:v0.23.0-nightly", "0.23.0+nightly", False),
        ("vllm/vllm-openai:v0.23.0-mypatch", "0.23.0+mypatch", False),
        ("vllm/vllm-openai:v0.23.0-cu129-My__Patch-", "0.23.0+cu129.my.patch", False),
        ("vllm/vllm-openai:v0.23.0-cu129x", "0.23.0+cu129x", False),
        ("vllm/vllm-openai:v0.24.0_fix", "0.24.0+fix", False),
        ("vllm/vllm-openai:v0.24.0-" + "a" * 90, "0.24.0+" + "a" * 32, False),
        ("vllm/vllm-openai", None, True),
        ("vllm/vllm-openai:latest", None, True),
        ("vllm/vllm-openai:nightly-0123456", None, True),
        ("vllm/vllm-openai:v0.23.0@sha256:00", "0.23.0", False),
        ("vllm/vllm-openai@sha256:00", None, True),
        ("localhost:5000/vllm/vllm-openai", None, True),
        ("rocm/vllm:rocm6.4.1_vllm_0.10.1", "0.10.1", False),
        ("ghcr.io/llm-d/llm-d-cuda:v0.9.0", "0.26.0", False),
        ("ghcr.io/llm-d/llm-d-cuda:pr-2206", None, True),
        ("lmcache/vllm-openai:v0.3.9", None, True),
        ("vllm/vllm-openai:" + "1" * 2000, None, False),
        (None, None, False),
    ],
)
def test_only_images_in_the_table_show_the_version_of_vllm(
    image: str | None,
    version: str | None,
    noted: bool,  # noqa: FBT001
) -> None:
    found = images.version_of(image, shipped_images())
    assert (found.version, bool(found.unversioned)) == (version, noted)


@table(
    ("container", "counts"),
    [
        ({"image": "vllm/vllm-openai:v0.23.0", "args": ["Qwen/Qwen3-8B"]}, True),
        ({"image": "vllm/vllm-openai:v0.23.0", "args": ["--model=Qwen/Qwen3-8B"]}, True),
        ({"image": "vllm/vllm-openai:v0.23.0"}, True),
        ({"image": "vllm/vllm-openai:v0.23.0", "command": ["sleep", "infinity"]}, False),
        ({"image": "rocm/vllm:latest", "args": ["bash", "-c", "sleep infinity"]}, False),
        ({"image": "rocm/vllm:latest", "args": ["qwen3", "--enable-dbo"]}, True),
        ({"image": "rocm/vllm:latest", "args": ["/models/python", "--enable-dbo"]}, True),
        ({"image": "quay.io/vllm/vllm-cuda:0.23.0", "args": ["--model", "x"]}, True),
        ({"image": "registry.redhat.io/rhaiis/vllm-cuda-rhel9:3", "args": ["x"]}, True),
        ({"image": "vllm/vllm-omni:v0.23.0", "args": ["--model", "x"]}, True),
        ({"image": "example.com/my-vllm-build:1", "args": ["--model", "x"]}, True),
        ({"image": "example.com/my-vllm-build:1"}, False),
        ({"image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1", "args": ["python3", "-m", "dynamo.frontend"]}, False),
        ({"image": "example.com/vllmish:1", "args": ["--model", "x"]}, False),
        ({"image": "kserve/huggingfaceserver:v0.15", "args": ["--model_id", "x"]}, True),
        ({"image": "rocm/vllm:latest", "args": ["vllm", "serve", "Qwen/Qwen3-8B"]}, True),
        ({"image": "public.ecr.aws/deep-learning-containers/vllm:0.17-gpu", "args": ["--model", "x"]}, True),
        ({"image": "lmcache/vllm-openai:latest", "args": ["--model", "x"]}, True),
        ({"image": "ghcr.io/llm-d/llm-d-cuda:v0.9.0", "args": ["--model", "x"]}, True),
        ({"image": "ghcr.io/llm-d/llm-d-routing-sidecar:v0.9.0", "args": ["--vllm-port=8200"]}, False),
        ({"image": "ghcr.io/llm-d/llm-d-inference-sim:latest", "args": ["--model", "x"]}, False),
        ({"image": "example.com/own:1", "args": ["vllm", "serve", "Qwen/Qwen3-8B"]}, True),
        ({"image": "example.com/own:1", "command": ["vllm", "serve", "Qwen/Qwen3-8B"]}, True),
        ({"image": "nginx:1.29", "args": ["-g", "daemon off;"]}, False),
        ({"image": "v" * 2000, "args": ["--model", "x"]}, False),
        ({"args": ["--model", "x"]}, False),
    ],
)
def test_a_container_is_an_engine_by_its_command_or_its_image(container: dict[str, Any], counts: bool) -> None:  # noqa: FBT001
    containers, faults = read(pod(**container))
    assert (bool(containers), faults) == (counts, [])


ACCELERATORS: list[tuple[object, str | None]] = [
    ("H100:8", "8"),
    ("L4", "1"),
    ("A100:0.5", "1"),
    ({"H100": 8}, "8"),
    ({"H100": 8, "A100": 4}, None),
    ({"L4:2": None, "A10G:2": None}, "2"),
    (["H100:8", "A100:8"], "8"),
    (["H100:8", "A100"], None),
    ({"H100": None}, "1"),
    (None, None),
    ("H100:eight", None),
    ("H100:1e999", None),
    ({"H100": True}, "1"),
    ({"H100": [1]}, None),
    (7, None),
    ([], None),
]
KINDS = (
    "`Pod`, `ReplicationController`, `Deployment`, `StatefulSet`, `DaemonSet`, `ReplicaSet`, `Job`, `CronJob`, "
    "`PodTemplate`, `Rollout`, `JobSet`, `LeaderWorkerSet`, `DisaggregatedSet`, "
    "`StormService`, `RoleSet`, `InferenceService`, `ServingRuntime`, `ClusterServingRuntime`, "
    "`LLMInferenceService`, `LLMInferenceServiceConfig`, `VLLMRuntime`, "
    "`DynamoGraphDeployment`, `DynamoComponentDeployment`, `Model`, `Workspace`, `InferenceSet`, "
    "`MultiRoleInference`, `ModelServing`, `ModelBooster`, `Playground`, `BackendRuntime`, `RayService`, "
    "`RayCluster`, `RayJob`, `RayCronJob`, `RayClusterFleet`, `RayClusterReplicaSet`, `PodSet`, `HelmRelease`, "
    "`Application`, `ApplicationSet`, `HelmChart`, `HelmChartConfig`"
)
SHAPES = (
    "llm-d-modelservice values (`modelArtifacts` and `decode` or `prefill`); production-stack values "
    "(`servingEngineSpec`); "
    "a Ray Serve config (`applications` or `llm_configs`); a Compose file (`services`); a SkyPilot task (`run` "
    "beside `resources`, `setup` or `envs`); a Truss (`docker_server`, `base_image`, or `model_metadata` and other "
    "fields of its `config.yaml`); a dstack task or service (`type` beside `commands`, `image` or `groups`); "
    "a shell script (`script` alone); a systemd service (`unit`, and `environment_files`); a Nomad job (`Job` with "
    "`TaskGroups`); a scenario of llm-d-benchmark (`scenario`); a chart's values, with an image or a command of vLLM"
)


ENTRY_POINT = ["vllm", "serve"]
SERVER = "vllm.entrypoints.openai.api_server"


@table(
    ("args", "words"),
    [
        (["qwen3", "--enable-dbo"], [*ENTRY_POINT, "qwen3", "--enable-dbo"]),
        (["Q"], [*ENTRY_POINT, "Q"]),
        (["qwen", "--port", "80"], [*ENTRY_POINT, "qwen", "--port", "80"]),
        (["Q", "--port", "80"], [*ENTRY_POINT, "Q", "--port", "80"]),
        (["/models/qwen", "--port", "80"], [*ENTRY_POINT, "/models/qwen", "--port", "80"]),
        (["org/python3", "--enable-dbo"], [*ENTRY_POINT, "org/python3", "--enable-dbo"]),
        (["org/sh"], [*ENTRY_POINT, "org/sh"]),
        (["sleep", "infinity"], [*ENTRY_POINT, "sleep", "infinity"]),
        (["bash"], [*ENTRY_POINT, "bash"]),
        ([], ENTRY_POINT),
        (["--enable-dbo"], ["--enable-dbo"]),
        (["serve", "Q"], [*ENTRY_POINT, "serve", "Q"]),
        (["vllm", "serve", "Q"], [*ENTRY_POINT, "vllm", "serve", "Q"]),
        (["bash", "-c", "vllm serve Q"], [*ENTRY_POINT, "bash", "-c", "vllm serve Q"]),
        (["python3", "-m", SERVER, "Q"], [*ENTRY_POINT, "python3", "-m", SERVER, "Q"]),
        (["$(A)", "serve", "Q"], [*ENTRY_POINT, "$(A)", "serve", "Q"]),
        (["env", "A=b", "vllm", "serve", "Q"], [*ENTRY_POINT, "env", "A=b", "vllm", "serve", "Q"]),
    ],
)
def test_the_arguments_of_a_known_image_are_those_of_vllm(args: list[str], words: list[str]) -> None:
    containers, faults = read(pod(image="vllm/vllm-openai:v0.23.0", args=args))
    assert ([container.words for container in containers], faults) == ([words], [])


@pytest.mark.parametrize("args", [["vllm", "serve", "Q"], ["serve", "Q"], ["bash", "-c", "vllm serve Q"]])
def test_arguments_that_start_vllm_are_a_command_if_the_entry_point_may_run_them(args: list[str]) -> None:
    for image in ("rocm/vllm:latest", "example.com/own:1", "ghcr.io/llm-d/llm-d-cuda:v0.9.0"):
        containers, faults = read(pod(image=image, args=args))
        expected = [] if (image, args[0]) == ("example.com/own:1", "serve") else [args]
        assert ([container.words for container in containers], faults) == (expected, [])


@pytest.mark.parametrize("members", [{}, {"model": {"modelFormat": {"name": "sklearn"}}}])
def test_workers_of_an_inference_service_are_read(members: dict[str, Any]) -> None:
    worker = {"image": "vllm/vllm-openai:v0.23.0", **SERVING}
    document = predictor()
    document["spec"]["predictor"] = {**members, "workerSpec": {"containers": [worker]}}
    containers, faults = read(document)
    assert ([container.path for container in containers], faults) == (["spec.predictor.workerSpec.containers[0]"], [])


def test_a_runtime_of_kserves_server_is_read_with_the_model_that_uses_it() -> None:
    image = "kserve/huggingfaceserver:v0.15"
    runtime = {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ClusterServingRuntime",
        "metadata": {"name": "hf"},
        "spec": {"containers": [{"name": "kserve-container", "image": image, "args": ["--model_name={{.Name}}"]}]},
    }
    model = predictor(
        modelFormat={"name": "huggingface"},
        runtime="hf",
        storageUri="hf://a/b",
        args=["--enable-dbo", "--backend=vllm"],
    )
    assert read(runtime) == ([], [])
    (container,), faults = read([runtime, model])
    assert (container.words, container.problem, faults) == (["vllm", "serve", "/mnt/models", "--enable-dbo"], "", [])


def test_a_ray_cluster_starts_ray_in_a_container_without_a_command() -> None:
    spec = {"headGroupSpec": {"template": {"spec": {"containers": [{"image": "vllm/vllm-openai:v0.23.0"}]}}}}
    assert read({"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": spec}) == ([], [])


@table(
    ("document", "pointer", "message"),
    [
        ({"apiVersion": "apps.example.com/v1", "kind": "Zoo"}, "/kind", f"unknown kind `Zoo`; legal: {KINDS}"),
        (
            {"apiVersion": "apps/v1", "kind": "Deploymnt"},
            "/kind",
            f"unknown kind `Deploymnt`; legal: {KINDS}; did you mean `Deployment`?",
        ),
        (
            {"apiVersion": "v1", "kind": "Deployment"},
            "/apiVersion",
            "expected the API group `apps` for `Deployment`, got `v1`",
        ),
        (
            {"apiVersion": "x/v1", "kind": "Pod"},
            "/apiVersion",
            "expected the API group `v1` for `Pod`, got `x/v1`",
        ),
        ({"kind": 7}, "/kind", f"unknown kind `7`; legal: {KINDS}"),
        ({"a": 1}, "", f"expected a `kind`, or one of the shapes that need none: {SHAPES}"),
        ("text", "", "expected a Kubernetes object, a list of them, or a chart's values, got `text`"),
        (None, "", "expected a Kubernetes object, a list of them, or a chart's values, got `null`"),
        (pod(args=["--port", 8000]), "/spec/containers/0/args/1", "expected a string in quotes, got `8000`"),
        (pod(args="--port"), "/spec/containers/0/args", "expected a list, got `--port`"),
        ({"kind": "Pod", "apiVersion": "v1", "spec": 5}, "/spec", "expected an object, got `5`"),
        (
            pod(env=[{"name": "A", "value": True}]),
            "/spec/containers/0/env/0/value",
            "expected a string in quotes, got `true`",
        ),
        (llm(parallelism={"tensor": "2"}), "/spec/parallelism/tensor", "expected a whole number, got `2`"),
        (
            llm(kvCacheOffloading={"cpu": "ten"}),
            "/spec/kvCacheOffloading/cpu",
            "expected a quantity such as `10Gi`, got `ten`",
        ),
        (
            llm(worker={}, template={"containers": [{"name": "main", **SERVING}]}, parallelism={"pipeline": 2}),
            "/spec/worker",
            (
                "with `worker`, KServe has a configuration for data parallelism only; set a `command` in the container "
                "`main`"
            ),
        ),
        (
            {"servingEngineSpec": {"configs": {"A": 0}, "modelSpec": [{"modelURL": "a/b"}]}},
            "/servingEngineSpec/configs/A",
            "expected a string in quotes, got `0`",
        ),
        (stack(enabled="no"), "/servingEngineSpec/modelSpec/0/enabled", "expected `true` or `false`, got `no`"),
        (
            stack(modelURL=["m"]),
            "/servingEngineSpec/modelSpec/0/modelURL",
            'expected a string, a number, `true` or `false`, got `["m"]`',
        ),
        (
            {"modelArtifacts": {}, "decode": {"containers": [{"modelCommand": "vllmserve"}]}},
            "/decode/containers/0/modelCommand",
            "unknown command `vllmserve`; legal: `vllmServe`, `imageDefault`, `custom`; did you mean `vllmServe`?",
        ),
        ({"llm_configs": ["qwen.yaml"]}, "/llm_configs/0", "`qwen.yaml` is the name of a file; write its content here"),
        (
            {"llm_configs": [{"engine_kwargs": {"model": "a/b"}}]},
            "/llm_configs/0/engine_kwargs/model",
            "`model` is not allowed in `engine_kwargs`; write `model_loading_config`",
        ),
        (
            {"apiVersion": "ray.io/v1", "kind": "RayService", "spec": {"serveConfigV2": "a: [1"}},
            "/spec/serveConfigV2",
            (
                "line 1, column 4: not YAML: the bracket `[` is not closed with `]`, or a comma is missing between its "
                "items"
            ),
        ),
        (
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayJob",
                "spec": {"entrypoint": "vllm serve a/b", "runtimeEnvYAML": "env_vars: [A]"},
            },
            "/spec/runtimeEnvYAML",
            'expected an object, got `["A"]`',
        ),
        (
            {"apiVersion": "ray.io/v1", "kind": "RayService", "spec": {"serveConfigV2": "<<: {llm_configs: []}"}},
            "/spec/serveConfigV2",
            "line 1, column 1: merge keys (`<<`) are not supported; repeat the fields",
        ),
        (
            {"apiVersion": "ray.io/v1", "kind": "RayService", "spec": {"serveConfigV2": "llm_configs: 3"}},
            "/spec/serveConfigV2",
            "expected a list, got `3`",
        ),
        (
            {"services": {"a": {"command": "vllm 'serve"}}},
            "/services/a/command",
            "Compose refuses `vllm 'serve`: a quote is not closed, or nothing follows the last backslash",
        ),
        (
            {
                "apiVersion": "production-stack.vllm.ai/v1alpha1",
                "kind": "VLLMRuntime",
                "spec": {"vllmConfig": {"maxLoras": 1.5}},
            },
            "/spec/vllmConfig/maxLoras",
            "expected a whole number, got `1.5`",
        ),
        (
            {"services": {"a": {"command": "x" * 40_000}}},
            "/services/a/command",
            "expected a command of at most 32768 characters, got 40000",
        ),
        (
            {
                "modelArtifacts": {"uri": "hf://" + "x" * 3000},
                "decode": {"containers": [{"modelCommand": "vllmServe"}]},
            },
            "/modelArtifacts",
            "expected a model with a name, URI and path of at most 2048 characters",
        ),
        (
            llm(kvCacheOffloading={"cpu": None}, worker=[]),
            "/spec/worker",
            "expected an object, got `[]`",
        ),
        (
            {"llm_configs": [{"engine_kwargs": {"logits_processors": [1, {"a": 2}]}, "model_loading_config": []}]},
            "/llm_configs/0/model_loading_config",
            "expected an object, got `[]`",
        ),
        ({"services": {"a": 1}}, "/services/a", "expected an object, got `1`"),
    ],
)
def test_a_fault_has_its_pointer_in_the_manifest(document: object, pointer: str, message: str) -> None:
    assert read(document)[1] == [RequestFault(f"/manifest{pointer}", message)]


@table(
    "document",
    [
        {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}},
        {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute"},
        {"apiVersion": "inference.networking.x-k8s.io/v1alpha2", "kind": "InferencePool"},
        {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "InferenceGraph"},
        {"apiVersion": "v1", "kind": "PodList", "items": []},
        [],
        {"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}]},
        {"run": "echo vllm", "resources": {}},
        {"run": None, "resources": {}},
        {"servingEngineSpec": {"enableEngine": False, "modelSpec": [{"modelURL": "a/b"}]}},
        {"modelArtifacts": {}, "decode": {"create": False, "containers": [{"modelCommand": "vllmServe"}]}},
        {"apiVersion": "ray.io/v1", "kind": "RayService", "spec": {}},
        predictor(modelFormat={"name": "sklearn"}, storageUri="gs://bucket/model"),
        predictor(modelFormat={"name": "huggingface"}, args=["--backend=huggingface"]),
    ],
)
def test_a_known_document_without_vllm_has_no_engines(document: object) -> None:
    assert read(document) == ([], [])


@pytest.mark.parametrize(
    "document",
    [
        pod(image="a", args=["--exec", "/usr/local/bin/vllm", "--", "serve", "a/b"]),
        pod(image="a", command=["start-stop-daemon", "--start", "--exec", "/bin/vllm", "--", "serve", "a/b"]),
        pod(image="vllm/vllm-openai:v0.23.0", command=["pm2-runtime", "start", "vllm", "--", "serve", "a/b"]),
        {"run": "docker run --gpus all vllm/vllm-openai:v0.23.0 --model a/b", "resources": {}},
        {"services": {"a": {"entrypoint": ["mywrap"], "command": ["vllm", "--", "serve", "a/b"]}}},
    ],
)
def test_a_command_that_passes_vllms_server_to_a_program_is_an_engine(document: object) -> None:
    containers, faults = read(document)
    assert (len(containers), faults) == (1, [])


SIDECAR = {"image": "a", "command": ["vllm", "serve"], "args": ["a/b"], "restartPolicy": "Always"}
CONTAINER = {"name": "v", "image": "vllm/vllm-openai:v0.23.0", "command": ["vllm", "serve", "a/b"]}


NOT_KNOWN = "the kind `{}` is not known; what its controller adds to the container is not considered"


@table(
    ("version", "kind", "members", "path"),
    [
        ("argoproj.io/v1alpha1", "Workflow", {"spec": {"templates": [{}, {"container": CONTAINER}]}}, "templates[1]"),
        ("argoproj.io/v1alpha1", "AnalysisTemplate", {"spec": {"a": {"job": [[CONTAINER]]}}}, "a.job[0][0]"),
        ("serving.kserve.io/v1alpha1", "ClusterStorageContainer", {"spec": {"container": CONTAINER}}, "container"),
        ("apps/v1", "ControllerRevision", {"data": {"spec": {"containers": [CONTAINER]}}}, "data.spec.containers[0]"),
        ("batch.volcano.sh/v1alpha1", "Job", {"spec": {"tasks": [{"template": CONTAINER}]}}, "tasks[0].template"),
        ("example.com/v1", "Foo", {"spec": {"pods": {"initContainers": [SIDECAR]}}}, "initContainers[0]"),
        ("networking.k8s.io/v1", "Foo", {"spec": {"x": {"image": "vllm/vllm-openai", "args": ["a/b"]}}}, "spec.x"),
    ],
)
@table("others", [[], [pod(image="nginx")]])
def test_a_container_in_an_object_of_an_unknown_kind_is_read(
    version: str, kind: str, members: dict[str, Any], path: str, others: list[Any]
) -> None:
    document = {"apiVersion": version, "kind": kind, **members}
    (container,), faults = read([*others, document] if others else document)
    assert (path in container.path, container.words, container.notes, faults) == (
        True,
        ["vllm", "serve", "a/b"],
        [NOT_KNOWN.format(kind)],
        [],
    )


@pytest.mark.parametrize(
    ("version", "kind", "members", "path"),
    [
        ("batch/v1", "Foo", {"spec": {"x": {"image": "a", "args": ["vllm"]}}}, "spec.x"),
        ("batch/v1", "Foo", {"spec": {"x": {"image": "a", "command": "vllm serve b"}}}, "spec.x"),
        ("example.com/v1", "Foo", {"spec": {"x": CONTAINER | {"env": {"A": "b"}}}}, "spec.x"),
        ("argoproj.io/v1alpha1", "Workflow", {"script": {"image": "a", "source": "vllm serve b"}}, "script"),
        ("batch/v1", "Foo", {"spec": {"x": {"image": "registry/my-vllm:1"}}}, "spec.x"),
    ],
)
def test_a_container_of_an_unknown_kind_that_cannot_be_read_is_a_problem_if_it_names_vllm(
    version: str, kind: str, members: dict[str, Any], path: str
) -> None:
    (container,), faults = read({"apiVersion": version, "kind": kind, **members})
    assert (path in container.path, container.problem.partition(",")[0], container.words, faults) == (
        True,
        f"the kind `{kind}` is not supported",
        [],
        [],
    )


BROKEN: list[tuple[object, str]] = [
    (3, "expected a Kubernetes object, a list of them, or a chart's values, got `3`"),
    ({"a": 1}, f"expected a `kind`, or one of the shapes that need none: {SHAPES}"),
    ({"kind": 7}, f"unknown kind `7`; legal: {KINDS}"),
    (
        {"apiVersion": "apps/v1", "kind": "Deploymnt"},
        f"unknown kind `Deploymnt`; legal: {KINDS}; did you mean `Deployment`?",
    ),
    ({"apiVersion": "app/v1", "kind": "Deployment"}, "expected the API group `apps` for `Deployment`, got `app/v1`"),
    ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": 1}, "expected an object, got `1`"),
    (
        {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime", "spec": []},
        "expected an object, got `[]`",
    ),
    (pod(args="--port"), "expected a list, got `--port`"),
    (pod(**SERVING, env=[{"name": "A", "value": 1}]), "expected a string in quotes, got `1`"),
    ({"services": {"a": 1}}, "expected an object, got `1`"),
]


@table(("broken", "message"), BROKEN)
@table("place", [0, 1, 2])
@table("kind", ["list", "List"])
def test_an_object_that_cannot_be_read_does_not_affect_the_others(
    broken: object, message: str, place: int, kind: str
) -> None:
    objects: list[Any] = [pod(**SERVING), pod(**SERVING, args=["--seed=1"])]
    objects.insert(place, broken)
    start = "" if kind == "list" else "items"
    containers, faults = read(objects if kind == "list" else {"apiVersion": "v1", "kind": "List", "items": objects})
    assert faults == []
    assert [container.path.partition("]")[0] for container in containers] == [f"{start}[{at}" for at in range(3)]
    assert [(container.words, len(container.faults)) for container in containers if container.words] == [
        (["vllm", "serve", "a/b"], 0),
        (["vllm", "serve", "a/b", "--seed=1"], 0),
    ]
    (fault,) = containers[place].faults
    assert fault.message == message
    assert fault.pointer.startswith(f"/manifest/{f'{start}/' if start else ''}{place}")


def test_objects_of_unknown_kinds_without_a_container_are_ignored_by_name() -> None:
    faults: list[RequestFault] = []
    ignored: list[str] = []
    unknown = {"apiVersion": "example.com/v1", "kind": "Zoo", "metadata": {"name": "z"}}
    known = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress"}
    containers = read_manifest([unknown, known, pod(**SERVING), unknown], "", faults, ignored)
    assert ([container.path for container in containers], faults) == (["[2].spec.containers[0]"], [])
    assert ignored == ["[0]", "[3]"]


def test_many_faulty_objects_have_all_faults_of_the_first_and_one_of_each_other() -> None:
    faulty = pod(image="vllm/vllm-openai", args=[1] * 200)
    containers, faults = read([faulty] * 20)
    found = [len(container.faults) for container in containers]
    assert (found, faults) == ([MAX_FAULTS] * 11 + [2] * 9, [])
    last = [container.faults[-1].message for container in containers[11:]]
    assert last == ["further faults are left out: this manifest has too many; split it"] * 9


@table(
    "spec",
    [
        {"image": "nginx:1.29"},
        {"image": "nginx:1.29", "args": []},
        {"image": {"type": "string"}, "args": ["a"]},
        {"image": "a", "args": "b"},
        {"image": "alpine", "command": ["echo", "hello"], "args": ["world", 1]},
        {"args": ["vllm"]},
    ],
)
def test_an_object_that_is_not_read_has_no_engine_without_a_container(spec: dict[str, Any]) -> None:
    assert read({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "spec": spec}) == ([], [])


def words(document: object) -> list[list[str]]:
    containers, faults = read(document)
    assert faults == []
    return [container.words for container in containers]


def notes(document: object) -> list[str]:
    return read(document)[0][0].notes


SERVE = ["vllm", "serve", "/mnt/models"]


@table(
    ("document", "expected"),
    [
        pytest.param(
            llm(kvCacheOffloading={}),
            [
                [
                    *(*SERVE, "--kv-transfer-config"),
                    (
                        '{"kv_connector":"OffloadingConnector","kv_connector_extra_config":{"cpu_bytes_to_use":null,'
                        '"spec_name":"TieringOffloadingSpec"},"kv_role":"kv_both"}'
                    ),
                ]
            ],
            id="offloading without a size",
        ),
        pytest.param(llm(), [SERVE], id="KServe starts a service that does not describe its container"),
        pytest.param(
            llm(parallelism={"data": 2, "tensor": 4}),
            [[*SERVE, "--tensor-parallel-size", "4"]],
            id="data parallelism needs workers",
        ),
        pytest.param(
            llm(parallelism={"dataLocal": 8}, worker={}),
            [
                [*SERVE, "--data-parallel-size", "1", "--data-parallel-size-local", "8", *tail]
                for tail in ([], ["--headless"])
            ],
            id="the size itself is one where only the local one is written",
        ),
        pytest.param(
            llm(
                kvCacheOffloading={"cpu": "1500m"},
                template={"containers": [{"name": "main", "args": ["--kv-transfer-config", "'{}'"]}]},
            ),
            [[*SERVE, "--kv-transfer-config", "{}"]],
            id="a connector of the user's own keeps KServe's away",
        ),
        pytest.param(
            llm(
                model={"uri": "hf://a/b", "lora": {"adapters": [{"name": "x"}]}},
                template={"containers": [{"name": "main", "args": ["--lora-modules x=y"]}]},
            ),
            [[*SERVE, "--lora-modules", "x=y"]],
            id="adapters of the user's own keep KServe's away",
        ),
        pytest.param(
            llm(template={"containers": [{"name": "main", "args": ["it's"]}]}),
            [[*SERVE, "it's"]],
            id="a quote that does not close stays as it is",
        ),
        pytest.param(
            llm(
                template={
                    "containers": [
                        {"name": "main", "args": ["--max-model-len $LEN"], "env": [{"name": "LEN", "value": "8"}]}
                    ]
                }
            ),
            [[*SERVE, "--max-model-len", "8"]],
            id="KServe's shell fills in variables",
        ),
        pytest.param(
            predictor(modelFormat={"name": "vLLM"}, command=["vllm", "serve"], args=["a/b"]),
            [["vllm", "serve", "--port=8080", "--served-model-name={{.Name}}", "--model=/mnt/models", "a/b"]],
            id="a predictor's own command takes the place of the runtime's",
        ),
        pytest.param(
            predictor(modelFormat={"name": "huggingface"}, storageUri="s3://bucket/model", args=["--model_id=a/b"]),
            [SERVE],
            id="a stored model goes before the one that is named",
        ),
        pytest.param(
            predictor(modelFormat={"name": "huggingface"}, command=["vllm", "serve"]),
            [["vllm", "serve", "--model_name={{.Name}}"]],
            id="a command of its own is not KServe's server",
        ),
        pytest.param(
            predictor(modelFormat={"name": "vLLM"}, command=["sleep", "1"]),
            [],
            id="a predictor's own command may not be vLLM's",
        ),
        pytest.param(
            {
                "apiVersion": "production-stack.vllm.ai/v1alpha1",
                "kind": "VLLMRuntime",
                "spec": {"lmCacheConfig": {"enabled": True}},
            },
            [
                [
                    *(
                        "/opt/venv/bin/vllm",
                        "serve",
                        "--no-enable-chunked-prefill",
                        "--no-enable-prefix-caching",
                        "--kv-transfer-config",
                    ),
                    '{"kv_connector":"LMCacheConnector","kv_role":"kv_both"}',
                ]
            ],
            id="a VLLMRuntime that says nothing has everything off",
        ),
        pytest.param(
            predictor(runtime="own", image="vllm/vllm-openai", args=["--model=a/b"]),
            [["--model=a/b"]],
            id="any other format: the arguments alone",
        ),
        pytest.param(
            [
                {
                    "apiVersion": "serving.kserve.io/v1alpha1",
                    "kind": "ServingRuntime",
                    "metadata": {"name": "r"},
                    "spec": {"containers": [{"name": "other"}]},
                },
                predictor(runtime="r", args=["--model=a/b"]),
            ],
            [],
            id="a runtime without KServe's container runs nothing",
        ),
        pytest.param(
            stack(
                lmcacheConfig={"enabled": True, "enablePD": False, "kvRole": "kv_producer"},
                modelRevision="abc",
                vllmConfig={"enablePrefixCaching": False},
            ),
            [
                [
                    *(
                        "vllm",
                        "serve",
                        "m/m",
                        "--no-enable-prefix-caching",
                        "--revision",
                        "abc",
                        "--kv-transfer-config",
                    ),
                    (
                        '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_producer",'
                        '"kv_connector_extra_config":{"discard_partial_chunks":false,"lmcache_rpc_port":null}}'
                    ),
                ]
            ],
            id="the chart asks whether enablePD is there, not whether it is true",
        ),
        pytest.param(
            stack(
                vllmConfig={"v0": 1, "enableChunkedPrefill": True, "pipelineParallelSize": 2},
                lmcacheConfig={"enabled": True},
            ),
            [
                [
                    *(
                        "vllm",
                        "serve",
                        "m/m",
                        "--enable-chunked-prefill",
                        "--no-enable-prefix-caching",
                        "--kv-transfer-config",
                    ),
                    '{"kv_connector":"LMCacheConnector","kv_role":"kv_both"}',
                ]
            ],
            id="the old engine generation has the old connector",
        ),
        pytest.param(
            {
                "modelArtifacts": {"uri": "pvc://claim/a/b", "name": "n"},
                "prefill": {"containers": [{"modelCommand": "vllmServe", "mountModelVolume": True}]},
            },
            [["vllm", "serve", "/model-cache/a/b"]],
            id="a claim's path stands below the mount",
        ),
        pytest.param(
            {
                "modelArtifacts": {"uri": "pvc+hf://claim/cache/org/name", "mountPath": "/m"},
                "prefill": {"containers": [{"modelCommand": "vllmServe"}]},
            },
            [["vllm", "serve", "org/name"]],
            id="a claim with a Hub cache keeps the model's name",
        ),
        pytest.param(
            {"modelArtifacts": {"uri": "oci://image"}, "prefill": {"containers": [{"modelCommand": "vllmServe"}]}},
            [["vllm", "serve"]],
            id="the chart knows no argument for an OCI model",
        ),
        pytest.param(
            {
                "apiVersion": "nvidia.com/v1alpha1",
                "kind": "DynamoComponentDeployment",
                "spec": {"extraPodSpec": {"mainContainer": {"command": ["vllm", "serve"]}}},
            },
            [["vllm", "serve"]],
            id="a component by itself",
        ),
        pytest.param(
            {"applications": [{"args": {"prefill_config": {"engine_kwargs": {"enable_lora": True}}}}]},
            [["vllm", "serve", "--enable-lora", "--distributed-executor-backend", "ray"]],
            id="Ray's prefill and decode stand alone",
        ),
        pytest.param(
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayCluster",
                "spec": {
                    "headGroupSpec": {"template": {"spec": {"containers": [{"command": ["vllm", "serve", "a/b"]}]}}}
                },
            },
            [["vllm", "serve", "a/b"]],
            id="a Ray cluster's own command",
        ),
        pytest.param(
            {"services": {"a": {"entrypoint": "vllm serve", "command": ["$$A", "${A:+b}c", "$A", "${A?no}"]}}},
            [["vllm", "serve", "$$A", "c", "$${A!}", "$${A!}"]],
            id="Compose's variables",
        ),
    ],
)
def test_a_controller_adds_its_own_arguments(document: object, expected: list[list[str]]) -> None:
    assert words(document) == expected


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (
            {"apiVersion": "v1", "kind": "PodTemplate", "template": {"spec": {"containers": [SERVING]}}},
            "template.spec.containers[0]",
        ),
        (
            {
                "apiVersion": "argoproj.io/v1alpha1",
                "kind": "Rollout",
                "spec": {"template": {"spec": {"containers": [SERVING]}}},
            },
            "spec.template.spec.containers[0]",
        ),
        (
            {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "spec": {"replicatedJobs": [{"template": {"spec": {"template": {"spec": {"containers": [SERVING]}}}}}]},
            },
            "spec.replicatedJobs[0].template.spec.template.spec.containers[0]",
        ),
        (
            {
                "apiVersion": "orchestration.aibrix.ai/v1alpha1",
                "kind": "RoleSet",
                "spec": {"roles": [{"template": {"spec": {"containers": [SERVING]}}}]},
            },
            "spec.roles[0].template.spec.containers[0]",
        ),
        ([{"apiVersion": "v1", "kind": "PodList", "items": [pod(**SERVING)]}], "[0].items[0].spec.containers[0]"),
    ],
)
def test_pods_in_other_objects_are_read_too(document: object, path: str) -> None:
    containers, faults = read(document)
    assert ([container.path for container in containers], faults) == ([path], [])


def _job(**spec: Any) -> dict[str, Any]:
    return {"spec": {**spec, "template": {"spec": {"containers": [SERVING]}}}}


@table(
    ("version", "kind", "document", "is_indexed"),
    [
        ("batch/v1", "Job", _job(completionMode="Indexed"), True),
        ("batch/v1", "Job", _job(completionMode="NonIndexed"), False),
        ("batch/v1", "Job", _job(), False),
        ("batch/v1", "CronJob", {"spec": {"jobTemplate": _job(completionMode="Indexed")}}, True),
        ("batch/v1", "CronJob", {"spec": {"jobTemplate": _job()}}, False),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", {"spec": {"replicatedJobs": [{"template": _job()}]}}, True),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"spec": {"replicatedJobs": [{"template": _job(completionMode="NonIndexed")}]}},
            False,
        ),
        ("apps/v1", "Deployment", _job(), False),
    ],
)
def test_an_indexed_job_sets_the_number_of_each_pod(
    version: str,
    kind: str,
    document: dict[str, Any],
    is_indexed: bool,  # noqa: FBT001 pytest gives it by name
) -> None:
    ((container,), faults) = read([{"apiVersion": version, "kind": kind, **document}])
    assert faults == []
    assert ("JOB_COMPLETION_INDEX" in container.env) is is_indexed
    assert container.env.get("JOB_COMPLETION_INDEX") is None


@table(
    ("document", "known"),
    [
        ([], False),
        ([{"kind": "Anything"}, {}], True),
        ([{"facts": {}}], False),
        ({"kind": "Anything"}, True),
        ({"servingEngineSpec": {}}, True),
        ({"services": {}}, True),
        ({"deployment": {}}, False),
        ({"facts": {}}, False),
        ("text", False),
    ],
)
def test_a_manifest_is_recognised_by_its_kind_or_its_shape(document: object, known: bool) -> None:  # noqa: FBT001
    assert is_manifest(document) is known


@table(
    ("command", "args", "is_plain"),
    [
        (
            ["python3", "-m", "dynamo.vllm"],
            ["--model", "org/m", "--kv-transfer-config.kv_connector=NixlConnector"],
            True,
        ),
        (["/bin/sh", "-c"], ["python3 -m dynamo.vllm --model org/m"], True),
        (["python3", "-m", "dynamo.vllm"], [], True),
        (["/bin/sh", "-c"], ["python3 -m dynamo.vllm --model org/m; true"], False),
        *(
            (["python3", "-m", "dynamo.vllm"], ["--model", "org/m", "--served-model-name", word], False)
            for word in (
                "a --enforce-eager",
                "{a,--enforce-eager}",
                "a; vllm serve b",
                "$X",
                "$(X)",
                '{"a":"b"}',
                "*",
                "",
            )
        ),
    ],
)
@table("nodes", [1, 2])
def test_for_several_nodes_dynamo_gives_the_words_to_a_shell(
    command: list[str],
    args: list[str],
    is_plain: bool,  # noqa: FBT001  # a table's value
    nodes: int,
) -> None:
    main = {"image": "dynamo", "command": command, "args": args}
    found = []
    for fields in (
        {"services": {"w": {"multinode": {"nodeCount": nodes}, "extraPodSpec": {"mainContainer": main}}}},
        {"components": [{"multinode": {"nodeCount": nodes}, "podTemplate": {"spec": {"containers": [main]}}}]},
    ):
        faults: list[RequestFault] = []
        document = {"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "spec": fields}
        found += read_manifest(document, "", faults)
        assert faults == []
    doubt = (
        "for 2 nodes several releases of Dynamo's operator join the words of the command with blanks, and a shell "
        "splits and expands them again; write words without quotes, braces, variables and other characters of a shell"
    )
    assert [each.doubts for each in found] == [[] if nodes == 1 or is_plain else [doubt]] * 2


@table("field", ["roles", "phases"])
@table("is_flat", [False, True])
def test_a_set_of_any_release_is_read(field: str, is_flat: bool) -> None:  # noqa: FBT001  # a table's value
    pod = {"spec": {"containers": [{"name": "m", "image": "vllm/vllm-openai:v0.23.0", "args": ["--model", "m"]}]}}
    template = {"leaderWorkerTemplate": {"size": 2, "leaderTemplate": pod, "workerTemplate": pod}}
    faults: list[RequestFault] = []
    document = {
        "apiVersion": "disaggregatedset.x-k8s.io/v1alpha1",
        "kind": "DisaggregatedSet",
        "spec": {field: [{"name": "decode", **(template if is_flat else {"spec": template})}]},
    }
    found = read_manifest(document, "", faults)
    path = f"spec.{field}[0].{'' if is_flat else 'spec.'}leaderWorkerTemplate"
    assert [each.path for each in found] == [
        f"{path}.{role}Template.spec.containers[0]" for role in ("leader", "worker")
    ]
    assert {each.env["LWS_GROUP_SIZE"] for each in found} == {"2"}
    assert faults == []


OFFLOADING = {"cpu": "1Gi"}


@table(
    ("document", "note"),
    [
        (
            llm(parallelism={"data": 2}),
            (
                "`spec.parallelism.data` has no effect without `worker`: KServe's configuration for one node has no "
                "flag for it"
            ),
        ),
        (
            llm(workload={"kvCacheOffloading": OFFLOADING}),
            (
                "unknown field `spec.workload` of an LLMInferenceService is dropped; write `kvCacheOffloading` one "
                "level higher"
            ),
        ),
        (
            llm(template={"containers": [{"name": "main", "args": ["--seed 1; echo"]}]}),
            "args[0]: a shell ends the command within `--seed 1; echo`; put quotes around what belongs to it",
        ),
        (
            llm(template={"containers": [{"name": "main", "args": ["--seed $S"]}]}),
            "args[0]: only a running shell knows all of `--seed $S`",
        ),
        (
            llm(template={"containers": [{"name": "main", "args": ["it's"]}]}),
            "args[0]: a shell refuses `it's`: the quote `'` at character 8 is not closed; close it",
        ),
        (
            llm(model={"lora": {"adapters": [{"uri": "hf://a/b"}]}}),
            "an adapter without a name at `spec.model.lora.adapters[0]` is left out",
        ),
        (
            predictor(modelFormat={"name": "vLLM"}, runtime="mine", resources={"limits": {"nvidia.com/gpu": "1"}}),
            (
                "the runtime `mine` is not in the manifest; its own arguments and variables are not known, KServe's "
                "for vLLM are assumed"
            ),
        ),
        (
            predictor(modelFormat={"name": "vLLM"}),
            (
                "no GPU is requested (`nvidia.com/gpu` in `limits`): KServe runs the CPU build of the image, so the "
                "platform is `cpu`"
            ),
        ),
        (
            predictor(modelFormat={"name": "huggingface"}),
            (
                "KServe's Hugging Face server uses vLLM only for models that vLLM supports; set `--backend=vllm` to be "
                "sure"
            ),
        ),
        (
            predictor(
                modelFormat={"name": "huggingface"}, storageUri="s3://b", args=["--model_id=a/b", "--backend=vllm"]
            ),
            "`storageUri` takes precedence over `--model_id`",
        ),
        (stack(envFromSecret={"name": "s"}), "`envFromSecret` sets variables that the values do not show"),
        (
            stack(env=[{"name": "A", "value": "{{ .Values.a }}"}]),
            "env.A: the value is a template; only the rendered output shows it",
        ),
        (
            {"services": {"a": {"entrypoint": "vllm serve", "extends": {"service": "b"}}}},
            "`extends` adds fields of another service, which is not read here",
        ),
    ],
)
def test_information_that_a_manifest_lacks_gets_a_note(document: object, note: str) -> None:
    assert note in notes(document)


@table(
    ("document", "name", "value"),
    [
        (stack(vllmConfig={"v0": "1"}), "VLLM_USE_V1", "0"),
        (stack(vllmConfig={"v0": "0", "v1": 1}, raySpec=RAY), "VLLM_USE_V1", "1"),
        (stack(vllmConfig={"v1": None}, raySpec=RAY), "VLLM_USE_V1", ""),
        (stack(vllmConfig={"dtype": "auto"}, raySpec=RAY), "VLLM_USE_V1", "0"),
        (stack(raySpec=RAY, env=[{"name": "A", "value": "1"}]), "A", "1"),
        ({"servingEngineSpec": {"vllmApiKey": "k", "modelSpec": [{"modelURL": "a/b"}]}}, "VLLM_API_KEY", None),
        *(
            ({"servingEngineSpec": {"configs": {"A": "0"}, "modelSpec": [{"modelURL": "a/b", **spec}]}}, "A", value)
            for spec, value in (
                ({}, "0"),
                ({"raySpec": RAY}, "0"),
                ({"env": [{"name": "A", "value": "1"}]}, "1"),
                ({"env": [{"name": "B", "value": "2"}, {"name": "A", "value": "$(A)$(B)"}]}, "02"),
            )
        ),
        (
            {"servingEngineSpec": {"configs": {"PYTHONHASHSEED": "1"}, "modelSpec": [{"modelURL": "a/b"}]}},
            "PYTHONHASHSEED",
            "123",
        ),
        ({"run": "vllm serve a/b", "envs": {"A": 1}}, "A", "1"),
        ({"run": "vllm serve a/b", "num_nodes": 2}, "SKYPILOT_NUM_NODES", "2"),
        *(
            (
                {"run": "vllm serve a/b", "resources": {"accelerators": accelerators}},
                "SKYPILOT_NUM_GPUS_PER_NODE",
                count,
            )
            for accelerators, count in ACCELERATORS
        ),
        (pod(command=["vllm", "serve"], env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]), "A", "12"),
    ],
)
def test_a_variable_has_this_value(document: object, name: str, value: str | None) -> None:
    assert read(document)[0][0].env[name] == value


@table(
    "spec",
    [{"vllmConfig": {}, "env": []}, {"envFromSecret": {"name": "s"}}],
)
def test_an_engine_on_a_ray_cluster_has_only_its_own_variables(spec: dict[str, Any]) -> None:
    document = stack(**spec, raySpec=RAY)
    document["servingEngineSpec"]["env"] = [{"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "0"}]
    (engine,), faults = read(document)
    assert (engine.env, engine.has_hidden_variables, faults) == ({}, False, [])


def test_variables_of_configs_are_known() -> None:
    (engine,), _ = read({"servingEngineSpec": {"configs": {"A": "0"}, "modelSpec": [{"modelURL": "a/b"}]}})
    assert (engine.env, engine.has_hidden_variables) == ({"A": "0", "PYTHONHASHSEED": "123"}, False)
    assert not [note for note in engine.notes if "variables" in note]


def test_a_task_with_its_own_image_has_that_image() -> None:
    containers, _ = read({"run": "vllm serve a/b", "resources": {"image_id": "docker:vllm/vllm-openai:v0.23.0"}})
    assert [(container.image, container.vllm_version) for container in containers] == [
        ("vllm/vllm-openai:v0.23.0", "0.23.0")
    ]


def test_config_maps_with_one_name_and_different_contents_are_unknown() -> None:
    maps = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"A": value}} for value in "12"
    ]
    reference = {"configMapKeyRef": {"name": "c", "key": "A"}}
    containers, _ = read([*maps, pod(command=["vllm", "serve"], env=[{"name": "A", "valueFrom": reference}])])
    assert containers[0].env == {"A": None}


def test_the_number_of_engines_in_a_manifest_is_limited() -> None:
    containers, faults = read(
        {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [SERVING] * (MAX_CONTAINERS + 1)}}
    )
    assert len(containers) == MAX_CONTAINERS
    assert faults == [
        RequestFault(
            f"/manifest/spec/containers/{MAX_CONTAINERS}", "more than 1024 vLLM containers; give fewer at a time"
        )
    ]


def test_the_number_of_documents_in_a_manifest_is_limited() -> None:
    service = {"apiVersion": "v1", "kind": "Service"}
    assert read([service] * MAX_DOCUMENTS) == ([], [])
    assert read([service] * (MAX_DOCUMENTS + 2)) == (
        [],
        [RequestFault(f"/manifest/{MAX_DOCUMENTS}", "more than 10000 documents; give fewer at a time")],
    )


def test_the_nesting_of_lists_is_limited() -> None:
    document: Any = []
    for _ in range(20):
        document = [document]
    assert [fault.message for fault in read(document)[1]] == [
        "lists are nested more than 8 deep; write the objects in one list"
    ]


def test_the_number_of_words_in_a_command_is_limited() -> None:
    containers, faults = read(pod(command=["vllm", "serve", *["x"] * 5000]))
    assert (containers, [fault.message for fault in faults]) == (
        [],
        ["expected a command of at most 4096 words and 1000000 characters; write a shorter one"],
    )


def test_the_number_of_faults_is_limited() -> None:
    assert len(read(pod(args=[0] * 500))[1]) == MAX_FAULTS


def test_the_growth_of_variables_that_double_each_other_is_limited() -> None:
    env = [
        {"name": "V0", "value": "x" * 64},
        *({"name": f"V{i}", "value": f"$(V{i - 1})$(V{i - 1})"} for i in range(1, 64)),
    ]
    containers, faults = read(pod(command=["vllm", "serve"], env=env))
    assert sum(len(value or "") for value in containers[0].env.values()) <= MAX_COPIED + 64
    assert [fault.message for fault in faults] == [
        f"variables and files that are copied or expanded exceed {MAX_COPIED} characters; send fewer at a time"
    ]


COPIED = f"variables and files that are copied or expanded exceed {MAX_COPIED} characters; send fewer at a time"
DOUBLED = [
    {"name": "V0", "value": "ab"},
    *({"name": f"V{i}", "value": f"$(V{i - 1})$(V{i - 1})"} for i in range(1, 24)),
]
BIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "x" * 120_000}}
FROM_MAP = {"image": "nginx", "envFrom": [{"configMapRef": {"name": "c"}}]}
TEMPLATE = {"apiVersion": "template.openshift.io/v1", "kind": "Template"}
OVERSIZED: dict[str, tuple[list[Any], str]] = {
    "vLLM with variables that double": ([pod(**SERVING, env=DOUBLED)], COPIED),
    "nginx with variables that double": ([pod(image="nginx", command=["sleep", "1"], env=DOUBLED)], COPIED),
    "a ConfigMap in ten containers": (
        [BIG_MAP, {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [FROM_MAP] * 10}}],
        COPIED,
    ),
    "a Template's parameter": (
        [
            {
                **TEMPLATE,
                "parameters": [{"name": "A", "value": "x" * 30_000}],
                "objects": [pod(image="nginx", args=["${A}" * 40])],
            }
        ],
        COPIED,
    ),
    "too many containers": (
        [{"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [SERVING] * (MAX_CONTAINERS + 1)}}],
        "more than 1024 vLLM containers; give fewer at a time",
    ),
}


@pytest.mark.parametrize("name", OVERSIZED)
def test_an_object_that_exceeds_a_limit_is_a_problem_of_its_own(name: str) -> None:
    objects, message = OVERSIZED[name]
    good = pod(**SERVING, env=[{"name": "A", "value": "1"}])
    for document in ([good, *objects, good], {"apiVersion": "v1", "kind": "List", "items": [*objects, good]}):
        containers, faults = read(document)
        assert faults == []
        refused = [container for container in containers if container.faults]
        assert [[fault.message for fault in container.faults] for container in refused] == [[message]]
        read_engines = [container.env for container in containers if not container.faults]
        assert read_engines == [{"A": "1"}] * (len(containers) - 1)
        assert len(read_engines) >= 1


def test_an_object_of_a_template_that_exceeds_a_limit_does_not_affect_the_others() -> None:
    document = {
        **TEMPLATE,
        "parameters": [{"name": "A", "value": "x" * 30_000}, {"name": "B", "value": "b"}],
        "objects": [pod(image="nginx", args=["${A}" * 40]), pod(**SERVING, env=[{"name": "A", "value": "${B}"}])],
    }
    refused, engine = read(document)[0]
    assert (refused.path, [fault.message for fault in refused.faults]) == ("objects[0]", [COPIED])
    assert (engine.path, engine.env, engine.faults) == ("objects[1].spec.containers[0]", {"A": "b"}, ())


def test_what_objects_copy_that_exceed_a_limit_is_limited_in_all() -> None:
    refused = pod(image="nginx", env=DOUBLED)
    containers, faults = read([*[refused] * 40, pod(**SERVING, env=[{"name": "A", "value": "1"}])])
    assert (faults, len(containers)) == ([], 41)
    assert {fault.message for container in containers for fault in container.faults} == {COPIED}


def test_the_number_of_copies_of_a_config_map_is_limited() -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {f"K{i}": "x" for i in range(2000)},
    }
    container = {
        **SERVING,
        "envFrom": [{"configMapRef": {"name": "c"}}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    spec = {"volumes": [{"name": "v", "configMap": {"name": "c"}}], "containers": [container] * 40}
    containers, faults = read([config, {"apiVersion": "v1", "kind": "Pod", "spec": spec}])
    assert faults == []
    assert [[fault.message for fault in container.faults] for container in containers] == [[COPIED]]


def _copied(container: Container) -> int:
    """The characters of an engine's variables and files."""
    return sum(len(text or "") for text in (*container.env.values(), *container.files.values()))


def test_the_number_of_copies_of_shared_variables_and_runtimes_is_limited() -> None:
    env = [{"name": f"K{i}", "value": "x"} for i in range(2000)]
    runtime = {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": {"name": "r"},
        "spec": {"containers": [{"name": "kserve-container", "command": ["vllm", "serve"], "env": env}]},
    }
    stacks = {"servingEngineSpec": {"env": env, "modelSpec": [{"modelURL": "a/b"}] * 40}}
    options = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"inference_config.yaml": "{}" + " " * 200_000},
    }
    workspace = {
        "apiVersion": "kaito.sh/v1beta1",
        "kind": "Workspace",
        "inference": {"preset": {"name": "phi-4"}, "config": "c"},
    }
    configs = {
        "servingEngineSpec": {"configs": {f"K{i}": "x" for i in range(4000)}, "modelSpec": [{"modelURL": "a/b"}] * 40}
    }
    assert [fault.message for fault in read(stacks)[1]] == [COPIED]
    assert [fault.message for fault in read(configs)[1]] == [COPIED]
    for objects in ([runtime, *[predictor(runtime="r")] * 40], [options, *[workspace] * 40]):
        containers, faults = read(objects)
        assert (faults, {fault.message for container in containers for fault in container.faults}) == ([], {COPIED})
        assert sum(_copied(container) for container in containers) <= MAX_COPIED


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["vllm serve", "{{", "$(A)"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
DOCUMENTS = {path.stem: content(path) for path in FIXTURES}


def places(value: Any, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(place for key, child in children for place in places(child, (*here, key)))]


def with_junk(value: Any, place: tuple[str | int, ...], junk: object) -> Any:
    if not place:
        return junk
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = with_junk(value[place[0]], place[1:], junk)
    return copy


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    document = DOCUMENTS[draw(st.sampled_from(sorted(DOCUMENTS)))]
    for _ in range(draw(st.integers(1, 4))):
        document = with_junk(document, draw(st.sampled_from(places(document))), draw(JUNK))
    return document


def resolves(document: Any, pointer: str) -> bool:
    """Whether a pointer leads to a value of the document, or to a field that the document leaves out."""
    for token in pointer.removeprefix("/manifest").split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(document, list):
            if not key.isdecimal() or int(key) >= len(document):
                return False
            document = document[int(key)]
        elif isinstance(document, dict):
            document = document.get(key)
        else:
            return document is None
    return True


@settings(max_examples=2 * settings().max_examples)
@given(mutated())
def test_no_manifest_raises_an_exception(document: Any) -> None:
    containers, faults = read(document)
    for fault in faults:
        assert fault.pointer.startswith("/manifest")
        assert resolves(document, fault.pointer)
        assert fault.message
    for container in containers:
        assert len(container.words) == len(container.places)
        assert msgspec.convert(msgspec.to_builtins(container, enc_hook=str), Container) == container


@given(JUNK)
def test_junk_is_refused_or_has_no_engines(document: object) -> None:
    containers, faults = read(document)
    assert all(container.faults and not container.words for container in containers)
    assert faults or isinstance(document, list | dict)


@pytest.mark.parametrize(
    ("sidecar", "is_engine"),
    [
        (
            {"enabled": True, "image": {"registry": "docker.io", "name": "vllm/vllm-openai:v0.23.0"}, "args": ["a/b"]},
            True,
        ),
        ({"enabled": True, "image": {"name": "a"}, "command": ["vllm", "serve"], "args": ["a/b"]}, True),
        ({"enabled": False, "image": {"name": "a"}, "command": ["vllm", "serve", "a/b"]}, False),
        ({"enabled": None, "image": {"name": "a"}, "command": ["vllm", "serve", "a/b"]}, False),
        ({"image": {"name": "a"}, "command": ["vllm", "serve", "a/b"]}, False),
        ({"enabled": True, "image": {"name": "nginx"}, "args": ["a"]}, False),
        (None, False),
    ],
)
def test_the_sidecar_of_a_runtime_may_start_vllm(sidecar: object, *, is_engine: bool) -> None:
    spec = {"model": {"modelURL": "a/b"}, "deploymentConfig": {"sidecarConfig": sidecar}}
    document = {"apiVersion": "production-stack.vllm.ai/v1alpha1", "kind": "VLLMRuntime", "spec": spec}
    containers, faults = read(document)
    assert ([container.words for container in containers[1:]], faults) == (
        [["vllm", "serve", "a/b"]] if is_engine else [],
        [],
    )


CACHE = {"LMCACHE_LOG_LEVEL": "DEBUG", "LMCACHE_USE_EXPERIMENTAL": "True", "VLLM_RPC_TIMEOUT": "1000000"}
CPU = {"LMCACHE_LOCAL_CPU": "True", "LMCACHE_MAX_LOCAL_CPU_SIZE": "4Gi"}
DISK = {"LMCACHE_LOCAL_DISK": "True", "LMCACHE_MAX_LOCAL_DISK_SIZE": "8Gi"}


@table(
    ("cache", "variables"),
    [
        ({"enabled": False}, {}),
        ({"enabled": True}, CACHE | CPU | DISK),
        ({"enabled": True, "cpuOffloadingBufferSize": "", "diskOffloadingBufferSize": ""}, CACHE),
        (
            {"enabled": True, "cpuOffloadingBufferSize": "60", "diskOffloadingBufferSize": ""},
            CACHE | CPU | {"LMCACHE_MAX_LOCAL_CPU_SIZE": "60"},
        ),
        (
            {"enabled": True, "remoteUrl": "lm://h:8080", "remoteSerde": "naive"},
            CACHE | CPU | DISK | {"LMCACHE_REMOTE_URL": "lm://h:8080", "LMCACHE_REMOTE_SERDE": "naive"},
        ),
    ],
)
def test_a_runtime_has_the_variables_of_lmcache(cache: dict[str, Any], variables: dict[str, str]) -> None:
    spec = {"model": {"modelURL": "a/b"}, "lmCacheConfig": cache}
    document = {"apiVersion": "production-stack.vllm.ai/v1alpha1", "kind": "VLLMRuntime", "spec": spec}
    (container,), faults = read(document)
    assert (container.env, faults) == ({"VLLM_USE_V1": "0", **variables}, [])


UNREAD: list[tuple[Any, str]] = [
    ({"name": "s", "env": [{"name": "A", "value": 1}]}, "expected a string in quotes, got `1`"),
    ({"name": "s", "args": "x"}, "expected a list, got `x`"),
    (3, "expected an object, got `3`"),
]


@table("is_list", [False, True])
@table("is_first", [False, True])
@table(("sidecar", "fault"), UNREAD)
def test_a_container_that_cannot_be_read_does_not_affect_the_engine_beside_it(
    sidecar: Any, fault: str, *, is_first: bool, is_list: bool
) -> None:
    engine = {"name": "v", "image": "vllm/vllm-openai:v0.23.0", "args": ["--model", "a/b"]}
    containers = [sidecar, engine] if is_first else [engine, sidecar]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
    faults: list[RequestFault] = []
    found = read_manifest([pod] if is_list else pod, "", faults)
    assert [(each.words, [fault.message for fault in each.faults]) for each in found] == [
        (["--model", "a/b"], []),
        ([], [fault]),
    ]
    assert faults == []


def test_an_engine_that_cannot_be_read_is_a_fault_of_its_object() -> None:
    engine = {"name": "v", "image": "vllm/vllm-openai:v0.23.0", "args": 1}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [engine, {"name": "s", "args": 2}]}}
    faults: list[RequestFault] = []
    assert read_manifest(pod, "", faults) == []
    assert [fault.pointer for fault in faults] == ["/spec/containers/0/args", "/spec/containers/1/args"]


def test_the_faults_of_many_containers_are_bounded() -> None:
    engine = {"name": "v", "image": "vllm/vllm-openai:v0.23.0", "args": ["--model", "a/b"]}
    sidecar = {"name": "s", "args": [1] * 50}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [*[sidecar] * 200, engine]}}
    found = read_manifest(pod, "", [])
    assert sum(len(each.faults) for each in found) < 1500
