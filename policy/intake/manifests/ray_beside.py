"""What KubeRay runs beside Ray: the autoscaler, the history server's collector, and the container that submits.

Read at KubeRay's main branch, August 2026. All but the collector run a command of KubeRay's in a shell, with values of
the object in it.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from policy.intake.command.programs import starts_server
from policy.intake.command.words import PLAIN_NAME
from policy.intake.command_line import Container
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.pods import expand, read_container
from policy.intake.manifests.ray_groups import PLAIN_OPTIONS

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

OPERATOR_PLACE: Final = "added by KubeRay"
BASH: Final = ["/bin/bash", "-c", "--"]
AUTOSCALER: Final = "autoscaler"
AUTOSCALER_COMMAND: Final = (
    "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME) --cluster-namespace $(RAY_CLUSTER_NAMESPACE)"
)
AUTOSCALER_VARIABLES: Final = (
    "RAY_CLUSTER_NAME",
    "RAY_CLUSTER_NAMESPACE",
    "RAY_HEAD_POD_NAME",
    "RAY_AUTH_TOKEN",
    "RAY_AUTH_MODE",
    "KUBERAY_CRD_VER",
)
"""The variables that KubeRay sets in the autoscaler if `autoscalerOptions` does not."""
COLLECTOR: Final = "ray-history-collector"
COLLECTOR_VARIABLES: Final = (
    *("POD_IP", "RAY_CLUSTER_NAME", "RAY_CLUSTER_NAMESPACE", "RAY_ROLE", "EVENTS_PORT", "FQ_RAY_IP", "OWNER_KIND"),
    *("OWNER_NAME", "RAY_DASHBOARD_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_ENABLE_K8S_TOKEN_AUTH"),
)
"""The variables that KubeRay sets in the container for the history server if its options do not."""
ADDRESS_FIELDS: Final = (("rayStartParams", "port"), ("headService", "metadata", "name"))
"""The fields of the head's group from which KubeRay makes its address."""
MAX_ADDRESS: Final = 256
"""The longest part of an address in which variables are expanded; a Service's name has 63 characters."""
WAITING_VARIABLES: Final = ("FQ_RAY_IP", "RAY_IP")
ADDRESS_PROBLEM: Final = (
    "KubeRay writes the `{}` of the head into scripts of the workers, and a shell may read another command in it; "
    "leave out the characters of a shell"
)
COMMAND_VARIABLE: Final = "KUBERAY_GEN_AUTOSCALER_START_CMD"
ENTRYPOINT: Final = "entrypoint"
SUBMITTER_VARIABLES: Final[dict[str, str | None]] = {"PYTHONUNBUFFERED": "1", "RAY_DASHBOARD_ADDRESS": None}
AUTHENTICATION_VARIABLES: Final = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_ENABLE_K8S_TOKEN_AUTH")
SHELL_EXPANSION: Final = re.compile(r"[$`]")
"""Matches what a shell expands between double quotes, in which KubeRay writes the other values."""
QUOTED_FIELDS: Final = {
    "runtimeEnvYAML": "--runtime-env-json",
    "metadata": "--metadata-json",
    "entrypointResources": "--entrypoint-resources",
}
"""The fields of a RayJob whose values KubeRay writes between double quotes, and their options."""
SUBMISSION_DOUBT: Final = (
    "KubeRay writes `{}` into the script of the container that submits the job, and a shell expands it there; leave "
    "out the characters of a shell, or set `submissionMode: HTTPMode`"
)


def read_autoscaler(cluster: ManifestNode) -> None:
    """Read the autoscaler's container, to which `autoscalerOptions` may give another command, if it starts vLLM."""
    options, head = cluster.get("autoscalerOptions"), cluster.get("headGroupSpec", "template", "spec")
    if not (options.is_object() and cluster.get("enableInTreeAutoscaling").value):
        return
    first = next(iter(head.get("containers").items()), None)
    value: dict[str, Any] = {**options.value, "name": AUTOSCALER}
    if value.get("image") is None and first is not None:
        value["image"] = first.get("image").value
    draft = read_container(options.with_value(value), head, added_variables=AUTOSCALER_VARIABLES)
    draft.env.setdefault(COMMAND_VARIABLE, AUTOSCALER_COMMAND)
    if not options.get("args").value:
        draft.add(OPERATOR_PLACE, AUTOSCALER_COMMAND)
    if not draft.has_command:
        draft.words[:0], draft.places[:0], draft.has_command = BASH, [OPERATOR_PLACE] * len(BASH), True
    if draft.starts_vllm():
        draft.finish()


def read_collector(cluster: ManifestNode) -> None:
    """Read the container beside Ray that `historyServerOptions` adds to each pod, if it starts vLLM."""
    options = cluster.get("historyServerOptions", "collectorOptions")
    if options.is_object():
        fields = {name: options.value.get(name) for name in ("image", "env", "resources")}
        draft = read_container(options.with_value({**fields, "name": COLLECTOR}), added_variables=COLLECTOR_VARIABLES)
        if draft.starts_vllm():
            draft.finish()


