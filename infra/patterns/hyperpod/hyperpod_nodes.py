"""The cluster on HyperPod: one controller, workers, and where it is declared one node to log in.

Slurm's topology is said in the groups themselves (SlurmConfig). HyperPod reads a provisioning_parameters.json
only from clusters without it, and runs OnInitComplete after it has configured Slurm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from slipway.infra.declare.types import HyperPodCluster
from slipway.infra.patterns.access.roles import ServiceRole
from slipway.infra.patterns.storage.file_systems import SharedFiles
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.names import hyperpod_name
from slipway.jobs.words.slurm.hyperpod import CONTROLLER_GROUP, LOGIN_GROUP, WORKER_GROUP
from slipway.jobs.words.slurm.places import QUEUE

_Cluster = sagemaker.CfnCluster
_Storage = _Cluster.ClusterInstanceStorageConfigProperty
_RECOVERY = {True: "Automatic", False: "None"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperPodNodesProps:
    cluster: HyperPodCluster
    role: ServiceRole
    files: SharedFiles
    subnet_id: str
    security_group_id: str
    scripts: str  # s3://…/ of the lifecycle's files
    script: str  # the name of the one that HyperPod starts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    name: str
    type: str
    count: int
    node_type: str  # Slurm's, in HyperPod's words
    threads_per_core: int
    partitions: tuple[str, ...] = ()


class HyperPodNodes(Construct):
    def __init__(self, scope: Construct, id: str, *, props: HyperPodNodesProps) -> None:
        super().__init__(scope, id)
        cluster = props.cluster
        self.resource = _Cluster(
            self,
            "Resource",
            cluster_name=hyperpod_name(cluster.name),
            instance_groups=[_instance_group(group, props) for group in _groups(cluster)],
            node_recovery=_RECOVERY[cluster.node_recovery],
            orchestrator=_Cluster.OrchestratorProperty(
                slurm=_Cluster.ClusterOrchestratorSlurmConfigProperty(slurm_config_strategy="Managed")
            ),
            vpc_config=_Cluster.VpcConfigProperty(
                subnets=[props.subnet_id], security_group_ids=[props.security_group_id]
            ),
        )
        self.resource.node.add_dependency(props.role.policy)  # a node's first call is for its scripts

    @property
    def arn(self) -> str:
        return self.resource.attr_cluster_arn


def login_group(cluster: HyperPodCluster) -> str:
    """Name the group of the node that takes jobs."""
    return LOGIN_GROUP if cluster.login_instance_type else CONTROLLER_GROUP


def _groups(cluster: HyperPodCluster) -> Iterator[_Group]:
    controller = cluster.controller_instance_type
    yield _Group(
        name=CONTROLLER_GROUP,
        type=controller,
        count=1,
        node_type="Controller",
        threads_per_core=_most_threads(controller),
    )
    if cluster.login_instance_type is not None:
        yield _Group(
            name=LOGIN_GROUP,
            type=cluster.login_instance_type,
            count=1,
            node_type="Login",
            threads_per_core=_most_threads(cluster.login_instance_type),
        )
    yield _Group(
        name=WORKER_GROUP,
        type=cluster.instance_type,
        count=cluster.max_nodes,
        node_type="Compute",
        threads_per_core=cluster.threads_per_core,
        partitions=(QUEUE,),
    )


def _instance_group(group: _Group, props: HyperPodNodesProps) -> _Cluster.ClusterInstanceGroupProperty:
    files, cluster = props.files, props.cluster
    assert files.file_system_id is not None, "the gate wants FSx for Lustre"
    lustre = _Cluster.ClusterFsxLustreConfigProperty(
        dns_name=f"{files.file_system_id}.fsx.{cluster.region}.amazonaws.com",
        mount_name=files.mount_name,
        mount_path=files.mount_point,
    )
    # No key of ours: HyperPod takes one with NodeProvisioningMode=Continuous alone (developer guide,
    # "Customer managed AWS KMS key encryption for SageMaker HyperPod"), and its API keeps that mode for EKS.
    disk = _Cluster.ClusterEbsVolumeConfigProperty(volume_size_in_gb=cluster.volume_gb)
    return _Cluster.ClusterInstanceGroupProperty(
        instance_group_name=group.name,
        instance_type=group.type,
        instance_count=group.count,
        execution_role=props.role.arn,
        threads_per_core=group.threads_per_core,
        life_cycle_config=_Cluster.ClusterLifeCycleConfigProperty(
            source_s3_uri=props.scripts, on_init_complete=props.script
        ),
        instance_storage_configs=[_Storage(ebs_volume_config=disk), _Storage(fsx_lustre_config=lustre)],
        slurm_config=_Cluster.ClusterSlurmConfigProperty(
            node_type=group.node_type, partition_names=list(group.partitions) or None
        ),
    )


def _most_threads(name: str) -> int:
    return max(instance_type(name).threads_per_core, default=1)
