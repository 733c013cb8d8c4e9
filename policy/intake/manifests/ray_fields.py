"""The fields of Ray's objects.

KubeRay's are those of its definitions at the main branch, August 2026 (``ray.io`` v1 and v1alpha1), Ray Serve's those
of its schema and its configuration of an LLM at the main branch, 2026, AIBrix's those of its definitions at the main
branch, August 2026.
"""

from __future__ import annotations

from typing import Final

from policy.intake.manifests.field_tables import OBJECT, fields, in_spec

TEMPLATE: Final = fields("metadata spec")
AUTOSCALER: Final = fields(
    "args command env envFrom idleTimeoutSeconds image imagePullPolicy resources securityContext upscalingMode version "
    "volumeMounts"
)
GROUP: Final = fields("groupName labels rayStartParams resources replicas", template=TEMPLATE)
HEAD: Final = GROUP | fields("enableIngress headService serviceType", ingressOptions=fields("host path pathType tls"))
WORKERS: Final = GROUP | fields(
    "idleTimeoutSeconds maxReplicas minReplicas numOfHosts priority suspend", scaleStrategy=fields("workersToDelete")
)
CLUSTER: Final = fields(
    "enableInTreeAutoscaling headGroupSpec headServiceAnnotations managedBy networkIsolation networkPolicy rayVersion "
    "suspend workerGroupSpecs",
    authOptions=fields("enableK8sTokenAuth mode secretName"),
    autoscalerOptions=AUTOSCALER,
    gcsFaultToleranceOptions=fields(
        "backend externalStorageNamespace redisAddress redisPassword redisUsername storage"
    ),
    historyServerOptions=fields(collectorOptions=fields("env image imagePullPolicy resources")),
    tlsOptions=fields("enabled"),
    upgradeStrategy=fields("type"),
)
"""The specification of a cluster; its groups have their own tables."""
JOB: Final = fields(
    "activeDeadlineSeconds backoffLimit clusterSelector deletionStrategy entrypoint entrypointNumCpus "
    "entrypointNumGpus entrypointResources jobId managedBy metadata preRunningDeadlineSeconds rayClusterSpec "
    "runtimeEnvYAML shutdownAfterJobFinishes submissionMode suspend ttlSecondsAfterFinished",
    changing="runtimeEnv",
    submitterConfig=fields("backoffLimit"),
    submitterPodTemplate=TEMPLATE,
)
SERVICE: Final = fields(
    "deploymentUnhealthySecondThreshold excludeHeadPodFromServeSvc managedBy rayClusterConfig "
    "rayClusterDeletionDelaySeconds serveConfigV2 serveService serviceUnhealthySecondThreshold suspend",
    changing="serveConfig",
    upgradeStrategy=fields("clusterUpgradeOptions type"),
)
LLM: Final = fields(
    "accelerator_type deployment_config engine_kwargs experimental_configs llm_engine log_engine_metrics lora_config "
    "placement_group_config runtime_env use_cpu",
    changing="callback_config server_cls",
    model_loading_config=fields("model_id model_source tokenizer_source"),
)
"""A configuration of an LLM."""
LLM_ARGUMENTS: Final = fields(
    "decode_config ingress_cls_config ingress_deployment_config llm_config llm_configs name_prefix prefill_config "
    "proxy_cls_config proxy_deployment_config"
)
"""The arguments that an application gives to one of Ray's builders."""
APPLICATION: Final = fields(
    "args autoscaling_policy deployments external_scaler_enabled host import_path logging_config name port "
    "route_prefix runtime_env"
)

CLUSTER_OBJECT: Final = OBJECT
JOB_OBJECT: Final = in_spec(JOB)
CRON_JOB_OBJECT: Final = in_spec(fields("schedule suspend timeZone", jobTemplate=JOB))
SERVICE_OBJECT: Final = in_spec(SERVICE)
REPLICAS: Final = fields("minReadySeconds replicas selector", template=TEMPLATE)
FLEET_OBJECT: Final = in_spec(
    REPLICAS | fields("paused progressDeadlineSeconds revisionHistoryLimit", strategy=fields("rollingUpdate type"))
)
REPLICA_SET_OBJECT: Final = in_spec(REPLICAS)
"""AIBrix's objects with the template of a cluster."""
