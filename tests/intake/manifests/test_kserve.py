"""KServe: the image, the parallel sizes and the containers that its controllers run, and the releases of these."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest, shipped_images
from tables import table

from policy.errors import RequestInvalid
from policy.intake.command.launcher import find_server
from policy.intake.command.vllm_command import ServerCommand
from policy.intake.manifests import registry
from policy.intake.manifests.kserve import MODEL_ID_DOUBT
from policy.intake.manifests.kserve_multinode import HIDDEN_FOLDER
from policy.intake.result import require_known_values
from policy.request.manifest import requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest

if TYPE_CHECKING:
    from deployments import Asking

    from policy.errors import RequestFault
    from policy.intake.command_line import Container

TODAY = date(2026, 1, 1)
IMAGE = "vllm/vllm-openai:v0.23.0"
SCRIPT = 'exec vllm serve dense --pipeline-parallel-size "${PIPELINE_PARALLEL_SIZE:-1}" '
SIZED = SCRIPT + '--tensor-parallel-size "${TENSOR_PARALLEL_SIZE:-1}"'


def runtime(kind: str = "ServingRuntime", image: str = IMAGE, **spec: Any) -> dict[str, Any]:
    container = {"name": "kserve-container", "image": image, "command": ["bash", "-c", SIZED]}
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "r"},
        "spec": {"containers": [container], **spec},
    }


def service(model: dict[str, Any] | None = None, **predictor: Any) -> dict[str, Any]:
    written = {"modelFormat": {"name": "vLLM"}, "runtime": "r", **(model or {})}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "s"},
        "spec": {"predictor": {"model": written, **predictor}},
    }


def model_of(*documents: dict[str, Any]) -> Container:
    faults: list[RequestFault] = []
    found = [each for each in read_manifest(list(documents), "", faults) if each.path.endswith("predictor.model")]
    assert (len(found), faults) == (1, [])
    return found[0]


def requests(ask: Asking, *documents: dict[str, Any]) -> dict[str, Request]:
    configs = ask.request(["--model", "dense"])["deployment"]["model_configs"]
    document = {"manifest": list(documents), "model_configs": configs}
    asked = read_request_or_manifest(document, ask.policy.releases)
    assert isinstance(asked, Manifest)
    found = requests_of(asked, ask.policy.releases)
    return {path: request for path, request in found if isinstance(request, Request)}


@table("kind", ["ServingRuntime", "ClusterServingRuntime"])
@table(
    ("image", "version", "expected", "release"),
    [
        (IMAGE, "v0.33.0", "vllm/vllm-openai:v0.33.0", "0.33.0"),
        ("vllm/vllm-openai", "v0.33.0", "vllm/vllm-openai:v0.33.0", "0.33.0"),
        ("vllm/vllm-openai:", "0.33.0", "vllm/vllm-openai:0.33.0", "0.33.0"),
        ("mirror:5000/vllm/vllm-openai", "v0.33.0", "mirror:5000/vllm/vllm-openai:v0.33.0", "0.33.0"),
        ("mirror:5000/vllm/vllm-openai:v0.23.0-cu129", "v0.33.0", "mirror:5000/vllm/vllm-openai:v0.33.0", "0.33.0"),
        ("vllm/vllm-openai@sha256:00", "v0.33.0", "vllm/vllm-openai@sha256:00", None),
        ("vllm/vllm-openai:v0.23.0@sha256:00", "v0.33.0", "vllm/vllm-openai:v0.23.0@sha256:00", "0.23.0"),
        (IMAGE, "latest", "vllm/vllm-openai:latest", None),
        (IMAGE, "", "vllm/vllm-openai:", None),
        (IMAGE, None, IMAGE, "0.23.0"),
    ],
)
def test_the_version_of_a_predictor_replaces_the_tag_of_its_image(
    kind: str, image: str, version: str | None, expected: str, release: str | None
) -> None:
    of_runtime = model_of(runtime(kind, image), service({"runtimeVersion": version}))
    assert (of_runtime.image, of_runtime.vllm_version) == (expected, release)
    own = model_of(runtime(kind), service({"image": image, "runtimeVersion": version}))
    assert (own.image, own.vllm_version) == (expected, release)


def test_a_predictor_without_a_runtime_in_the_manifest_has_its_version_too() -> None:
    found = model_of(service({"image": IMAGE, "runtimeVersion": "v0.33.0"}))
    assert (found.image, found.vllm_version) == ("vllm/vllm-openai:v0.33.0", "0.33.0")


@table(
    ("model", "image", "release"),
    [
        ({"runtime": "kserve-vllmserver"}, "vllm/vllm-openai:v0.33.0", "0.33.0"),
        ({"runtime": "kserve-vllmserver-multinode"}, "vllm/vllm-openai:v0.33.0", "0.33.0"),
        ({"runtime": None}, "vllm/vllm-openai:v0.33.0", "0.33.0"),
        ({"runtime": "mine"}, None, None),
        (
            {"modelFormat": {"name": "huggingface"}, "runtime": "kserve-huggingfaceserver", "args": ["--model_id=m"]},
            "kserve/huggingfaceserver:v0.33.0",
            None,
        ),
    ],
)
def test_a_version_is_the_tag_of_the_image_that_kserve_ships(
    model: dict[str, Any], image: str | None, release: str | None
) -> None:
    found = model_of(service(model | GPU | {"runtimeVersion": "v0.33.0"}))
    assert (found.image, found.vllm_version) == (image, release)
    assert found != model_of(service(model | GPU))
    own = f"`runtimeVersion` is the tag of the image of KServe's own runtime, which is assumed to be `{image}`"
    other = "`runtimeVersion` `v0.33.0` is the tag of the runtime's image, which is not known"
    assert (own if image else other) in found.notes
    assert (other in found.doubts) is (image is None)


RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
MIG = {"resources": {"limits": {"nvidia.com/mig-1g.5gb": "1"}}}
GPUS = {"resources": {"limits": {"nvidia.com/gpu": 2}}}
AMD = {"resources": {"limits": {"amd.com/gpu": "1"}}}
REQUESTED = {"resources": {"requests": {"nvidia.com/gpu": "1"}}}
HUGGINGFACE = {"modelFormat": {"name": "huggingface"}, "runtime": None, "args": ["--model_id=dense"]}
VLLM = {"modelFormat": {"name": "vLLM"}, "runtime": None}
OWN = "kserve/huggingfaceserver"
CPU_NOTE = "KServe runs the CPU build of the image, so the platform is `cpu`"
UNKNOWN_NOTE = "and the image does not show whether it is a CPU build; state the platform"


@table(
    ("model", "image", "platform", "note"),
    [
        (HUGGINGFACE, None, "cpu", CPU_NOTE),
        (HUGGINGFACE | AMD, None, "cpu", CPU_NOTE),
        (HUGGINGFACE | REQUESTED, None, "cpu", CPU_NOTE),
        (HUGGINGFACE | GPU, None, None, None),
        (HUGGINGFACE | MIG, None, None, None),
        (HUGGINGFACE | {"runtime": "kserve-huggingfaceserver"}, None, "cpu", CPU_NOTE),
        (HUGGINGFACE | {"runtimeVersion": "v0.20.0"} | GPU, f"{OWN}:v0.20.0", "cpu", CPU_NOTE),
        (HUGGINGFACE | {"runtimeVersion": "v0.20.0-gpu"}, f"{OWN}:v0.20.0-gpu", None, None),
        (HUGGINGFACE | {"image": f"{OWN}:v0.20.0"}, f"{OWN}:v0.20.0", "cpu", CPU_NOTE),
        (HUGGINGFACE | {"image": f"{OWN}:v0.20.0"} | GPU, f"{OWN}:v0.20.0-gpu", None, None),
        (HUGGINGFACE | {"image": f"{OWN}:v0.20.0-gpu"}, f"{OWN}:v0.20.0-gpu", None, None),
        (HUGGINGFACE | {"image": "mine/server:v1"}, "mine/server:v1", None, UNKNOWN_NOTE),
        (HUGGINGFACE | {"image": "mine/server:v1"} | GPU, "mine/server:v1-gpu", None, None),
        (VLLM, None, "cpu", CPU_NOTE),
        (VLLM | AMD, None, "cpu", CPU_NOTE),
        (VLLM | GPU, None, None, None),
        (VLLM | {"runtimeVersion": "v0.23.0"}, IMAGE, None, UNKNOWN_NOTE),
        (VLLM | {"image": IMAGE}, "vllm/vllm-openai-cpu:v0.23.0", "cpu", CPU_NOTE),
        (VLLM | {"image": IMAGE} | MIG, IMAGE, None, None),
        (VLLM | {"image": "vllm/vllm-openai-cpu:v0.23.0"}, "vllm/vllm-openai-cpu:v0.23.0", "cpu", CPU_NOTE),
        (VLLM | {"image": f"{IMAGE}@sha256:00"}, f"{IMAGE}@sha256:00", None, UNKNOWN_NOTE),
    ],
)
def test_without_a_gpu_a_predictor_runs_the_cpu_build_of_its_image(
    model: dict[str, Any], image: str | None, platform: str | None, note: str | None
) -> None:
    found = model_of(service(model))
    about = [each for each in found.notes if "CPU build" in each]
    assert (found.image, found.platform, len(about)) == (image, platform, 0 if note is None else 1)
    assert note is None or about[0].endswith(note)


def server(kind: str | None, name: str = "r", **limits: str) -> dict[str, Any]:
    """A runtime of the manifest with the annotation by which KServe chooses the build of its image."""
    found = runtime()
    found["metadata"] = (
        {"name": name, "annotations": {"serving.kserve.io/server-type": kind}} if kind else {"name": name}
    )
    found["spec"]["containers"][0]["resources"] = {"limits": limits}
    return found


@table(
    ("document", "model", "image"),
    [
        (server("vllmserver"), {}, "vllm/vllm-openai-cpu:v0.23.0"),
        (server("vllmserver", **{"nvidia.com/gpu": "1"}), {}, IMAGE),
        (server("vllmserver"), GPU, IMAGE),
        (server("vllmserver"), {"runtimeVersion": "v0.24.0"}, "vllm/vllm-openai:v0.24.0"),
        (server(None, "kserve-vllmserver"), {"runtime": "kserve-vllmserver"}, "vllm/vllm-openai-cpu:v0.23.0"),
        (server("sklearnserver", "kserve-vllmserver"), {"runtime": "kserve-vllmserver"}, IMAGE),
        (server(None), {}, IMAGE),
    ],
)
def test_a_runtime_of_the_manifest_has_the_server_of_its_annotation_or_name(
    document: dict[str, Any], model: dict[str, Any], image: str
) -> None:
    assert model_of(document, service(model)).image == image


@pytest.mark.parametrize("workers", [{}, {"pipelineParallelSize": 2}])
def test_a_predictor_with_workers_runs_on_gpus(workers: dict[str, int]) -> None:
    assert model_of(service(HUGGINGFACE, workerSpec=workers)).platform is None


def test_the_platform_of_the_chosen_build_is_decided_for_unless_the_request_states_another(ask: Asking) -> None:
    configs = ask.request(["--model", "dense"])["deployment"]["model_configs"]
    whole = {"manifest": service(HUGGINGFACE), "model_configs": configs, "vllm_version": "0.33.0"}
    for environment, runner, origin in (
        ({"has_triton": False}, "v1", "image"),
        ({"platform": "cuda"}, "v2", "environment.platform"),
    ):
        asked = read_request_or_manifest({**whole, "environment": environment}, ask.policy.releases)
        assert isinstance(asked, Manifest)
        ((_, request),) = requests_of(asked, ask.policy.releases)
        assert isinstance(request, Request)
        decision = ask.policy.decide(request, TODAY)
        assert decision.facts
        assert (decision.runner, decision.facts["platform.is_unspecified"].from_) == (runner, origin)
        contradiction = (
            "the image that the controller chooses is for the platform `cpu`; decided for `cuda`, which the request "
            "states"
        )
        assert (contradiction in decision.warnings) is ("platform" in environment)


PACKAGES = "/usr/local/lib/python3.12/dist-packages"


def test_a_mount_of_a_predictor_may_contain_another_vllm() -> None:
    mounts = [{"name": "v", "mountPath": PACKAGES}]
    found = model_of(runtime(), service({"volumeMounts": mounts})).installation
    assert found is not None
    assert (found.version, found.cause) == (None, f"the mount at `{PACKAGES}` may make another vLLM run")
    assert model_of(runtime(), service()).installation is None


WORKERS: dict[str, Any] = {"containers": [{"name": "worker-container", "image": IMAGE, "command": ["sleep", "1"]}]}
RUNTIME_SIZES: dict[str, Any] = {"workerSpec": {**WORKERS, "pipelineParallelSize": 3, "tensorParallelSize": 5}}


@table(
    ("of_runtime", "workers", "expected"),
    [
        ({}, None, (1, 1)),
        (RUNTIME_SIZES, None, (1, 1)),
        (RUNTIME_SIZES, {}, (3, 5)),
        (RUNTIME_SIZES, {"pipelineParallelSize": 2}, (2, 5)),
        (RUNTIME_SIZES, {"pipelineParallelSize": 2, "tensorParallelSize": 4}, (2, 4)),
        ({"workerSpec": WORKERS}, {"tensorParallelSize": 4}, (1, 4)),
        ({"workerSpec": WORKERS}, {}, (1, 1)),
    ],
)
def test_the_sizes_of_a_predictor_with_workers_are_variables(
    ask: Asking, of_runtime: dict[str, Any], workers: dict[str, int] | None, expected: tuple[int, int]
) -> None:
    predictor = {} if workers is None else {"workerSpec": workers}
    found = requests(ask, runtime(**of_runtime), service(**predictor))
    facts = ask.policy.decide(found["[1].spec.predictor.model"], TODAY).facts
    assert facts
    sizes = [facts[f"parallel_config.{name}_parallel_size"].value for name in ("pipeline", "tensor")]
    assert tuple(sizes) == expected


def test_workers_of_a_predictor_have_the_sizes_as_variables() -> None:
    container = {"image": IMAGE, "command": ["bash", "-c", SIZED]}
    document = service(workerSpec={"containers": [container], "pipelineParallelSize": 2})
    worker, model = read_manifest([runtime(**RUNTIME_SIZES), document], "", [])[1:]
    assert worker.path == "[1].spec.predictor.workerSpec.containers[0]"
    sizes = {"PIPELINE_PARALLEL_SIZE": "2", "TENSOR_PARALLEL_SIZE": "5", "RAY_NODE_COUNT": None}
    assert worker.env == {**sizes, "REQUEST_GPU_COUNT": None}
    assert model.env == {**worker.env, "MODEL_NAME": "s"}


@pytest.mark.parametrize("scheme", ["pvc", "oci", "hf"])
def test_a_predictor_with_workers_has_the_variables_of_its_model(scheme: str) -> None:
    model = {"storageUri": f"{scheme}://a/b", "env": [{"name": "MODEL_NAME", "value": "other"}]}
    env = model_of(runtime(**RUNTIME_SIZES), service(model, workerSpec={})).env
    assert (env["MODEL_NAME"], env.get("MODEL_DIR")) == ("s", None if scheme == "hf" else "/mnt/models")


def test_the_sizes_of_a_runtime_with_workers_are_not_known_without_a_predictor() -> None:
    (found,) = read_manifest(runtime(**RUNTIME_SIZES), "", [])
    assert (found.env["PIPELINE_PARALLEL_SIZE"], found.env["TENSOR_PARALLEL_SIZE"]) == (None, None)


def test_workers_with_a_runtime_that_is_not_in_the_manifest_get_a_warning() -> None:
    found = model_of(service(workerSpec={"pipelineParallelSize": 2}))
    for messages in (found.notes, found.doubts):
        assert any(message.startswith("`workerSpec` needs a runtime with workers") for message in messages)
    assert (found.env["PIPELINE_PARALLEL_SIZE"], found.env["TENSOR_PARALLEL_SIZE"]) == ("2", None)


def placed(document: dict[str, Any], namespace: str | None) -> dict[str, Any]:
    metadata = document["metadata"] | ({} if namespace is None else {"namespace": namespace})
    return document | {"metadata": metadata}


def of(version: str, namespace: str | None = None, **spec: Any) -> dict[str, Any]:
    """A runtime of a namespace, or `cluster`."""
    kind = "ClusterServingRuntime" if namespace == "cluster" else "ServingRuntime"
    return placed(runtime(kind, f"{NAME}:{version}", **spec), None if namespace == "cluster" else namespace)


NAME = "vllm/vllm-openai"
SEVERAL = (
    "several runtimes of the manifest may be the runtime `r`, and one of them is assumed; give each object once, with "
    "its `metadata.namespace`"
)


@table("is_reversed", [False, True])
@table(
    ("namespace", "runtimes", "expected", "is_certain"),
    [
        ("d", [of("v0.33.0", "d"), of("v0.21.0", "cluster")], "v0.33.0", True),
        ("d", [of("v0.33.0", "d"), of("v0.21.0", "e")], "v0.33.0", True),
        ("d", [of("v0.33.0", "d"), of("v0.21.0")], "v0.33.0", True),
        ("d", [of("v0.33.0", "cluster"), of("v0.21.0", "e")], "v0.33.0", True),
        ("d", [of("v0.33.0")], "v0.33.0", True),
        ("d", [of("v0.33.0"), of("v0.21.0", "e")], "v0.33.0", True),
        ("d", [of("v0.33.0"), of("v0.21.0", "cluster")], "v0.33.0", False),
        ("d", [of("v0.33.0", "d"), of("v0.33.0", "d")], "v0.33.0", True),
        (None, [of("v0.33.0"), of("v0.21.0", "cluster")], "v0.33.0", True),
        (None, [of("v0.33.0"), of("v0.21.0", "e")], "v0.33.0", True),
        (None, [of("v0.33.0", "e")], "v0.33.0", True),
        (None, [of("v0.33.0", "e"), of("v0.21.0", "cluster")], "v0.33.0", False),
    ],
)
def test_a_service_has_the_runtime_of_its_namespace_else_that_of_the_cluster(
    namespace: str | None, runtimes: list[dict[str, Any]], expected: str, *, is_certain: bool, is_reversed: bool
) -> None:
    documents = runtimes[::-1] if is_reversed else runtimes
    found = model_of(*documents, placed(service(GPU), namespace))
    assert (found.image, found.doubts) == (f"{NAME}:{expected}", [] if is_certain else [SEVERAL])
    assert (SEVERAL in found.notes) is not is_certain


@pytest.mark.parametrize(
    ("namespace", "runtimes"),
    [
        ("d", [of("v0.21.0", "d"), of("v0.33.0", "d")]),
        ("d", [of("v0.21.0", "d"), of("v0.33.0", "d"), of("v0.33.0", "d")]),
        ("d", [of("v0.21.0", "cluster"), of("v0.33.0", "cluster")]),
        (None, [of("v0.21.0", "d"), of("v0.33.0", "e")]),
    ],
)
def test_one_of_several_runtimes_that_may_be_meant_is_a_doubt(
    ask: Asking, namespace: str | None, runtimes: list[dict[str, Any]]
) -> None:
    found = model_of(*runtimes, placed(service(GPU), namespace))
    assert (found.image, found.doubts) == (f"{NAME}:v0.33.0", [SEVERAL])
    *_, request = requests(ask, *runtimes, placed(service(GPU), namespace)).values()
    result = ask.policy.evaluate(request, TODAY)
    assert result.intake is not None
    assert result.intake.warnings.count(SEVERAL) == 1
    with pytest.raises(RequestInvalid, match="several runtimes of the manifest"):
        require_known_values(result.intake, "")


def test_a_runtime_of_another_namespace_is_not_in_the_manifest() -> None:
    found = model_of(of("v0.21.0", "e"), placed(service(GPU), "d"))
    assert found.image is None
    assert any(NOT_IN_THE_MANIFEST in doubt for doubt in found.doubts)


@pytest.mark.parametrize(
    ("runtimes", "is_disabled"),
    [
        ([of("v0.33.0", "d", disabled=True)], True),
        ([of("v0.33.0", "d", disabled=True), of("v0.33.0", "cluster")], True),
        ([of("v0.33.0", "d"), of("v0.33.0", "cluster", disabled=True)], False),
        ([of("v0.33.0", "cluster", disabled=True)], True),
        ([of("v0.33.0", "d", disabled=False)], False),
    ],
)
def test_a_disabled_runtime_is_a_problem(runtimes: list[dict[str, Any]], *, is_disabled: bool) -> None:
    found = model_of(*runtimes, placed(service(GPU), "d"))
    assert found.problem == (
        "the runtime `r` is disabled (`spec.disabled`), so that KServe starts nothing; enable it, or name another one"
        if is_disabled
        else ""
    )


NOT_IN_THE_MANIFEST = "is not in the manifest; its own arguments and variables are not known"


@table(
    ("format_name", "name", "is_doubtful"),
    [
        ("vLLM", "mine", True),
        ("vllm", "kserve-huggingfaceserver", True),
        ("vLLM", "kserve-vllmserver", False),
        ("vLLM", None, False),
        ("huggingface", "my-vllm", True),
        ("huggingface", "mine", True),
        ("HuggingFace", "kserve-vllmserver", True),
        ("huggingface", "kserve-huggingfaceserver", False),
        ("huggingface", "kserve-huggingfaceserver-multinode", False),
        ("huggingface", None, False),
        ("custom", "mine", True),
        ("custom", "kserve-torchserve", False),
    ],
)
def test_a_runtime_that_is_neither_in_the_manifest_nor_shipped_is_a_doubt(
    ask: Asking, format_name: str, name: str | None, *, is_doubtful: bool
) -> None:
    model: dict[str, Any] = {"modelFormat": {"name": format_name}, "runtime": name, "storageUri": "hf://dense"}
    model |= {"command": ["vllm", "serve", "dense"]} if format_name == "custom" else {}
    (container,) = read_manifest(service(model), "", [])
    assert any(f"the runtime `{name}` {NOT_IN_THE_MANIFEST}" in note for note in container.notes) is is_doubtful
    assert bool(container.doubts) is is_doubtful
    (request,) = requests(ask, service(model | {"storageUri": None, "args": ["--model_id=dense"]})).values()
    if format_name.lower() == "vllm":
        return
    result = ask.policy.evaluate(request, TODAY)
    assert result.intake is not None
    assert result.intake.doubts == container.doubts
    assert all(doubt in result.intake.warnings for doubt in container.doubts)
    if is_doubtful:
        with pytest.raises(RequestInvalid, match=NOT_IN_THE_MANIFEST):
            require_known_values(result.intake, "")
    else:
        require_known_values(result.intake, "")


SHOWS_VLLM: list[dict[str, Any]] = [
    {"args": ["--tensor-parallel-size", "2"]},
    {"args": ["--tensor_parallel_size=2"]},
    {"args": ["-tp=2"]},
    {"args": ["--enable-dbo"]},
    {"args": ["--backend=vllm"]},
    {"env": [{"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "1"}]},
    {"env": [{"name": "VLLM_API_KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
    {"runtime": "my-vllm"},
    {"runtime": "vLLM_runtime"},
    {"image": "vllm/vllm-openai:v0.23.0"},
]


@table("format_name", ["pytorch", "custom", "", None])
@table("model", SHOWS_VLLM)
def test_an_unknown_runtime_of_another_format_that_shows_vllm_cannot_be_decided(
    format_name: str | None, model: dict[str, Any]
) -> None:
    written = {"modelFormat": {"name": format_name}, "runtime": "mine", "storageUri": "hf://a/b", **model}
    found = model_of(service(written))
    name = written["runtime"]
    assert found.problem.startswith(f"the runtime `{name}` is not in the manifest, and its name or the predictor's")
    if "runtime" not in model:
        assert model_of(service({**written, "runtime": None})).problem.startswith("the runtime is not in the manifest")


def test_a_custom_runtime_with_its_own_vllm_is_undecided_whatever_backend_its_arguments_name() -> None:
    written = {"modelFormat": {"name": "huggingface"}, "runtime": "my-vllm", "args": ["--backend=huggingface"]}
    assert model_of(service(written)).problem


@pytest.mark.parametrize(
    "model",
    [
        {"args": ["--port=8080", "--model", "a"]},
        {"env": [{"name": "A", "value": "vllm"}]},
        {"args": ["--workers=2"], "runtime": None},
        {"args": ["--enable-dbo"], "runtime": "kserve-torchserve"},
        {"modelFormat": {"name": "huggingface"}, "args": ["--backend=huggingface"]},
    ],
)
def test_an_unknown_runtime_that_does_not_show_vllm_is_ignored(model: dict[str, Any]) -> None:
    faults: list[RequestFault] = []
    written = {"modelFormat": {"name": "custom"}, "runtime": "mine", **model}
    assert (read_manifest(service(written), "", faults), faults) == ([], [])


def llm(**spec: Any) -> dict[str, Any]:
    model = {"uri": "hf://Qwen/Qwen3-8B"}
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "spec": {"model": model, **spec},
    }


MAIN = {"name": "main", "image": IMAGE}
OTHER = {"name": "other", "image": "a.example/own:1", "command": ["vllm", "serve", "other"]}
BOTH = {"containers": [MAIN, OTHER]}
ROUTER = {"scheduler": {"template": BOTH}}


@table(
    ("spec", "paths"),
    [
        ({"template": BOTH}, ["spec.template.containers[0]", "spec.template.containers[1]"]),
        ({"template": {"containers": [OTHER, MAIN]}}, ["spec.template.containers[1]", "spec.template.containers[0]"]),
        ({"template": {"containers": [OTHER]}}, ["spec", "spec.template.containers[0]"]),
        (
            {"template": {"containers": [MAIN], "initContainers": [{**OTHER, "restartPolicy": "Always"}]}},
            ["spec.template.containers[0]", "spec.template.initContainers[0]"],
        ),
        (
            {"template": {"containers": [MAIN], "initContainers": [OTHER]}},
            ["spec.template.containers[0]", "spec.template.initContainers[0]"],
        ),
        (
            {"parallelism": {"data": 2}, "worker": BOTH},
            ["spec", "spec.worker.containers[0]", "spec.worker.containers[1]"],
        ),
        (
            {"prefill": {"template": BOTH}},
            ["spec", "spec.prefill.template.containers[0]", "spec.prefill.template.containers[1]"],
        ),
        (
            {"router": ROUTER},
            ["spec", "spec.router.scheduler.template.containers[0]", "spec.router.scheduler.template.containers[1]"],
        ),
        ({"router": {"scheduler": {}, "gateway": {}}}, ["spec"]),
        ({"template": {"containers": [MAIN, {**OTHER, "command": ["sleep", "1"]}]}}, ["spec.template.containers[0]"]),
    ],
)
def test_every_container_of_a_service_that_starts_vllm_is_an_engine(spec: dict[str, Any], paths: list[str]) -> None:
    faults: list[RequestFault] = []
    found = read_manifest(llm(**spec), "", faults)
    assert ([each.path for each in found], faults) == (paths, [])
    words = {each.path: each.words for each in found if each.image == OTHER["image"]}
    assert all(each == OTHER["command"] for each in words.values())


@pytest.mark.parametrize(
    ("name", "members", "is_engine"),
    [
        ("huggingface", {"storageUri": "hf://a/b", "args": ["--enable-dbo"]}, True),
        ("huggingface", {"storageUri": "hf://a/b", "args": ["--backend=huggingface"]}, False),
        ("pytorch", {"image": "vllm/vllm-openai:v0.23.0", "command": ["vllm", "serve", "a/b", "--nope"]}, True),
        ("sklearn", {"args": ["--enable-dbo"]}, True),
        ("sklearn", {"storageUri": "gs://a/b"}, False),
    ],
)
def test_a_predictor_in_the_field_of_its_format_is_read_as_a_model(
    name: str, members: dict[str, Any], *, is_engine: bool
) -> None:
    faults: list[RequestFault] = []
    service = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService"}
    old = read_manifest({**service, "spec": {"predictor": {name: members}}}, "", faults)
    model = {"modelFormat": {"name": name}, **members}
    new = read_manifest({**service, "spec": {"predictor": {"model": model}}}, "", faults)
    assert (faults, len(old)) == ([], int(is_engine))
    assert [(each.words, each.problem, each.doubts) for each in old] == [
        (each.words, each.problem, each.doubts) for each in new
    ]


@pytest.mark.parametrize(
    ("args", "words", "ignored"),
    [
        (["--num-speculative-tokens 5"], [], ["args[1]"]),
        (["--dtype auto", "--enforce-eager"], ["--enforce-eager"], ["args[1]"]),
        (["--dtype=auto x"], ["--dtype=auto x"], []),
        (["--hf-overrides", '{"a": 1}'], ["--hf-overrides", '{"a": 1}'], []),
    ],
)
def test_the_hugging_face_server_ignores_a_flag_and_its_value_in_one_argument(
    args: list[str], words: list[str], ignored: list[str]
) -> None:
    found = model_of(service(HUGGINGFACE | GPU | {"args": ["--model_id=dense", *args]}))
    assert found.words[3:] == [*words, "--tensor-parallel-size", "1"]
    assert [note.partition(":")[0] for note in found.notes if "ignores" in note] == ignored


@table(
    ("base", "own", "expected"),
    [
        (GPUS, {}, ["2"]),
        (GPUS, {"args": ["--tensor-parallel-size=4"]}, ["4", "2"]),
        (GPU, GPUS, ["2"]),
        ({}, GPUS, ["2"]),
        ({}, {"args": ["--tensor-parallel-size=4"]}, ["4"]),
    ],
)
def test_kserves_server_runs_a_model_on_all_its_gpus(
    base: dict[str, Any], own: dict[str, Any], expected: list[str]
) -> None:
    container = {"name": "kserve-container", "image": f"{OWN}:v0.20.0", **base}
    spec = {"supportedModelFormats": [{"name": "huggingface"}], "containers": [container]}
    runtime = {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": {"name": "r"},
        "spec": spec,
    }
    words = " ".join(model_of(runtime, service(HUGGINGFACE | {"runtime": "r"} | own)).words).replace("=", " ")
    assert re.findall(r"--tensor-parallel-size (\S+)", words) == expected


@table("kind", ["ServingRuntime", "ClusterServingRuntime"])
@table("of", ["spec", "workerSpec"])
@table(
    ("args", "container", "expected"),
    [
        (["--model_id=dense", "--backend=vllm", "--enable-dbo"], {}, ["--model", "dense", "--enable-dbo"]),
        (["--model_id=dense"], {}, ["--model", "dense"]),
        (["--model_dir=/mnt/pvc"], {}, ["--model", "/mnt/pvc"]),
        (
            ["--model_name={{.Name}}", "--kv-transfer-config", "{}"],
            {},
            ["--model", "/mnt/models", "--kv-transfer-config", "{}"],
        ),
        (["--model_name={{.Name}}", "--enable-dbo"], GPUS, ["--model", "/mnt/models", "--enable-dbo"]),
        (["$(A)"], {"env": [{"name": "A", "value": "--enable-dbo"}]}, ["--model", "/mnt/models", "--enable-dbo"]),
        (["--model_name=a"], {"env": [{"name": RUNNER, "value": "0"}]}, ["--model", "/mnt/models"]),
        (["--model_name=a"], {"envFrom": [{"secretRef": {"name": "s"}}]}, ["--model", "/mnt/models"]),
        (["sh", "-c", "python3 -m huggingfaceserver --enable-dbo"], {}, ["--model", "/mnt/models", "--enable-dbo"]),
        (["--model_id=dense", "--backend=huggingface"], {"env": [{"name": RUNNER, "value": "0"}]}, None),
        (["--model_name={{.Name}}"], {"env": [{"name": "HF_HOME", "value": "/tmp"}]}, None),
        (["--model_name={{.Name}}", "--model_dir=/mnt/models", "--backend=vllm"], GPUS, None),
        ([], {}, None),
    ],
)
def test_a_runtime_of_kserves_server_is_read_as_in_a_pod_if_it_states_more_than_a_service_does(
    kind: str, of: str, args: list[str], container: dict[str, Any], expected: list[str] | None
) -> None:
    whole = {"name": "kserve-container", "image": f"{OWN}:v0.20.0-gpu", "args": args, **container}
    plain = {"name": "kserve-container", "image": f"{OWN}:v0.20.0-gpu", "args": ["--model_name={{.Name}}"]}
    pods = (
        {"containers": [plain], "workerSpec": {"containers": [whole]}}
        if of == "workerSpec"
        else {"containers": [whole]}
    )
    faults: list[RequestFault] = []
    found = read_manifest([runtime(kind, **pods)], "", faults)
    assert (len(found), faults) == (0 if expected is None else 1, [])
    for each in found:
        server = find_server(each.words, each.env, is_command=True, has_hidden_variables=False)
        assert isinstance(server, ServerCommand)
        assert (each.problem, server.words) == ("", expected)


def test_kserves_server_ignores_flags_that_it_does_not_know() -> None:
    args = ["--backend=vllm", "--no-such-flag", "7", "--other=8", "--max-model-len", "9", "--x"]
    found = model_of(service({"modelFormat": {"name": "huggingface"}, "runtime": None, "args": args}))
    assert found.words == ["vllm", "serve", "/mnt/models", "--max-model-len", "9"]
    ignored = [note for note in found.notes if "which it does not know" in note]
    assert [note.partition(":")[0] for note in ignored] == ["args[1]", "args[3]", "args[6]"]


@table(
    ("args", "words", "ignored"),
    [
        (["--no-such-flag=1", "x", "--seed", "1"], ["--seed", "1"], [0, 1]),
        (["--no-such-flag", "x", "y", "--seed=1", "z"], ["--seed=1"], [0, 4]),
        (["-x", "1", "--seed=1"], ["--seed=1"], [0]),
        (["--enforce-eager", "true", "-tp", "2"], ["--enforce-eager", "-tp", "2"], [1]),
        (["--served-model-name", "a", "b"], ["--served-model-name", "a", "b"], []),
        (["--tensor-parallel-siz", "2", "-cc", "{}"], ["--tensor-parallel-siz", "2", "-cc", "{}"], []),
        (["-O0", "-cc", "{}"], ["-cc", "{}"], [0]),
        (["-O", "3", "--seed", "1"], ["--seed", "1"], [0]),
        (["-O=3", "--optimization-level", "0"], ["--optimization-level", "0"], [0]),
        (["--tensor_parallel_size=2", "--max_model_len", "9"], ["--max-model-len", "9"], [0]),
        (["--max_length=9", "--trust_remote_code"], ["--max-model-len=9", "--trust-remote-code"], []),
        (["--model_revision", "a", "--tokenizer_revision=b"], ["--revision", "a", "--tokenizer-revision=b"], []),
        (["--compilation-config.level", "3", "--seed=-1", "-1"], ["--seed=-1"], [0, 3]),
        (["--return_token_type_ids", "--workers=2", "--task", "x", "--seed=1"], ["--seed=1"], []),
        (["--model", "a/b", "--config=c.yaml"], [], [0, 2]),
        (["--model_name", "--seed=1"], ["--seed=1"], []),
        (["--max_l=9", "--trust_r", "--model_n", "x", "--return_p"], ["--max-model-len=9", "--trust-remote-code"], []),
        (["--model_=9", "--return_t", "x", "--", "--seed=1"], [], [0, 2, 4]),
    ],
)
def test_kserves_server_takes_arguments_as_argparse_does(args: list[str], words: list[str], ignored: list[int]) -> None:
    found = model_of(service({"modelFormat": {"name": "huggingface"}, "runtime": None, "args": args}))
    assert found.words[3:] == words
    assert [note.partition(":")[0] for note in found.notes if "ignores" in note] == [f"args[{at}]" for at in ignored]


KSERVE_SCRIPT = "ray start --head\npython -m huggingfaceserver --tensor-parallel-size=${TENSOR_PARALLEL_SIZE} $0 $@"


@pytest.mark.parametrize(
    ("container", "model", "size"),
    [
        ({"command": ["python3", "-m", "huggingfaceserver"], "args": ["--model_id=dense"]}, "dense", 1),
        ({"command": ["python3", "-m", "huggingfaceserver.__main__"], "args": ["--model_id=dense"]}, "dense", 1),
        ({"command": ["python", "-m", "huggingfaceserver", "--model_dir", "/x"], "args": ["-tp=2"]}, "/x", 2),
        ({"image": f"{OWN}:v0.20.0-gpu", "args": ["--model_id", "dense", "--tensor-parallel-size=2"]}, "dense", 2),
        (
            {
                "command": ["bash", "-c", KSERVE_SCRIPT],
                "args": ["--model_name=m", "--no-such-flag=1"],
                "env": [{"name": "TENSOR_PARALLEL_SIZE", "value": "4"}],
            },
            "/mnt/models",
            4,
        ),
        ({"command": ["python", "-m", "huggingfaceserver", "--model_dir=/x"], **GPUS}, "/x", 2),
        ({"command": ["python", "-m", "huggingfaceserver", "--model_dir=/x", "-tp=1"], **GPUS}, "/x", 2),
        ({"command": ["sh", "-c", "exec python -m huggingfaceserver --model_dir=/x -tp 4"], **GPUS}, "/x", 2),
        ({"image": f"{OWN}:v0.20.0-gpu", "args": ["--model_id", "dense"], **GPUS}, "dense", 2),
        ({"command": ["python", "-m", "huggingfaceserver", "--model_dir=/x", "-tp=4"], **MIG}, "/x", 4),
    ],
)
def test_kserves_server_outside_of_an_inference_service_runs_vllm(
    ask: Asking, container: dict[str, Any], model: str, size: int
) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a", "image": "own:1", **container}]}}
    config = ask.request(["--model", "dense"])["deployment"]["model_configs"]["dense"]
    asked = read_request_or_manifest({"manifest": pod, "model_configs": {model: config}}, ask.policy.releases)
    assert isinstance(asked, Manifest)
    ((_, request),) = requests_of(asked, ask.policy.releases)
    assert isinstance(request, Request)
    decision = ask.policy.decide(request, TODAY)
    facts: Any = decision.facts
    assert facts["parallel_config.tensor_parallel_size"].value == size
    assert any("uses vLLM only for models that vLLM supports" in warning for warning in decision.warnings)


def test_kserves_server_that_runs_transformers_is_no_engine() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a", "image": f"{OWN}:v0.20.0"}]}}
    pod["spec"]["containers"][0]["args"] = ["--model_id=a/b", "--backend=huggingface"]  # type: ignore[index]
    assert read_manifest(pod, "", []) == []


def test_a_runtime_whose_script_starts_kserves_server_is_read_with_the_predictors_words() -> None:
    server = runtime()
    server["spec"]["containers"][0]["command"] = ["bash", "-c", KSERVE_SCRIPT]
    found = model_of(server, service({"modelFormat": {"name": "huggingface"}, "args": ["--enforce-eager"]}))
    assert (found.words, found.problem) == (["bash", "-c", KSERVE_SCRIPT, "--enforce-eager"], "")


def test_a_runtime_whose_script_may_start_kserves_server_is_a_problem() -> None:
    server = runtime()
    command = ["bash", "-c", "ray start --head\n$PYTHON -m huggingfaceserver $MODEL_DIR_ARG $0 $@"]
    server["spec"]["containers"][0]["command"] = command
    found = model_of(server, service({"modelFormat": {"name": "huggingface"}}))
    assert "starts KServe's Hugging Face server with words that are not read" in found.problem


@pytest.mark.parametrize(
    ("args", "is_problem"),
    [
        (["--model_id=a/b"], True),
        (["--model_id=a/b", "--backend", "vllm"], True),
        (["--model_id=a/b", "--backend=huggingface"], False),
        (["--model_id=a/b", "--backend", "huggingface"], False),
        (["--model_i=a/b", "--back", "huggingface"], False),
    ],
)
def test_kserves_server_in_a_pod_is_not_overlooked(args: list[str], *, is_problem: bool) -> None:
    container = {
        "name": "v",
        "image": "example.com/x:1",
        "command": ["python", "-m", "huggingfaceserver"],
        "args": args,
    }
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    assert [each.words for each in read_manifest(document, "", [])] == (
        [["python", "-m", "huggingfaceserver", *args]] if is_problem else []
    )


def selectable(name: str, *formats: dict[str, Any], kind: str = "ServingRuntime", **spec: Any) -> dict[str, Any]:
    """A runtime of the namespace `d` that KServe may select, whose variable `A` is its name."""
    found = runtime(kind, supportedModelFormats=[{"name": "custom", "autoSelect": True, **each} for each in formats])
    found["metadata"] = {"name": name, **({"namespace": "d"} if kind == "ServingRuntime" else {})}
    found["spec"]["containers"][0]["env"] = [{"name": "A", "value": name}]
    found["spec"].update(spec)
    return found


def unnamed(model: dict[str, Any] | None = None, **predictor: Any) -> dict[str, Any]:
    found = service({"modelFormat": {"name": "custom"}, **(model or {})}, **predictor)
    found["metadata"]["namespace"] = "d"
    del found["spec"]["predictor"]["model"]["runtime"]
    return found


CLUSTER: Any = {"kind": "ClusterServingRuntime"}
WITH_WORKERS: dict[str, Any] = {"workerSpec": {"containers": []}}
SELECTED: list[tuple[list[dict[str, Any]], dict[str, Any], str | None]] = [
    ([selectable("a", {})], unnamed(), "a"),
    ([selectable("b", {}), selectable("a", {})], unnamed(), "a"),
    ([selectable("a", {}), selectable("b", {"priority": 1})], unnamed(), "b"),
    ([selectable("a", {"priority": 1}), selectable("b", {"priority": 2})], unnamed(), "b"),
    ([selectable("a", {"priority": 1}, {"priority": 9}), selectable("b", {"priority": 2})], unnamed(), "b"),
    ([selectable("a", {"priority": True}), selectable("b", {"priority": 0})], unnamed(), "b"),
    ([selectable("a", {}), selectable("c", {"priority": 9}, **CLUSTER)], unnamed(), "a"),
    ([selectable("c", {}, **CLUSTER)], unnamed(), "c"),
    ([selectable("b", {}, protocolVersions=["v1"]), selectable("a", {}, protocolVersions=["v2", "v1"])],
     unnamed(), "a"),
    ([selectable("a", {}), selectable("b", {}, protocolVersions=["v1"])], unnamed(), "b"),
    ([selectable("a", {}, protocolVersions=["v1"])], unnamed({"protocolVersion": "v2"}), None),
    ([selectable("a", {}, protocolVersions=["v2"])], unnamed(), None),
    ([selectable("a", {}, protocolVersions=["v2"])], unnamed({"protocolVersion": "v2"}), "a"),
    ([selectable("a", {}, protocolVersions="v1")], unnamed(), None),
    ([selectable("a", {"version": "1"})], unnamed({"modelFormat": {"name": "custom", "version": "1"}}), "a"),
    ([selectable("a", {"version": "1"})], unnamed(), "a"),
    ([selectable("a", {"version": "2"})], unnamed({"modelFormat": {"name": "custom", "version": "1"}}), None),
    ([selectable("a", {})], unnamed({"modelFormat": {"name": "custom", "version": "1"}}), None),
    ([selectable("a", {"autoSelect": False})], unnamed(), None),
    ([selectable("a", {"autoSelect": None})], unnamed(), None),
    ([selectable("a", {"name": "Custom"})], unnamed(), None),
    ([selectable("a", {"name": 1}), selectable("b", supportedModelFormats=["custom", None])], unnamed(), None),
    ([selectable("a", supportedModelFormats={"name": "custom"})], unnamed(), None),
    ([selectable("a", {}, disabled=True)], unnamed(), None),
    ([selectable("a", {}, multiModel=True)], unnamed(), None),
    ([selectable("a", {}, **WITH_WORKERS)], unnamed(), None),
    ([selectable("a", {}, **WITH_WORKERS)], unnamed(workerSpec={}), "a"),
    ([selectable("a", {})], unnamed(workerSpec={}), None),
    ([selectable("a", {"name": "vLLM"})], unnamed(VLLM | GPU), "a"),
    ([selectable("a", {"name": "vLLM"}, protocolVersions=["v2"])], unnamed(VLLM | GPU), "a"),
    ([selectable("a", {"name": "vLLM"}, protocolVersions=["v1"])], unnamed(VLLM | GPU), None),
    ([selectable("c", {"name": "vLLM"}, **CLUSTER)], unnamed(VLLM | GPU), None),
    ([selectable("c", {"name": "vLLM", "priority": 1}, **CLUSTER)], unnamed(VLLM | GPU), "c"),
    ([selectable("c", {"name": "vLLM", "version": "2"}, **CLUSTER)],
     unnamed({"modelFormat": {"name": "vLLM", "version": "2"}} | GPU), "c"),
]  # fmt: skip


@table(("documents", "asking", "name"), SELECTED)
@table("is_reversed", [False, True])
def test_a_predictor_that_names_no_runtime_has_the_first_that_supports_its_model(
    documents: list[dict[str, Any]], asking: dict[str, Any], name: str | None, *, is_reversed: bool
) -> None:
    asking["spec"]["predictor"]["model"].pop("runtime", None)
    found = read_manifest([asking, *(documents[::-1] if is_reversed else documents)], "", [])
    models = [each for each in found if each.path == "[0].spec.predictor.model"]
    assert [each.env.get("A") for each in models] == ([name] if models or name else [])
    doubt = (
        "no `runtime` is named, and KServe selects one of the namespace or the cluster by the model's format; "
        f"`{name}` of the manifest is assumed; name it (`runtime: {name}`)"
    )
    assert [each.doubts for each in models if name] == ([[doubt]] if name else [])


@pytest.mark.parametrize(
    ("namespaces", "own", "name"),
    [
        (["e", "d"], "d", "r1"),
        (["e"], "d", None),
        (["e", None], "d", "r1"),
        (["e", "f"], None, "r0"),
    ],
)
def test_a_runtime_is_selected_in_the_namespace_of_the_service(
    namespaces: list[str | None], own: str | None, name: str | None
) -> None:
    runtimes = [selectable(f"r{place}", {}) for place, _ in enumerate(namespaces)]
    for each, namespace in zip(runtimes, namespaces, strict=True):
        each["metadata"]["namespace"] = namespace
    asking = unnamed()
    asking["metadata"]["namespace"] = own
    found = [each.env["A"] for each in read_manifest([*runtimes, asking], "", []) if each.path.endswith("model")]
    assert found == ([name] if name else [])


@pytest.mark.parametrize("field", ["huggingface", "pytorch"])
def test_the_field_of_a_format_has_the_protocol_that_kserve_sets(field: str) -> None:
    runtimes = [selectable(version, {"name": field}, protocolVersions=[version]) for version in ("v1", "v2")]
    document = unnamed()
    document["spec"]["predictor"] = {field: {}}
    found = [each for each in read_manifest([*runtimes, document], "", []) if each.path.endswith(field)]
    assert [each.env["A"] for each in found] == ["v2" if field == "huggingface" else "v1"]


@pytest.mark.parametrize(
    ("model", "remedy"),
    [
        (VLLM, "KServe's own is assumed; name it, such as `runtime: kserve-vllmserver`"),
        (HUGGINGFACE, "KServe's own is assumed; name it, such as `runtime: kserve-huggingfaceserver`"),
        (VLLM | {"runtime": "kserve-vllmserver"}, None),
    ],
)
def test_in_a_review_the_runtime_of_a_predictor_that_names_none_is_a_doubt(
    model: dict[str, Any], remedy: str | None
) -> None:
    document = service(model | GPU)
    (found,) = registry.read_manifest(document, "", [], shipped_images(), is_under_review=True)
    assert [each.rpartition("format; ")[2] for each in found.doubts] == ([remedy] if remedy else [])
    assert model_of(document).doubts == []


@table(
    ("below", "above", "expected"),
    [
        ({"B": "0", "A": "$(B)"}, {"B": "1"}, {"B": "1", "A": "1"}),
        ({"B": "0"}, {"A": "$(B)"}, {"A": "$(B)", "B": "0"}),
        ({"B": "0", "C": "2"}, {"C": "3", "A": "$(B)$(C)"}, {"B": "0", "C": "3", "A": "03"}),
        ({"B": "0"}, {"B": ""}, {"B": "0"}),
        ({"A": "0", "B": "$(A)"}, {}, {"A": "0", "B": "0"}),
        ({}, {"A": "0", "B": "$(A)"}, {"A": "0", "B": "0"}),
    ],
)
def test_a_predictors_variables_are_merged_into_its_runtimes_in_place(
    below: dict[str, str], above: dict[str, str], expected: dict[str, str]
) -> None:
    base = runtime()
    base["spec"]["containers"][0]["env"] = [{"name": name, "value": value} for name, value in below.items()]
    found = model_of(base, service({"env": [{"name": name, "value": value} for name, value in above.items()]}))
    assert list(found.env.items()) == list(expected.items())


SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}


@pytest.mark.parametrize(
    ("below", "above", "expected"),
    [
        ({"value": "0"}, {"valueFrom": SECRET}, None),
        ({"valueFrom": SECRET}, {"value": "1"}, "1"),
        ({"valueFrom": SECRET}, {}, None),
    ],
)
def test_a_merged_variable_has_the_source_that_the_predictor_states(
    below: dict[str, Any], above: dict[str, Any], expected: str | None
) -> None:
    base = runtime()
    base["spec"]["containers"][0]["env"] = [{"name": "A", **below}]
    assert model_of(base, service({"env": [{"name": "A", **above}]})).env == {"A": expected}


def test_variables_from_elsewhere_replace_those_of_the_runtime() -> None:
    base = runtime()
    base["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "below"}}]
    maps = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {name: "1"}}
        for name in ("below", "above")
    ]
    assert model_of(base, *maps, service()).env == {"below": "1"}
    assert model_of(base, *maps, service({"envFrom": [{"configMapRef": {"name": "above"}}]})).env == {"above": "1"}


def test_a_variable_with_a_fault_is_reported_once_where_it_is_written() -> None:
    base = runtime()
    base["spec"]["containers"][0]["env"] = [{"name": "B", "value": "0"}]
    document = service({"env": [{"name": "A", "value": 1}, {"value": "1"}, "A", {"name": "B", "value": 2}]})
    (found,) = [each for each in read_manifest([base, document], "", []) if each.faults]
    place = "/1/spec/predictor/model/env"
    assert [fault.pointer for fault in found.faults] == [f"{place}/0/value", f"{place}/2", f"{place}/3/value"]


def test_a_predictors_command_replaces_its_runtimes_but_not_the_arguments() -> None:
    base = runtime()
    base["spec"]["containers"][0] |= {"command": ["old"], "args": ["--enable-dbo"]}
    found = model_of(base, service({"command": ["vllm", "serve", "dense"], "args": ["--enforce-eager"]}))
    assert found.words == ["vllm", "serve", "dense", "--enable-dbo", "--enforce-eager"]
    assert found.places == ["command[0]", "command[1]", "command[2]", "runtime.args[0]", "args[0]"]


SERVER = "vllm.entrypoints.openai.api_server"
SHIPPED = ["--port=8080", "--served-model-name=s", "--model=/mnt/models"]


@table(
    ("model_format", "added"),
    [("vLLM", SHIPPED), ("huggingface", ["--model_name=s"]), ("VLLM", SHIPPED)],
)
@table("command", [["vllm", "serve"], ["bash", "-c", 'vllm serve "$@"', "x"], ["python", "-m", SERVER]])
def test_a_predictors_command_gets_the_arguments_of_the_runtime_that_kserve_ships(
    model_format: str, added: list[str], command: list[str]
) -> None:
    model = {"modelFormat": {"name": model_format}, "runtime": None, "command": command, "args": ["--enforce-eager"]}
    found = model_of(service(model))
    assert found.words == [*command, *added, "--enforce-eager"]
    places = [f"command[{at}]" for at in range(len(command))]
    assert found.places == [*places, *["added by KServe"] * len(added), "args[0]"]


UNINSTALLS = {"exec": {"command": ["pip", "uninstall", "-y", "triton"]}}
HARMLESS = {"exec": {"command": ["true"]}}
NO_TRITON = (
    "`pip uninstall` of `triton` may leave vLLM without Triton or with another one, and it chooses the runner by "
    "whether Triton works"
)


@table(
    ("place", "of_runtime", "of_model", "doubts"),
    [
        *(
            (place, *row)
            for place in ("startupProbe", "livenessProbe", "readinessProbe")
            for row in (
                (None, UNINSTALLS, [NO_TRITON]),
                (UNINSTALLS, None, [NO_TRITON]),
                (HARMLESS, UNINSTALLS, [NO_TRITON]),
                (UNINSTALLS, HARMLESS, []),
                (UNINSTALLS, {"periodSeconds": 5}, [NO_TRITON]),
                (HARMLESS, HARMLESS, []),
            )
        ),
        ("lifecycle", None, {"postStart": UNINSTALLS}, [NO_TRITON]),
        ("lifecycle", {"postStart": UNINSTALLS}, {"preStop": HARMLESS}, [NO_TRITON]),
        ("lifecycle", {"postStart": UNINSTALLS}, {"postStart": HARMLESS}, []),
        ("lifecycle", {"postStart": HARMLESS}, {"postStart": UNINSTALLS}, [NO_TRITON]),
    ],
)
def test_hooks_and_probes_of_a_predictor_are_merged_with_those_of_its_runtime(
    place: str, of_runtime: dict[str, Any] | None, of_model: dict[str, Any] | None, doubts: list[str]
) -> None:
    base = runtime()
    base["spec"]["containers"][0] |= {} if of_runtime is None else {place: of_runtime}
    model = {} if of_model is None else {place: of_model}
    assert model_of(base, service(model)).doubts == doubts
    if of_runtime is None:
        assert [
            each for each in model_of(service({**model, "runtime": None, **GPU})).doubts if "Triton" in each
        ] == doubts
        huggingface = {**model, "modelFormat": {"name": "huggingface"}, "runtime": None}
        assert [each for each in model_of(service(huggingface)).doubts if "Triton" in each] == doubts


@table("name", [None, "team-rt"])
@table(
    ("model_format", "model", "is_problem"),
    [
        ("custom", {"storageUri": "hf://Qwen/Qwen3-8B"}, (True, True)),
        ("custom", GPU, (True, True)),
        ("custom", {"storageUri": "s3://bucket/model"}, (False, False)),
        ("custom", {"storageUri": "hf://Qwen/Qwen3-8B", "args": ["--config", "/x"]}, (True, True)),
        ("pytorch", {"storageUri": "hf://Qwen/Qwen3-8B"}, (False, True)),
        ("onnx", {"storageUri": "hf://Qwen/Qwen3-8B"}, (False, True)),
        ("pytorch", GPU, (False, False)),
        ("triton", GPU, (False, False)),
    ],
)
def test_a_model_of_the_hub_or_an_accelerator_shows_that_an_unknown_runtime_may_be_vllm(
    name: str | None, model_format: str, model: dict[str, Any], is_problem: tuple[bool, bool]
) -> None:
    document = service({"modelFormat": {"name": model_format}, "runtime": name, **model})
    found = read_manifest(document, "", [])
    assert [bool(each.problem) for each in found] == [True] * is_problem[name is not None]


@pytest.mark.parametrize(("uri", "is_doubtful"), [("hf://Qwen/Qwen3-8B", True), (None, False)])
def test_an_id_beside_the_uri_of_a_model_is_a_doubt(uri: str | None, *, is_doubtful: bool) -> None:
    found = model_of(service(HUGGINGFACE | GPU | {"storageUri": uri, "args": ["--backend=vllm", "--model_id=dense"]}))
    assert (MODEL_ID_DOUBT in found.doubts) is is_doubtful


SIZES = ["--tensor-parallel-size=2", "--pipeline-parallel-size=1"]
MULTINODE: dict[str, Any] = {
    "modelFormat": {"name": "huggingface"},
    "runtime": "kserve-huggingfaceserver-multinode",
    "storageUri": "pvc://c/m",
}


def server_of(model: dict[str, Any], **predictor: Any) -> tuple[list[str], list[str]]:
    """The words of vLLM's server of a predictor, and the doubts about it."""
    found = model_of(service(model, **predictor))
    server = find_server(found.words, found.env, is_command=True)
    assert isinstance(server, ServerCommand)
    return server.words, [*found.doubts, *server.doubts]