def read_address(cluster: ManifestNode) -> None:
    """Add a problem if a shell may read another command in the head's address, which scripts of the workers have.

    One script is that of an init container that waits for the head, with the variables of the container in which Ray
    runs. Another one is that of `ray start`.
    """
    head = cluster.get("headGroupSpec")
    for keys in ADDRESS_FIELDS:
        node = _at(head, keys)
        text = "" if node is None else str(node.value)
        if node is not None and PLAIN_OPTIONS.fullmatch(text) is None and _is_command(text, cluster):
            problem = ADDRESS_PROBLEM.format(keys[-1])
            node.reader.add_hook(partial(Container, problem=problem), node)


def _at(node: ManifestNode, keys: tuple[str, ...]) -> ManifestNode | None:
    """The node at nested keys of objects that have them."""
    for key in keys:
        if not node.has(key):
            return None
        node = node.get(key)
    return node


def _is_command(text: str, cluster: ManifestNode) -> bool:
    """Whether a shell of a group of workers may read another command in a text that is a part of an address.

    Outside a review, only a command of vLLM's server counts. Under review any does, as a text may be a template.
    """
    groups = cluster.get("workerGroupSpecs").items()
    if len(text) > MAX_ADDRESS:
        return bool(groups) and _shows_command(text, cluster)
    for group in groups:
        pod = group.get("template", "spec")
        for container in pod.get("containers").items()[:1]:
            with pod.reader.separate(are_reported=False):
                draft = read_container(container, pod, added_variables=WAITING_VARIABLES)
            filled = expand(text, draft, group)
            if filled is not None and _shows_command(filled, cluster):
                return True
    return False


def _shows_command(text: str, cluster: ManifestNode) -> bool:
    return PLAIN_OPTIONS.fullmatch(text) is None and (cluster.reader.is_under_review or starts_server(text))


def submission_doubt(spec: ManifestNode) -> str:
    """Why the shell that submits a RayJob may do something other than submit it; empty if its fields are plain."""
    field = next(iter(_expanded_fields(spec)), None)
    return "" if field is None else SUBMISSION_DOUBT.format(field)


def submits_otherwise(spec: ManifestNode) -> bool:
    """Whether the container that submits a RayJob has a command, which KubeRay then leaves as it is."""
    container = _own_submitter(spec)
    return container is not None and bool(container.get("command").value)


def submitter(spec: ManifestNode) -> EngineDraft:
    """The container that submits a RayJob, with the variables that KubeRay sets in it, and without words."""
    container = _own_submitter(spec)
    with spec.reader.separate(are_reported=False):
        if container is None:
            draft = EngineDraft(spec)
            containers = spec.get("rayClusterSpec", "headGroupSpec", "template", "spec", "containers").items()
            draft.image = containers[0].get("image").text() if containers else None
        else:
            draft = read_container(container, spec.get("submitterPodTemplate", "spec"))
        draft.env.update(SUBMITTER_VARIABLES)
        draft.env["RAY_JOB_SUBMISSION_ID"] = expand(spec.get("jobId").text() or "", draft, spec.get("jobId")) or None
    for name in AUTHENTICATION_VARIABLES:
        draft.env.setdefault(name, None)
    draft.words, draft.places, draft.has_command = [], [], True
    return draft


def _own_submitter(spec: ManifestNode) -> ManifestNode | None:
    """The container of `submitterPodTemplate` that submits a RayJob; None if KubeRay makes one."""
    return next(iter(spec.get("submitterPodTemplate", "spec", "containers").items()), None)


def read_submission(spec: ManifestNode, *, is_started: bool) -> None:
    """Add an engine if the fields of a RayJob make the shell that submits it start vLLM.

    ``is_started``: whether its entrypoint is an engine already.
    """
    fields = _expanded_fields(spec)
    text = spec.get(ENTRYPOINT).value
    if isinstance(text, str) and not is_started and SHELL_EXPANSION.search(text) is not None:
        fields[ENTRYPOINT] = f"-- {text}"
    field = next(iter(fields), None)
    if field is None or submits_otherwise(spec):
        return
    draft = submitter(spec)
    draft.node = spec.get(field)
    draft.add(OPERATOR_PLACE, *BASH)
    draft.add(field, " ".join(["ray job submit", *fields.values()]))
    if draft.starts_vllm(by_image=False):
        draft.doubt(SUBMISSION_DOUBT.format(field))
        draft.finish()


def _expanded_fields(spec: ManifestNode) -> dict[str, str]:
    """The options, by field, that KubeRay makes from the fields of a RayJob that a shell expands."""
    found: dict[str, str] = {}
    job = spec.get("jobId").value
    if isinstance(job, str) and PLAIN_NAME.fullmatch(job) is None:
        found["jobId"] = f"--submission-id {job}"
    for field, option in QUOTED_FIELDS.items():
        value = spec.get(field).value
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if SHELL_EXPANSION.search(text) is not None:
            found[field] = f"{option} {json.dumps(text, ensure_ascii=False)}"
    return found
