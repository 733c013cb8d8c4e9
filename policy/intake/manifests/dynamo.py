"""NVIDIA Dynamo's DynamoGraphDeployment and DynamoComponentDeployment.

Both are ``nvidia.com`` v1alpha1 and v1beta1, read at the main branch, 2026. Finds a graph's containers. What the
operator adds for several nodes depends on its version, so there is only a note. Not here: the flags that
``dynamo.vllm`` removes and adds (``dynamo_arguments``).
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from policy.intake.command.kubernetes_references import expand_references, references
from policy.intake.command.words import Unknown
from policy.intake.manifests.dynamo_defaults import FRONTEND, MAIN, add_command
from policy.intake.manifests.dynamo_fields import COMPONENT, GRAPH, LONE_COMPONENT, SERVICE
from policy.intake.manifests.dynamo_metadata import add_conversion_problem, object_doubt
from policy.intake.manifests.dynamo_mounts import SIDECAR, component_containers, service_containers, with_mounts_of
from policy.intake.manifests.engine_doubts import engine_doubt
from policy.intake.manifests.hardware import component_signs
from policy.intake.manifests.hooks import read_hooks
from policy.intake.manifests.mounts import mount_paths
from policy.intake.manifests.pods import (
    note_mounting_containers,
    pod_containers,
    read_container,
    read_env,
    read_passing_containers,
    read_pod,
    read_shared_env,
    read_variable,
)
from policy.intake.manifests.unread_fields import unread_fields
from policy.messages import enumerated

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policy.intake.manifests.draft import EngineDraft
    from policy.intake.manifests.reading import ManifestNode

OPERATOR_VARIABLES: Final = (
    *(
        "DYN_NAMESPACE",
        "DYN_NAMESPACE_WORKER_SUFFIX",
        "DYN_COMPONENT",
        "DYN_DISCOVERY_BACKEND",
        "DYN_PARENT_DGD_K8S_NAME",
    ),
    *("DYN_PARENT_DGD_K8S_NAMESPACE", "DYN_KUBE_DISCOVERY_MODE", "DYN_SYSTEM_ENABLED", "DYN_SYSTEM_PORT"),
    *("DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS", "DYN_HEALTH_CHECK_ENABLED", "DYNAMO_PORT", "DYNAMO_RANK"),
    *("DYNAMO_LEADER_ADDRESS", "POD_NAME", "POD_NAMESPACE", "POD_UID", "POD_IP", "CONTAINER_NAME", "NATS_SERVER"),
    *("ETCD_ENDPOINTS", "MODEL_EXPRESS_URL", "PROMETHEUS_ENDPOINT", "NIXL_TELEMETRY_ENABLE", "NIXL_TELEMETRY_EXPORTER"),
    *("NIXL_TELEMETRY_PROMETHEUS_PORT", "GROVE_PCS_NAME", "GROVE_PCS_INDEX", "GROVE_PCLQ_NAME"),
    *("GROVE_PCLQ_POD_INDEX", "GROVE_HEADLESS_SERVICE", "GROVE_PCSG_NAME", "GROVE_PCSG_INDEX", "GROVE_PCSG_POD_INDEX"),
    *("GROVE_PCSG_TEMPLATE_NUM_PODS", "LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"),
)
"""The variables that the operator, or Grove or LeaderWorkerSet for it, may set if the container does not."""
APPENDED_VARIABLES: Final = ("DYNAMO_PORT", "NATS_SERVER", "ETCD_ENDPOINTS")
"""The ones that several releases append after the container's own variables."""
PLAIN_WORD: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]++")
"""Matches a word that a shell does not change."""
PLAIN_WORDS: Final = re.compile(r"[A-Za-z0-9_@%+=:,./ \t-]*+")
"""Matches words that a shell only splits."""
SCRIPT_WORDS: Final = 3
MAX_SHOWN: Final = 3
JOIN_DOUBT: Final = (
    "for {} nodes several releases of Dynamo's operator join the words of the command with blanks, and a shell splits "
    "and expands them again; write words without quotes, braces, variables and other characters of a shell"
)
ELASTIC: Final = "--enable-elastic-ep"
QUOTE_DOUBT: Final = (
    f"for `{ELASTIC}` several releases of Dynamo's operator put each word in quotes into a script, in which Kubernetes "
    "then replaces {}, whose value may end the quotes; write the value itself"
)


