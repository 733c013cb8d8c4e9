"""The labels and annotations by which KServe's controllers and its pod webhook change a pod.

KServe (read at 0.20, August 2026) passes the settings of an InferenceService to its webhook as annotations and labels
of the pod, such as the claim of a cached model or the name of the container that downloads it. Those of a predictor, a
runtime or a workload reach the pod as they are written, and so do most of the service's own. ``HARMLESS_NAMES`` has the
ones that change no model, no image, no variable and no mount of an engine; any other one of KServe's makes the engines
doubtful.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.manifests.metadata_names import is_in_group, names_doubt

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

GROUP: Final = "serving.kserve.io"
INTERNAL_GROUP: Final = f"internal.{GROUP}"
ENGINE_NAMES: Final = frozenset(
    {
        *("deploymentMode", "autoscalerClass", "metrics", "metric", "targetUtilizationPercentage", "target"),
        *("min-scale", "max-scale", "stop", "enable-metric-aggregation", "enable-prometheus-scraping"),
        *("gke-accelerator", "gpu-resource-types", "exp-dra-device-class", "exp-dra-cel-selector"),
        *("exp-dra-device-count", "exp-dra-container-name", "server-type", "disable-auto-update", "disable-localmodel"),
        *("nodegroup", "storage-initializer-uid", "inferenceservice", "kind"),
    }
)
"""The names that set how many pods there are, on which nodes and devices they run, and as which user they download."""
ROUTE_NAMES: Final = frozenset(
    {
        *("enable-tag-routing", "inferencegraph", "inferencepool-migrated", "routing-group", "gateway"),
        *("enable-served-by-header", "model-based-routing-enabled"),
    }
)
"""The names that set the routes to a service."""
HARMLESS_INTERNAL_NAMES: Final = frozenset(
    {
        *("logger", "logger-sink-url", "logger-mode", "logger-metadata-headers", "logger-metadata-annotations"),
        *("batcher", "batcher-max-batchsize", "batcher-max-latency", "predictor-host", "predictor-protocol"),
        *("model-criticality", "lora-criticalities"),
    }
)
"""The internal names that set an engine's logger and batcher, a transformer's predictor, and older versions' fields."""
REPLACED_INTERNAL_NAMES: Final = frozenset(
    {
        *("localmodel", "localmodel-namespace", "localmodel-sourceuri", "localmodel-pvc-name"),
        "storage-initializer-sourceuri",
    }
)
"""The internal names that KServe removes from the metadata of a service with a model's URI, or sets there itself."""
HARMLESS_NAMES: Final = frozenset(
    {f"{GROUP}/{name}" for name in ENGINE_NAMES | ROUTE_NAMES}
    | {f"{INTERNAL_GROUP}/{name}" for name in HARMLESS_INTERNAL_NAMES}
)
REPLACED_NAMES: Final = frozenset(f"{INTERNAL_GROUP}/{name}" for name in REPLACED_INTERNAL_NAMES)
CHANGE_DOUBT: Final = (
    "{} of {} may change the model, the container that downloads it, or the pod, as KServe reads it there; leave it out"
)


def metadata_doubt(node: ManifestNode, *, is_replaced: bool = False) -> str:
    """The doubt about the labels and annotations of a node that KServe reads; empty if they are harmless.

    With ``is_replaced`` the node is the metadata of a service with a model's URI, in which KServe replaces some.
    """
    return names_doubt(node, lambda name: _is_changing(name, is_replaced=is_replaced), CHANGE_DOUBT)


def _is_changing(name: str, *, is_replaced: bool) -> bool:
    return is_in_group(name, GROUP) and name not in HARMLESS_NAMES and not (is_replaced and name in REPLACED_NAMES)
