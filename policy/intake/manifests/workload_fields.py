"""The fields of workloads with pod templates, of projects related to Kubernetes.

The fields of LeaderWorkerSet and DisaggregatedSet are those of LWS's definitions at the main branch (August 2026), the
fields of JobSet v1alpha2 and Argo's Rollout v1alpha1 those of their types (2026).
"""

from __future__ import annotations

from typing import Final

from policy.intake.manifests.field_tables import fields, in_spec

TEMPLATE: Final = fields("metadata spec")
LEADER_WORKERS: Final = fields(
    "networkConfig replicas rolloutStrategy startupPolicy",
    leaderWorkerTemplate=fields(
        "persistentVolumeClaimRetentionPolicy resizePolicy restartPolicy size subGroupPolicy volumeClaimTemplates",
        leaderTemplate=TEMPLATE,
        workerTemplate=TEMPLATE,
    ),
)
LEADER_WORKER_SET: Final = in_spec(LEADER_WORKERS)
ROLE: Final = LEADER_WORKERS | fields("metadata name scaling", spec=LEADER_WORKERS)
"""A role, whose specification is not below ``spec`` in some releases."""
DISAGGREGATED_SET: Final = in_spec(fields("placementPolicy replicas slices", phases=ROLE, roles=ROLE))
JOB_SET: Final = in_spec(
    fields(
        "coordinator failurePolicy managedBy network startupPolicy successPolicy suspend ttlSecondsAfterFinished "
        "volumeClaimPolicies",
        replicatedJobs=fields("dependsOn groupName name network replicas", template=TEMPLATE),
    )
)
ROLLOUT: Final = in_spec(
    fields(
        "analysis minReadySeconds paused progressDeadlineAbort progressDeadlineSeconds replicas restartAt "
        "revisionHistoryLimit rollbackWindow selector strategy",
        changing="workloadRef",
        template=TEMPLATE,
    )
)
