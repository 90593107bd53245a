"""What infra and jobs say of a cluster on HyperPod: its groups, and where its nodes are told of it."""

from __future__ import annotations

CONTROLLER_GROUP = "controller"
LOGIN_GROUP = "login"
WORKER_GROUP = "workers"

CAPACITY = "hyperpod"  # of a SlurmTarget: its login node is reached in a session, and by no command
LOG_GROUPS = "/aws/sagemaker/Clusters"  # HyperPod's own, one a cluster: what its AMI and our script print
NODE_ROOT = "/slipway/nodes"  # SSM parameters that nodes read as they come


def node_parameter(cluster: str) -> str:
    return f"{NODE_ROOT}/{cluster}"


def session_target(cluster_id: str, group: str, instance: str) -> str:
    """Name a node for sessions (SageMaker developer guide, "Access your HyperPod cluster nodes")."""
    return f"sagemaker-cluster:{cluster_id}_{group}-{instance}"
