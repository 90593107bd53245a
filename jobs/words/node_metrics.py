"""The metrics that nodes write about themselves (infra/boot): infra alarms on them, `explain` reads them."""

from __future__ import annotations

METRIC_NAMESPACE = "Slipway"
CLUSTER_DIMENSION = "Cluster"
IDLE_METRIC = "IdleNodes"
# 1 a minute for each node that is late to join; once more with the dimension Reason, a key of REASONS.
NOT_JOINED_METRIC = "NodesNotJoined"
REASON_DIMENSION = "Reason"
REASONS = {
    "local-disks": "its local disks could not be made one file system",
    "processor-threads": "the second threads of its processors could not be switched off",
    "shared-files": "the cluster's shared files could not be mounted",
    "ecs-agent": "its ECS agent did not register with the cluster",
    "slipway-node": "slipway-node did not join the cluster",
    "pcs-agent": "AWS PCS's agent did not start Slurm on it: /var/log/amazon/pcs/bootstrap.log",
}
