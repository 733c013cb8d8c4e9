"""The engines of an object under review, each with the request to decide.

Owns which objects, updates and engines are decided. Not here: what an engine is (``policy.request.manifest``).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from policy.errors import INTERNAL_ERROR, RequestInvalid
from policy.intake.manifests.document_secrets import secrets_of
from policy.intake.manifests.registry import ADAPTERS, unread_container
from policy.policy import key_of
from policy.request.manifest import containers_of, named_steps, request_of, values_along
from policy.request.request import Manifest, read_request_or_manifest
from policy.secret_values import SecretValues
from service.admission.annotations import (
    NO_ANNOTATIONS,
    REMEDIES,
    SET_ENV,
    VLLM_VERSION,
    EngineAnnotations,
    annotation_of,
    annotations_on,
    metadata_of,
    name_annotations,
)
from service.admission.review import STARTING_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.request.request import Request
    from policy.rules.releases import Releases
    from service.admission.review import Review

KINDS_WITH_ENV: Final = frozenset(
    {
        *(("", kind) for kind in ("Pod", "PodTemplate", "ReplicationController")),
        *(("apps", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")),
        *(("batch", "Job"), ("batch", "CronJob"), ("jobset.x-k8s.io", "JobSet"), ("argoproj.io", "Rollout")),
        *(("leaderworkerset.x-k8s.io", "LeaderWorkerSet"), ("disaggregatedset.x-k8s.io", "DisaggregatedSet")),
        *(("orchestration.aibrix.ai", "StormService"), ("orchestration.aibrix.ai", "RoleSet")),
    }
)
"""The kinds whose engines are Kubernetes containers with their own ``env``, into which nothing is merged."""
KINDS_WITH_IMMUTABLE_ENV: Final = frozenset({("", "Pod"), ("batch", "Job"), ("jobset.x-k8s.io", "JobSet")})
"""The kinds whose variables are immutable after creation; the API server would refuse a patched update."""
EPHEMERAL: Final = "ephemeralcontainers"
"""The subresource of a pod that adds containers to it while it runs."""
VLLM_WORDS: Final = ("llm", "huggingface")
"""An object that starts vLLM contains one of these, unless a script or a variable assembles the name."""


class AdmissionOptions(Struct, frozen=True):
    """The operator's settings.

    ``deny`` denies what would not start, instead of warning. ``set_env`` selects the objects that are patched. With
    ``fail``, an object that cannot be decided is allowed with a warning (``open``), or denied with the reason.
    """

    deny: bool
    set_env: Literal["off", "annotated", "always"]
    fail: Literal["open", "closed"]


class EngineUnderReview(Struct, frozen=True):
    """An engine of the object: its request, or the faults that prevent one.

    ``nodes`` are the values from the object down to the engine, each inside the previous one. An unreadable object
    counts as one engine without a path.
    """

    path: str
    request: Request | RequestInvalid
    nodes: list[Any]
    annotations: EngineAnnotations


def engines_to_decide(
    review: Review, releases: Releases, options: AdmissionOptions, *, mutating: bool
) -> list[EngineUnderReview]:
    """The engines to decide: those that would be started, and for the mutating endpoint those that may be patched."""
    kind = review.group, review.kind
    is_update = review.operation == "UPDATE"
    if (
        review.object is None
        or review.operation not in STARTING_OPERATIONS
        or not _is_read(review)
        or kind not in ADAPTERS
        or (is_update and _is_being_deleted(review))
    ):
        return []
    if mutating and (
        options.set_env == "off" or kind not in KINDS_WITH_ENV or (is_update and kind in KINDS_WITH_IMMUTABLE_ENV)
    ):
        return []
    engines = _engines(review, review.object, releases)
    if is_update and review.old_object is not None:
        before = Counter(
            _identity(engine, options, mutating=mutating) for engine in _engines(review, review.old_object, releases)
        )
        after = [(engine, _identity(engine, options, mutating=mutating)) for engine in engines]
        engines = []
        for engine, identity in after:
            before[identity] -= 1  # elements of a list may have the same name; a copy of one is a new engine
            if before[identity] < 0:
                engines.append(engine)
        if engines:
            gone = set(secrets_of(review.old_object)).difference(secrets_of(review.object))
            engines = [_hiding(engine, gone) for engine in engines] if gone else engines
    return [engine for engine in engines if _is_wanted(engine, options)] if mutating else engines


def _hiding(engine: EngineUnderReview, gone: Iterable[str]) -> EngineUnderReview:
    """The engine with an answer that hides ``gone``: the secrets that only the object before the update states."""
    request = engine.request
    if isinstance(request, RequestInvalid):
        request.hide(SecretValues(gone))
        return engine
    assert request.deployment is not None  # INVARIANT: an engine of a manifest has a deployment
    stated = SecretValues(gone, request.deployment.stated)
    return replace(engine, request=replace(request, deployment=replace(request.deployment, stated=stated)))


def unread_engine(review: Review, releases: Releases) -> str | None:
    """The path of a container that names vLLM in an object of a kind that is not read; None if there is none."""
    is_starting = review.operation in STARTING_OPERATIONS and _is_read(review)
    if review.object is None or not is_starting or (review.group, review.kind) in ADAPTERS:
        return None
    return unread_container(review.object, releases.images)


def _is_read(review: Review) -> bool:
    """Whether a review is of an object, or adds a container to a pod, not of another subresource."""
    return not review.sub_resource or (review.sub_resource == EPHEMERAL and review.kind == "Pod" and not review.group)


def _is_being_deleted(review: Review) -> bool:
    """Whether an updated object is being deleted, and waits for its finalizers.

    On creation the API server clears ``deletionTimestamp``, so the object will run.
    """
    return any(
        isinstance(each, dict) and metadata_of(each).get("deletionTimestamp") is not None
        for each in (review.object, review.old_object)
    )


def _identity(engine: EngineUnderReview, options: AdmissionOptions, *, mutating: bool) -> tuple[object, ...]:
    """An engine's path, by names instead of indexes, and everything that its answer depends on."""
    path = named_steps(engine.path, engine.nodes)
    wanted = mutating and _is_wanted(engine, options)
    request = engine.request
    # An unreadable object is identified by its fault alone: which parts of it start vLLM is not known.
    if isinstance(request, RequestInvalid):
        # The fault of a defect has a new id each time, so the object stands for it.
        unread = _content(engine.nodes[0]) if request.problem == INTERNAL_ERROR else request
        return path, wanted, engine.annotations, str(engine.nodes[-1] if engine.path else unread)
    assert request.deployment is not None  # INVARIANT: an engine of a manifest has a deployment
    # the annotations already identify the model configs; encoding those would take as long as deciding the engine
    key = key_of(replace(request.deployment, model_configs={}))
    return path, wanted, engine.annotations, request.vllm_version, key


