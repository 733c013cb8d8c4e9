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


def with_wrong_values(document: Any) -> Iterator[Any]:
    """The document with each of the wrong values at each of its places; it is the same one, changed and restored."""
    for *above, last in [*places(document)]:
        parent = document
        for key in above:
            parent = parent[key]
        before = parent[last]
        for wrong in WRONG:
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


def test_in_the_nodes_of_a_pod() -> None:
    for changed in with_wrong_values(NODES):
        read(changed)


@table("release", ["0.9.0", "0.12.0", "0.19.1", "0.23.0", "0.33.0"])
@table("flag", OPTIONS)
def test_in_the_json_of_a_flag(ask: Asking, flag: str, release: str) -> None:
    for changed in with_wrong_values(OPTIONS[flag]):
        with suppress(PolicyError):
            ask(["vllm", "serve", "dense", flag, json.dumps(changed)], release, models={"draft": DENSE})
