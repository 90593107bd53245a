"""Roles, each with one customer-managed policy, and what machines of several kinds may do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from slipway.infra.patterns.encryption import write_logs
from slipway.infra.patterns.statements import ACCOUNT_ID, Statement, policy_document
from slipway.jobs.words.names import METRIC_NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRoleProps:
    service: str
    description: str
    statements: tuple[Statement, ...]
    path: str | None = None
    for_this_account_only: bool = True  # EC2 sends no source account when it assumes a role


class ServiceRole(Construct):
    def __init__(self, scope: Construct, id: str, *, props: ServiceRoleProps) -> None:
        super().__init__(scope, id)
        conditions = {"StringEquals": {"aws:SourceAccount": ACCOUNT_ID}}
        self.role = iam.Role(
            self,
            "Resource",
            description=props.description,
            path=props.path,
            assumed_by=iam.ServicePrincipal(
                f"{props.service}.amazonaws.com",
                conditions=conditions if props.for_this_account_only else {},
            ),
        )
        self.policy = iam.ManagedPolicy(
            self,
            "Policy",
            description=props.description,
            document=policy_document(props.statements),
            roles=[self.role],
        )

    @cached_property
    def arn(self) -> str:
        return self.role.role_arn


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedRoleProps:
    by: iam.Role  # the only one that may
    description: str
    statements: tuple[Statement, ...]


class AssumedRole(Construct):
    """Lets one role hand on a part of what it may do."""

    def __init__(self, scope: Construct, id: str, *, props: AssumedRoleProps) -> None:
        super().__init__(scope, id)
        self.role = iam.Role(
            self,
            "Resource",
            description=props.description,
            assumed_by=iam.ArnPrincipal(props.by.role_arn),
        )
        self.policy = iam.ManagedPolicy(
            self,
            "Policy",
            description=props.description,
            document=policy_document(props.statements),
            roles=[self.role],
        )
        hand_on = Statement(sid="HandOn", actions=["sts:AssumeRole"], resources=[self.arn])
        iam.ManagedPolicy(
            self,
            "HandOn",
            description=f"Hand on: {props.description}",
            document=policy_document([hand_on]),
            roles=[props.by],
        )

    @cached_property
    def arn(self) -> str:
        return self.role.role_arn


# What the agent of Systems Manager needs to write what a command printed to a log group.


def run_command_output(scope: Construct, log_group_arn: str) -> tuple[Statement, ...]:
    """Allow logging; the agent looks first ("Configuring CloudWatch Logs for Run Command")."""
    groups = Stack.of(scope).format_arn(
        service="logs", resource="log-group", resource_name="*", arn_format=ArnFormat.COLON_RESOURCE_NAME
    )
    find_group = Statement(sid="FindLogGroup", actions=["logs:DescribeLogGroups"], resources=[groups])
    find_stream = Statement(
        sid="FindLogStream", actions=["logs:DescribeLogStreams"], resources=[f"{log_group_arn}:*"]
    )
    return write_logs(log_group_arn), find_group, find_stream


def session_manager() -> Statement:
    """Allow calls that take no resource (Service Authorization Reference, "AWS Systems Manager").

    The agent also asks which associations an instance has, every half hour. Slipway makes none, so of
    AmazonSSMManagedInstanceCore's permissions only the two questions are here, for a quiet agent's log, and
    neither documents of associations nor inventory, patches and compliance.
    """
    return Statement(
        sid="AnswerSessionManager",
        actions=[
            "ec2messages:AcknowledgeMessage",
            "ec2messages:DeleteMessage",
            "ec2messages:FailMessage",
            "ec2messages:GetEndpoint",
            "ec2messages:GetMessages",
            "ec2messages:SendReply",
            "ssm:ListAssociations",
            "ssm:ListInstanceAssociations",
            "ssm:UpdateInstanceInformation",
            "ssmmessages:CreateControlChannel",
            "ssmmessages:CreateDataChannel",
            "ssmmessages:OpenControlChannel",
            "ssmmessages:OpenDataChannel",
        ],
        resources=["*"],
    )


def report_metrics() -> Statement:
    return Statement(
        sid="ReportIdleness",
        actions=["cloudwatch:PutMetricData"],
        resources=["*"],
        conditions={"StringEquals": {"cloudwatch:namespace": METRIC_NAMESPACE}},
    )