def read_graph(document: ManifestNode) -> None:
    """Read the services (v1alpha1) and components (v1beta1) of a graph that run vLLM."""
    spec = document.get("spec")
    with unread_fields((GRAPH, spec)), _doubted(document):
        for _, service in spec.get("services").fields():
            with unread_fields((SERVICE, service)):
                _read_service(service, spec)
        for component in spec.get("components").items():
            with unread_fields((COMPONENT, component)):
                _read_component(component, spec)


def read_component(document: ManifestNode) -> None:
    """Read a component that is deployed without a graph."""
    spec = document.get("spec")
    with unread_fields((LONE_COMPONENT, spec)), _doubted(document):
        _read_service(spec, spec)
        _read_component(spec, spec)


@contextmanager
def _doubted(document: ManifestNode) -> Iterator[None]:
    """Add the doubt about the object's labels and annotations to the engines that are read within."""
    count = len(document.reader.containers)
    with engine_doubt(document.reader, lambda: object_doubt(document)):
        yield
    if len(document.reader.containers) == count:
        add_conversion_problem(document)


def _read_service(service: ManifestNode, graph: ManifestNode) -> None:
    pod = service.get("extraPodSpec")
    mounts = [
        *mount_paths(service.get("volumeMounts").value, "mountPoint"),
        *mount_paths([service.get("pvc").value], "mountPoint"),  # of earlier releases
    ]
    note_mounting_containers(pod, service_containers(service.value, pod.value))
    if pod.get("mainContainer").is_object():
        main = pod.get("mainContainer")
        container = _with_secret({**main.value, "name": MAIN}, service.get("envFromSecret").text())
        draft = read_container(main.with_value(container), pod, mounts, OPERATOR_VARIABLES)
        draft.hardware += component_signs(service.get("resources").value)
        own = _own_variables(draft)
        draft.env.replace(dict.fromkeys(OPERATOR_VARIABLES))
        read_shared_env(graph.get("envs"), draft)
        read_env(service.get("envs"), draft)
        draft.env.update(own)
        _merge(draft, pod.get("mainContainer", "env"), (graph.get("envs"), service.get("envs")))
        read_hooks(
            service,
            draft,
            (graph.get("envs"), service.get("envs"), pod.get("mainContainer", "env")),
            added_variables=OPERATOR_VARIABLES,
            replaced_variables=[name for name, value in draft.env.items() if value is None],
        )
        add_command(draft, service.get("componentType").text() or "")
        _finish(draft, service)
    _read_sidecar(service, pod, mounts)
    read_pod(pod)


def _read_component(component: ManifestNode, graph: ManifestNode) -> None:
    pod = component.get("podTemplate", "spec")
    mounts = mount_paths([component.get("compilationCache").value], "mountPath")
    sharing = component_containers(component.value, pod.value)
    note_mounting_containers(pod, sharing)
    for container in pod_containers(pod):
        shared = next((each for each in sharing if each["name"] == container.get("name").value), None)
        draft = read_container(
            container if shared is None else container.with_value(shared), pod, mounts, OPERATOR_VARIABLES
        )
        own = _own_variables(draft)
        draft.env.replace(dict.fromkeys(OPERATOR_VARIABLES))
        read_shared_env(graph.get("env"), draft)
        draft.env.update(own)
        _merge(draft, container.get("env"), (graph.get("env"),), is_above=True)
        _add_command(draft, component, container.get("name").value)
        _finish(draft, component)
    read_passing_containers(pod)


def _add_command(draft: EngineDraft, component: ManifestNode, name: object) -> None:
    """Add the command of a container of a component, if it is one that the operator completes.

    If a sidecar has Dynamo's runtime, the operator completes the sidecar, and the main container stays as written.
    """
    if name is not None and name == (component.get("dynamoSidecar").value or MAIN):
        add_command(draft, component.get("type").text() or "")
    elif name is not None and name == component.get("frontendSidecar").value:
        add_command(draft, FRONTEND)


