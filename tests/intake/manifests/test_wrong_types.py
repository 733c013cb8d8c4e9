"""A value of another type anywhere in a manifest, or in the JSON of a flag, never stops the reading."""

from __future__ import annotations

import json
from contextlib import suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from deployments import DENSE
from tables import table

from policy.errors import PolicyError

from .test_manifests import FIXTURES, content, read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from deployments import Asking

WRONG: tuple[Any, ...] = ([], {}, [[]], {"a": []}, None, True, 10**40, -1.5, "\x00")
NODES = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {
        "runtimeClassName": "nvidia",
        "nodeSelector": {"nvidia.com/gpu.present": "true"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]}]}
                    ]
                }
            }
        },
        "containers": [
            {
                "name": "vllm",
                "image": "vllm/vllm-openai:v0.23.0",
                "args": ["--model", "a/b"],
                "resources": {"limits": {"nvidia.com/gpu": 1}},
            }
        ],
    },
}
OPTIONS: dict[str, dict[str, Any]] = {
    "--speculative-config": {
        "method": "eagle3",
        "model": "draft",
        "num_speculative_tokens": 3,
        "parallel_drafting": True,
    },
    "--kv-transfer-config": {
        "kv_connector": "NixlConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"a": 1},
    },
    "--compilation-config": {"mode": 3, "pass_config": {"enable_sp": True}, "cudagraph_mode": "FULL"},
    "--hf-overrides": {"architectures": ["A"], "num_experts": 1, "text_config": {"model_type": "qwen3"}},
    "--pooler-config": {"pooling_type": "MEAN"},
    "--ec-transfer-config": {"ec_connector": "A", "ec_role": "ec_both"},
    "--reasoning-config": {"reasoning_start_str": "<think>"},
    "--attention-config": {"backend": "FLASH_ATTN", "hisparse_config": {}},
}


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value below another."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*at, key)
        yield from places(part, (*at, key))


def with_wrong_values(document: Any, values: tuple[Any, ...] = WRONG) -> Iterator[Any]:
    """The document with each of the wrong values at each of its places; it is the same one, changed and restored."""
    for *above, last in [*places(document)]:
        parent = document
        for key in above:
            parent = parent[key]
        before = parent[last]
        for wrong in values:
            parent[last] = wrong
            yield document
        parent[last] = before


@pytest.mark.slow
@table("path", FIXTURES, ids=lambda path: path.stem)
def test_in_a_manifest(path: Path) -> None:
    documents = content(path)
    for document in documents if isinstance(documents, list) else [documents]:
        before = deepcopy(document)
        for changed in with_wrong_values(document):
            read(changed)
        assert document == before


CONTAINERS = frozenset({"containers", "initContainers", "ephemeralContainers"})
CONTAINER: dict[str, Any] = {
    "name": "vllm",
    "image": "vllm/vllm-openai:v0.23.0",
    "command": ["vllm", "serve"],
    "args": ["a/b"],
    "workingDir": "/x",
    "restartPolicy": "Always",
    "env": [{"name": "A", "value": "b"}, {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    "envFrom": [{"prefix": "A", "configMapRef": {"name": "c"}}],
    "volumeMounts": [{"name": "v", "mountPath": "/x", "subPath": "y", "readOnly": True}],
    "lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", "true"]}}},
    "livenessProbe": {"exec": {"command": ["true"]}},
    "securityContext": {"runAsUser": 1},
    "resources": {"limits": {"nvidia.com/gpu": 1}},
}
POD: dict[str, Any] = {
    "volumes": [
        {"name": "v", "emptyDir": {}},
        {"name": "w", "secret": {"items": [{"key": "k", "path": "p"}]}},
        {"name": "x", "projected": {"sources": [{"downwardAPI": {"items": [{"path": "p"}]}}]}},
        {"name": "y", "configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
    ],
    "initContainers": [{"name": "i", **CONTAINER}],
    "ephemeralContainers": [{"name": "e", **CONTAINER}],
    "shareProcessNamespace": True,
    "hostPID": True,
}
METADATA: dict[str, Any] = {
    "name": "a",
    "labels": {"serving.kserve.io/inferenceservice": "x", "leaderworkerset.sigs.k8s.io/name": "x"},
    "annotations": {"storage.kserve.io/readonly": "false", "model.aibrix.ai/sidecar-injection": "true"},
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "controller": True}],
}


def added_fields(document: Any) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """The objects of a document to which a field of a pod, a container or metadata can be added, with its value."""
    for path in [(), *places(document)]:
        found = document
        for key in path:
            found = found[key]
        if not isinstance(found, dict):
            continue
        is_container = len(path) > 1 and path[-2] in CONTAINERS
        fields = METADATA if path[-1:] == ("metadata",) else POD if "containers" in found else {}
        for name, value in (CONTAINER if is_container or "image" in found or "args" in found else fields).items():
            if name not in found:
                yield found, name, deepcopy(value)


@pytest.mark.slow
@table("path", FIXTURES, ids=lambda path: path.stem)
def test_in_fields_that_a_manifest_could_have(path: Path) -> None:
    documents = content(path)
    for document in documents if isinstance(documents, list) else [documents]:
        for found, name, value in [*added_fields(document)]:
            for changed in with_wrong_values({name: value}, ([], {"a": []}, 1)):
                found[name] = changed[name]
                read(document)
            del found[name]


def test_in_the_nodes_of_a_pod() -> None:
    for changed in with_wrong_values(NODES):
        read(changed)


@table("release", ["0.9.0", "0.12.0", "0.19.1", "0.23.0", "0.33.0"])
@table("flag", OPTIONS)
def test_in_the_json_of_a_flag(ask: Asking, flag: str, release: str) -> None:
    for changed in with_wrong_values(OPTIONS[flag]):
        with suppress(PolicyError):
            ask(["vllm", "serve", "dense", flag, json.dumps(changed)], release, models={"draft": DENSE})
