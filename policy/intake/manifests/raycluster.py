"""KubeRay's RayCluster and RayJob (``ray.io/v1``), and AIBrix's objects that have the template of a RayCluster.

AIBrix's RayClusterFleet and RayClusterReplicaSet are ``orchestration.aibrix.ai/v1alpha1``, read at main, August 2026.
A container counts if it starts vLLM itself. A cluster with an image of vLLM in which nothing does is recorded, because
a program outside the manifest may start it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.pods import pod_containers, read_container, read_pod, read_pod_container
from policy.intake.manifests.rayserve_environment import NO_ENVIRONMENT, read_job_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.intake.manifests.reading import ManifestNode

OVERWRITES_COMMAND: Final = "ray.io/overwrite-container-cmd"
ENTRYPOINT: Final = "entrypoint"
RESOURCES: Final = ("entrypointNumGpus", "entrypointNumCpus", "entrypointResources")
"""The fields of a RayJob with which Ray starts its command on any node that has these resources, not on the head."""
NOTHING: Final = (None, 0, "", "0")
DECIDING: Final = ("image", "env", "envFrom", "volumeMounts", "workingDir")
"""The fields of a container that its command is decided by."""


def read_cluster(document: ManifestNode) -> None:
    """Read the containers of a RayCluster that start vLLM."""
    count = len(document.reader.containers)
    read_ray_containers(document, document.get("spec"))
    ignore_without_engine(document, document.get("spec"), count)


def read_cluster_fleet(document: ManifestNode) -> None:
    """Read AIBrix's RayClusterFleet or RayClusterReplicaSet, which has the template of a RayCluster."""
    template, count = document.get("spec", "template"), len(document.reader.containers)
    read_ray_containers(template, template.get("spec"))
    ignore_without_engine(document, template.get("spec"), count)


def read_job(document: ManifestNode) -> None:
    """Read a RayJob: the command that Ray runs in the first container of the head, and the cluster's containers.

    A container of the pod that submits the job counts too, if its own command starts vLLM.
    """
    spec, count = document.get("spec"), len(document.reader.containers)
    cluster = spec.get("rayClusterSpec")
    entrypoint = spec.get("entrypoint")
    text = entrypoint.text()
    if text:
        _read_entrypoint(entrypoint, text, spec, cluster)
    read_pod(spec.get("submitterPodTemplate", "spec"), by_image=False)
    read_ray_containers(document, cluster)
    ignore_without_engine(document, cluster, count)


def _read_entrypoint(entrypoint: ManifestNode, text: str, spec: ManifestNode, cluster: ManifestNode) -> None:
    """Read the command of a RayJob, which a shell in the head's container runs with the job's own variables."""
    pod = cluster.get("headGroupSpec", "template", "spec")
    head = next(iter(pod.get("containers").items()), None)
    draft = EngineDraft(entrypoint) if head is None else read_container(head, pod)
    draft.node, draft.words, draft.places, draft.has_command = entrypoint, [], [], True
    draft.add(ENTRYPOINT, "sh", "-c", text)
    content = spec.get("runtimeEnvYAML").yaml()
    environment = NO_ENVIRONMENT if content is None else read_job_environment(content)
    if environment.image is not None:  # Ray starts it without the variables of the container
        draft.image, draft.env = environment.image, dict.fromkeys(draft.env)
    draft.env = draft.env | environment.variables
    asked = next((name for name in RESOURCES if spec.get(name).value not in NOTHING), None)
    if asked is not None and head is not None and any(_differs(other, head) for other in _ray_containers(cluster)):
        draft.doubts.append(
            f"`{asked}` lets Ray run the command in a container of another group, which differs from the head's"
        )
    if draft.starts_vllm(by_image=False):
        draft.doubts += environment.doubts
        draft.finish(environment.installed)


def _ray_containers(cluster: ManifestNode) -> Iterator[ManifestNode]:
    """The first container of each pod, in which Ray runs."""
    for pod in ray_pods(cluster):
        yield from pod.get("containers").items()[:1]


def _differs(container: ManifestNode, head: ManifestNode) -> bool:
    return any(container.get(name).value != head.get(name).value for name in DECIDING)


def ignore_without_engine(document: ManifestNode, cluster: ManifestNode, count: int) -> None:
    """Record a cluster with an image of vLLM in which nothing starts vLLM: a job may start it later."""
    reader = document.reader
    if len(reader.containers) > count or reader.faults:
        return
    named = (container.get("image").value for pod in ray_pods(cluster) for container in pod_containers(pod))
    if any(isinstance(image, str) and "vllm" in image.lower() for image in named):
        reader.ignored.append(document)


def read_ray_containers(document: ManifestNode, cluster: ManifestNode) -> None:
    """Read the containers of a Ray cluster that start vLLM.

    In the first container of a pod the operator starts Ray, after the container's own command if it has one, unless an
    annotation leaves its command as it is. It does not change the others.
    """
    keeps_command = _keeps_command(document)
    for template in _ray_templates(cluster):
        pod = template.get("spec")
        by_image = keeps_command or _keeps_command(template)
        for container in pod_containers(pod):
            is_ray = container.key == 0 and container.parent is not None and container.parent.key == "containers"
            read_pod_container(container, pod, by_image=by_image or not is_ray)


def _keeps_command(node: ManifestNode) -> bool:
    """Whether an object's or a template's annotation leaves the command of Ray's container as it is."""
    return bool(node.get("metadata", "annotations").get(OVERWRITES_COMMAND).value == "true")


def ray_pods(cluster: ManifestNode) -> Iterator[ManifestNode]:
    """The pods of a Ray cluster: the head's, then each worker group's."""
    for template in _ray_templates(cluster):
        yield template.get("spec")


def _ray_templates(cluster: ManifestNode) -> Iterator[ManifestNode]:
    yield cluster.get("headGroupSpec", "template")
    for group in cluster.get("workerGroupSpecs").items():
        yield group.get("template")
