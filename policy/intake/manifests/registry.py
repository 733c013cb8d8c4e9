"""Choose the adapter for each document, by API group and kind, or by shape if the document has no kind.

Handles lists of documents, Kubernetes ``List`` objects and unknown kinds, whose containers are read. ConfigMaps and
KServe runtimes are collected first, because other documents refer to them.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from policy.intake.command_line import Container
from policy.intake.manifests import (
    benchmark,
    compose,
    controller_fields,
    dstack,
    dynamo,
    dynamo_fields,
    helm_objects,
    kaito,
    kserve,
    kserve_fields,
    kthena,
    kubeai,
    llmaz,
    llmisvc,
    modelservice,
    nomad,
    ome,
    ome_fields,
    openshift,
    productionstack,
    ray_fields,
    raycluster,
    rayserve,
    shellscript,
    skypilot,
    systemd,
    truss,
    unknown_kinds,
    values,
    vllmruntime,
    workload_fields,
    workloads,
)
from policy.intake.manifests.engine_doubts import engine_doubt
from policy.intake.manifests.kserve_pods import component_doubt
from policy.intake.manifests.kserve_runtimes import server_of
from policy.intake.manifests.pod_webhooks import webhook_doubt
from policy.intake.manifests.reading import (
    MAX_DOCUMENTS,
    ManifestNode,
    ManifestReader,
    ServingRuntime,
    TooManyFaults,
    read_separately,
)
from policy.intake.manifests.service_links import SERVICE, collect_service
from policy.intake.manifests.unread_fields import field_doubts, unread_fields
from policy.messages import listed, nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policy.errors import RequestFault
    from policy.intake.manifests.field_tables import FieldTable
    from policy.rules.images import ImageTable

    Adapter = Callable[[ManifestNode], None]

MAX_NESTED: Final = 8
KSERVE: Final = "serving.kserve.io"
AIBRIX: Final = "orchestration.aibrix.ai"
KAITO: Final = "kaito.sh"
KTHENA: Final = "workload.serving.volcano.sh"
CONFIG_MAP: Final = ("", "ConfigMap")
SECRET: Final = ("", "Secret")
SERVICE_ACCOUNT_TOKEN: Final = "kubernetes.io/service-account-token"  # noqa: S105  # a type of Secret
"""The type of a Secret to which a controller adds keys."""
CLUSTER_RUNTIME: Final = (KSERVE, "ClusterServingRuntime")
RUNTIMES: Final = ((KSERVE, "ServingRuntime"), CLUSTER_RUNTIME)
LLM_CONFIG: Final = (KSERVE, "LLMInferenceServiceConfig")
CLUSTER_KINDS: Final = frozenset(
    {llmaz.MODEL, llmaz.RUNTIME, (ome.GROUP, "ClusterBaseModel"), (ome.GROUP, "ClusterServingRuntime")}
)
REFERENCED_KINDS: Final = CLUSTER_KINDS | {
    *((ome.GROUP, "BaseModel"), (ome.GROUP, "ServingRuntime"), helm_objects.CHART, helm_objects.CHART_CONFIG)
}
"""The kinds of llmaz, OME and K3s to which others refer by name; those of ``CLUSTER_KINDS`` have no namespace."""
COLLECTED_KINDS: Final = REFERENCED_KINDS | {CONFIG_MAP, LLM_CONFIG, SECRET, SERVICE, *RUNTIMES}
"""The kinds to which other objects of a manifest refer, or that change their variables; they are read first."""

ADAPTERS: Final[dict[tuple[str, str], Adapter]] = {
    ("", "Pod"): workloads.read_one_pod,
    ("", "ReplicationController"): workloads.read_template,
    ("apps", "Deployment"): workloads.read_template,
    ("apps", "StatefulSet"): workloads.read_template,
    ("apps", "DaemonSet"): workloads.read_template,
    ("apps", "ReplicaSet"): workloads.read_template,
    ("batch", "Job"): workloads.read_job,
    ("batch", "CronJob"): workloads.read_cron_job,
    ("", "PodTemplate"): workloads.read_pod_template,
    ("argoproj.io", "Rollout"): workloads.read_template,
    ("jobset.x-k8s.io", "JobSet"): workloads.read_job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): workloads.read_leader_worker_set,
    ("disaggregatedset.x-k8s.io", "DisaggregatedSet"): workloads.read_disaggregated_set,
    (AIBRIX, "StormService"): workloads.read_storm_service,
    (AIBRIX, "RoleSet"): workloads.read_role_set,
    (KSERVE, "InferenceService"): kserve.read_inference_service,
    (KSERVE, "ServingRuntime"): kserve.read_runtime,
    (KSERVE, "ClusterServingRuntime"): kserve.read_runtime,
    (KSERVE, "LLMInferenceService"): llmisvc.read_llm_inference_service,
    LLM_CONFIG: llmisvc.read_llm_inference_service_config,
    ("production-stack.vllm.ai", "VLLMRuntime"): vllmruntime.read_vllm_runtime,
    ("nvidia.com", "DynamoGraphDeployment"): dynamo.read_graph,
    ("nvidia.com", "DynamoComponentDeployment"): dynamo.read_component,
    ("kubeai.org", "Model"): kubeai.read_model,
    (KAITO, "Workspace"): kaito.read_workspace,
    (KAITO, "InferenceSet"): kaito.read_inference_set,
    (KAITO, "MultiRoleInference"): kaito.read_multi_role_inference,
    (KTHENA, "ModelServing"): kthena.read_model_serving,
    (KTHENA, "ModelBooster"): kthena.read_model_booster,
    (llmaz.GROUP, "Playground"): llmaz.read_playground,
    llmaz.RUNTIME: llmaz.read_backend_runtime,
    (ome.GROUP, "InferenceService"): ome.read_inference_service,
    (ome.GROUP, "ServingRuntime"): ome.read_runtime,
    (ome.GROUP, "ClusterServingRuntime"): ome.read_runtime,
    ("ray.io", "RayService"): rayserve.read_service,
    ("ray.io", "RayCluster"): raycluster.read_cluster,
    ("ray.io", "RayJob"): raycluster.read_job,
    ("ray.io", "RayCronJob"): raycluster.read_cron_job,
    (AIBRIX, "RayClusterFleet"): raycluster.read_cluster_fleet,
    (AIBRIX, "RayClusterReplicaSet"): raycluster.read_cluster_fleet,
    (AIBRIX, "PodSet"): workloads.read_pod_set,
}
TABLES: Final[dict[tuple[str, str], FieldTable]] = {
    ("argoproj.io", "Rollout"): workload_fields.ROLLOUT,
    ("jobset.x-k8s.io", "JobSet"): workload_fields.JOB_SET,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): workload_fields.LEADER_WORKER_SET,
    ("disaggregatedset.x-k8s.io", "DisaggregatedSet"): workload_fields.DISAGGREGATED_SET,
    (AIBRIX, "StormService"): controller_fields.AIBRIX_SERVICE,
    (AIBRIX, "RoleSet"): controller_fields.AIBRIX_ROLE_SET,
    (AIBRIX, "PodSet"): controller_fields.AIBRIX_POD_SET,
    (AIBRIX, "RayClusterFleet"): ray_fields.FLEET_OBJECT,
    (AIBRIX, "RayClusterReplicaSet"): ray_fields.REPLICA_SET_OBJECT,
    (KSERVE, "InferenceService"): kserve_fields.SERVICE_OBJECT,
    (KSERVE, "ServingRuntime"): kserve_fields.RUNTIME_OBJECT,
    (KSERVE, "ClusterServingRuntime"): kserve_fields.RUNTIME_OBJECT,
    (KSERVE, "LLMInferenceService"): kserve_fields.LLM_OBJECT,
    LLM_CONFIG: kserve_fields.LLM_OBJECT,
    ("production-stack.vllm.ai", "VLLMRuntime"): controller_fields.STACK_RUNTIME,
    ("nvidia.com", "DynamoGraphDeployment"): dynamo_fields.DYNAMO_OBJECT,
    ("nvidia.com", "DynamoComponentDeployment"): dynamo_fields.DYNAMO_OBJECT,
    ("kubeai.org", "Model"): controller_fields.KUBEAI_OBJECT,
    (KAITO, "Workspace"): controller_fields.KAITO_WORKSPACE,
    (KAITO, "InferenceSet"): controller_fields.KAITO_SET,
    (KAITO, "MultiRoleInference"): controller_fields.KAITO_ROLES,
    (KTHENA, "ModelServing"): controller_fields.KTHENA_SERVING,
    (KTHENA, "ModelBooster"): controller_fields.KTHENA_BOOSTER,
    (llmaz.GROUP, "Playground"): controller_fields.LLMAZ_PLAYGROUND,
    llmaz.RUNTIME: controller_fields.LLMAZ_RUNTIME_OBJECT,
    (ome.GROUP, "InferenceService"): ome_fields.SERVICE_OBJECT,
    (ome.GROUP, "ServingRuntime"): ome_fields.RUNTIME_OBJECT,
    (ome.GROUP, "ClusterServingRuntime"): ome_fields.RUNTIME_OBJECT,
    ("ray.io", "RayService"): ray_fields.SERVICE_OBJECT,
    ("ray.io", "RayCluster"): ray_fields.CLUSTER_OBJECT,
    ("ray.io", "RayJob"): ray_fields.JOB_OBJECT,
    ("ray.io", "RayCronJob"): ray_fields.CRON_JOB_OBJECT,
}
"""The fields of the objects of controllers, except those of the parts whose tables an adapter has."""
SHAPES: Final[tuple[tuple[str, Callable[[ManifestNode], bool], Adapter], ...]] = (
    (
        "llm-d-modelservice values (`modelArtifacts` and `decode` or `prefill`)",
        modelservice.is_values,
        modelservice.read_values,
    ),
    ("production-stack values (`servingEngineSpec`)", productionstack.is_values, productionstack.read_values),
    ("a Ray Serve config (`applications` or `llm_configs`)", rayserve.is_config, rayserve.read_config),
    ("a Compose file (`services`)", compose.is_compose, compose.read_compose),
    ("a SkyPilot task (`run` beside `resources`, `setup` or `envs`)", skypilot.is_task, skypilot.read_task),
    (truss.SHAPE, truss.is_config, truss.read_config),
    (dstack.SHAPE, dstack.is_run, dstack.read_run),
    (shellscript.SHAPE, shellscript.is_script, shellscript.read_script),
    (systemd.SHAPE, systemd.is_unit, systemd.read_unit),
    (nomad.SHAPE, nomad.is_job, nomad.read_job),
    (benchmark.SHAPE, benchmark.is_scenarios, benchmark.read_scenarios),
)
IGNORED_GROUPS: Final = frozenset(
    {
        *("", "apps", "batch", "autoscaling", "policy", "extensions"),
        *(
            "monitoring.coreos.com",
            "keda.sh",
            "cert-manager.io",
            "traefik.io",
            "networking.istio.io",
            "security.istio.io",
            "external-secrets.io",
        ),
        *(
            "gateway.envoyproxy.io",
            "aigateway.envoyproxy.io",
            "gateway.kgateway.dev",
            "argoproj.io",
            "kustomize.toolkit.fluxcd.io",
            "route.openshift.io",
        ),
        *(
            "production-stack.vllm.ai",
            "autoscaling.aibrix.ai",
            "model.aibrix.ai",
            *(KSERVE, AIBRIX, KAITO, ome.GROUP, "llmaz.io"),
            "nvidia.com",
            "resource.nvidia.com",
        ),
    }
)
IGNORED_SUFFIXES: Final = (".k8s.io", "x-k8s.io")
KINDS: Final = tuple(dict.fromkeys(kind for _, kind in (*ADAPTERS, *helm_objects.RENDER_COMMANDS)))


def is_manifest(document: object) -> bool:
    """Whether a document is a manifest: an object with a ``kind``, a known chart's values, or a list of these."""
    if type(document) is list and document:
        document = document[0]
    if type(document) is not dict:
        return False
    node = ManifestNode(ManifestReader([]), document, "", "")
    return "kind" in document or "apiVersion" in document or any(fits(node) for _, fits, _ in SHAPES)


