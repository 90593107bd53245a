"""What training jobs of SageMaker may use: their role, network and keys. It starts no machine by itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

from slipway.infra.declare.node_images import training_image
from slipway.infra.declare.types import Egress, Market, SageMakerCluster
from slipway.infra.patterns.access.target_record import TargetRecord, TargetRecordProps
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.network.vpc import ClusterNetwork
from slipway.infra.patterns.nodes.network_interfaces import efa_interface_count, node_security_group
from slipway.infra.patterns.sagemaker.training_access import (
    FailedJobs,
    FailedJobsProps,
    TrainingAccess,
    TrainingAccessProps,
    file_system_path,
    volume_key,
)
from slipway.infra.patterns.storage.buckets import ClusterStorage
from slipway.jobs.words.targets import SageMakerTarget

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SageMakerStackProps:
    cluster: SageMakerCluster
    network: ClusterNetwork
    storage: ClusterStorage
    alerts: sns.ITopic


class SageMakerStack(DeclaredStack):
    def __init__(self, scope: Construct, id: str, *, props: SageMakerStackProps) -> None:
        cluster, storage = props.cluster, props.storage
        super().__init__(scope, id, declared=cluster, tags=cluster.billing_tags)
        self.security_group_id = node_security_group(
            self, cluster, network=props.network, files=storage.files
        )
        access = TrainingAccess(
            self,
            "Access",
            props=TrainingAccessProps(
                storage=storage,
                subnet_id=props.network.vpc.private_subnet_id,
                security_group_id=self.security_group_id,
                image=training_image(cluster),
            ),
        )
        self.job_role: iam.IRole = access.role.role
        FailedJobs(
            self,
            "FailedJobs",
            props=FailedJobsProps(cluster=cluster.name, role_arn=access.role.arn, topic=props.alerts),
        )
        target = _target(self, props, access)
        TargetRecord(self, "Target", props=TargetRecordProps(target=target))


def _target(stack: SageMakerStack, props: SageMakerStackProps, access: TrainingAccess) -> SageMakerTarget:
    cluster, storage = props.cluster, props.storage
    return SageMakerTarget(
        name=cluster.name,
        account=stack.account,
        region=cluster.region,
        zone=cluster.zone,
        instance_type=cluster.instance_type,
        is_spot=cluster.market is Market.SPOT,
        max_nodes=cluster.max_nodes,
        execution_role=access.role.arn,
        bucket=storage.bucket.bucket_name,
        subnet=props.network.vpc.private_subnet_id,
        security_group=stack.security_group_id,
        volume_gb=cluster.volume_gb,
        volume_key=volume_key(cluster, storage.key),
        output_key=storage.object_key.key_arn,
        machine_image=cluster.machine_image,
        image=training_image(cluster),
        job_timeout_seconds=cluster.job_timeout // _SECOND,
        spot_wait_seconds=cluster.spot_wait // _SECOND,
        warm_pool_seconds=cluster.warm_pool // _SECOND,
        efa_interfaces=efa_interface_count(cluster),
        file_system_id=storage.files.file_system_id,
        file_system_mount=storage.files.mount_point,
        file_system_path=file_system_path(storage.files),
        has_internet=cluster.egress is Egress.NAT,
    )