@table(
    ("model", "words"),
    [
        ({"args": ["--max_model_len=10"]}, ["--model", "/mnt/models", *SIZES, "--max-model-len=10"]),
        ({"runtime": None}, ["--model", "/mnt/models", *SIZES]),
        ({"args": ["--no-such x --enforce-eager"]}, ["--model", "/mnt/models", *SIZES, "--enforce-eager"]),
        ({"args": ["--no-such", "x --enforce-eager"]}, ["--model", "/mnt/models", *SIZES, "--enforce-eager"]),
        ({"args": ["--backend=huggingface", "x --backend=vllm"]}, ["--model", "/mnt/models", *SIZES]),
        (
            {"storageUri": None, "env": [{"name": "MODEL_ID", "value": "x --enforce-eager"}]},
            ["--model", "x", "--enforce-eager", *SIZES],
        ),
        ({"env": [{"name": "MODEL_DIR", "value": "/x"}]}, ["--model", "/mnt/models", *SIZES]),
        ({"storageUri": "s3://a/b", "env": [{"name": "MODEL_DIR", "value": "/x"}]}, ["--model", "/x", *SIZES]),
    ],
)
def test_a_shell_splits_the_words_of_kserves_runtime_with_workers(model: dict[str, Any], words: list[str]) -> None:
    found, doubts = server_of(MULTINODE | model, workerSpec={"tensorParallelSize": 2})
    named = [] if model.get("runtime", "") is not None else doubts
    assert (found, doubts) == (words, named)