def shows_engines(document: object, images: ImageTable, *, commands: bool = True) -> bool:
    """Whether a document is the values of a chart that show vLLM, or, with ``commands``, another file with one."""
    return values.has_engines(document, images, commands=commands)


def read_manifest(
    document: object,
    pointer: str,
    faults: list[RequestFault],
    images: ImageTable,
    ignored: list[str] | None = None,
    *,
    is_under_review: bool = False,
    secrets: set[str] | None = None,
) -> list[Container]:
    """The vLLM engines that a manifest would start, in order; its faults are appended to ``faults``.

    The paths of the objects of unknown kinds without a container, and of Ray clusters with an image of vLLM in which
    nothing starts it, are appended to ``ignored``. The secrets that variables and arguments of any container get from
    elsewhere in it are added to ``secrets``.

    ``document`` is an object, a list of objects, or a chart's values, as parsed from JSON or YAML. ``pointer`` is its
    JSON pointer in the request. A known object without vLLM has no engines. In a list, an object that cannot be read is
    an item with its faults, and the others are read. Paths are relative to the document. ``images`` has the images
    that contain vLLM. Under review, the values that variables take from a pod's labels, annotations and resources are
    not known.
    """
    reader = ManifestReader(faults, images, is_under_review=is_under_review)
    with suppress(TooManyFaults):
        documents = list(_documents(ManifestNode(reader, document, "", pointer)))
        if [node.parent for node in documents] == [None]:
            _collect_referenced(documents[0])
            _read(documents[0])
        else:
            _read_separately(documents)
    faults += reader.exceeded_limits
    if ignored is not None:
        ignored += [node.path for node in reader.ignored_nodes]
    if secrets is not None:
        secrets |= reader.secrets
    return reader.containers


