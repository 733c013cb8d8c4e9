"""The fields of charts' values, as the templates of the named release read them.

A value that no template reads has no effect, but a newer chart may read it.
"""

from __future__ import annotations

from typing import Final

from policy.intake.manifests.field_tables import CONTAINER, fields

# production-stack: chart 0.1.12, August 2026
STACK_ENGINES: Final = fields(
    "configs containerPort containerSecurityContext enableEngine env extraPorts imagePullPolicy labels livenessProbe "
    "modelSpec nodeSelector readinessProbe runtimeClassName schedulerName securityContext serviceMonitor servicePort "
    "startupProbe strategy tolerations vllmApiKey",
    changing="sidecar",
)
STACK_ENGINE: Final = fields(
    "affinity annotations chatTemplate chatTemplateConfigMap enableLoRA enableTool enabled env envFromSecret "
    "extraPorts extraVolumeMounts extraVolumes hf_token imagePullPolicy imagePullSecret initContainer keda labels "
    "limitCPU limitGPUCores limitGPUMem limitGPUMemPercentage limitMemory modelRevision modelURL name nodeName "
    "nodeSelector nodeSelectorTerms pdb podAnnotations podLabels priorityClassName pvcAccessMode pvcAnnotations "
    "pvcExistingClaimName pvcLabels pvcMatchLabels pvcStorage replicaCount repository requestCPU requestGPU "
    "requestGPUCores requestGPUMem requestGPUMemPercentage requestGPUType requestMemory resources runtimeClassName "
    "serviceAccountName serviceAnnotations shmSize storageClass tag tolerations tolerationsPolicy toolCallParser",
    lmcacheConfig=fields(
        "controllerPort controllerReplyPort cpuOffloadingBufferSize cudaVisibleDevices diskOffloadingBufferSize "
        "enableController enableNixl enablePD enabled instanceId kvRole logLevel nixlBufferDevice nixlBufferSize "
        "nixlEnableGc nixlPeerHost nixlPeerPort nixlRole p2pHost p2pInitPorts workerHeartbeatTime workerPort "
        "workerPorts"
    ),
    raySpec=fields("enabled headNode"),
    vllmConfig=fields(
        "convert dtype enableChunkedPrefill enablePrefixCaching extraArgs gpuMemoryUtilization maxLoras maxModelLen "
        "maxNumSeqs pipelineParallelSize prometheusMultiprocDir runner tensorParallelSize v0 v1"
    ),
)

# llm-d-modelservice: chart 0.4.12, April 2026
LLM_D_VALUES: Final = fields(
    "accelerator common decode enabled extraObjects fullnameOverride global modelArtifacts multinode nameOverride "
    "prefill routing schedulerName serviceAccountOverride tracing",
    requester=fields("adminPort image port readinessProbe resources", changing="enable"),
)
LLM_D_ROLE: Final = fields(
    "accelerator acceleratorTypes annotations autoscaling containers create dnsConfig enableServiceLinks extraConfig "
    "hostIPC hostPID imagePullSecrets initContainers monitoring nodeSelector parallelism podAnnotations "
    "podSecurityContext priorityClassName replicas resourceClaims schedulerName strategy subGroupExclusiveTopology "
    "subGroupPolicy terminationGracePeriodSeconds tolerations volumes"
)
LLM_D_CONTAINER: Final = CONTAINER | fields("modelCommand mountModelVolume", changing="extraConfig")
