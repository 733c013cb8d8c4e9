"""The labels and annotations by which a controller changes the pods of other workloads than its own.

The webhooks of KServe, OME and LeaderWorkerSet (read in August 2026) select pods by a label, whatever created them:
they mount a model, or add variables before the container's own. Dynamo (November 2026) restores snapshots into such
pods. AIBrix's webhook (August 2026) reads an annotation of a Deployment, or of its own kind, and mounts a volume for
adapters. Not here: what a controller adds to the pods of its own kinds, which their adapters read. An object that a
controller made has an owner of these kinds. A Pod is reviewed after the webhooks have changed it, but a snapshot is
restored later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.intake.manifests import kserve_metadata
from policy.intake.manifests.metadata_names import FIELDS, is_in_group
from policy.messages import enumerated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policy.intake.manifests.reading import ManifestNode

MAX_SHOWN: Final = 3
POD_FIELDS: Final = (
    *((field, field) for field in FIELDS),
    ("podLabels", "labels"),
    ("podAnnotations", "annotations"),
)
"""The fields with the labels and annotations of pods, and which of both each has."""
NESTED_TYPES: Final = frozenset({dict, list})
KSERVE: Final = kserve_metadata.GROUP
OME: Final = "ome.io"
LWS: Final = "leaderworkerset.sigs.k8s.io"
POD: Final = ("", "Pod")
WORKLOAD_GROUPS: Final = frozenset({"", "apps", "batch"})
"""The groups of the kinds, other than Pod, whose own labels and annotations do not reach their pods."""
SNAPSHOT_PREFIXES: Final = tuple(
    f"nvidia.com/{name}"
    for name in ("snapshot-", "dynamo-checkpoint-", "dynamo-restore-", "dynamo-snapshot-", "cuda-shared-memory-support")
)
CHANGE_DOUBT: Final = (
    "by {} {} changes the pods, whatever made them, and what it adds is not read here; leave it out, or write an "
    "object of the controller"
)


class _Webhook(Struct, frozen=True):
    """What changes pods: its name, the label that selects them (or none), and the names by which it changes an engine.

    ``groups`` has the groups of its own kinds and of the owners of the objects that it makes. ``by_agent``: whether it
    changes pods after their review.
    """

    name: str
    label: str
    groups: tuple[str, ...]
    is_changing: Callable[[str], bool]
    by_agent: bool = False


WEBHOOKS: Final = (
    _Webhook(
        "KServe's webhook",
        f"{KSERVE}/inferenceservice",
        (KSERVE,),
        lambda name: is_in_group(name, KSERVE) and name not in kserve_metadata.HARMLESS_NAMES,
    ),
    _Webhook(
        "OME's webhook",
        f"{OME}/inferenceservice",
        (OME,),
        lambda name: is_in_group(name, OME) and name != f"{OME}/inferenceservice",
    ),
    _Webhook(
        "LeaderWorkerSet's webhook",
        f"{LWS}/name",
        ("leaderworkerset.x-k8s.io", "disaggregatedset.x-k8s.io"),
        lambda name: name == f"{LWS}/name",
    ),
    _Webhook(
        "Dynamo's snapshots",
        "",
        ("nvidia.com", "grove.io"),
        lambda name: name.startswith(SNAPSHOT_PREFIXES),
        by_agent=True,
    ),
)
MODEL_PATH: Final = "/mnt/models"
SOURCE_ANNOTATION: Final = f"{kserve_metadata.INTERNAL_GROUP}/storage-initializer-sourceuri"
INJECTION_ANNOTATION: Final = "model.aibrix.ai/sidecar-injection"
"""The annotation by which AIBrix adds a container for adapters to the pods of a Deployment or a StormService."""
ADAPTER_FOLDER: Final = "/tmp/aibrix/adapters"  # noqa: S108  # where AIBrix mounts it
MODEL_CONTAINERS: Final = ("kserve-container", "worker-container", "transformer-container")


def webhook_doubt(document: ManifestNode, identity: tuple[str, str]) -> str:
    """The doubt about what another controller's webhook adds to the pods of an object; empty if there is none."""
    names: dict[str, set[str]] = {field: set() for field in FIELDS}
    is_workload = identity[0] in WORKLOAD_GROUPS and identity != POD
    for field, name in _names(document.value, is_workload=is_workload):
        names[field].add(name)
    owners = set(_owners(document.value))
    for webhook in WEBHOOKS:
        is_selected = not webhook.label or webhook.label in names["labels"]
        is_past = identity == POD and not webhook.by_agent
        if not is_selected or is_past or identity[0] in webhook.groups or not owners.isdisjoint(webhook.groups):
            continue
        found = sorted(name for name in names["labels"] | names["annotations"] if webhook.is_changing(name))
        if found:
            return CHANGE_DOUBT.format(enumerated(found, MAX_SHOWN), webhook.name)
    return ""


