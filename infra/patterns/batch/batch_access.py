"""What nodes and jobs may do in AWS: a role for the machine, one to start tasks, one for the training."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Stack
from constructs import Construct

from slipway.infra.patterns.access.roles import (
    ServiceRole,
    ServiceRoleProps,
    report_metrics,
    session_manager,
)
from slipway.infra.patterns.encryption import write_logs
from slipway.infra.patterns.images.image_project import pull_statements
from slipway.infra.patterns.statements import Statement
from slipway.infra.patterns.storage.buckets import ClusterStorage, UseBucketProps, bucket_statements
from slipway.jobs.words.job import JOB_PREFIXES, PROJECT_PREFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAccessProps:
    storage: ClusterStorage
    log_group_arn: str


class NodeAccess(Construct):
    def __init__(self, scope: Construct, id: str, *, props: NodeAccessProps) -> None:
        super().__init__(scope, id)
        self.instance_role = ServiceRole(self, "Node", props=_node(self))
        self.execution_role = ServiceRole(self, "Execution", props=_execution(self, props))
        self.job_role = ServiceRole(self, "Job", props=_job(props))


def _node(scope: Construct) -> ServiceRoleProps:
    return ServiceRoleProps(
        service="ec2",
        description="Nodes: join ECS, answer Session Manager, report idleness",
        for_this_account_only=False,
        statements=(*_join_ecs(scope), session_manager(), report_metrics()),
    )


def _execution(scope: Construct, props: NodeAccessProps) -> ServiceRoleProps:
    return ServiceRoleProps(
        service="ecs-tasks",
        description="Starting a task: pull its image, open its log",
        statements=(*pull_statements(scope), write_logs(props.log_group_arn)),
    )


def _job(props: NodeAccessProps) -> ServiceRoleProps:
    """Let a job read and write data, and only read what users send; images are built from other sources."""
    own = tuple(f"{prefix}*" for prefix in JOB_PREFIXES)
    use_bucket = UseBucketProps(bucket=props.storage.bucket, read=(*own, f"{PROJECT_PREFIX}*"), write=own)
    return ServiceRoleProps(
        service="ecs-tasks",
        description="Training: datasets and checkpoints in the data bucket",
        statements=(*bucket_statements(use_bucket), props.storage.use_keys()),
    )


def _join_ecs(scope: Construct) -> tuple[Statement, ...]:
    """Allow what the ECS agent calls, as AmazonEC2ContainerServiceforEC2Role does but for creating clusters.

    Batch makes up its clusters' names, so none can be named here.
    """
    stack = Stack.of(scope)
    clusters = stack.format_arn(service="ecs", resource="cluster", resource_name="*")
    nodes = stack.format_arn(service="ecs", resource="container-instance", resource_name="*")
    join = Statement(
        sid="JoinCluster",
        actions=[
            "ecs:DeregisterContainerInstance",
            "ecs:RegisterContainerInstance",
            "ecs:SubmitAttachmentStateChanges",
            "ecs:SubmitContainerStateChange",
            "ecs:SubmitTaskStateChange",
        ],
        resources=[clusters],
    )
    tag = Statement(
        sid="TagAtRegistration",
        actions=["ecs:TagResource"],
        resources=[nodes],
        conditions={"StringEquals": {"ecs:CreateAction": "RegisterContainerInstance"}},
    )
    work = Statement(
        sid="TakeTasks",
        actions=[
            "ecs:ListTagsForResource",
            "ecs:Poll",
            "ecs:StartTelemetrySession",
            "ecs:UpdateContainerInstancesState",
        ],
        resources=[nodes],
    )
    find = Statement(sid="FindEcs", actions=["ec2:DescribeTags", "ecs:DiscoverPollEndpoint"], resources=["*"])
    return join, tag, work, find
