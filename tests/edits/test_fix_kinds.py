"""``fix --write`` for each kind of manifest: whole texts before and after."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from api.conftest import Done

QWEN = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "num_hidden_layers": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
}
DEPLOYMENT = """\
# the engine of the chat
apiVersion: apps/v1
kind: Deployment
metadata: {name: qwen}
spec:
  template:
    spec:
      containers:
        - name: "vllm"   # main
          image: vllm/vllm-openai:v0.33.0
          args:
            - --model=Qwen/Qwen3-8B
            # two streams
            - --enable-dbo   # faster
            - '--max-model-len'
            - "4096"
"""
LIST_OF_VALUES = """\
kind: Deployment
apiVersion: apps/v1
spec:
  template:
    spec:
      containers:
        - image: vllm/vllm-openai:v0.33.0
          args: ["--model", "Qwen/Qwen3-8B", "--enable-dbo", "--max-model-len", "4096"]   # all
"""
SCRIPT_IN_ARGS = """\
kind: Deployment
apiVersion: apps/v1
spec:
  template:
    spec:
      containers:
        - image: vllm/vllm-openai:v0.33.0
          command: ["sh", "-c"]
          args:
            - |
              # starts it
              exec vllm serve Qwen/Qwen3-8B \\
                --enable-dbo \\
                --max-model-len 4096
"""
LAST_IN_SCRIPT = """\
kind: Pod
apiVersion: v1
spec:
  containers:
    - image: vllm/vllm-openai:v0.33.0
      command: ["sh", "-c", "vllm serve Qwen/Qwen3-8B --max-model-len 4096 --enable-dbo"]
"""
LEADER_WORKER_SET = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata:
  name: qwen
spec:
  leaderWorkerTemplate:
    size: 1
    leaderTemplate:
      spec:
        containers:
        - name: leader
          image: vllm/vllm-openai:v0.33.0
          command:
          - sh
          - -c
          - "vllm serve Qwen/Qwen3-8B --enable-dbo --max-model-len 4096"
"""
KSERVE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: qwen
spec:
  predictor:
    containers:
      - name: kserve-container
        image: vllm/vllm-openai:v0.33.0
        args: [--model, Qwen/Qwen3-8B, --enable-dbo]
"""
RAY_SERVICE = """\
apiVersion: ray.io/v1
kind: RayService
metadata:
  name: qwen
spec:
  serveConfigV2: |
    applications:
      - name: llms   # one
        import_path: ray.serve.llm:build_openai_app
        route_prefix: "/"
        args:
          llm_configs:
            - model_loading_config:
                model_id: qwen
                model_source: Qwen/Qwen3-8B
              engine_kwargs:
                max_model_len: 4096
                enable_dbo: true  # faster
                tensor_parallel_size: 1
  rayClusterConfig:
    headGroupSpec:
      template:
        spec:
          containers:
            - name: head
              image: rayproject/ray-llm:2.46.0
"""
COMPOSE = """\
services:
  vllm:
    image: vllm/vllm-openai:v0.33.0
    # one text
    command: --model Qwen/Qwen3-8B --enable-dbo --max-model-len 4096
    environment:
      HF_HOME: /cache
"""
COMPOSE_FOLDED = """\
services:
  vllm:
    image: vllm/vllm-openai:v0.33.0
    command: >
      --model Qwen/Qwen3-8B
      --enable-dbo
      --max-model-len 4096
"""
COMPOSE_LIST = """\
services:
  vllm:
    image: "vllm/vllm-openai:v0.33.0"
    command: [
      "--model", "Qwen/Qwen3-8B",  # the model
      "--max-model-len", "4096",
      "--enable-dbo"
    ]
"""
HELM = """\
servingEngineSpec:
  modelSpec:
    - name: qwen
      repository: vllm/vllm-openai
      tag: v0.33.0
      modelURL: Qwen/Qwen3-8B
      vllmConfig:
        maxModelLen: 4096
        extraArgs: ["--disable-log-requests", "--enable-dbo"]
"""
DYNAMO = """\
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata:
  name: qwen
spec:
  services:
    Worker:
      extraPodSpec:
        mainContainer:
          image: vllm/vllm-openai:v0.33.0
          command: [python3, -m, dynamo.vllm]
          args:
            - --model
            - Qwen/Qwen3-8B
            - --enable-dbo
"""
SCRIPT = """\
#!/bin/bash
set -e
# the engine
export HF_HOME=/cache
vllm serve Qwen/Qwen3-8B \\
    --max-model-len 4096 \\
    --enable-dbo
"""
SERVICE = """\
[Unit]
Description=vLLM