def _read_separately(documents: list[ManifestNode]) -> None:
    """Read several objects; one that cannot be read does not affect the others."""
    unread: dict[int, list[RequestFault]] = {}
    for place, node in enumerate(documents):
        refused = node.reader.refused_objects.get(node.pointer, []) if node.reader.refused_objects else []
        faults = refused or read_separately(node, _collect_referenced)
        if faults:
            unread[place] = faults
    for place, node in enumerate(documents):
        faults = unread.get(place) or read_separately(node, _read)
        if faults:
            node.reader.add(Container(node.path, faults=tuple(faults)), node)


def _documents(node: ManifestNode, depth: int = 0) -> Iterator[ManifestNode]:
    """The objects in a list, a ``List`` or an OpenShift Template, or the single object."""
    reader = node.reader
    if depth > MAX_NESTED:
        node.fault(f"lists are nested more than {MAX_NESTED} deep; write the objects in one list")
    elif isinstance(node.value, list):
        for item in node.items():
            if reader.documents > MAX_DOCUMENTS:
                break
            yield from _documents(item, depth + 1)
    elif isinstance(node.value, dict) and _is_list(node.value):
        yield from _documents(_listed(node), depth + 1)
    elif _identity(node) in openshift.IDENTITIES:
        yield from _documents(openshift.template_objects(node), depth + 1)
    elif node.value is None and depth:
        return
    else:
        reader.documents += 1
        if reader.documents > MAX_DOCUMENTS:
            reader.fault_once(node, f"more than {MAX_DOCUMENTS} documents; give fewer at a time")
            return
        yield node