def added_variables(template: ManifestNode) -> dict[str, str | None]:
    """The variables that LeaderWorkerSet's webhook sets in the pods of a template with its label."""
    labels, annotations = (_texts(template, field) for field in FIELDS)
    if f"{LWS}/name" not in labels:
        return {}
    return {
        "LWS_GROUP_SIZE": annotations.get(f"{LWS}/size"),
        "LWS_LEADER_ADDRESS": None,
        "LWS_WORKER_INDEX": labels.get(f"{LWS}/worker-index"),
    }


def added_mounts(template: ManifestNode) -> dict[str, list[str]]:
    """The paths at which KServe's webhook mounts a model in the containers of a template with its label, by name."""
    labels, annotations = (_texts(template, field) for field in FIELDS)
    if f"{KSERVE}/inferenceservice" not in labels or SOURCE_ANNOTATION not in annotations:
        return {}
    return {name: [MODEL_PATH] for name in MODEL_CONTAINERS}


def adapter_mounts(document: ManifestNode, pod: ManifestNode) -> dict[str, list[str]]:
    """The path at which AIBrix mounts its volume for adapters, for each container of an object's pod by name."""
    kind, value = document.value.get("kind"), _texts(document, "annotations").get(INJECTION_ANNOTATION)
    if not (value == "true" and kind == "Deployment") and not (value is not None and kind == "StormService"):
        return {}
    containers = pod.value.get("containers") if isinstance(pod.value, dict) else None
    named = [each.get("name") for each in containers if isinstance(each, dict)] if isinstance(containers, list) else []
    return {name: [ADAPTER_FOLDER] for name in named if isinstance(name, str)}


def _texts(template: ManifestNode, field: str) -> dict[str, str]:
    metadata = template.value.get("metadata") if isinstance(template.value, dict) else None
    found = metadata.get(field) if isinstance(metadata, dict) else None
    return {name: text for name, text in found.items() if isinstance(text, str)} if isinstance(found, dict) else {}


def _names(document: object, *, is_workload: bool) -> Iterator[tuple[str, str]]:
    """The fields and names of all labels and annotations in an object, but not those of a workload itself."""
    pending: list[Any] = []
    if isinstance(document, dict):
        pending += [value for key, value in document.items() if key not in {"status", "metadata"}]
        pending += [] if is_workload else [document.get("metadata")]
    while pending:
        value = pending.pop()
        parts = value
        if isinstance(value, dict):
            for key, field in POD_FIELDS:
                names = value.get(key)
                for name in names if isinstance(names, dict) else ():
                    if isinstance(name, str):
                        yield field, name
            parts = value.values()
        elif not isinstance(value, list):
            continue
        pending += [part for part in parts if type(part) in NESTED_TYPES]  # most are texts; saves three calls for each


def _owners(document: object) -> Iterator[str]:
    """The groups of the controllers that own an object; a Pod that owns one is the leader in a LeaderWorkerSet."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    for owner in owners if isinstance(owners, list) else ():
        version = owner.get("apiVersion") if isinstance(owner, dict) and owner.get("controller") is True else None
        if version == "v1" and owner.get("kind") == "Pod":
            yield "leaderworkerset.x-k8s.io"
        elif isinstance(version, str):
            yield version.partition("/")[0]