[Service]
Environment=HF_HOME=/cache
ExecStart=/usr/bin/vllm serve Qwen/Qwen3-8B --enable-dbo --max-model-len 4096
Restart=always
"""
REQUEST = """\
{
  "vllm_version": "0.33.0",
  "deployment": {
    "args": [
      "serve",
      "Qwen/Qwen3-8B",
      "--enable-dbo"
    ],
    "env": {"HF_HOME": "/cache"}
  }
}
"""
VARIABLE = """\
kind: Pod
apiVersion: v1
spec:
  containers:
    - image: vllm/vllm-openai:v0.33.0
      args: [--model=Qwen/Qwen3-8B, --enable-lora]
      env:
        # the runner
        - name: VLLM_USE_V2_MODEL_RUNNER
          value: "1"
        - {name: HF_HOME, value: /cache}
"""


def fixed(call: Callable[..., Done], tmp_path: Path, name: str, text: str, *flags: str) -> tuple[Done, str]:
    (tmp_path / "qwen.json").write_text(json.dumps(QWEN))
    file = tmp_path / "of" / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text.encode())
    done = call("fix", str(file), "--model-config", f"Qwen/Qwen3-8B={tmp_path / 'qwen.json'}", *flags)
    return done, file.read_bytes().decode()


@pytest.mark.parametrize(
    ("name", "text", "gone"),
    [
        pytest.param("d.yaml", DEPLOYMENT, "            - --enable-dbo   # faster\n", id="Deployment"),
        pytest.param("d.yaml", LIST_OF_VALUES, '"--enable-dbo", ', id="a list in brackets"),
        pytest.param("d.yaml", SCRIPT_IN_ARGS, "--enable-dbo \\\n                ", id="a script of a block"),
        pytest.param("d.yaml", LAST_IN_SCRIPT, " --enable-dbo", id="the last word of a script"),
        pytest.param("d.yaml", LEADER_WORKER_SET, "--enable-dbo ", id="LeaderWorkerSet"),
        pytest.param("d.yaml", KSERVE, ", --enable-dbo", id="KServe"),
        pytest.param("d.yaml", RAY_SERVICE, "                enable_dbo: true  # faster\n", id="RayService"),
        pytest.param("c.yaml", COMPOSE, "--enable-dbo ", id="Compose"),
        pytest.param("c.yaml", COMPOSE_FOLDED, "--enable-dbo\n      ", id="Compose, folded"),
        pytest.param("c.yaml", COMPOSE_LIST, [',\n      "--enable-dbo"', ""], id="Compose, a list in lines"),
        pytest.param("v.yaml", HELM, ', "--enable-dbo"', id="Helm values"),
        pytest.param("d.yaml", DYNAMO, "            - --enable-dbo\n", id="Dynamo"),
        pytest.param("s.sh", SCRIPT, " \\\n    --enable-dbo", id="script"),
        pytest.param("s.service", SERVICE, "--enable-dbo ", id="systemd"),
        pytest.param("r.json", REQUEST, ',\n      "--enable-dbo"', id="request"),
    ],
)
def test_an_argument_is_dropped_and_all_else_is_left(
    call: Callable[..., Done], tmp_path: Path, name: str, text: str, gone: str | list[str]
) -> None:
    old, new = (gone, "") if isinstance(gone, str) else gone
    flags = ["--vllm-version", "0.33.0"] if text in {SCRIPT, SERVICE, RAY_SERVICE} else []
    done, found = fixed(call, tmp_path, name, text, "--write", *flags)
    assert (done.code, done.err.replace("nothing to fix\n", "") if not flags else "", found) == (
        0,
        "",
        text.replace(old, new),
    ), done.out
    assert fixed(call, tmp_path, name, found, "--write", *flags)[1] == found
    assert fixed(call, tmp_path, name, text, *flags)[0].code == 1
    assert fixed(call, tmp_path, name, found, *flags)[0].code == 0


CHANGES: list[Callable[[str], str]] = [
    lambda text: text.replace("\n", "\r\n"),
    lambda text: f"\ufeff# ünï 😀\n{text}",
    lambda text: text.rstrip("\n"),
]


@pytest.mark.parametrize("text", [DEPLOYMENT, LIST_OF_VALUES, SCRIPT_IN_ARGS, RAY_SERVICE, COMPOSE_FOLDED])
@pytest.mark.parametrize("change", CHANGES, ids=["CRLF", "byte order mark", "no last line end"])
def test_line_ends_and_a_byte_order_mark_are_left(
    call: Callable[..., Done], tmp_path: Path, text: str, change: Callable[[str], str]
) -> None:
    plain = fixed(call, tmp_path, "d.yaml", text, "--write", "--vllm-version", "0.33.0")[1]
    assert plain != text
    found = fixed(call, tmp_path, "d.yaml", change(text), "--write", "--vllm-version", "0.33.0")[1]
    assert found == change(plain)
