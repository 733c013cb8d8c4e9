"""KubeRay's RayCluster, RayJob and RayCronJob (``ray.io/v1``), and AIBrix's objects with the template of a RayCluster.

AIBrix's RayClusterFleet and RayClusterReplicaSet are ``orchestration.aibrix.ai/v1alpha1``, read at main, August 2026.
A container counts if it starts vLLM itself. A cluster with an image of vLLM in which nothing does is recorded, because
a program outside the manifest may start it.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Final

from policy.intake.command import shell
from policy.intake.command.expansion import ExpansionExhausted, ShellSyntaxError
from policy.intake.command.shell_options import shell_options, startup_doubt
from policy.intake.command.words import Unknown
from policy.intake.manifests.draft import TEMPLATE, EngineDraft
from policy.intake.manifests.pods import (
    expand,
    pod_containers,
    read_container,
    read_passing_containers,
    read_pod,
    read_pod_container,
)
from policy.intake.manifests.ray_beside import (
    ENTRYPOINT,
    read_address,
    read_autoscaler,
    read_collector,
    read_submission,
    submission_doubt,
    submits_otherwise,
    submitter,
)
from policy.intake.manifests.ray_commands import (
    BASH,
    OVERWRITE_ANNOTATION,
    RAY_COMMAND,
    RAY_START,
    apply_ray_start,
    join_words,
    ray_script,
    read_effects,
    start_words,
)
from policy.intake.manifests.ray_fields import CLUSTER, HEAD, WORKERS
from policy.intake.manifests.ray_groups import ray_groups
from policy.intake.manifests.rayserve_environment import NO_ENVIRONMENT, read_job_environment
from policy.intake.manifests.unread_fields import unread_fields
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from policy.intake.manifests.ray_groups import RayGroup
    from policy.intake.manifests.reading import ManifestNode

OPERATOR_PLACE: Final = "added by KubeRay"
PLAIN_WORD: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
"""Matches a word that a shell does not change."""
PLAIN_WORDS: Final = re.compile(r"[A-Za-z0-9_@%+=:,./ \t-]*+")
"""Matches words that a shell only splits."""
JOIN_DOUBT: Final = (
    "KubeRay joins the words of the command with blanks, and a shell splits and expands them again; set the "
    f'annotation `{OVERWRITE_ANNOTATION}: "true"` and start Ray in the command'
)
LOST_SERVER_DOUBT: Final = (
    "KubeRay joins the words of the command with blanks, and what a shell makes of them is not vLLM's server; "
    f'set the annotation `{OVERWRITE_ANNOTATION}: "true"` and start Ray in the command'
)
OPTIONS: Final = "rayStartParams"
HTTP_MODE: Final = "HTTPMode"
"""The mode of a RayJob in which the operator sends the command to Ray."""
SUBMITTING_MODES: Final = (None, "", "K8sJobMode", "SidecarMode")
"""The modes in which the command is a part of a script of another container, which submits it."""
SUBMIT_PROGRAM: Final = "ray"
"""Stands in for the command that submits the words after it."""
SUBMISSION_SHELL_DOUBT: Final = (
    "a shell of the container that submits the job splits and expands the command before the shell of the head does; "
    "set `submissionMode: HTTPMode`, or write words without quotes, variables and other characters of a shell"
)
OTHER_CLUSTER_DOUBT: Final = (
    "the cluster in which Ray runs the command is not in the manifest, so that its image, variables and mounts are not "
    "known"
)
SUBMITTER_DOUBT: Final = (
    "the container that submits the job has a command of its own (`submitterPodTemplate`), which may start something "
    "else than `entrypoint`"
)
RESOURCE_FIELDS: Final = ("entrypointNumGpus", "entrypointNumCpus", "entrypointResources")
"""The fields of a RayJob with which Ray starts its command on any node that has these resources, not on the head."""
UNSET_VALUES: Final = (None, 0, "", "0")
COMMAND_FIELDS: Final = ("image", "command", "args", "env", "envFrom", "volumeMounts", "workingDir", "lifecycle")
"""The fields of a container that decide what its command starts."""

GENERATED_COMMAND: Final = "KUBERAY_GEN_RAY_START_CMD"
RAY_VARIABLES: Final[dict[str, str | None]] = dict.fromkeys(
    [
        *("RAY_CLUSTER_NAME", "RAY_CLUSTER_NAMESPACE", "RAY_CLOUD_INSTANCE_ID", "RAY_NODE_TYPE_NAME", "FQ_RAY_IP"),
        *("RAY_IP", GENERATED_COMMAND, "RAY_USAGE_STATS_EXTRA_TAGS"),
    ]
)
"""The variables that KubeRay sets in the container that starts Ray, after the container's own."""
DEFAULT_VARIABLES: Final = (
    *("RAY_PORT", "RAY_ADDRESS", "RAY_USAGE_STATS_KUBERAY_IN_USE", "REDIS_PASSWORD", "RAY_SERVE_KV_TIMEOUT_S"),
    *("RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE", "RAY_external_storage_namespace"),
    *("RAY_gcs_rpc_server_reconnect_timeout_s", "RAY_gcs_server_request_timeout_seconds"),
    *("RAY_timeout_ms_task_wait_for_death_info", "RAY_REDIS_ADDRESS", "REDIS_USERNAME", "RAY_enable_autoscaler_v2"),
    *("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_ENABLE_K8S_TOKEN_AUTH", "RAY_gcs_storage", "RAY_gcs_storage_path"),
    *("RAY_USE_TLS", "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT"),
)
"""The variables that KubeRay may set there if the container does not."""


