"""The fields of OME's objects, as its definitions of the main branch have them (``ome.io/v1beta1``, May 2026)."""

from __future__ import annotations

from typing import Final

from policy.intake.manifests.field_tables import CONTAINER, POD, fields, in_spec

KEDA: Final = fields(
    "authModes authenticationRef customPromQuery enableKeda promServerAddress scalingOperator scalingThreshold"
)
PART_POD: Final = POD | fields("runner size")
"""The leader or the workers of a part."""
EXTENSION: Final = POD | fields(
    "annotations canaryTrafficPercent containerConcurrency deploymentStrategy labels maxReplicas maxUnavailable "
    "minAvailable minReplicas scaleMetric scaleTarget timeoutSeconds",
    kedaConfig=KEDA,
)
PART: Final = EXTENSION | fields("runner", changing="acceleratorOverride", leader=PART_POD, worker=PART_POD)
"""An engine or a decoder."""
ROUTER: Final = EXTENSION | fields("runner", changing="config")
PREDICTOR: Final = EXTENSION | fields(
    model=CONTAINER
    | fields("baseModel fineTunedWeights protocolVersion runtime", changing="runtimeVersion storageUri"),
    workerSpec=PART_POD,
)
"""The deprecated predictor; the weights of its model become those of the service's model."""
FORMAT: Final = fields("name operator version weight")
RUNTIME: Final = POD | fields(
    "acceleratorRequirements annotations decoderConfig disabled engineConfig labels protocolVersions routerConfig",
    modelSizeRange=fields("max min"),
    supportedModelFormats=fields(
        "acceleratorConfig autoSelect diffusionPipeline modelArchitecture modelType name priority quantization version",
        modelFormat=FORMAT,
        modelFramework=FORMAT,
    ),
    workers=POD | fields("annotations labels size"),
)
"""A runtime; its parts have their own tables."""
MODEL: Final = fields("apiGroup kind name", changing="fineTunedWeights")
SERVICE_OBJECT: Final = in_spec(
    fields(
        "decoder engine router",
        changing="acceleratorSelector",
        kedaConfig=KEDA,
        model=MODEL,
        predictor=PREDICTOR,
        runtime=fields("apiGroup kind name"),
    )
)
RUNTIME_OBJECT: Final = in_spec(RUNTIME)
