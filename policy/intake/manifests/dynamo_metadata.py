"""The labels and annotations by which Dynamo's operator, or its snapshots, may change the containers of an object.

Read at the main branch, November 2026. The operator reads annotations of a graph, of a component and of their pods.
Annotations that begin with ``dgd-`` or ``dcd-`` hold what the fields of v1alpha1 cannot express. The conversion to
v1beta1 takes containers, mounts and other fields from them, even if a user wrote them; in an object of v1beta1 they
change nothing. Snapshots replace the process of a container. ``HARMLESS_NAMES`` change no container, except for what
``dynamo`` reads or regards as unknown; any other name of NVIDIA's makes the object's engines doubtful.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.command_line import Container
from policy.intake.manifests.metadata_names import is_in_group, names_doubt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policy.intake.manifests.reading import ManifestNode

GROUP: Final = "nvidia.com"
HUB: Final = f"{GROUP}/v1beta1"
"""The version that the operator works with."""
CONVERSION: Final = (f"{GROUP}/dgd-", f"{GROUP}/dcd-")
GRAPH_NAMES: Final = frozenset(
    {
        *("enable-grove", "enable-disaggregatedset", "workload-provider", "grove-update-strategy", "restartAt"),
        *("disable-image-pull-secret-discovery", "dynamo-discovery-backend", "dynamo-discovery-enabled"),
        *("dynamo-kube-discovery-mode", "dynamo-operator-origin-version", "vllm-distributed-executor-backend"),
        *("enable-metrics", "kai-scheduler-queue", "volcano-queue", "topology-label-key"),
        *("topology-cluster-topology-name", "current-worker-hash", "current-worker-hash-v2"),
    }
)
"""The names that set what runs the pods, where, how they find each other, and the backend for several nodes."""
POD_NAMES: Final = frozenset(
    {
        *("selector", "metrics-enabled", "dynamo-graph-deployment-name", "dynamo-namespace", "dynamo-worker-hash"),
        *("dynamo-component", "dynamo-component-type", "dynamo-sub-component-type", "dynamo-component-class"),
        *("dynamo-component-pod", "dynamo-base-model", "dynamo-base-model-hash"),
    }
)
"""The names that identify an object or a pod to others."""
CONVERSION_NAMES: Final = frozenset({"dgd-legacy-worker-hash", "dgd-nil-services", "dgd-status", "dcd-status"})
HARMLESS_NAMES: Final = frozenset(
    {*(f"{GROUP}/{name}" for name in GRAPH_NAMES | POD_NAMES | CONVERSION_NAMES), f"dynamo.{GROUP}/gpu-power-limit"}
)
HARMLESS_PREFIXES: Final = (f"{GROUP}/dgdr-", f"{GROUP}/dynamo-topology.")
"""The prefixes of the names that a request for a graph and the topology of a pod use."""
CHANGE_DOUBT: Final = "{} of {} may change the containers, as Dynamo's operator reads it there; leave it out"
SERVER_WORDS: Final = ("vllm", "serve")
POD_METADATA: Final = (("extraPodMetadata",), ("podTemplate", "metadata"))
"""Where a service and a component have the labels and annotations of their pods."""


def object_doubt(document: ManifestNode) -> str:
    """The doubt about the labels and annotations of a graph, or of a component without one; empty if there is none."""
    is_hub = document.value.get("apiVersion") == HUB

    def is_changing(name: str) -> bool:
        if not is_in_group(name, GROUP) or name in HARMLESS_NAMES or name.startswith(HARMLESS_PREFIXES):
            return False
        return not (is_hub and name.startswith(CONVERSION))

    doubts = (names_doubt(node, is_changing, CHANGE_DOUBT) for node in _metadata(document))
    return next(filter(None, doubts), "")


def add_conversion_problem(document: ManifestNode) -> None:
    """Add an item with a problem if the conversion may add vLLM's server to an object without an engine."""
    metadata = document.get("metadata")
    annotations = metadata.value.get("annotations") if isinstance(metadata.value, dict) else None
    if document.value.get("apiVersion") == HUB or not isinstance(annotations, dict):
        return
    texts = [text for name, text in annotations.items() if isinstance(name, str) and name.startswith(CONVERSION)]
    if any(isinstance(text, str) and any(word in text for word in SERVER_WORDS) for text in texts):
        found = metadata.below(["annotations"])
        found.reader.add(Container(found.path, problem=object_doubt(document)), found)


def _metadata(document: ManifestNode) -> Iterator[ManifestNode]:
    """The nodes of an object that have labels and annotations."""
    yield document.get("metadata")
    spec = document.get("spec")
    value = spec.value if isinstance(spec.value, dict) else {}
    services, components = value.get("services"), value.get("components")
    keys: list[list[str | int]] = [["services", name] for name in services] if isinstance(services, dict) else []
    keys += [["components", place] for place in range(len(components))] if isinstance(components, list) else []
    for part in (spec, *map(spec.below, keys)):
        yield part
        for below in POD_METADATA:
            if (found := _below(part, below)) is not None:
                yield found


def _below(node: ManifestNode, keys: Sequence[str]) -> ManifestNode | None:
    for key in keys:
        if not isinstance(node.value, dict) or key not in node.value:
            return None
        node = node.below([key])
    return node
