"""The rights of nodes and jobs in AWS: a role for the machine, one to start tasks, one for the training."""

from __future__ import annotations

from aws_cdk import Stack
from constructs import Construct

from slipway.infra.declare.node_images import registry_of
from slipway.infra.declare.types import BatchCluster
from slipway.infra.patterns.access.roles import (
    ServiceRole,
    read_secrets_of_jobs,
    report_metrics,
    session_manager,
)
from slipway.infra.patterns.encryption import write_logs
from slipway.infra.patterns.foundation import NodeFoundation
from slipway.infra.patterns.images.image_project import pull_statements
from slipway.infra.patterns.statements import Statement, allow
from slipway.infra.patterns.storage.buckets import job_data


class NodeAccess(Construct):
    def __init__(self, scope: Construct, id: str, *, cluster: BatchCluster, base: NodeFoundation) -> None:
        super().__init__(scope, id)
        self.instance_role = ServiceRole(
            self,
            "Node",
            service="ec2",
            description="Nodes: join ECS, answer Session Manager, report idleness",
            statements=(
                *_join_ecs(self),
                session_manager(),
                report_metrics(),
                *base.storage.files.may_mount(self),
            ),
        )
        self.execution_role = ServiceRole(
            self,
            "Execution",
            service="ecs-tasks",
            description="Starting a task: pull its image, open its log",
            statements=(*pull_statements(self, registry_of(cluster)), write_logs(base.job_logs.arn)),
        )
        self.job_role = ServiceRole(
            self,
            "Job",
            service="ecs-tasks",
            description="Training: datasets and checkpoints in the data bucket",
            statements=(*job_data(base.storage), read_secrets_of_jobs(self)),
        )


def _join_ecs(scope: Construct) -> tuple[Statement, ...]:
    """Allow the ECS agent's calls: AmazonEC2ContainerServiceforEC2Role without creating clusters, and
    without deregistering instances, which the agent never does ("AWS managed policies for Amazon ECS").

    Batch makes up its clusters' names, so none can be named here.
    """
    stack = Stack.of(scope)
    clusters = stack.format_arn(service="ecs", resource="cluster", resource_name="*")
    nodes = stack.format_arn(service="ecs", resource="container-instance", resource_name="*")
    join = allow(
        "JoinCluster",
        "ecs:RegisterContainerInstance",
        "ecs:SubmitAttachmentStateChanges",
        "ecs:SubmitContainerStateChange",
        "ecs:SubmitTaskStateChange",
        on=clusters,
    )
    tag = allow(
        "TagAtRegistration",
        "ecs:TagResource",
        on=nodes,
        where={"StringEquals": {"ecs:CreateAction": "RegisterContainerInstance"}},
    )
    work = allow(
        "TakeTasks",
        "ecs:ListTagsForResource",
        "ecs:Poll",
        "ecs:StartTelemetrySession",
        "ecs:UpdateContainerInstancesState",
        on=nodes,
    )
    find = allow("FindEcs", "ec2:DescribeTags", "ecs:DiscoverPollEndpoint", on="*")
    return join, tag, work, find
