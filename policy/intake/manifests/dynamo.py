"""NVIDIA Dynamo's DynamoGraphDeployment and DynamoComponentDeployment.

Both are ``nvidia.com`` v1alpha1 and v1beta1, read at the main branch, 2026. Finds a graph's containers. What the
operator adds for several nodes depends on its version, so there is only a note. Not here: the flags that
``dynamo.vllm`` removes and adds (``dynamo_arguments``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.intake.manifests.hardware import component_signs
from policy.intake.manifests.hooks import read_hooks
from policy.intake.manifests.mounts import mount_paths
from policy.intake.manifests.pods import pod_containers, read_container, read_env, read_pod, read_shared_env
from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.manifests.draft import EngineDraft
    from policy.intake.manifests.reading import ManifestNode


def read_graph(document: ManifestNode) -> None:
    """Read the services (v1alpha1) and components (v1beta1) of a graph that run vLLM."""
    spec = document.get("spec")
    for _, service in spec.get("services").fields():
        _read_service(service, spec)
    for component in spec.get("components").items():
        _read_component(component, spec)


def read_component(document: ManifestNode) -> None:
    """Read a component that is deployed without a graph."""
    spec = document.get("spec")
    _read_service(spec, spec)
    _read_component(spec, spec)


def _read_service(service: ManifestNode, graph: ManifestNode) -> None:
    pod = service.get("extraPodSpec")
    if pod.get("mainContainer").is_object():
        mounts = [
            *mount_paths(service.get("volumeMounts").value, "mountPoint"),
            *mount_paths([service.get("pvc").value], "mountPoint"),  # of earlier releases
        ]
        draft = read_container(pod.get("mainContainer"), pod, mounts)
        draft.hardware += component_signs(service.get("resources").value)
        own = draft.env
        draft.env = {}
        read_shared_env(graph.get("envs"), draft)
        draft.has_hidden_variables = draft.has_hidden_variables or bool(service.get("envFromSecret").value)
        read_env(service.get("envs"), draft)
        draft.env.update(own)
        secret = service.get("envFromSecret").text()
        if secret:
            draft.note(f"`envFromSecret` takes variables from {quoted(secret)}, which the manifest does not show")
        read_hooks(service, draft)
        _finish(draft, service)
    read_pod(pod)


def _read_component(component: ManifestNode, graph: ManifestNode) -> None:
    pod = component.get("podTemplate", "spec")
    mounts = mount_paths([component.get("compilationCache").value], "mountPath")
    for container in pod_containers(pod):
        draft = read_container(container, pod, mounts)
        own = draft.env
        draft.env = {}
        read_shared_env(graph.get("env"), draft)
        draft.env.update(own)
        _finish(draft, component)


def _finish(draft: EngineDraft, service: ManifestNode) -> None:
    if not draft.starts_vllm():
        return
    nodes = service.get("multinode", "nodeCount").count()
    if nodes is not None and nodes > 1:
        draft.note(
            f"for {nodes} nodes Dynamo's operator adds `--distributed-executor-backend`, `--nnodes` or "
            "`--data-parallel-…`; they are not known here"
        )
    draft.finish()