def read_cluster(document: ManifestNode) -> None:
    """Read the containers of a RayCluster that start vLLM."""
    count = len(document.reader.containers)
    read_ray_containers(document.get("spec"), document)
    ignore_without_engine(document, document.get("spec"), count)


def read_cluster_fleet(document: ManifestNode) -> None:
    """Read AIBrix's RayClusterFleet or RayClusterReplicaSet, which has the template of a RayCluster."""
    template, count = document.get("spec", "template"), len(document.reader.containers)
    read_ray_containers(template.get("spec"), template)
    ignore_without_engine(document, template.get("spec"), count)


def read_job(document: ManifestNode) -> None:
    """Read a RayJob: the command that Ray runs in the first container of the head, and the cluster's containers.

    A container of the pod that submits the job counts too, if its own command starts vLLM.
    """
    _read_job_spec(document, document.get("spec"), document)


def read_cron_job(document: ManifestNode) -> None:
    """Read a RayCronJob, whose `jobTemplate` has the fields of a RayJob; its own annotations do not reach the pods."""
    _read_job_spec(document, document.get("spec", "jobTemplate"), None)


def _read_job_spec(document: ManifestNode, spec: ManifestNode, owner: ManifestNode | None) -> None:
    """Read the specification of a RayJob, whose cluster has the annotations of the ``owner``."""
    count = len(document.reader.containers)
    cluster = spec.get("rayClusterSpec")
    entrypoint = spec.get("entrypoint")
    text = entrypoint.text()
    with unread_cluster_fields(cluster, owner):
        is_started = bool(text) and _read_entrypoint(entrypoint, text or "", spec, owner)
    if spec.get("submissionMode").value != HTTP_MODE:
        read_submission(spec, is_started=is_started)
    read_pod(spec.get("submitterPodTemplate", "spec"), by_image=False)
    read_ray_containers(cluster, owner)
    ignore_without_engine(document, cluster, count)