def _is_list(value: dict[str, object]) -> bool:
    kind = value.get("kind")
    return isinstance(kind, str) and kind.endswith("List") and isinstance(value.get("items"), list)


def _listed(node: ManifestNode) -> ManifestNode:
    """The items of a list; in a `PodList` and the like, items that state no kind get its kind, as in API answers."""
    items, kind = node.get("items"), node.value["kind"].removesuffix("List")
    if not kind:
        return items
    named = {"apiVersion": node.value.get("apiVersion"), "kind": kind}
    return items.with_value([{**named, **item} if isinstance(item, dict) else item for item in items.value])


def _identity(node: ManifestNode) -> tuple[str, str] | None:
    """The API group and kind of an object; None if it has no kind."""
    if not isinstance(node.value, dict) or not isinstance(node.value.get("kind"), str):
        return None
    version = node.value.get("apiVersion")
    group, slash, _ = version.partition("/") if isinstance(version, str) else ("", "", "")
    return (group if slash else ""), node.value["kind"]


def _namespace(node: ManifestNode) -> str | None:
    metadata = node.value.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    return namespace if isinstance(namespace, str) and namespace else None


def _collect_referenced(node: ManifestNode) -> None:
    identity = _identity(node)
    if identity not in COLLECTED_KINDS:
        return
    if identity == CONFIG_MAP:
        name = node.get("metadata", "name").text()
        data = {key: item.value if isinstance(item.value, str) else None for key, item in node.get("data").fields()}
        if name is not None:
            node.reader.add_config_map(_namespace(node), name, data)
    elif identity == SECRET:
        _collect_secret(node)
    elif identity == SERVICE:
        collect_service(node, _namespace(node))
    elif identity == LLM_CONFIG:
        name = node.get("metadata", "name").text()
        if name is not None:
            node.reader.add_llm_config(_namespace(node), name, node.get("spec"))
    elif identity in REFERENCED_KINDS:
        name = node.get("metadata", "name").text()
        if identity is not None and name is not None:
            node.reader.add_referenced_object(
                identity, None if identity in CLUSTER_KINDS else _namespace(node), name, node
            )
    elif identity in RUNTIMES:
        name = node.get("metadata", "name").text()
        container = kserve.runtime_container(node)
        if name is not None and container is not None:
            is_disabled = node.get("spec", "disabled").value is True
            spec, workers = node.get("spec"), node.get("spec", "workerSpec")
            doubt = component_doubt(spec) or next(field_doubts(kserve_fields.RUNTIME, spec), "")
            runtime = ServingRuntime(name, spec, container, workers, server_of(node), is_disabled, doubt=doubt)
            if identity == CLUSTER_RUNTIME:
                node.reader.add_cluster_runtime(name, runtime)
            else:
                node.reader.add_runtime(_namespace(node), name, runtime)


