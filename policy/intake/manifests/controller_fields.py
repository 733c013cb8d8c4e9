"""The fields of the objects of further controllers, as the definitions of the named releases have them.

KServe, Ray, Dynamo and OME have their own modules.
"""

from __future__ import annotations

from typing import Final

from policy.intake.manifests.field_tables import OBJECT, fields, in_spec

TEMPLATE: Final = fields("metadata spec")
LABELS: Final = fields("matchExpressions matchLabels")

# KubeAI: the main branch, October 2025 (``kubeai.org/v1``)
KUBEAI_OBJECT: Final = in_spec(
    fields(
        "args autoscalingDisabled cacheProfile engine env envFrom features image loadBalancing maxReplicas minReplicas "
        "owner priorityClassName replicas resourceProfile scaleDownDelaySeconds targetRequests url",
        adapters=fields("name url"),
        files=fields("content path"),
    )
)

# KAITO: 0.12, August 2026 (``kaito.sh`` v1alpha1 and v1beta1)
KAITO_INFERENCE: Final = fields(
    "config template",
    adapters=fields("source strength"),
    preset=fields(
        "accessMode name",
        presetOptions=fields("imagePullSecrets modelAccessSecret", changing="image"),
    ),
)
KAITO_RESOURCE: Final = fields(
    "count instanceType preferredNodes", labelSelector=LABELS, partition=fields("count mode profile")
)
KAITO_WORKSPACE: Final = fields(
    "apiVersion kind metadata status tuning", inference=KAITO_INFERENCE, resource=KAITO_RESOURCE
)
KAITO_SET: Final = in_spec(
    fields(
        "autoUpgrade nodeCountLimit replicas updateStrategy",
        labelSelector=LABELS,
        template=fields("metadata", inference=KAITO_INFERENCE, resource=KAITO_RESOURCE),
    )
)
KAITO_ROLE: Final = fields("instanceType replicas runtimeConfig type")
KAITO_ROLES: Final = in_spec(
    fields("eppPluginsConfig roles", labelSelector=LABELS, model=fields("modelAccessSecret name"))
)

# Kthena: the main branch, August 2026, and earlier (``workload.serving.volcano.sh/v1alpha1``)
KTHENA_WORKER: Final = fields("affinity config image pods replicas resources tolerations type")
KTHENA_BACKEND: Final = fields(
    "autoscalingPolicy cacheURI env envFrom maxReplicas minReplicas modelURI name replicas runtimeClassName "
    "scaleToZeroGracePeriod scalingCost schedulerName type workers",
    changing="loraAdapters",
)
KTHENA_BOOSTER: Final = in_spec(
    fields("autoscalingPolicy backend costExpansionRatePercent modelMatch name owner", changing="backends")
)
KTHENA_ROLE: Final = fields(
    "maxUnavailable name partition replicas workerReplicas", entryTemplate=TEMPLATE, workerTemplate=TEMPLATE
)
KTHENA_SERVING: Final = in_spec(
    fields(
        "recoveryPolicy replicas rolloutStrategy schedulerName topologySpreadConstraints",
        changing="plugins",
        template=fields("gangPolicy gangSchedule networkTopology restartGracePeriodSeconds roles"),
    )
)

# llmaz: the main branch, October 2025, and earlier (``inference.llmaz.io`` and ``llmaz.io`` v1alpha1)
LLMAZ_ENVIRONMENT: Final = fields("name value valueFrom")
LLMAZ_BACKEND_CONFIG: Final = fields(
    "args backendName configName resources scaleTrigger sharedMemorySize version",
    changing="name",
    envs=LLMAZ_ENVIRONMENT,
)
LLMAZ_ARGUMENTS: Final = fields("args name resources scaleTrigger sharedMemorySize")
LLMAZ_RUNTIME: Final = fields(
    "command image lifecycle livenessProbe readinessProbe recommendedConfigs resources scaleTriggers startupProbe "
    "version",
    changing="args commands multiHostCommands",
    envs=LLMAZ_ENVIRONMENT,
)
LLMAZ_PLAYGROUND: Final = in_spec(
    fields(
        "replicas",
        backendRuntimeConfig=LLMAZ_BACKEND_CONFIG,
        elasticConfig=fields("maxReplicas minReplicas scaleTrigger scaleTriggerRef"),
        modelClaim=fields("inferenceFlavorClaims inferenceFlavors modelName"),
        modelClaims=fields("inferenceFlavorClaims inferenceFlavors", models=fields("name role")),
    )
)
LLMAZ_RUNTIME_OBJECT: Final = OBJECT

# production-stack: the main branch, August 2026 (``production-stack.vllm.ai/v1alpha1``)
STACK_IMAGE: Final = fields("name pullPolicy pullSecretName registry")
STACK_RUNTIME: Final = in_spec(
    fields(
        "autoscalingConfig",
        deploymentConfig=fields(
            "deploymentStrategy nodeSelectorTerms podAnnotations replicas resources runtimeClass shmSize toleration",
            image=STACK_IMAGE,
            sidecarConfig=fields("args command enabled env mountPath name resources", image=STACK_IMAGE),
        ),
        lmCacheConfig=fields("cpuOffloadingBufferSize diskOffloadingBufferSize enabled remoteSerde remoteUrl"),
        model=fields(
            "chatTemplate dtype enableLoRA enableTool hfTokenName hfTokenSecret maxModelLen maxNumSeqs modelURL "
            "toolCallParser"
        ),
        storageConfig=fields("accessMode enabled mountPath size storageClassName volumeName"),
        vllmConfig=fields(
            "enableChunkedPrefill enablePrefixCaching env extraArgs gpuMemoryUtilization maxLoras port "
            "tensorParallelSize v1"
        ),
    )
)

# AIBrix: the main branch, August 2026 (``orchestration.aibrix.ai/v1alpha1``)
AIBRIX_ROLE_SET_SPEC: Final = fields(
    "schedulingStrategy topologyPolicy updateStrategy",
    roles=fields(
        "disruptionTolerance name podGroupSize replicas schedulingStrategy stateful updateStrategy upgradeOrder",
        template=TEMPLATE,
    ),
)
AIBRIX_ROLE_SET: Final = in_spec(AIBRIX_ROLE_SET_SPEC)
AIBRIX_SERVICE: Final = in_spec(
    fields(
        "disruptionTolerance paused replicas revisionHistoryLimit selector stateful updateStrategy",
        template=fields("metadata", spec=AIBRIX_ROLE_SET_SPEC),
    )
)
AIBRIX_POD_SET: Final = in_spec(fields("podGroupSize recoveryPolicy schedulingStrategy stateful", template=TEMPLATE))
