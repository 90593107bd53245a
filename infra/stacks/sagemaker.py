"""What training jobs of SageMaker may use: their role, network and keys. It starts no machine by itself."""

from __future__ import annotations

from datetime import timedelta

from aws_cdk import aws_iam as iam
from constructs import Construct

from slipway.infra.declare.node_images import training_image
from slipway.infra.declare.types import Egress, Market, SageMakerCluster
from slipway.infra.patterns.access.records import publish_target
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.foundation import Foundation
from slipway.infra.patterns.nodes.network_interfaces import efa_interface_count, node_security_group
from slipway.infra.patterns.sagemaker.training_access import (
    FailedJobs,
    TrainingAccess,
    file_system_path,
    volume_key,
)
from slipway.jobs.words.targets import SageMakerTarget

_SECOND = timedelta(seconds=1)


class SageMakerStack(DeclaredStack):
    def __init__(self, scope: Construct, id: str, *, cluster: SageMakerCluster, base: Foundation) -> None:
        super().__init__(scope, id, declared=cluster, tags=cluster.billing_tags)
        self.security_group_id = node_security_group(self, cluster, base)
        image, group = training_image(cluster), self.security_group_id
        role = TrainingAccess(self, "Access", base=base, security_group_id=group, image=image).role
        self.job_role: iam.IRole = role.role
        FailedJobs(self, "FailedJobs", cluster=cluster.name, role_arn=role.arn, topic=base.alerts)
        storage = base.storage
        target = SageMakerTarget(
            name=cluster.name,
            account=self.account,
            region=cluster.region,
            zone=cluster.zone,
            instance_type=cluster.instance_type,
            is_spot=cluster.market is Market.SPOT,
            max_nodes=cluster.max_nodes,
            execution_role=role.arn,
            bucket=storage.bucket.bucket_name,
            subnet=base.subnet_id,
            security_group=group,
            volume_gb=cluster.volume_gb,
            volume_key=volume_key(cluster, storage.key),
            output_key=storage.object_key.key_arn,
            machine_image=cluster.machine_image,
            image=image,
            job_timeout_seconds=cluster.job_timeout // _SECOND,
            spot_wait_seconds=cluster.spot_wait // _SECOND,
            warm_pool_seconds=cluster.warm_pool // _SECOND,
            efa_interfaces=efa_interface_count(cluster),
            file_system_id=storage.files.file_system_id,
            file_system_mount=storage.files.mount_point,
            file_system_path=file_system_path(storage.files),
            has_internet=cluster.egress is Egress.NAT,
        )
        publish_target(self, target)
