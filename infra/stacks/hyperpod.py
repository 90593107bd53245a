"""A Slurm cluster on SageMaker HyperPod: its nodes, what they are given, and how jobs reach them.

Its assets have a prefix of their own, from which HyperPod copies everything to a new node: the script, the
payload, and this stack's template, which says nothing that a node may not know.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from aws_cdk import Aws, DefaultStackSynthesizer, Fn
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as s3_assets
from aws_cdk import aws_sns as sns
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from slipway.infra.declare.types import Egress, HyperPodCluster
from slipway.infra.patterns.access.target_record import TargetRecord, TargetRecordProps
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.hyperpod.failed_cluster import FailedCluster, FailedClusterProps
from slipway.infra.patterns.hyperpod.hyperpod_access import HyperPodAccess, HyperPodAccessProps
from slipway.infra.patterns.hyperpod.hyperpod_nodes import HyperPodNodes, HyperPodNodesProps, login_group
from slipway.infra.patterns.hyperpod.lifecycle import Lifecycle, lifecycle_of, write_files
from slipway.infra.patterns.hyperpod.session_document import SessionDocument
from slipway.infra.patterns.network.cluster_network import ClusterNetwork
from slipway.infra.patterns.nodes.network_interfaces import efa_interface_count
from slipway.infra.patterns.nodes.node_network import node_security_group
from slipway.infra.patterns.slurm.run_document import run_document_name
from slipway.infra.patterns.storage.cluster_storage import ClusterStorage
from slipway.infra.patterns.storage.encryption import EncryptedLogGroup, EncryptedLogGroupProps
from slipway.jobs.words.names import hyperpod_name
from slipway.jobs.words.slurm.hyperpod import CAPACITY, WORKER_GROUP, node_parameter
from slipway.jobs.words.slurm.places import QUEUE
from slipway.jobs.words.targets import SlurmTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperPodStackProps:
    cluster: HyperPodCluster
    network: ClusterNetwork
    storage: ClusterStorage
    alerts: sns.ITopic


class HyperPodStack(DeclaredStack):
    def __init__(self, scope: Construct, id: str, *, props: HyperPodStackProps) -> None:
        cluster, lifecycle = props.cluster, lifecycle_of(props.cluster)
        prefix = lifecycle.prefix(cluster.name)
        super().__init__(
            scope,
            id,
            declared=cluster,
            tags=cluster.billing_tags,
            synthesizer=DefaultStackSynthesizer(bucket_prefix=prefix),
        )
        self._props = props
        self.job_logs = _job_logs(self, props)
        script = _upload(self, lifecycle)
        self.security_group_id = node_security_group(
            self, cluster, network=props.network, files=props.storage.files
        )
        access = _access(self, props, script, prefix)
        self.job_role: iam.IRole = access.role.role
        nodes = HyperPodNodes(
            self,
            "Cluster",
            props=HyperPodNodesProps(
                cluster=cluster,
                role=access.role,
                files=props.storage.files,
                subnet_id=props.network.vpc.private_subnet_id,
                security_group_id=self.security_group_id,
                scripts=f"s3://{script.s3_bucket_name}/{prefix}",
                script=script.s3_object_key.removeprefix(prefix),
            ),
        )
        nodes.node.add_dependency(_facts(self, props, self.job_logs))
        SessionDocument(self, "RunDocument", cluster=cluster.name)
        failed = FailedClusterProps(
            cluster=cluster.name, name=hyperpod_name(cluster.name), topic=props.alerts
        )
        FailedCluster(self, "Failed", props=failed)
        TargetRecord(self, "Target", props=TargetRecordProps(target=_target(self, props, nodes)))


def _job_logs(stack: HyperPodStack, props: HyperPodStackProps) -> EncryptedLogGroup:
    cluster = props.cluster
    return EncryptedLogGroup(
        stack,
        "JobLogs",
        props=EncryptedLogGroupProps(
            key=props.network.log_key, retention_days=cluster.log_retention_days, keep=cluster.keep_data
        ),
    )


def _upload(stack: HyperPodStack, lifecycle: Lifecycle) -> s3_assets.Asset:
    """Stage the files and return the script's; HyperPod copies all that has their prefix."""
    with TemporaryDirectory() as folder:
        script, payload = write_files(Path(folder), lifecycle)
        s3_assets.Asset(stack, "Payload", path=str(payload), asset_hash=lifecycle.payload_digest)
        return s3_assets.Asset(stack, "Script", path=str(script), asset_hash=lifecycle.script_digest)


def _access(
    stack: HyperPodStack, props: HyperPodStackProps, script: s3_assets.Asset, prefix: str
) -> HyperPodAccess:
    return HyperPodAccess(
        stack,
        "Access",
        props=HyperPodAccessProps(
            name=hyperpod_name(props.cluster.name),
            storage=props.storage,
            subnet_id=props.network.vpc.private_subnet_id,
            security_group_id=stack.security_group_id,
            lifecycle_bucket_arn=script.bucket.bucket_arn,
            lifecycle_prefix=prefix,
            node_parameter=node_parameter(props.cluster.name),
            log_group_arn=stack.job_logs.arn,
        ),
    )


def _facts(stack: HyperPodStack, props: HyperPodStackProps, logs: EncryptedLogGroup) -> ssm.CfnParameter:
    """Tell nodes of their cluster, as user data does where there is any."""
    cluster, storage = props.cluster, props.storage
    facts = {
        "cluster": cluster.name,
        "region": cluster.region,
        "account": Aws.ACCOUNT_ID,
        "bucket": storage.bucket.bucket_name,
        "instance_type": cluster.instance_type,
        "efa_interfaces": efa_interface_count(cluster),
        "log_group": logs.name,
        "file_system_mount": storage.files.mount_point,
    }
    return ssm.CfnParameter(
        stack,
        "Facts",
        type="String",
        name=node_parameter(cluster.name),
        value=json.dumps(facts),
        description=f"Slipway cluster {cluster.name}: what its nodes read as they come",
    )


def _target(stack: HyperPodStack, props: HyperPodStackProps, nodes: HyperPodNodes) -> SlurmTarget:
    cluster, storage = props.cluster, props.storage
    return SlurmTarget(
        name=cluster.name,
        account=stack.account,
        region=cluster.region,
        zone=cluster.zone,
        instance_type=cluster.instance_type,
        is_spot=False,
        max_nodes=cluster.max_nodes,
        scheduler_cluster=Fn.select(1, Fn.split("/", nodes.arn)),
        queue=QUEUE,
        node_group=WORKER_GROUP,
        login_group=login_group(cluster),
        run_document=run_document_name(cluster.name),
        log_group=stack.job_logs.name,
        bucket=storage.bucket.bucket_name,
        machine_image=cluster.machine_image,
        ami_parameter="",
        slurm_version="",
        job_timeout_seconds=cluster.job_timeout // timedelta(seconds=1),
        efa_interfaces=efa_interface_count(cluster),
        file_system_id=storage.files.file_system_id,
        file_system_mount=storage.files.mount_point,
        scratch_mount=None,
        has_internet=cluster.egress is Egress.NAT,
        capacity=CAPACITY,
    )