def _is_wanted(engine: EngineUnderReview, options: AdmissionOptions) -> bool:
    """Whether to set the variable for this engine."""
    value = annotation_of(engine.nodes, SET_ENV)
    return value == "true" if options.set_env == "annotated" else value != "false"


def _engines(review: Review, document: dict[str, Any], releases: Releases) -> list[EngineUnderReview]:
    """The engines of an object, each with its annotations."""
    document = {
        **document,
        "apiVersion": f"{review.group}/{review.version}" if review.group else review.version,
        "kind": review.kind,
    }
    try:
        containers = containers_of(_manifest(document, NO_ANNOTATIONS, releases), releases, is_under_review=True)
    except RequestInvalid as error:
        return unreadable_object(document, error)
    manifests: dict[EngineAnnotations, Manifest | RequestInvalid] = {}
    engines = []
    for container in containers:
        nodes = values_along(document, container.path)
        annotations = annotations_on(nodes)
        if annotations not in manifests:
            manifests[annotations] = _read(document, annotations, releases)
        manifest = manifests[annotations]
        request = (
            manifest
            if isinstance(manifest, RequestInvalid)
            else request_of(container, manifest, releases, REMEDIES, f"the annotation `{VLLM_VERSION}`")
        )
        engines.append(EngineUnderReview(container.path, request, nodes, annotations))
    return engines


def unreadable_object(document: dict[str, Any], error: RequestInvalid) -> list[EngineUnderReview]:
    """The engine that an object which cannot be read counts as; none if neither its text nor what was read shows one.

    An object that exceeds a limit always counts as one, because its engines may be in what was not read.
    """
    if not error.hides_engines:
        text = str(_content(document)).lower()
        if not any(word in text for word in VLLM_WORDS):
            return []
    return [EngineUnderReview("", error, [document], NO_ANNOTATIONS)]


def _content(document: dict[str, Any]) -> dict[str, Any]:
    """An object without what describes it."""
    return {name: value for name, value in document.items() if name not in {"metadata", "status"}}


def _read(document: dict[str, Any], annotations: EngineAnnotations, releases: Releases) -> Manifest | RequestInvalid:
    """The manifest with these annotations, or their faults."""
    try:
        return _manifest(document, annotations, releases)
    except RequestInvalid as error:
        return error


def _manifest(document: dict[str, Any], annotations: EngineAnnotations, releases: Releases) -> Manifest:
    """The manifest with these annotations.

    Raises:
        RequestInvalid: an annotation is invalid.
    """
    members = {"manifest": document, **annotations.members()}
    try:
        manifest = read_request_or_manifest(members, releases)
    except RequestInvalid as error:
        # Only an annotation can be invalid here: the object itself is read later.
        raise name_annotations(error) from error
    assert isinstance(manifest, Manifest)  # INVARIANT: a document with the member `manifest` is one
    return manifest
