"""The fields of Dynamo's objects, v1alpha1 and v1beta1, as its operator of the main branch has them (2026)."""

from __future__ import annotations

from typing import Final

from policy.intake.manifests.field_tables import OBJECT, POD, fields

TOPOLOGY: Final = fields("clusterTopologyName packDomain topologyProfile")
PROVIDER: Final = fields(
    "apiVersion target",
    value=fields("topologyConstraint", spec=fields(template=fields("topologyConstraint"))),
)
"""What Grove, the provider, gets unchanged from an object."""
GRAPH: Final = fields(
    "annotations backendFramework components dynamoGraph env envs labels priorityClassName restart services",
    experimental=fields("componentGroups", changing="kvTransferPolicy"),
    providerOverride=PROVIDER,
    pvcs=fields("create name size storageClass volumeAccessMode"),
    topologyConstraint=TOPOLOGY,
)
"""A graph; its services and components have their own tables."""
COMPONENT: Final = fields(
    "dynamoSidecar globalDynamoNamespace minAvailable name replicas runtimeVersionOverride scalingAdapter "
    "sharedMemorySize type",
    changing="checkpoint failover gpuMemoryService",
    compilationCache=fields("mountPath pvcName"),
    eppConfig=fields("config configMapRef"),
    experimental=fields(changing="checkpoint failover gpuMemoryService", grove=fields("forceScalingGroup")),
    frontendSidecar=fields("args envFromSecret envs image"),
    modelRef=fields("name revision"),
    multinode=fields("nodeCount"),
    podTemplate=fields("metadata spec"),
    providerOverride=PROVIDER,
    roles=fields("name replicas", changing="podTemplate", providerOverride=PROVIDER),
    topologyConstraint=TOPOLOGY,
)
"""A component. Its `frontendSidecar` is an object in v1alpha1, and the name of a container otherwise."""
SERVICE: Final = COMPONENT | fields(
    "annotations autoscaling componentType dynamoNamespace envFromSecret envs ingress labels livenessProbe "
    "readinessProbe resources serviceName subComponentType",
    extraPodMetadata=fields("annotations labels"),
    extraPodSpec=POD | fields("mainContainer"),
    pvc=fields("create mountPoint name size storageClass volumeAccessMode"),
    sharedMemory=fields("disabled size"),
    volumeMounts=fields("mountPoint name useAsCompilationCache"),
)
"""A service of v1alpha1; `pvc` is of earlier releases."""
LONE_COMPONENT: Final = SERVICE | fields("backendFramework dynamoComponent dynamoTag env")
"""A component that is deployed without a graph."""
DYNAMO_OBJECT: Final = OBJECT