def _read_entrypoint(entrypoint: ManifestNode, text: str, spec: ManifestNode, owner: ManifestNode | None) -> bool:
    """Read the command of a RayJob, which a shell in the head's container runs with the job's own variables.

    Returns whether it starts vLLM.
    """
    cluster = spec.get("rayClusterSpec")
    group = next(ray_groups(cluster, owner))
    pod = group.node.get("template", "spec")
    head = next(iter(pod.get("containers").items()), None)
    is_elsewhere = head is None or bool(spec.get("clusterSelector").value)
    draft = EngineDraft(entrypoint) if head is None else _read_first(head, pod, group)
    is_kept = keeps_command(owner) or keeps_command(group.node.get("template"))
    start = apply_ray_start(draft, group.options, is_kept=is_kept)
    draft.node, draft.words, draft.places, draft.has_command = entrypoint, [], [], True
    mode = spec.get("submissionMode").value
    sent = text if mode == HTTP_MODE else _expanded(entrypoint, text, spec)
    draft.add_final(ENTRYPOINT, "sh", "-c", sent if sent == text else _as_submitted(sent, spec))
    content = spec.get("runtimeEnvYAML").yaml()
    environment = NO_ENVIRONMENT if content is None else read_job_environment(content)
    if environment.image is not None:  # Ray starts it without the variables of the container
        draft.image = environment.image
        draft.env.replace(dict.fromkeys(draft.env))
    draft.env.update(environment.variables)
    draft.ray_variables = environment.variables if environment.image is None else None
    if is_elsewhere:
        draft.has_hidden_variables = True
        draft.doubts.append(OTHER_CLUSTER_DOUBT)
    if mode != HTTP_MODE:
        if submits_otherwise(spec):
            draft.doubts.append(SUBMITTER_DOUBT)
        if why := submission_doubt(spec):
            draft.doubts.append(why)
    asked = next((name for name in RESOURCE_FIELDS if spec.get(name).value not in UNSET_VALUES), None)
    if asked is not None and head is not None and any(_differs(other, head) for other in _ray_containers(cluster)):
        draft.doubts.append(
            f"`{asked}` lets Ray run the command in a container of another group, which differs from the head's"
        )
    doubt = _submission_doubt(mode, text)
    starts = draft.starts_vllm(by_image=False)
    if not starts and doubt:
        draft.words, draft.places = [], []
        draft.add_final(ENTRYPOINT, "sh", "-c", _as_submitted(sent, spec))
        starts = draft.starts_vllm(by_image=False)
    if starts:
        draft.doubts += [*environment.doubts, *([doubt] if doubt else [])]
        before = [] if environment.image is not None else read_effects(draft, start)
        draft.finish([*before, *environment.installed])
    return starts


def _read_first(container: ManifestNode, pod: ManifestNode, group: RayGroup) -> EngineDraft:
    """Read the container in which the operator starts Ray, with the variables that it sets there.

    The variable with KubeRay's command has the options of `ray start`, if they matter.
    """
    draft = read_container(container, pod, added_variables=(*RAY_VARIABLES, *DEFAULT_VARIABLES))
    group.set_variables(draft)
    draft.env.update(RAY_VARIABLES)
    if group.options:
        draft.env[GENERATED_COMMAND] = expand(f"{RAY_COMMAND}{group.options}", draft, container)
    return draft


def _submission_doubt(mode: object, text: str) -> str:
    """Why the head may not get the command of a RayJob as it is written; empty if it certainly does."""
    if mode == HTTP_MODE:
        return ""
    if mode in SUBMITTING_MODES:
        return SUBMISSION_SHELL_DOUBT if PLAIN_WORDS.fullmatch(text.strip()) is None else ""
    return f"with the `submissionMode` {quoted(mode)} it is not known how Ray gets the command"


def _expanded(entrypoint: ManifestNode, text: str, spec: ManifestNode) -> str:
    """The command of a RayJob as a shell of the container that submits it gets it, by that container's variables.

    It is an `Unknown` if the value of one is not known.
    """
    if "$" not in text:
        return text
    filled = expand(text, submitter(spec), entrypoint)
    return Unknown(text) if filled is None else filled


def _as_submitted(command: str, spec: ManifestNode) -> str:
    """The script that the head gets: `ray job submit` quotes the words into which the submitter's shell splits it."""
    if type(command) is Unknown:
        return command
    draft = submitter(spec)
    try:
        found = shell.parse_script(
            f"{SUBMIT_PROGRAM} {command}", draft.env, has_hidden_variables=draft.has_hidden_variables
        )
    except ShellSyntaxError:
        return command
    return subprocess.list2cmdline(found[0].words[1:]) if found else command


def _ray_containers(cluster: ManifestNode) -> Iterator[ManifestNode]:
    """The first container of each pod, in which Ray runs."""
    for pod in ray_pods(cluster):
        yield from pod.get("containers").items()[:1]


def _differs(container: ManifestNode, head: ManifestNode) -> bool:
    return any(container.get(name).value != head.get(name).value for name in COMMAND_FIELDS)


def ignore_without_engine(document: ManifestNode, cluster: ManifestNode, count: int) -> None:
    """Record a cluster with an image of vLLM in which nothing starts vLLM: a job may start it later."""
    reader = document.reader
    if len(reader.containers) > count or reader.faults:
        return
    named = (container.get("image").value for pod in ray_pods(cluster) for container in pod_containers(pod))
    if any(isinstance(image, str) and "vllm" in image.lower() for image in named):
        reader.ignored_nodes.append(document)


