"""The labels and annotations by which another controller changes the pods of any workload."""

from __future__ import annotations

from typing import Any

import pytest
from shipped_images import read_manifest
from tables import table

SERVER = {"name": "kserve-container", "image": "vllm/vllm-openai:v0.24.0", "args": ["--model", "a/b"]}
KSERVE = {"serving.kserve.io/inferenceservice": "x"}
SOURCE = "internal.serving.kserve.io/storage-initializer-sourceuri"
LWS = {"leaderworkerset.sigs.k8s.io/name": "x"}
OME = {"ome.io/inferenceservice": "x"}
OWNERS = {
    "KServe": {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "controller": True},
    "OME": {"apiVersion": "ome.io/v1beta1", "kind": "InferenceService", "controller": True},
    "LeaderWorkerSet": {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "controller": True},
    "leader": {"apiVersion": "v1", "kind": "Pod", "controller": True},
}
CHANGED: dict[str, dict[str, Any]] = {
    "KServe": {"labels": KSERVE, "annotations": {SOURCE: "pvc://c/x"}},
    "OME": {"labels": OME, "annotations": {"ome.io/inject-model-init": "true"}},
    "LeaderWorkerSet": {"labels": LWS},
}
RESTORED: list[dict[str, Any]] = [
    {"annotations": {"nvidia.com/dynamo-checkpoint-restore-candidate": "true"}},
    {"labels": {"nvidia.com/snapshot-is-restore-target": "true"}},
]


def workload(kind: str, metadata: dict[str, Any], own: dict[str, Any] | None = None, **server: Any) -> dict[str, Any]:
    """An object of a kind whose pods have labels and annotations."""
    template = {"metadata": metadata, "spec": {"containers": [{**SERVER, **server}]}}
    found: dict[str, Any] = {"metadata": own or {}}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata | found["metadata"], "spec": template["spec"]}
    if kind == "CronJob":
        return {
            **found,
            "apiVersion": "batch/v1",
            "kind": kind,
            "spec": {"jobTemplate": {"spec": {"template": template}}},
        }
    if kind == "JobSet":
        jobs = [{"template": {"spec": {"template": template}}}]
        return {**found, "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": kind, "spec": {"replicatedJobs": jobs}}
    if kind == "LeaderWorkerSet":
        leader = {"leaderWorkerTemplate": {"workerTemplate": template}}
        return {**found, "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": kind, "spec": leader}
    if kind == "InferenceService":
        predictor = {**metadata, "containers": template["spec"]["containers"]}
        return {**found, "apiVersion": "serving.kserve.io/v1beta1", "kind": kind, "spec": {"predictor": predictor}}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {**found, "apiVersion": version, "kind": kind, "spec": {"template": template}}


def doubts(document: dict[str, Any]) -> list[str]:
    (engine,) = read_manifest(document, "", [])
    return [doubt for doubt in engine.doubts if "changes the pods" in doubt]


@table("kind", ["Deployment", "StatefulSet", "Job", "CronJob", "JobSet", "ReplicaSet"])
@table("controller", CHANGED)
def test_the_label_of_another_controller_is_a_doubt(kind: str, controller: str) -> None:
    (doubt,) = doubts(workload(kind, CHANGED[controller]))
    assert f"{controller}'s webhook" in doubt


@table("metadata", [*RESTORED[:1], CHANGED["KServe"], CHANGED["OME"]], ids=str)
def test_the_annotations_that_a_runtime_gives_its_pods_are_those_of_the_pods(metadata: dict[str, Any]) -> None:
    spec = {"model": {"modelURL": "a/b"}, "deploymentConfig": {"podAnnotations": metadata["annotations"]}}
    runtime = {"apiVersion": "production-stack.vllm.ai/v1alpha1", "kind": "VLLMRuntime", "spec": spec}
    own = {"labels": metadata.get("labels", {})}
    assert len(doubts({**runtime, "metadata": own})) == 1


@table(
    ("kind", "controller", "is_doubt"),
    [
        ("InferenceService", "LeaderWorkerSet", True),
        ("InferenceService", "OME", True),
        ("InferenceService", "KServe", False),
        ("LeaderWorkerSet", "KServe", True),
        ("LeaderWorkerSet", "LeaderWorkerSet", False),
        ("Pod", "KServe", False),
        ("Pod", "LeaderWorkerSet", False),
    ],
)
def test_kinds_of_the_controller_and_pods_are_read_otherwise(kind: str, controller: str, *, is_doubt: bool) -> None:
    assert bool(doubts(workload(kind, CHANGED[controller]))) is is_doubt