def test_kserves_runtime_with_workers_that_runs_transformers_is_no_engine() -> None:
    document = service(MULTINODE | {"args": ["--backend=huggingface"]}, workerSpec={})
    assert read_manifest([document], "", []) == []


@table(
    ("model", "path"),
    [
        ({"storageUri": "hf://a/b", "args": ["--model_dir=/x"]}, "/x"),
        ({"storageUri": "hf://a/b", "args": ["--model_dir", "/mnt/models/sub"]}, "/mnt/models/sub"),
        ({"storageUri": "hf://a/b", "args": ["--model_dir=/mnt/models"]}, "/mnt/models"),
        ({"args": ["--model_dir=/x"]}, "/x"),
        ({"args": ["--model_dir=/x", "--model_id=a/b"]}, "a/b"),
        ({"args": ["--model_i=a/b"]}, "a/b"),
        ({"args": ["--model_d", "/x"]}, "/x"),
    ],
)
def test_the_folder_that_kserves_server_gets_is_the_models(model: dict[str, Any], path: str) -> None:
    found = model_of(service({"modelFormat": {"name": "huggingface"}, "runtime": "kserve-huggingfaceserver", **model}))
    assert found.words[:3] == ["vllm", "serve", path]


@table(
    ("model", "is_doubtful"),
    [
        ({"envFrom": [{"secretRef": {"name": "a"}}], "storageUri": "s3://a/b"}, True),
        ({"envFrom": [{"secretRef": {"name": "a"}}]}, False),
    ],
)
def test_hidden_variables_may_choose_the_model_of_kserves_runtime_with_workers(
    model: dict[str, Any], *, is_doubtful: bool
) -> None:
    found = model_of(service(MULTINODE | model, workerSpec={}))
    assert (HIDDEN_FOLDER in found.doubts) == is_doubtful


