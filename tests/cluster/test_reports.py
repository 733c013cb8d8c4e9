"""Reports in a real API server: the role of deploy/openreports allows what the command does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from api.conftest import ROOT, call, run

from .apiserver import custom, define
from .conftest import QWEN, only_in_one_process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from api.conftest import Done

    from .apiserver import Cluster

__all__ = ["call", "run"]
pytestmark = only_in_one_process()
FOLDER = ROOT / "deploy" / "openreports"
ACCOUNT = ("--namespace=runner-policy-reports", "runner-policy-openreports")


def pod(name: str, *args: str) -> dict[str, Any]:
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.33.0", "args": [QWEN, *args]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "automountServiceAccountToken": False},
    }


@pytest.fixture
def token(cluster: Cluster, tmp_path: Path) -> Path:
    """The token of the job's account, with the role of the manifests."""
    define(cluster, custom("openreports.io/v1alpha1", "Report", "reports"))
    for name in ("namespace.yaml", "rbac.yaml"):
        for document in yaml.safe_load_all((FOLDER / name).read_text()):
            cluster.kubectl("apply", "-f", "-", document=document)
    path = tmp_path / "token"
    path.write_text(cluster.kubectl("create", "token", *ACCOUNT).out)
    return path


def test_reports_are_written_replaced_and_deleted(
    cluster: Cluster, namespace: str, token: Path, call: Callable[..., Done], tmp_path: Path
) -> None:
    models = tmp_path / "models" / QWEN
    models.mkdir(parents=True)
    config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "max_position_embeddings": 40960}
    (models / "config.json").write_text(json.dumps(config | {"hidden_size": 4096, "num_attention_heads": 32}))
    for document in (pod("good"), pod("bad", "--no-such-flag")):
        cluster.kubectl("create", "-n", namespace, "-f", "-", document=document)
    server = ("--api", cluster.url, "--token-file", str(token), "--ca-file", str(cluster.authority.path))
    options = (*server, "--models", str(tmp_path / "models"), "-n", namespace, "--write")

    def reports() -> dict[str, list[str]]:
        items = cluster.get("reports", "-n", namespace)["items"]
        return {each["scope"]["name"]: [result["result"] for result in each["results"]] for each in items}

    done = call("openreports", *options)
    assert done.code == 0, done.err
    assert reports() == {"good": ["pass"], "bad": ["fail"]}
    assert call("openreports", *options).code == 0
    cluster.kubectl("delete", "pod", "bad", "-n", namespace, "--grace-period=0", "--force")
    assert call("openreports", *options).code == 0
    assert reports() == {"good": ["pass"]}
