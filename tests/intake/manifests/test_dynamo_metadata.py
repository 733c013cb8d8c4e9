"""The labels and annotations by which Dynamo's operator may change the containers of an object."""

from __future__ import annotations

import json
from typing import Any

from shipped_images import read_manifest
from tables import table

from policy.intake.manifests.dynamo_metadata import CHANGE_DOUBT

SERVER = {"name": "main", "image": "vllm/vllm-openai:v0.24.0", "command": ["vllm", "serve"], "args": ["a/b"]}
HIDDEN = {"components": [{"name": "w", "podTemplate": {"spec": {"containers": [{**SERVER, "name": "x"}]}}}]}
PLACES = {
    "graph": ("DynamoGraphDeployment", "metadata"),
    "graph's spec": ("DynamoGraphDeployment", "spec"),
    "service": ("DynamoGraphDeployment", "spec.services.w"),
    "service's pods": ("DynamoGraphDeployment", "spec.services.w.extraPodMetadata"),
    "template": ("DynamoGraphDeployment", "spec.components[0].podTemplate.metadata"),
    "component": ("DynamoComponentDeployment", "metadata"),
    "component's spec": ("DynamoComponentDeployment", "spec"),
}


def document(kind: str, place: str, names: dict[str, Any], version: str = "v1alpha1", **server: Any) -> dict[str, Any]:
    """An object with an engine, and labels or annotations at a place."""
    pod = {"mainContainer": {**SERVER, **server}}
    spec: dict[str, Any] = {"extraPodSpec": pod}
    if kind == "DynamoGraphDeployment":
        template = {"spec": {"containers": [{**SERVER, **server}]}}
        spec = {"components": [{"name": "w", "podTemplate": template}]}
        if ".components" not in place:
            spec = {"services": {"w": {"extraPodSpec": pod}}}
    found: dict[str, Any] = {"apiVersion": f"nvidia.com/{version}", "kind": kind, "metadata": {}, "spec": spec}
    node: Any = found
    for key in place.replace("[0]", ".0").split("."):
        node = node[0] if isinstance(node, list) else node.setdefault(key, {})
    node |= names
    return found


@table(
    "names",
    [
        {"annotations": {"nvidia.com/dgd-spec": "{}"}},
        {"annotations": {"nvidia.com/dcd-hub-spec": "{}"}},
        {"annotations": {"nvidia.com/dcd-spec": "{}"}},
        {"annotations": {"nvidia.com/dgd-comp-w-frontend-sidecar-ref": "x"}},
        {"annotations": {"nvidia.com/dynamo-checkpoint-restore-candidate": "true"}},
        {"labels": {"nvidia.com/snapshot-is-restore-target": "true"}},
        {"labels": {"nvidia.com/any-later-one": "x"}},
        {"annotations": {"other.nvidia.com/any": None}},
    ],
)
@table("place", PLACES)
def test_a_label_or_annotation_that_is_not_known_to_be_harmless_is_a_doubt(names: dict[str, Any], place: str) -> None:
    kind, where = PLACES[place]
    (engine,) = read_manifest(document(kind, where, names), "", [])
    ((field, (name, *_)),) = names.items()
    doubt = CHANGE_DOUBT.format(f"`{name}`", f"`{where}.{field}`")
    assert engine.doubts == [doubt]
    assert doubt in engine.notes


@table(
    "names",
    [
        {"annotations": {"nvidia.com/enable-grove": "true", "nvidia.com/dgd-status": "{}"}},
        {"annotations": {"nvidia.com/vllm-distributed-executor-backend": "mp", "dynamo.nvidia.com/gpu-power-limit": 1}},
        {"labels": {"nvidia.com/dynamo-component-type": "worker", "nvidia.com/dgdr-name": "x"}},
        {"labels": {"nvidia.com/dynamo-topology.zone": "a", "app": "x", "notnvidia.com/x": "y", "nvidia.com": "x"}},
        {"labels": ["nvidia.com/x"], "annotations": None},
        {},
    ],
)
@table("place", PLACES)
def test_other_ones_are_no_doubt(names: dict[str, Any], place: str) -> None:
    (engine,) = read_manifest(document(*PLACES[place], names), "", [])
    assert engine.doubts == []


@table(("version", "is_doubt"), [("v1alpha1", True), ("v1", True), ("v1beta1", False)])
def test_what_the_conversion_reads_changes_nothing_in_the_version_that_the_operator_uses(
    version: str, *, is_doubt: bool
) -> None:
    names = {"annotations": {"nvidia.com/dgd-spec": "{}"}}
    (engine,) = read_manifest(document(*PLACES["template"], {}, version) | {"metadata": names}, "", [])
    assert bool(engine.doubts) is is_doubt


@table(
    ("version", "name", "value", "is_added"),
    [
        ("v1alpha1", "dgd-spec", HIDDEN, True),
        ("v1alpha1", "dcd-hub-spec", HIDDEN, True),
        ("v1alpha1", "dgd-spec", {"components": []}, False),
        ("v1alpha1", "enable-grove", HIDDEN, False),
        ("v1beta1", "dgd-spec", HIDDEN, False),
    ],
)
def test_an_engine_that_only_the_conversion_adds_is_an_item_with_a_problem(
    version: str, name: str, value: object, *, is_added: bool
) -> None:
    names = {"annotations": {f"nvidia.com/{name}": json.dumps(value)}}
    graph = document(*PLACES["graph"], names, version, image="busybox", command=["sleep", "1"])
    found = read_manifest(graph, "", [])
    problem = CHANGE_DOUBT.format(f"`nvidia.com/{name}`", "`metadata.annotations`")
    assert [(each.path, each.problem) for each in found] == ([("metadata.annotations", problem)] if is_added else [])