@table(
    ("model", "is_script"),
    [
        ({"env": [{"name": "TENSOR_PARALLEL_SIZE", "value": "2"}]}, True),
        ({"envFrom": [{"secretRef": {"name": "a"}}]}, True),
        ({}, False),
        ({"env": [{"name": "TENSOR_PARALLEL_SIZE", "value": "2"}], "command": ["vllm", "serve", "a"]}, False),
    ],
)
def test_kserves_runtime_with_workers_runs_its_script_without_them_if_it_gets_sizes(
    model: dict[str, Any], *, is_script: bool
) -> None:
    assert (model_of(service(MULTINODE | model)).words[0] == "bash") == is_script


@table(
    ("command", "is_doubt"),
    [
        (["/start.sh"], True),
        (["$(HIDDEN)"], True),
        (["sh", "-c", "$HIDDEN serve m"], True),
        (["sh", "-c", "cat /x | sh"], True),
        (["python", "-m", "other"], True),
        (["sh", "-c", "ray start --address=x:6379 --block"], False),
        (["sleep", "infinity"], False),
        (["python3", "./huggingfaceserver/health_check.py", "registered_nodes"], False),
    ],
)
def test_a_command_that_is_not_read_in_the_image_of_kserves_server_may_start_vllm(
    command: list[str], *, is_doubt: bool
) -> None:
    container = {"name": "a", "image": f"{OWN}:v0.20.0-gpu", "command": command}
    found = registry.read_manifest(
        {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}},
        "",
        [],
        shipped_images(),
        is_under_review=True,
    )
    assert (len(found) == 1) is is_doubt
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{**container, "image": "own:1"}]}}
    assert read_manifest(pod, "", []) == []


