"""The port that Kubernetes sets in pods beside a Service named `vllm`.

The kubelet sets variables for each Service of the namespace that has an address when the container starts, unless the
container or `enableServiceLinks: false` says otherwise. For `vllm` one of them is `VLLM_PORT`, which vLLM reads as its
own. Not here: what vLLM makes of a stated `VLLM_PORT` (`launch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from policy.intake.manifests.draft import EngineDraft
    from policy.intake.manifests.reading import ManifestNode

SERVICE: Final = ("", "Service")
NAME: Final = "vllm"
PORT: Final = "VLLM_PORT"
NOTE: Final = (
    "Kubernetes sets VLLM_PORT to `tcp://…` in each container that starts after the Service `vllm` of this manifest, "
    "and vLLM refuses that value; rename the Service, or set `enableServiceLinks: false` in the pod"
)


def collect_service(node: ManifestNode, namespace: str | None) -> None:
    """Add a Service to those of the manifest if Kubernetes sets `VLLM_PORT` for it."""
    metadata, spec = (node.value.get(field) for field in ("metadata", "spec"))
    if isinstance(metadata, dict) and metadata.get("name") == NAME and isinstance(spec, dict) and _has_address(spec):
        node.reader.add_referenced_object(SERVICE, namespace, NAME, node)


def _has_address(spec: dict[str, Any]) -> bool:
    """Whether a Service gets an address of its own; a headless one and one for an external name get none."""
    return spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName" and bool(spec.get("ports"))


def note_port(pod: ManifestNode, draft: EngineDraft) -> None:
    """Note that Kubernetes sets `VLLM_PORT` in a container of the pod; its own variable or command may prevent it."""
    if not pod.reader.has_beside(SERVICE, NAME) or pod.get("enableServiceLinks").value is False:
        return
    if PORT not in draft.env and not any(PORT in word for word in draft.words):
        draft.note(NOTE)