def _read_sidecar(service: ManifestNode, pod: ManifestNode, mounts: Sequence[str]) -> None:
    """Read the frontend that the operator adds beside a service, with its mounts, if it starts vLLM."""
    sidecar = service.get("frontendSidecar")
    if not isinstance(sidecar.value, dict):
        return
    fields = {"image": sidecar.value.get("image"), "args": sidecar.value.get("args"), "env": sidecar.value.get("envs")}
    container = with_mounts_of({"name": SIDECAR, **fields}, pod.get("mainContainer").value)
    container = _with_secret(container, sidecar.get("envFromSecret").text())
    draft = read_container(sidecar.with_value(container), pod, mounts, OPERATOR_VARIABLES)
    add_command(draft, FRONTEND)
    if draft.starts_vllm():
        draft.finish()


def _with_secret(container: dict[str, Any], secret: str | None) -> dict[str, Any]:
    """A container with a Secret as the last source of its variables, where the operator puts it."""
    sources = container.get("envFrom") or []
    if not secret or not isinstance(sources, list):
        return container
    return {**container, "envFrom": [*sources, {"secretRef": {"name": secret}}]}


def _own_variables(draft: EngineDraft) -> dict[str, str | None]:
    """The variables that the container itself sets."""
    named = [item.get("name").value for item in draft.node.get("env").items()]
    return {name: value for name, value in draft.env.items() if name not in OPERATOR_VARIABLES or name in named}


def _merge(draft: EngineDraft, own: ManifestNode, given: Sequence[ManifestNode], *, is_above: bool = False) -> None:
    """Read the variables again as the operator merges them: one of each name, sorted by name.

    Releases differ in whether the container's ``own`` or the ``given`` ones take precedence, and in when they sort: a
    variable with several values, or a reference to a later name, is not known. With ``is_above`` the own ones take
    precedence.
    """
    if not draft.node.reader.may_copy(0, draft.node):
        return
    found: dict[str, ManifestNode] = {}
    doubtful = set(APPENDED_VARIABLES)
    draft.env.update(dict.fromkeys(APPENDED_VARIABLES))
    with draft.node.reader.separate(are_reported=False):  # the faults are reported where they were read first
        for env in (*given, own):
            named: dict[str, ManifestNode] = {}
            for item in env.items():
                name = item.get("name").value
                if not isinstance(name, str):
                    continue
                before = named.get(name) or (found.get(name) if env is own and not is_above else None)
                if before is not None and before.value != item.value:
                    doubtful.add(name)
                named[name] = item
            found |= named
        for name, item in found.items():
            if item.get("valueFrom").value is None:
                draft.env[name] = None
        for name in sorted(found):
            read_variable(found[name], draft)
            if name in doubtful:
                draft.env[name] = None


def _finish(draft: EngineDraft, service: ManifestNode) -> None:
    if not draft.starts_vllm():
        return
    nodes = service.get("multinode", "nodeCount").count()
    if nodes is not None and nodes > 1:
        draft.note(
            f"for {nodes} nodes Dynamo's operator adds `--distributed-executor-backend`, `--nnodes` or "
            "`--data-parallel-…`; they are not known here"
        )
        if not _is_plain(draft.words):
            draft.doubt(JOIN_DOUBT.format(nodes))
    elif any(ELASTIC in word.replace("_", "-") for word in draft.words):
        ending = [f"$({name})" for name in _ending_quotes(draft)]
        if ending:
            draft.doubt(QUOTE_DOUBT.format(enumerated(ending, MAX_SHOWN)))
    draft.finish()


def _ending_quotes(draft: EngineDraft) -> list[str]:
    """The variables that the words refer to as `$(NAME)` and whose values may have a single quote."""
    named = dict.fromkeys(name for word in draft.words for name in references(word))
    return [
        name
        for name in named
        if type(value := expand_references(f"$({name})", draft.env, has_hidden_variables=draft.has_hidden_variables))
        is Unknown
        or (name in draft.env and "'" in value)
    ]


def _is_plain(words: Sequence[str]) -> bool:
    """Whether a shell splits the joined words into the same ones; it splits a script in any case."""
    *others, last = words or [""]
    is_script = len(words) == SCRIPT_WORDS and words[1] == "-c"
    pattern = PLAIN_WORDS if is_script else PLAIN_WORD
    return pattern.fullmatch(last) is not None and all(PLAIN_WORD.fullmatch(word) is not None for word in others)
