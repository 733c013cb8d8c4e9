"""Volumes that a controller mounts in further containers of a pod, which may then fill them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.manifests.kserve_pods import SHARED_MODEL_DOUBT

if TYPE_CHECKING:
    from policy.intake.command_line import Container

MOUNT: dict[str, Any] = {"name": "v", "mountPath": "/wd"}
READS: dict[str, Any] = {**MOUNT, "readOnly": True}
VOLUMES = [{"name": "v", "emptyDir": {}}]
ENGINE: dict[str, Any] = {
    "image": "vllm/vllm-openai:v0.24.0",
    "command": ["vllm", "serve", "a/b"],
    "workingDir": "/wd",
    "volumeMounts": [MOUNT],
}
OTHER: dict[str, Any] = {"name": "fs", "image": "registry.example.org/x:1", "command": ["/x.sh"]}


def graph(version: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"nvidia.com/{version}", "kind": "DynamoGraphDeployment", "metadata": {}, "spec": spec}


def component(containers: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    pod = {"volumes": VOLUMES, "containers": containers}
    return graph("v1beta1", components=[{"name": "w", "podTemplate": {"spec": pod}, **fields}])


def service(main: dict[str, Any], containers: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    pod = {"volumes": VOLUMES, "mainContainer": main, "containers": containers}
    return graph("v1alpha1", services={"w": {"extraPodSpec": pod, **fields}})


def engines(document: dict[str, Any]) -> list[Container]:
    return read_manifest(document, "", [])


MAIN = {**ENGINE, "name": "main"}
SIDECAR = {"image": "registry.example.org/x:1", "args": ["-m", "x"]}


@table(
    ("document", "is_filled"),
    [
        (component([MAIN, OTHER]), False),
        (component([MAIN, OTHER], frontendSidecar="fs"), True),
        (component([OTHER, MAIN], frontendSidecar="fs"), True),
        (component([MAIN, {**OTHER, "volumeMounts": [{"name": "w", "mountPath": "/w"}]}], frontendSidecar="fs"), True),
        (component([MAIN, {**OTHER, "volumeMounts": [READS]}], frontendSidecar="fs"), False),
        (component([{**MAIN, "volumeMounts": [READS]}, OTHER], frontendSidecar="fs"), False),
        (component([MAIN, OTHER], frontendSidecar="other"), False),
        (component([MAIN], frontendSidecar="main"), False),
        (service(ENGINE, [OTHER]), False),
        (service({**ENGINE, "name": "fs"}, [{**OTHER, "volumeMounts": [MOUNT]}]), True),
        (service(ENGINE, [OTHER], frontendSidecar=SIDECAR), True),
        (service(ENGINE, [OTHER], frontendSidecar={}), True),
        (service({**ENGINE, "volumeMounts": [READS]}, [], frontendSidecar=SIDECAR), False),
        (service({**ENGINE, "volumeMounts": "x"}, [], frontendSidecar=SIDECAR), False),
        (service({**OTHER, "volumeMounts": [MOUNT]}, [{**ENGINE, "name": "b"}]), True),
        (service({**OTHER, "volumeMounts": [READS]}, [{**ENGINE, "name": "b"}]), False),
    ],
)
def test_dynamos_frontend_has_the_mounts_of_the_main_container(document: dict[str, Any], *, is_filled: bool) -> None:
    assert [each.mounts for each in engines(document)] == [("/wd",) if is_filled else ()]


@pytest.mark.parametrize("mounts", [[], [{"name": "w", "mountPath": "/w"}]])
def test_a_frontend_that_is_an_engine_has_them_too(mounts: list[dict[str, Any]]) -> None:
    claim = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    frontend = {"name": "fs", "image": ENGINE["image"], "command": ["vllm", "serve"], "args": ["a/b"]}
    document = component([{**OTHER, "name": "main", "volumeMounts": [MOUNT]}, frontend], frontendSidecar="fs")
    document["spec"]["components"][0]["podTemplate"]["spec"]["volumes"] = claim
    document["spec"]["components"][0]["podTemplate"]["spec"]["containers"][1]["volumeMounts"] = mounts
    (engine,) = engines(document)
    assert "/wd" in engine.mounts
    fields = {"image": ENGINE["image"], "args": ["-m", "vllm.entrypoints.openai.api_server"]}
    document = service({**OTHER, "volumeMounts": [MOUNT]}, [], frontendSidecar=fields)
    document["spec"]["services"]["w"]["extraPodSpec"]["volumes"] = claim
    (engine,) = engines(document)
    assert engine.mounts == ("/wd",)


WRITABLE = {"storage.kserve.io/readonly": "false"}
TRANSFORMER = {"name": "transformer-container", "image": "alpine:3", "command": ["/x.sh"]}
CUSTOM = {"name": "kserve-container", "image": ENGINE["image"], "command": ["vllm", "serve", "/mnt/models"]}


def inference_service(
    names: dict[str, Any] | None = None, containers: Any = None, model: Any = None, **predictor: Any
) -> dict[str, Any]:
    written = {"modelFormat": {"name": "vLLM"}, "runtime": "kserve-vllmserver", "storageUri": "hf://org/m"}
    own = {} if model is False else {"model": {**written, **(model or {})}}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "s", "annotations": names or {}},
        "spec": {"predictor": {**own, "containers": containers, **predictor}},
    }


def runtime(annotations: dict[str, Any] | None, containers: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": {"name": "r"},
        "spec": {"annotations": annotations, "containers": [{**CUSTOM, "args": []}, *containers]},
    }


OF_RUNTIME = {"runtime": "r"}
URI = {"name": "STORAGE_URI", "value": "hf://org/m"}


@table(
    ("documents", "is_doubt"),
    [
        ([inference_service(WRITABLE, [TRANSFORMER])], True),
        ([inference_service(None, [TRANSFORMER], annotations=WRITABLE)], True),
        ([inference_service(WRITABLE, [TRANSFORMER], model=False)], None),
        ([inference_service(WRITABLE, [{**CUSTOM, "env": [URI]}, TRANSFORMER], model=False)], True),
        ([inference_service(None, [TRANSFORMER])], False),
        ([inference_service({"storage.kserve.io/readonly": "true"}, [TRANSFORMER])], False),
        ([inference_service(WRITABLE)], False),
        ([inference_service(WRITABLE, [{**TRANSFORMER, "name": "x"}])], False),
        ([inference_service(WRITABLE, [1, {"name": 1}])], False),
        ([runtime(None, [TRANSFORMER]), inference_service(WRITABLE, model=OF_RUNTIME)], True),
        ([runtime(WRITABLE, []), inference_service(None, [TRANSFORMER], model=OF_RUNTIME)], True),
        ([runtime(WRITABLE, [TRANSFORMER])], True),
        ([runtime(None, []), inference_service(WRITABLE, model=OF_RUNTIME)], False),
    ],
)
def test_kserves_transformer_may_write_the_model_beside_an_engine(
    documents: list[dict[str, Any]], *, is_doubt: bool | None
) -> None:
    found = read_manifest(documents if len(documents) > 1 else documents[0], "", [])
    assert [SHARED_MODEL_DOUBT in each.doubts for each in found][-1:] == ([] if is_doubt is None else [is_doubt])


AIBRIX = {"model.aibrix.ai/sidecar-injection": "true"}
ADAPTERS = "/tmp/aibrix/adapters"  # where AIBrix mounts it


@table(
    ("kind", "annotations", "own", "is_filled"),
    [
        ("Deployment", AIBRIX, {}, True),
        ("Deployment", {"model.aibrix.ai/sidecar-injection": "false"}, {}, False),
        ("Deployment", {}, {}, False),
        ("Deployment", AIBRIX, {"volumeMounts": [{"name": "adapter-storage", "mountPath": ADAPTERS}]}, True),
        ("StormService", AIBRIX, {}, True),
        ("StormService", {"model.aibrix.ai/sidecar-injection": "false"}, {}, True),
        ("StormService", None, {}, False),
        ("StatefulSet", AIBRIX, {}, False),
    ],
)
def test_the_runtime_that_aibrix_adds_may_fill_a_volume_of_each_container(
    kind: str, annotations: Any, own: dict[str, Any], *, is_filled: bool
) -> None:
    container = {"name": "a", **ENGINE, "volumeMounts": [], "workingDir": ADAPTERS, **own}
    pod = {"containers": [container], "volumes": [{"name": "adapter-storage", "emptyDir": {}}]}
    spec: dict[str, Any] = {"template": {"spec": pod}}
    group = "apps/v1"
    if kind == "StormService":
        group, spec = "orchestration.aibrix.ai/v1alpha1", {"template": {"spec": {"roles": [{"name": "r", **spec}]}}}
    document = {"apiVersion": group, "kind": kind, "metadata": {"annotations": annotations}, "spec": spec}
    (engine,) = engines(document)
    assert engine.mounts == ((ADAPTERS,) if is_filled else ())


@table(
    ("fields", "is_shared"),
    [
        ({"shareProcessNamespace": True, "containers": [ENGINE, OTHER]}, True),
        ({"hostPID": True, "containers": [OTHER, ENGINE]}, True),
        ({"shareProcessNamespace": True, "containers": [ENGINE], "initContainers": [OTHER]}, True),
        ({"shareProcessNamespace": True, "containers": [ENGINE], "ephemeralContainers": [OTHER]}, True),
        ({"shareProcessNamespace": True, "containers": [ENGINE]}, False),
        ({"shareProcessNamespace": False, "containers": [ENGINE, OTHER]}, False),
        ({"containers": [ENGINE, OTHER]}, False),
    ],
)
def test_a_container_that_sees_the_engines_processes_may_change_its_files(
    fields: dict[str, Any], *, is_shared: bool
) -> None:
    (engine,) = engines({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"volumes": VOLUMES, **fields}})
    assert (
        any("lets other containers of the pod change the engine's files" in each for each in engine.doubts) is is_shared
    )
