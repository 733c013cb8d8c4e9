"""The workloads of Kubernetes and related projects.

Finds the pods of Kubernetes' Pod, PodTemplate, Deployment, StatefulSet, DaemonSet, ReplicaSet, Job and CronJob, JobSet
v1alpha2, Argo's Rollout v1alpha1, LeaderWorkerSet v1, DisaggregatedSet v1 and v1alpha1 (read at LWS's main branch,
August 2026), AIBrix's StormService, RoleSet and PodSet v1alpha1 (read at AIBrix's main branch, 2026). LWS and AIBrix
set variables in each container.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.manifests.pod_webhooks import adapter_mounts, added_mounts, added_variables
from policy.intake.manifests.pods import read_pod

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
ROLE_VARIABLES: Final[dict[str, str | None]] = dict.fromkeys(
    [
        *("STORM_SERVICE_NAME", "ROLESET_NAME", "ROLESET_INDEX", "ROLE_NAME", "ROLE_TEMPLATE_HASH"),
        "ROLE_REPLICA_INDEX",
    ]
)
"""The variables that AIBrix sets in a role's containers in place of their own; it sets the last one only in some."""
GROUP_VARIABLES: Final[dict[str, str | None]] = dict.fromkeys(["PODSET_NAME", "POD_GROUP_INDEX", "POD_GROUP_SIZE"])
"""The variables that AIBrix also sets in the containers of a group of pods."""


def read_one_pod(document: ManifestNode) -> None:
    """Read a Pod."""
    read_pod(document.get("spec"))


def read_template(document: ManifestNode) -> None:
    """Read an object with one pod template, such as a Deployment."""
    template = document.get("spec", "template")
    pod = template.get("spec")
    read_pod(pod, added_variables(template), mounts=adapter_mounts(document, pod) or added_mounts(template))


def read_pod_template(document: ManifestNode) -> None:
    """Read a PodTemplate."""
    read_pod(document.get("template", "spec"))


def read_job(document: ManifestNode, default: str = "NonIndexed") -> None:
    """Read a Job; in each pod of an indexed Job the controller sets the variable with the pod's number."""
    spec = document.get("spec")
    is_indexed = (spec.get("completionMode").text() or default) == "Indexed"
    read_pod(spec.get("template", "spec"), {INDEX_VARIABLE: None} if is_indexed else None)


def read_cron_job(document: ManifestNode) -> None:
    """Read a CronJob."""
    read_job(document.get("spec", "jobTemplate"))


def read_job_set(document: ManifestNode) -> None:
    """Read a JobSet: a Job for each of its replicated jobs, which are indexed unless they state another mode."""
    for part in document.get("spec", "replicatedJobs").items():
        read_job(part.get("template"), "Indexed")


def read_leader_worker_set(document: ManifestNode) -> None:
    """Read a LeaderWorkerSet; if it has no leader template, its leader uses the workers'."""
    _read_leader_worker_template(document.get("spec", "leaderWorkerTemplate"))


def _read_leader_worker_template(template: ManifestNode) -> None:
    size = template.get("size").count()
    group = {"LWS_GROUP_SIZE": str(1 if size is None else size), "LWS_LEADER_ADDRESS": None}
    with template.reader.ray_cluster():
        read_pod(template.get("leaderTemplate", "spec"), {**group, "LWS_WORKER_INDEX": "0"}, is_group=True)
        read_pod(template.get("workerTemplate", "spec"), {**group, "LWS_WORKER_INDEX": None}, is_group=True)


def read_disaggregated_set(document: ManifestNode) -> None:
    """Read a DisaggregatedSet: a LeaderWorkerSet for each role, which earlier releases call a phase.

    In some releases its specification is not below ``spec``.
    """
    for field in ("roles", "phases"):
        for role in document.get("spec", field).items():
            read_leader_worker_set(role)
            _read_leader_worker_template(role.get("leaderWorkerTemplate"))


def read_storm_service(document: ManifestNode) -> None:
    """Read AIBrix's StormService, which has the template of a RoleSet."""
    _read_roles(document.get("spec", "template"), document)


def read_role_set(document: ManifestNode) -> None:
    """Read AIBrix's RoleSet."""
    _read_roles(document, document)


def _read_roles(role_set: ManifestNode, document: ManifestNode) -> None:
    """Read the pod template of each role; AIBrix makes a PodSet of a role with a group of pods."""
    for role in role_set.get("spec", "roles").items():
        is_group = role.get("podGroupSize").value is not None
        pod = role.get("template", "spec")
        added = {**ROLE_VARIABLES, **(GROUP_VARIABLES if is_group else {})}
        with role.reader.ray_cluster():
            read_pod(pod, added, mounts=adapter_mounts(document, pod))


def read_pod_set(document: ManifestNode) -> None:
    """Read AIBrix's PodSet, which may be that of a role."""
    read_pod(document.get("spec", "template", "spec"), {**ROLE_VARIABLES, **GROUP_VARIABLES})
