"""The plug-in, run by kubectl, on the objects of a real API server."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .conftest import NIXL, QWEN, container, deployment, only_in_one_process

if TYPE_CHECKING:
    from .apiserver import Cluster

pytestmark = only_in_one_process()
IMPACT = ("runner_policy", "impact", "--to", "0.33.0", "--format", "json")


def test_kubectl_runs_the_plugin_on_what_the_cluster_has(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    models = tmp_path / QWEN
    models.mkdir(parents=True)
    config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "max_position_embeddings": 40960}
    (models / "config.json").write_text(json.dumps(config | {"hidden_size": 4096, "num_attention_heads": 32}))
    for document in (deployment("plain", container()), deployment("nixl", container(*NIXL))):
        cluster.kubectl("create", "-n", namespace, "-f", "-", document=document)
    path = f"{Path(sys.executable).parent}:{Path(cluster.program).parent}:/usr/bin:/bin"

    done = cluster.shell([cluster.program, *IMPACT, "--models", str(tmp_path), "-n", namespace], PATH=path)

    assert done.code == 0, done
    report = json.loads(done.out)  # without the replica sets and pods that the deployments control
    found = {item["name"]: [answer["runner"] for answer in item["releases"].values()] for item in report["items"]}
    assert found == {
        f"{namespace}/Deployment/plain/vllm": ["v2", "v2"],
        f"{namespace}/Deployment/nixl/vllm": ["v1", "v2"],
    }
    assert report["counts"]["deployments"] == 2
