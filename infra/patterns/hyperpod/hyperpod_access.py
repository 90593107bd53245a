"""What a node of HyperPod may do in AWS: what HyperPod's own software needs, and what our jobs do.

The first half is AWS's managed AmazonSageMakerClusterInstanceRolePolicy and what the developer guide adds for
a VPC of one's own ("IAM role for SageMaker HyperPod"), each statement limited to things of this cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from slipway.infra.patterns.access.roles import ServiceRole, ServiceRoleProps
from slipway.infra.patterns.sagemaker.network_access import join_the_network
from slipway.infra.patterns.storage.buckets import UseBucketProps, bucket_statements
from slipway.infra.patterns.storage.cluster_storage import ClusterStorage
from slipway.infra.patterns.storage.encryption import write_logs
from slipway.jobs.words.slurm.hyperpod import LOG_GROUPS

# Requests and code come from who submits; a job writes its own results and data.
_WRITTEN = ("data/*", "datasets/*", "jobs/*")
_READ = ("code/*", *_WRITTEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperPodAccessProps:
    name: str  # of HyperPod's cluster
    storage: ClusterStorage
    subnet_id: str
    security_group_id: str
    lifecycle_bucket_arn: str
    lifecycle_prefix: str
    node_parameter: str
    log_group_arn: str  # of the jobs


class HyperPodAccess(Construct):
    def __init__(self, scope: Construct, id: str, *, props: HyperPodAccessProps) -> None:
        super().__init__(scope, id)
        bucket = UseBucketProps(bucket=props.storage.bucket, read=_READ, write=_WRITTEN)
        self.role = ServiceRole(
            self,
            "HyperPod",
            props=ServiceRoleProps(
                service="sagemaker",
                description="Nodes of HyperPod: come, join their network, run the jobs of Slurm",
                statements=(
                    *_read_the_lifecycle(props),
                    *_write_hyperpods_log(self, props.name),
                    _report_health(),
                    _answer_sessions(),
                    *join_the_network(self, props.subnet_id, props.security_group_id),
                    *_keep_interfaces(self),
                    _read_the_facts(self, props.node_parameter),
                    *bucket_statements(bucket),
                    props.storage.use_keys(),
                    write_logs(props.log_group_arn, sid="WriteJobLogs"),
                ),
            ),
        )


def _read_the_lifecycle(props: HyperPodAccessProps) -> tuple[iam.PolicyStatement, ...]:
    find = iam.PolicyStatement(
        sid="FindTheLifecycle",
        actions=["s3:ListBucket"],
        resources=[props.lifecycle_bucket_arn],
        conditions={"StringLike": {"s3:prefix": [f"{props.lifecycle_prefix}*"]}},
    )
    read = iam.PolicyStatement(
        sid="ReadTheLifecycle",
        actions=["s3:GetObject"],
        resources=[f"{props.lifecycle_bucket_arn}/{props.lifecycle_prefix}*"],
    )
    return find, read


def _write_hyperpods_log(scope: Construct, name: str) -> tuple[iam.PolicyStatement, ...]:
    """Allow the one log group of this cluster, which HyperPod makes: its name ends in an id of HyperPod's."""
    group = Stack.of(scope).format_arn(
        service="logs",
        resource="log-group",
        resource_name=f"{LOG_GROUPS}/{name}/*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    make = iam.PolicyStatement(sid="MakeTheLogGroup", actions=["logs:CreateLogGroup"], resources=[group])
    write = iam.PolicyStatement(
        sid="WriteHyperPodsLog",
        actions=["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
        resources=[f"{group}:log-stream:*"],
    )
    return make, write


def _report_health() -> iam.PolicyStatement:
    return iam.PolicyStatement(
        sid="ReportHealth",
        actions=["cloudwatch:PutMetricData"],
        resources=["*"],
        conditions={"StringEquals": {"cloudwatch:namespace": LOG_GROUPS}},
    )


def _answer_sessions() -> iam.PolicyStatement:
    """Allow what Session Manager's agent calls; HyperPod's nodes take no other command of Systems Manager."""
    return iam.PolicyStatement(
        sid="AnswerSessionManager",
        actions=[
            "ssmmessages:CreateControlChannel",
            "ssmmessages:CreateDataChannel",
            "ssmmessages:OpenControlChannel",
            "ssmmessages:OpenDataChannel",
        ],
        resources=["*"],
    )


def _keep_interfaces(scope: Construct) -> tuple[iam.PolicyStatement, ...]:
    """Allow what HyperPod does beyond a training job: it replaces nodes, and tags what is theirs."""
    interfaces = Stack.of(scope).format_arn(service="ec2", resource="network-interface", resource_name="*")
    tag = iam.PolicyStatement(sid="TagInterfaces", actions=["ec2:CreateTags"], resources=[interfaces])
    detach = iam.PolicyStatement(
        sid="DetachInterfaces", actions=["ec2:DetachNetworkInterface"], resources=["*"]
    )
    return tag, detach


def _read_the_facts(scope: Construct, parameter: str) -> iam.PolicyStatement:
    arn = Stack.of(scope).format_arn(
        service="ssm", resource="parameter", resource_name=parameter.removeprefix("/")
    )
    return iam.PolicyStatement(sid="ReadTheFacts", actions=["ssm:GetParameter"], resources=[arn])
