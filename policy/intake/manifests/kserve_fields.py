"""The fields of KServe's objects, as its definitions of 0.20 have them (``serving.kserve.io``, August 2026)."""

from __future__ import annotations

from typing import Final

from policy.intake.manifests.field_tables import CONTAINER, OBJECT, POD, fields, in_spec
from policy.intake.manifests.kserve_runtimes import FORMAT_FIELDS

STORAGE: Final = fields("key parameters path schemaPath")
MODEL: Final = CONTAINER | fields(
    "protocolVersion runtime runtimeVersion storageUri",
    modelFormat=fields("name version"),
    storage=STORAGE,
    confidential=fields("enabled resourceId"),
)
"""The model of a predictor, also in the field of a format."""
WORKERS: Final = POD | fields("annotations labels pipelineParallelSize tensorParallelSize")
EXTENSION: Final = fields(
    "annotations autoScaling batcher canaryTrafficPercent containerConcurrency deploymentStrategy labels logger "
    "maxReplicas minReplicas scaleMetric scaleMetricType scaleTarget timeout",
    storageUris=fields("mountPath uri"),
)
"""What a predictor, a transformer and an explainer have besides the specification of a pod."""
PREDICTOR: Final = (
    POD
    | EXTENSION
    | fields(
        "name",
        changing="storageContainerName",
        workerSpec=WORKERS,
        **dict.fromkeys(("model", *FORMAT_FIELDS), MODEL),
    )
)
EXPLAINER: Final = POD | EXTENSION | fields("aix alibi art")
COMPONENTS: Final = {"predictor": PREDICTOR, "transformer": POD | EXTENSION, "explainer": EXPLAINER}
"""The components of an InferenceService."""
RUNTIME: Final = POD | fields(
    "annotations builtInAdapter disabled grpcDataEndpoint grpcEndpoint httpDataEndpoint labels multiModel "
    "protocolVersions replicas",
    storageHelper=fields("disabled"),
    supportedModelFormats=fields("autoSelect name priority version"),
    workerSpec=WORKERS,
)
"""A runtime; `builtInAdapter` and `storageHelper` are for ModelMesh, which runs no single-model runtime."""

SCHEDULER: Final = fields(
    "annotations config labels replicas template", pool=fields("ref spec"), tokenizer=fields("template")
)
ROUTER: Final = fields(
    gateway=fields("refs"), ingress=fields("refs"), route=fields("group http weight"), scheduler=SCHEDULER
)
OFFLOADING_FIELDS: Final = fields(
    "cpu evictionPolicy",
    secondary=fields(fileSystem=fields(emptyDir=fields("size"), pvc=fields("spec", ref=fields("name path")))),
)
LLM_MODEL: Final = fields(
    "criticality name uri",
    confidential=fields("enabled resourceId"),
    lora=fields(
        "maxAdapters maxCpuAdapters maxRank",
        adapters=fields("criticality lora name uri", confidential=fields("enabled resourceId")),
    ),
)
"""The model of an LLMInferenceService; `criticality` is of v1alpha1. An adapter is a model too, but has no adapters."""
WORKLOAD: Final = fields(
    "annotations labels replicas rolloutStrategy scaling template worker",
    kvCacheOffloading=OFFLOADING_FIELDS,
    parallelism=fields("data dataLocal dataRPCPort expert pipeline tensor"),
)
LLM: Final = WORKLOAD | fields(
    baseRefs=fields("name"),
    model=LLM_MODEL,
    prefill=WORKLOAD,
    router=ROUTER,
    storageInitializer=fields("enabled"),
    tracing=fields("exporter exporterEndpoint sampler samplerArg"),
)

SERVICE_OBJECT: Final = in_spec(fields(" ".join(COMPONENTS), canary=fields("predictor trafficPercent")))
"""An InferenceService; its components have their own tables."""
RUNTIME_OBJECT: Final = in_spec(RUNTIME)
LLM_OBJECT: Final = OBJECT
"""An LLMInferenceService or its configuration; their specifications are merged before they are read."""
