"""Which runtime a predictor of KServe has: one of the manifest, one that KServe ships, or one that is not known.

A predictor that names none gets the first of its namespace, else of the cluster, that supports the model's format with
``autoSelect: true``, the version, the protocol and workers: by priority, then by the protocol and the name (read at
KServe 0.20, August 2026; a newer runtime comes before an older one, which a manifest does not show).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.intake.manifests.draft import EngineDraft
    from policy.intake.manifests.reading import ManifestNode, ManifestReader, ServingRuntime

    _Rank = tuple[bool, int, int, str]
    _Key = tuple[str, str | None, str, str | None, str | None, bool]

SHIPPED_RUNTIMES: Final = {
    "vllm": frozenset({"kserve-vllmserver", "kserve-vllmserver-multinode"}),
    "huggingface": frozenset({"kserve-huggingfaceserver", "kserve-huggingfaceserver-multinode"}),
}
"""The runtimes that KServe ships for the model formats that run vLLM."""
OTHER_SHIPPED_RUNTIMES: Final = frozenset(
    {
        *("kserve-autogluonserver", "kserve-catboostserver", "kserve-djlserving", "kserve-lgbserver"),
        *("kserve-llm-sglang", "kserve-mlserver", "kserve-openvino", "kserve-paddleserver", "kserve-pmmlserver"),
        *("kserve-predictiveserver", "kserve-sklearnserver", "kserve-tensorflow-serving", "kserve-torchserve"),
        *("kserve-tritonserver", "kserve-xgbserver"),
    }
)
"""The runtimes that KServe ships for other model formats; none of them runs vLLM."""
OTHER_FORMATS: Final = frozenset(
    {
        *("autogluon", "catboost", "lightgbm", "mlflow", "onnx", "openvino", "paddle", "pmml", "pytorch"),
        *("sklearn", "tensorflow", "tensorrt", "triton", "xgboost"),
    }
)
"""The model formats of other servers; with these, a GPU does not show that the server is vLLM."""
SHIPPED_PRIORITY: Final = 1
"""The priority of KServe's own runtimes for the formats that run vLLM."""
SHIPPED_VERSIONS: Final = (None, "1")
"""The versions of these formats that KServe's own runtimes support."""
PROTOCOLS: Final = ("v1", "v2", "grpc-v1", "grpc-v2")
"""The protocols of KServe, in the order in which it prefers runtimes."""
V2_FORMATS: Final = frozenset({"vLLM", "triton"})
"""The model formats whose protocol is `v2` if a predictor states none."""
FORMAT_FIELDS: Final = (
    "huggingface",
    "sklearn",
    "xgboost",
    "tensorflow",
    "pytorch",
    "triton",
    "onnx",
    "pmml",
    "lightgbm",
    "paddle",
)
"""The fields of a predictor that are a model of the format with that name, an older form of `model`."""
V2_FIELDS: Final = frozenset({"huggingface", "onnx", "triton"})
V2_PROTOCOL: Final = "v2"
"""The protocol that KServe sets in these fields if they state none."""
NAMESPACE: Final = "namespace"
ANY_NAMESPACE: Final = "any namespace"
CLUSTER: Final = "cluster"
SERVER_TYPE: Final = "serving.kserve.io/server-type"


class WantedRuntime(NamedTuple):
    """What a predictor wants of its runtime: its name, or the format of the model with its version and protocol."""

    name: str | None
    model_format: str
    version: str | None
    protocol: str
    has_workers: bool


def wanted_runtime(model: ManifestNode, model_format: str, protocol: str | None, *, has_workers: bool) -> WantedRuntime:
    """What a predictor's model wants; ``protocol`` is the default of its field, if it is not that of the format."""
    default = protocol or ("v2" if model_format in V2_FORMATS else "v1")
    stated = model.get("protocolVersion").value
    version = model.get("modelFormat", "version").value
    return WantedRuntime(
        model.get("runtime").text(),
        model_format,
        version if isinstance(version, str) else None,
        stated if isinstance(stated, str) and stated else default,
        has_workers,
    )


def runtime_of(reader: ManifestReader, wanted: WantedRuntime) -> ServingRuntime | None:
    """The runtime of the manifest that a predictor names, or that KServe selects; None if KServe's own comes first."""
    return reader.runtime(wanted.name) if wanted.name is not None else _selected(reader, wanted)


def server_of(document: ManifestNode) -> str:
    """The annotation of a runtime that names its server, empty if it has none."""
    annotations = document.get("metadata").value
    annotations = annotations.get("annotations") if isinstance(annotations, dict) else None
    found = annotations.get(SERVER_TYPE) if isinstance(annotations, dict) else None
    return found if isinstance(found, str) else ""