def unread_cluster_fields(cluster: ManifestNode, owner: ManifestNode | None) -> AbstractContextManager[None]:
    """Add doubts about the fields of a cluster and all its groups to the engines that are read within.

    These are engines that Ray starts, in any of its containers.
    """
    groups = [(HEAD if group.is_head else WORKERS, group.node) for group in ray_groups(cluster, owner)]
    return unread_fields((CLUSTER, cluster), *groups)


def read_ray_containers(cluster: ManifestNode, owner: ManifestNode | None) -> None:
    """Read the containers of a Ray cluster that start vLLM.

    The operator turns the command of a pod's first container into a script, unless an annotation or the command itself
    prevents it. It does not change the other containers. The cluster has the annotations of its ``owner``.
    """
    is_kept_everywhere = keeps_command(owner)
    with unread_fields((CLUSTER, cluster)):
        for group in ray_groups(cluster, owner):
            is_kept = is_kept_everywhere or keeps_command(group.node.get("template"))
            with unread_fields((HEAD if group.is_head else WORKERS, group.node)):
                _read_group(group, is_kept=is_kept)
        read_autoscaler(cluster)
        read_address(cluster)
        read_collector(cluster)


def _read_group(group: RayGroup, *, is_kept: bool) -> None:
    """Read the containers of a group's pod; Ray runs in the first one.

    ``is_kept``: whether its command is kept as it is.
    """
    pod = group.node.get("template", "spec")
    for container in pod_containers(pod):
        is_ray = container.key == 0 and container.parent is not None and container.parent.key == "containers"
        if is_ray and is_kept:
            draft = _read_first(container, pod, group)
            draft.note_ray(start_words(draft.words, group.options, is_kept=True))
            if draft.starts_vllm():
                draft.finish()
        elif is_ray:
            _read_ray_container(container, pod, group)
        else:
            read_pod_container(container, pod)
    read_passing_containers(pod)


def _read_ray_container(container: ManifestNode, pod: ManifestNode, group: RayGroup) -> None:
    """Read the container in which the operator starts Ray, after the container's own command if it has one.

    The command and its arguments, joined with blanks, are then a script. If a shell splits it into the same words, they
    count as they are written. An engine that starts only as it is written counts too, with a doubt.
    """
    draft = _read_first(container, pod, group)
    draft.note_ray(start_words(draft.words, group.options, is_kept=False))
    script = join_words(draft.words)
    if RAY_START in script:
        if draft.starts_vllm():
            draft.finish()
        return
    if group.options or (draft.words and not _is_plain(draft)):
        _join(draft, ray_script(draft.words, group.options))
    if draft.starts_vllm(by_image=False):
        draft.finish()


def _is_plain(draft: EngineDraft) -> bool:
    """Whether a shell splits the joined words into the same ones, once Kubernetes has expanded them."""
    if startup_doubt("bash", shell_options("bash", ("--",), 0), draft.env):
        return False
    try:
        words = draft.expanded_words()
    except ExpansionExhausted:
        return False
    return all(type(word) is not Unknown and PLAIN_WORD.fullmatch(word) is not None for word in words)


def _join(draft: EngineDraft, script: str) -> None:
    """Replace the words with those of the script, unless only the words as they are written start a server.

    Words with a template are kept too if they start one: only the rendered command is a script that can be read.
    """
    written = draft.words, draft.places, draft.has_command
    is_started = draft.starts_vllm(by_image=False) and draft.server is not None
    list_of = draft.places[0].partition("[")[0] if draft.places else OPTIONS
    draft.words, draft.places = [*BASH, script], [OPERATOR_PLACE] * len(BASH) + [list_of]
    draft.has_command, draft.server, draft.problem = True, None, ""
    is_joined = draft.starts_vllm(by_image=False) and draft.server is not None
    if is_started and (TEMPLATE in script or not is_joined):
        draft.words, draft.places, draft.has_command = written
    draft.doubts.append(JOIN_DOUBT if is_joined else LOST_SERVER_DOUBT)


def keeps_command(node: ManifestNode | None) -> bool:
    """Whether an object's or a template's annotation leaves the command of Ray's container as it is."""
    if node is None:
        return False
    value = node.get("metadata", "annotations").get(OVERWRITE_ANNOTATION).value
    return isinstance(value, str) and value.lower() == "true"


def ray_pods(cluster: ManifestNode) -> Iterator[ManifestNode]:
    """The pods of a Ray cluster: the head's, then each worker group's."""
    yield cluster.get("headGroupSpec", "template", "spec")
    for group in cluster.get("workerGroupSpecs").items():
        yield group.get("template", "spec")
