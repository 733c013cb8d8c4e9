"""The places of a pod with a command, and what is expected of a command there that may start vLLM's server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shipped_images import read_manifest

from policy.intake.manifests.hooks import PROBLEM
from policy.intake.manifests.pods import SERVER_PROBLEM

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

VLLM = "vllm/vllm-openai:v0.33.0"
OWN_IMAGE = "registry.example.org/own:1"
WEB = {"name": "web", "image": "nginx:1.27"}
SLEEPS = {"name": "a", "command": ["sleep", "infinity"]}
HOOKS = ["lifecycle.postStart", "lifecycle.preStop", "livenessProbe", "readinessProbe", "startupProbe"]
PLACES = ["containers", "sidecar", "initContainers", "ephemeralContainers", *HOOKS]


def read(document: Any) -> list[Container]:
    faults: list[RequestFault] = []
    found = read_manifest(document, "", faults)
    assert faults == []
    return found


def document_of(place: str, image: str, command: list[str], *env: dict[str, str]) -> dict[str, Any]:
    """A pod that runs a command at a place: as that of a container of one of its lists, or beside it."""
    container: dict[str, Any] = {"name": "a", "image": image, "command": command, "env": [*env]}
    spec: dict[str, Any] = {"containers": [WEB]}
    if place == "containers":
        spec[place] = [container]
    elif place == "sidecar":
        spec["initContainers"] = [{**container, "restartPolicy": "Always"}]
    elif place in HOOKS:
        value: Any = {"exec": {"command": command}}
        for key in reversed(place.split(".")):
            value = {key: value}
        spec["containers"] = [{**container, **SLEEPS, **value}]
    else:
        spec[place] = [container]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}


def problems(place: str, document: dict[str, Any]) -> list[str]:
    """What is not decided in a document; the words of a container that cannot be read are read with the decision."""
    return [each.problem if place not in {"containers", "sidecar"} else "" for each in read(document)]


def expected(place: str) -> str:
    if place in HOOKS:
        return PROBLEM.format(f"`{place}`", "may start")
    kinds = {"initContainers": "init container", "ephemeralContainers": "ephemeral container"}
    return SERVER_PROBLEM.format(kinds[place]) if place in kinds else ""
