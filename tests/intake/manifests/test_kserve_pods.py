"""KServe: the labels, annotations, volumes and containers by which it puts another model into a pod: a doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.manifests.kserve_metadata import CHANGE_DOUBT
from policy.intake.manifests.kserve_pods import CONFIGURED_MOUNTS
from policy.intake.manifests.mounts import resolved_path

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.24.0"
GROUP = "serving.kserve.io"
INTERNAL = f"internal.{GROUP}"
LOCAL = f"{INTERNAL}/localmodel"
MODEL = "kserve-provision-location"
CLAIM: dict[str, Any] = {"persistentVolumeClaim": {"claimName": "c"}}
SERVER = {"name": "kserve-container", "image": IMAGE, "command": ["vllm", "serve"], "args": ["/mnt/models"]}
READ = "as KServe reads it there; leave it out"
FILLED = "has the name of the volume in which KServe puts the model"
BROUGHT = "has the name of a container by which KServe brings the model"


def service(metadata: dict[str, Any] | None = None, model: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    written = {"modelFormat": {"name": "vLLM"}, "runtime": "kserve-vllmserver", "storageUri": "hf://org/m"}
    predictor = {"model": {**written, **(model or {})}, **spec}
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "s", **(metadata or {})},
        "spec": {"predictor": predictor},
    }


def component(name: str, **fields: Any) -> dict[str, Any]:
    document = service()
    document["spec"] = {name: {"containers": [SERVER], **fields}}
    return document


def runtime(kind: str = "ServingRuntime", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": kind,
        "metadata": {"name": "r"},
        "spec": {"containers": [SERVER], **spec},
    }


def llm(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": "s", **(metadata or {})},
        "spec": {"model": {"uri": "hf://org/m"}, "template": template(), **spec},
    }


def template(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": IMAGE}], **fields}


def config(**spec: Any) -> dict[str, Any]:
    return {**llm(), "kind": "LLMInferenceServiceConfig", "metadata": {"name": "c"}, "spec": spec}


def engines(*documents: dict[str, Any]) -> list[Container]:
    faults: list[RequestFault] = []
    found = read_manifest(list(documents) if len(documents) > 1 else documents[0], "", faults)
    assert found
    assert faults == []
    return found


def doubts(*documents: dict[str, Any]) -> list[str]:
    """The doubts about labels, annotations and names of KServe, of the engines of the last document."""
    place = f"[{len(documents) - 1}]" if len(documents) > 1 else ""
    found = [each for each in engines(*documents) if each.path.startswith(place)]
    return [doubt for each in found for doubt in each.doubts if READ in doubt or FILLED in doubt or BROUGHT in doubt]


def volume(name: str = MODEL, **source: Any) -> list[dict[str, Any]]:
    return [{"name": name, **source}]


def writer(name: str = "x", mounted: str = MODEL, **mount: Any) -> list[dict[str, Any]]:
    return [
        {"name": name, "image": "busybox", "volumeMounts": [{"name": mounted, "mountPath": "/mnt/models", **mount}]}
    ]


@table(
    "fields",
    [
        {"labels": {LOCAL: "x"}},
        {"annotations": {f"{LOCAL}-pvc-name": "c"}},
        {"annotations": {f"{INTERNAL}/storage-container-name": ""}},
        {"annotations": {f"{INTERNAL}/storage-spec": "true"}},
        {"annotations": {f"{INTERNAL}/agent": "true"}},
        {"annotations": {f"{INTERNAL}/any-later-one": "x"}},
        {"annotations": {f"{GROUP}/storageSecretName": "x"}},
        {"annotations": {f"{GROUP}/any-later-one": None}},
        {"labels": {f"other.{GROUP}/x": "x"}},
    ],
)
@table("place", ["predictor", "transformer", "explainer", "workers", "runtime", "llm", "prefill"])
def test_a_label_or_annotation_that_kserve_reads_from_the_pod_is_a_doubt(fields: dict[str, Any], place: str) -> None:
    documents = {
        "predictor": [service(**fields)],
        "transformer": [component("transformer", **fields)],
        "explainer": [component("explainer", **fields)],
        "workers": [runtime(workerSpec={"containers": [SERVER], **fields}), service(model={"runtime": "r"})],
        "runtime": [runtime(**fields), service(model={"runtime": "r"})],
        "llm": [llm(**fields)],
        "prefill": [llm(prefill={"template": template(), **fields})],
    }
    found = doubts(*documents[place])
    assert found
    assert all(f".{field}` may change the model" in each for each in found for field in fields)


@table(
    "names",
    [
        [f"{GROUP}/deploymentMode", f"{GROUP}/autoscalerClass", f"{GROUP}/stop", f"{GROUP}/inferenceservice"],
        [f"{GROUP}/enable-metric-aggregation", f"{GROUP}/model-based-routing-enabled", f"{GROUP}/exp-dra-device-class"],
        [f"{INTERNAL}/logger", f"{INTERNAL}/batcher"],
        ["prometheus.kserve.io/port", "storage.kserve.io/readonly", "sidecar.istio.io/inject", "app", "x/y/z"],
        [],
    ],
)
@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_other_labels_and_annotations_are_no_doubt(names: list[str], field: str) -> None:
    fields = {field: dict.fromkeys(names, "x")}
    for document in (service(fields, **fields), llm(fields, **fields), config(template=template(), **fields)):
        assert doubts(document) == []


@table(
    ("name", "is_doubt"),
    [
        (LOCAL, False),
        (f"{LOCAL}-pvc-name", False),
        (f"{LOCAL}-sourceuri", False),
        (f"{INTERNAL}/storage-initializer-sourceuri", False),
        (f"{INTERNAL}/storage-container-name", True),
        (f"{INTERNAL}/confidential-enabled", True),
        (f"{GROUP}/storageSecretName", True),
    ],
)
@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_the_metadata_of_a_service_counts_but_for_what_kserve_replaces(
    name: str, field: str, *, is_doubt: bool
) -> None:
    metadata = {field: {name: "x"}}
    for document in (service(metadata), llm(metadata)):
        assert doubts(document) == ([CHANGE_DOUBT.format(f"`{name}`", f"`metadata.{field}`")] if is_doubt else [])


def test_without_a_uri_of_its_own_kserve_does_not_replace_the_metadata_of_a_service() -> None:
    document = llm({"labels": {LOCAL: "x"}}, model={"name": "m"}, baseRefs=[{"name": "c"}])
    assert len(doubts(config(model={"uri": "hf://org/m"}), document)) == 1


POD_DOUBTS: list[tuple[dict[str, Any], str]] = [
    ({"volumes": volume(**CLAIM)}, "volumes[0]"),
    ({"volumes": volume("kserve-pvc-source", hostPath={"path": "/x"})}, "volumes[0]"),
    ({"volumes": volume(f"{MODEL}-1", secret={"secretName": "x"})}, "volumes[0]"),
    ({"volumes": [None, *volume(emptyDir={}, **CLAIM)]}, "volumes[1]"),
    ({"initContainers": writer()}, "initContainers[0].volumeMounts[0]"),
    ({"initContainers": writer(readOnly=False)}, "initContainers[0].volumeMounts[0]"),
    ({"initContainers": writer(), "volumes": volume(emptyDir={})}, "initContainers[0].volumeMounts[0]"),
    ({"initContainers": writer("storage-initializer", "v")}, "initContainers[0]"),
    ({"initContainers": writer("modelcar-init", "v")}, "initContainers[0]"),
    ({"initContainers": writer("modelcar-init-1", "v")}, "initContainers[0]"),
]
POD_HARMLESS: list[dict[str, Any]] = [
    {"volumes": volume(emptyDir={"sizeLimit": "1Gi"})},
    {"volumes": volume()},
    {"volumes": volume("models", **CLAIM)},
    {"volumes": volume(f"my-{MODEL}", **CLAIM)},
    {"initContainers": writer(readOnly=True)},
    {"initContainers": writer("init-agent", "v")},
    {"initContainers": writer("agent", "v")},
]


@table(("fields", "place"), POD_DOUBTS)
@pytest.mark.parametrize("kind", ["service", "transformer", "runtime", "llm", "worker"])
def test_a_volume_or_container_with_a_name_of_kserve_is_a_doubt(fields: dict[str, Any], place: str, kind: str) -> None:
    workers = {"worker": template(**fields), "parallelism": {"data": 2}}
    documents = {
        "service": ([service(**fields)], "spec.predictor"),
        "transformer": ([component("transformer", **fields)], "spec.transformer"),
        "runtime": ([runtime(**fields), service(model={"runtime": "r"})], "[0].spec"),
        "llm": ([llm(template=template(**fields))], "spec.template"),
        "worker": ([llm(**workers)], "spec.worker"),
    }
    found = doubts(*documents[kind][0])
    assert found
    assert all(each.startswith(f"`{documents[kind][1]}.{place}` has the name of") for each in found)


@table("fields", POD_HARMLESS)
@pytest.mark.parametrize("kind", ["service", "runtime", "llm"])
def test_other_volumes_and_containers_are_no_doubt(fields: dict[str, Any], kind: str) -> None:
    documents = {
        "service": [service(**fields)],
        "runtime": [runtime(**fields), service(model={"runtime": "r"})],
        "llm": [llm(template=template(**fields))],
    }
    assert doubts(*documents[kind]) == []


@table(
    "document",
    [
        service(model={"volumeMounts": [{"name": MODEL, "mountPath": "/x", "readOnly": True}]}),
        service(containers=writer("agent", "v")),
        service(containers=writer("modelcar", "v")),
        service(containers=writer("kserve-container", readOnly=True)),
        service(workerSpec={"containers": [SERVER], "volumes": volume(**CLAIM)}),
        service(storageUris=[{"uri": "hf://org/m"}], volumes=volume("mnt-models", **CLAIM)),
        service(storageUris=[{"uri": "s3://a", "mountPath": "/lib/m"}], volumes=volume("lib-m", **CLAIM)),
        service(
            storageUris=[{"uri": "s3://a", "mountPath": "/mnt/a/x"}, {"uri": "s3://b", "mountPath": "/mnt/a/y"}],
            volumes=volume("mnt-a", **CLAIM),
        ),
        service(model={"storageUri": "oci+native://r/m"}, volumes=volume("mnt-models", **CLAIM)),
        llm(
            template={
                "containers": [
                    {
                        "name": "main",
                        "image": IMAGE,
                        "volumeMounts": [{"name": MODEL, "mountPath": "/x", "readOnly": True}],
                    }
                ]
            }
        ),
        llm(prefill={"template": template(volumes=volume(**CLAIM))}),
        config(template=template(volumes=volume(**CLAIM))),
    ],
)
def test_names_of_kserve_count_in_every_place_of_an_engine(document: dict[str, Any]) -> None:
    assert doubts(document)


def test_a_runtime_by_itself_with_such_a_name_is_a_doubt() -> None:
    assert doubts(runtime(volumes=volume(**CLAIM)))
    assert doubts(runtime("ClusterServingRuntime", labels={LOCAL: "x"}))
    assert doubts(runtime()) == []


def test_configurations_that_are_merged_into_a_service_count() -> None:
    shared = config(template={"volumes": volume(**CLAIM)})
    assert len(doubts(shared, llm(baseRefs=[{"name": "c"}]))) == 1


@table(
    ("fields", "is_doubt"),
    [
        ({}, False),
        ({"resources": {"limits": {"memory": "8Gi"}}, "securityContext": {"runAsUser": 1}}, False),
        ({"command": ["sh"], "args": ["x"]}, False),
        ({"env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}, False),
        ({"env": [], "volumeMounts": []}, False),
        ({"env": [{"name": "HF_ENDPOINT", "value": "https://other"}]}, True),
        ({"env": [{"name": "STORAGE_ALLOW_PATTERNS", "value": "[]"}]}, True),
        ({"envFrom": [{"secretRef": {"name": "s"}}]}, True),
        ({"image": "busybox"}, True),
        ({"volumeMounts": [{"name": "v", "mountPath": "/mnt/models"}]}, True),
        ({"lifecycle": {"postStart": {}}}, True),
    ],
)
def test_a_downloader_that_is_merged_with_kserves_may_only_change_how_it_runs(
    fields: dict[str, Any], *, is_doubt: bool
) -> None:
    downloader = [{"name": "storage-initializer", **fields}]
    assert bool(doubts(llm(template=template(initContainers=downloader)))) is is_doubt


@table("name", [*CONFIGURED_MOUNTS])
@table(
    ("fields", "is_filled"),
    [
        (lambda name: {"volumes": volume(name, **CLAIM)}, True),
        (lambda name: {"initContainers": writer(mounted=name)}, True),
        (lambda name: {"initContainers": writer(mounted=name), "volumes": volume(name, emptyDir={})}, True),
        (lambda name: {"initContainers": writer(mounted=name, readOnly=True)}, False),
        (lambda name: {"volumes": volume(name, emptyDir={"medium": "Memory"})}, False),
        (lambda name: {"volumes": volume(name, secret={"secretName": "x"})}, False),
        (lambda name: {"volumes": volume(f"{name}-2", **CLAIM)}, False),
    ],
)
def test_a_volume_of_kserves_configurations_with_files_is_a_mount(name: str, fields: Any, *, is_filled: bool) -> None:
    (found,) = engines(llm(template=template(**fields(name))))
    assert found.mounts == (
        ("/mnt/models",) if not is_filled else (resolved_path(CONFIGURED_MOUNTS[name]), "/mnt/models")
    )


def test_packages_in_the_home_of_a_service_may_be_another_vllm() -> None:
    (found,) = engines(llm(template=template(volumes=volume("home", **CLAIM))))
    assert "the mount at `/home` may make another vLLM run" in str(found)