MOUNTED = [{"name": "kserve-container", "image": IMAGE, "args": ["--model=/mnt/models"]}]
OF_HUB = {"name": "STORAGE_URI", "value": "hf://org/m:v1"}


@table(
    ("predictor", "models"),
    [
        ({"containers": [{**MOUNTED[0], "env": [OF_HUB]}]}, {"/mnt/models": "org/m"}),
        ({"containers": [{**MOUNTED[0], "env": [OF_HUB, OF_HUB]}]}, {"/mnt/models": "org/m"}),
        ({"containers": [{**MOUNTED[0], "env": [OF_HUB, {**OF_HUB, "value": "hf://org/o"}]}]}, {}),
        ({"containers": [{**MOUNTED[0], "env": [{**OF_HUB, "value": "s3://a"}]}]}, {}),
        ({"containers": [{**MOUNTED[0], "env": [{**OF_HUB, "value": None}]}]}, {}),
        ({"containers": MOUNTED, "storageUris": [{"uri": "hf://org/m"}]}, {"/mnt/models": "org/m"}),
        (
            {
                "containers": MOUNTED,
                "storageUris": [
                    {"uri": "hf://org/m", "mountPath": "/mnt/models/"},
                    {"uri": "hf://org/o", "mountPath": "/mnt/o"},
                    {"uri": "pvc://a/b", "mountPath": "/mnt/b"},
                ],
            },
            {"/mnt/models": "org/m", "/mnt/o": "org/o"},
        ),
        ({"containers": [{**MOUNTED[0], "name": "other"}], "storageUris": [{"uri": "hf://org/m"}]}, {}),
        *(
            ({"containers": MOUNTED, "storageUris": [{"uri": "hf://org/m"}, {"uri": other}]}, {})
            for other in ("s3://b/x", "pvc://a", "hf://org/o")
        ),
        ({"containers": MOUNTED, "storageUris": [{"uri": "s3://b/x"}, {"uri": "hf://org/m"}]}, {}),
        ({"containers": [{**MOUNTED[0], "env": [OF_HUB]}], "storageUris": [{"uri": "s3://b/x"}]}, {}),
        (
            {
                "containers": [{**MOUNTED[0], "env": [{**OF_HUB, "value": None}]}],
                "storageUris": [{"uri": "hf://org/m"}],
            },
            {},
        ),
        (
            {"model": {"modelFormat": {"name": "vLLM"}}, "storageUris": [{"uri": "hf://org/m"}]},
            {"/mnt/models": "org/m"},
        ),
        (
            {
                "model": {"modelFormat": {"name": "vLLM"}},
                "workerSpec": {"containers": [{**MOUNTED[0], "name": "worker-container"}]},
                "storageUris": [{"uri": "hf://org/m"}],
            },
            {"/mnt/models": "org/m"},
        ),
    ],
)
def test_a_mounted_model_has_its_name_on_the_hub(predictor: dict[str, Any], models: dict[str, str]) -> None:
    faults: list[RequestFault] = []
    found = read_manifest({**service(), "spec": {"predictor": predictor}}, "", faults)
    assert faults == []
    assert found
    assert all(each.models == models for each in found), found