def is_shipped(name: str | None, wanted: str) -> bool:
    """Whether KServe ships the runtime with this name, or that of a model format if none is named."""
    if name is None:
        return wanted in SHIPPED_RUNTIMES
    return name in SHIPPED_RUNTIMES.get(wanted, OTHER_SHIPPED_RUNTIMES)


def add_selection_doubt(draft: EngineDraft, runtime: ServingRuntime | None, wanted: str) -> None:
    """Add the doubt about a runtime that is not named: another of the cluster may be selected.

    Outside a review KServe's own is assumed without a doubt, as a manifest does not show the cluster's runtimes either.
    """
    if runtime is None and not (draft.node.reader.is_under_review and wanted in SHIPPED_RUNTIMES):
        return
    assumed = "KServe's own" if runtime is None else f"{quoted(runtime.name)} of the manifest"
    shipped = min(SHIPPED_RUNTIMES[wanted]) if wanted in SHIPPED_RUNTIMES else ""
    remedy = f"name it, such as `runtime: {shipped}`" if runtime is None else f"name it (`runtime: {runtime.name}`)"
    draft.doubts.append(
        "no `runtime` is named, and KServe selects one of the namespace or the cluster by the model's format; "
        f"{assumed} is assumed; {remedy}"
    )


def _selected(reader: ManifestReader, wanted: WantedRuntime) -> ServingRuntime | None:
    """The runtime of the manifest that KServe selects by the model's format."""
    if reader.selectable_runtimes is None:
        reader.selectable_runtimes = _selectable(reader)
    known: dict[_Key, tuple[_Rank, ServingRuntime]] = reader.selectable_runtimes
    places: tuple[tuple[str, str | None], ...] = ((ANY_NAMESPACE, None),)
    if reader.namespace is not None:
        places = ((NAMESPACE, reader.namespace), (NAMESPACE, None))
    for each in (places, ((CLUSTER, None),)):
        keys = (
            (*place, wanted.model_format, wanted.version, protocol, wanted.has_workers)
            for place in each
            for protocol in (None, wanted.protocol)
        )
        found = min((known[key] for key in keys if key in known), default=None, key=lambda pair: pair[0])
        if found is not None:
            return found[1] if each is places or not _is_shipped_first(found[0], wanted) else None
    return None


def _is_shipped_first(rank: _Rank, wanted: WantedRuntime) -> bool:
    """Whether KServe's own runtime comes before one of the cluster; of two equal ones the newer comes first."""
    is_candidate = wanted.model_format.lower() in SHIPPED_RUNTIMES and wanted.version in SHIPPED_VERSIONS
    return is_candidate and rank[:2] > (False, -SHIPPED_PRIORITY)


def _selectable(reader: ManifestReader) -> dict[_Key, tuple[_Rank, ServingRuntime]]:
    """The best runtime for each place, format, version, protocol and workers, of those that KServe may select."""
    found: dict[_Key, tuple[_Rank, ServingRuntime]] = {}
    for namespace, runtime, is_of_cluster in reader.runtimes():
        places = [(CLUSTER, None)] if is_of_cluster else [(NAMESPACE, namespace), (ANY_NAMESPACE, None)]
        for name, version, protocol, rank in _supported(runtime):
            for place in places:
                key = (*place, name, version, protocol, runtime.workers.value is not None)
                if key not in found or rank < found[key][0]:
                    found[key] = rank, runtime
    return found


def _supported(runtime: ServingRuntime) -> Iterator[tuple[str, str | None, str | None, _Rank]]:
    """The formats, versions and protocols for which KServe may select a runtime, with its rank for the format."""
    spec = runtime.spec.value
    formats = spec.get("supportedModelFormats")
    if runtime.is_disabled or spec.get("multiModel") is True or not isinstance(formats, list):
        return
    stated = spec.get("protocolVersions")
    numbers = [place for place, each in enumerate(PROTOCOLS) if isinstance(stated, list) and each in stated]
    protocols = [PROTOCOLS[place] for place in numbers] if stated else [None]
    of_protocol = min(numbers, default=len(PROTOCOLS))
    priorities: dict[str, int | None] = {}
    for item in formats:
        if not isinstance(item, dict) or not isinstance(name := item.get("name"), str):
            continue
        priority = priorities.setdefault(name, _whole(item.get("priority")))  # that of the first item of the format
        if item.get("autoSelect") is not True:
            continue
        rank = (priority is None, -(priority or 0), of_protocol, runtime.name)
        for version in {None, item["version"] if isinstance(item.get("version"), str) else None}:
            yield from ((name, version, protocol, rank) for protocol in protocols)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