def _collect_secret(node: ManifestNode) -> None:
    """Add the names of a Secret's keys, never their values; none if it may have others.

    One without keys is filled by a controller, as that of a service account is.
    """
    metadata = node.value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    parts = [{} if node.value.get(field) is None else node.value[field] for field in ("data", "stringData")]
    if not isinstance(name, str) or not all(isinstance(part, dict) for part in parts):
        return
    keys = {key for part in parts for key in part}
    if keys and node.value.get("type") != SERVICE_ACCOUNT_TOKEN:
        node.reader.add_secret(_namespace(node), name, keys)


def _read(node: ManifestNode) -> None:
    node.reader.runs_vllm = False
    with node.reader.ray_cluster():
        _read_document(node)


def _read_document(node: ManifestNode) -> None:
    identity = _identity(node)
    if identity is not None:
        node.reader.namespace = _namespace(node)
        adapter = ADAPTERS.get(identity)
        if adapter is not None:
            with (
                unread_fields((TABLES[identity], node)) if identity in TABLES else nullcontext(),
                engine_doubt(node.reader, partial(webhook_doubt, node, identity)),
            ):
                adapter(node)
            if node.reader.is_under_review:
                unknown_kinds.add_unread_containers(node)
        elif identity in helm_objects.KUSTOMIZATIONS:
            helm_objects.read_kustomization(node, identity)
        elif identity in helm_objects.RENDER_COMMANDS:
            helm_objects.read_helm_object(node, identity, _read_shape)
        else:
            _unknown_kind(node, *identity)
        return
    if _read_shape(node):
        return
    if not isinstance(node.value, dict):
        node.fault(f"expected a Kubernetes object, a list of them, or a chart's values, got {quoted(node.value)}")
    elif "kind" in node.value:
        node.get("kind").fault(f"unknown kind {quoted(node.value['kind'])}; legal: {listed(KINDS)}")
    else:
        node.fault(
            "expected a `kind`, or one of the shapes that need none: "
            f"{'; '.join((*(name for name, _, _ in SHAPES), values.SHAPE))}"
        )


def _read_shape(node: ManifestNode) -> bool:
    """Read a document without a kind by its shape, or as values that show vLLM; false if it is neither."""
    for _, fits, adapter in SHAPES:
        if fits(node):
            adapter(node)
            return True
    if values.has_engines(node.value, node.reader.images):
        values.read_values(node)
        return True
    return False


def _unknown_kind(node: ManifestNode, group: str, kind: str) -> None:
    """Read the containers of an object whose kind has no adapter; a kind that is misspelt is a fault."""
    known = sorted({owner for owner, name in ADAPTERS if name == kind})
    if known and ("." not in group or nearest(group, known, 0.9)):
        legal = listed(owner or "v1" for owner in known)
        node.get("apiVersion").fault(
            f"expected the API group {legal} for `{kind}`, got {quoted(node.value.get('apiVersion'))}"
        )
        return
    is_ignored = group in IGNORED_GROUPS or group.endswith(IGNORED_SUFFIXES)
    if ("." not in group or is_ignored) and nearest(kind, KINDS, 0.9):
        node.get("kind").fault(f"unknown kind {quoted(kind)}; legal: {listed(KINDS)}{nearest(kind, KINDS)}")
        return
    count = len(node.reader.containers)
    unknown_kinds.read_containers(node, kind, f"legal: {listed(KINDS)}")
    if is_ignored or len(node.reader.containers) > count:
        return
    if node.parent is None:
        node.get("kind").fault(f"unknown kind {quoted(kind)}; legal: {listed(KINDS)}{nearest(kind, KINDS)}")
    else:
        node.reader.ignored_nodes.append(node)


def unread_container(document: dict[str, object], images: ImageTable) -> str | None:
    """The path of a container that names vLLM in an object of a kind that is not read; None if there is none."""
    node = ManifestNode(ManifestReader([], images), document)
    return None if _identity(node) in ADAPTERS else unknown_kinds.unread_container(node)