@pytest.mark.parametrize("kind", ["Deployment", "Pod", "Job", "LeaderWorkerSet"])
def test_a_snapshot_that_is_restored_is_a_doubt(kind: str) -> None:
    for metadata in RESTORED:
        assert len(doubts(workload(kind, metadata))) == 1


@table(
    ("metadata", "own"),
    [
        ({"labels": KSERVE}, {}),
        ({"annotations": {SOURCE: "pvc://c/x"}}, {}),
        ({"labels": KSERVE, "annotations": {"serving.kserve.io/deploymentMode": "Standard"}}, {}),
        ({"labels": OME}, {}),
        ({"labels": {"jobset.sigs.k8s.io/jobset-name": "x", "sidecar.istio.io/inject": "true"}}, {}),
        ({"labels": {"nvidia.com/dynamo-component": "x", "ray.io/cluster": "x", "model.aibrix.ai/name": "x"}}, {}),
        ({}, CHANGED["LeaderWorkerSet"]),
        ({"labels": None, "annotations": ["x"]}, {}),
        (CHANGED["KServe"], {"ownerReferences": [OWNERS["KServe"]]}),
        (CHANGED["OME"], {"ownerReferences": [OWNERS["OME"]]}),
        (CHANGED["LeaderWorkerSet"], {"ownerReferences": [OWNERS["LeaderWorkerSet"]]}),
        (CHANGED["LeaderWorkerSet"], {"ownerReferences": [OWNERS["leader"]]}),
    ],
)
def test_other_names_and_what_a_controller_makes_are_no_doubt(metadata: dict[str, Any], own: dict[str, Any]) -> None:
    assert doubts(workload("StatefulSet", metadata, own)) == []


@table(
    "owners",
    [
        [OWNERS["OME"]],
        [OWNERS["KServe"] | {"controller": False}],
        [OWNERS["KServe"] | {"apiVersion": "apps/v1"}],
        ["x", {"apiVersion": 1, "controller": True}],
        {},
    ],
)
def test_an_owner_of_another_controller_is_none(owners: object) -> None:
    assert len(doubts(workload("Deployment", CHANGED["KServe"], {"ownerReferences": owners}))) == 1


@pytest.mark.parametrize("size", ["2", None])
def test_what_leader_worker_set_adds_is_read_in_what_it_makes(size: str | None) -> None:
    metadata = {"labels": LWS, "annotations": {"leaderworkerset.sigs.k8s.io/size": size}}
    env = [{"name": "LWS_GROUP_SIZE", "value": "0"}, {"name": "VLLM_X", "value": "$(LWS_GROUP_SIZE)"}]
    (engine,) = read_manifest(
        workload("StatefulSet", metadata, {"ownerReferences": [OWNERS["leader"]]}, env=env), "", []
    )
    assert engine.env["LWS_GROUP_SIZE"] == size
    assert engine.env["VLLM_X"] is None


def test_what_kserve_mounts_is_read_in_what_it_makes() -> None:
    mounted: dict[str, Any] = {"volumeMounts": [{"name": "v", "mountPath": "/mnt/models"}]}
    own = {"ownerReferences": [OWNERS["KServe"]]}
    for folder in ("/mnt/models", "/x"):
        (engine,) = read_manifest(workload("Deployment", CHANGED["KServe"], own, workingDir=folder), "", [])
        (written,) = read_manifest(workload("Deployment", {}, workingDir=folder, **mounted), "", [])
        assert engine.doubts == written.doubts
        assert engine.mounts == written.mounts


@table(
    ("kind", "values", "is_known"),
    [
        ("LeaderWorkerSet", ["0", "1"], False),
        ("LeaderWorkerSet", ["1", "1"], True),
        ("LeaderWorkerSet", ["1"], True),
        ("StatefulSet", ["0", "1"], False),
        ("Deployment", ["0", "1"], False),
        ("Pod", ["0", "1"], True),
    ],
)
def test_a_variable_that_leader_worker_set_takes_from_another_place_than_kubernetes_is_not_known(
    kind: str, values: list[str], *, is_known: bool
) -> None:
    env = [*({"name": "VLLM_X", "value": value} for value in values), {"name": "VLLM_Y", "value": "$(VLLM_X)"}]
    metadata = {"labels": {} if kind == "LeaderWorkerSet" else LWS}
    (engine,) = read_manifest(workload(kind, metadata, env=env), "", [])
    assert [engine.env[name] for name in ("VLLM_X", "VLLM_Y")] == ([values[-1]] * 2 if is_known else [None, None])