@table(
    ("other", "doubts"),
    [
        ({"uri": "s3://b/lora", "mountPath": "/mnt/models/adapters"}, 0),
        ({"uri": "s3://b/lora", "mountPath": "/mnt/lora"}, 0),
        ({"uri": "pvc://a/lora", "mountPath": "/mnt/models/adapters"}, 1),
    ],
)
def test_only_a_claim_is_a_mount_of_its_own_below_a_mounted_model(other: dict[str, Any], doubts: int) -> None:
    predictor = {"containers": MOUNTED, "storageUris": [{"uri": "hf://org/m"}, other]}
    faults: list[RequestFault] = []
    (found,) = read_manifest({**service(), "spec": {"predictor": predictor}}, "", faults)
    assert (len([each for each in found.doubts if "may replace files" in each]), faults) == (doubts, [])


@table("name", ["org/m", "/mnt/models"])
def test_the_configuration_of_a_mounted_model_has_either_name(ask: Asking, name: str) -> None:
    configs = ask.request(["--model", "dense"])["deployment"]["model_configs"]
    predictor = {"containers": MOUNTED, "storageUris": [{"uri": "hf://org/m"}]}
    document = {**service(), "spec": {"predictor": predictor}}
    given = {"manifest": document, "model_configs": {name: configs["dense"]}}
    asked = read_request_or_manifest(given, ask.policy.releases)
    assert isinstance(asked, Manifest)
    ((_, request),) = requests_of(asked, ask.policy.releases)
    assert isinstance(request, Request)
    assert ask.policy.decide(request, TODAY).runner == "v2"
