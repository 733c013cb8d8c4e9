"""Containers and workloads of Kubernetes, for tests that decide manifests."""

from __future__ import annotations

from typing import Any, Final

NAME: Final = "Qwen/Qwen3-8B"
"""The model of a container."""


def container(*args: str, image: str = "vllm/vllm-openai:v0.24.0", model: str = NAME, **members: Any) -> dict[str, Any]:
    """A container that serves a model; ``members`` are its further fields."""
    return {"name": "vllm", "image": image, "args": ["--model", model, *args], **members}


def deployment(*containers: dict[str, Any], name: str = "qwen") -> dict[str, Any]:
    """A Deployment of these containers."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "prod"},
        "spec": {"template": {"spec": {"containers": list(containers)}}},
    }
