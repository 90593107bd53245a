"""Roles, each with one customer-managed policy, and statements that machines of several kinds share."""

from __future__ import annotations

from functools import cached_property

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from slipway.containers.recipes.command.config import SECRETS_PREFIX
from slipway.infra.patterns.statements import ACCOUNT_ID, Statement, allow, policy_document
from slipway.jobs.words.names import METRIC_NAMESPACE


class _Role(Construct):
    """Pairs a role with its one policy."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        assumed_by: iam.IPrincipal,
        description: str,
        statements: tuple[Statement, ...],
        path: str | None = None,
    ) -> None:
        super().__init__(scope, id)
        self.role = iam.Role(self, "Resource", description=description, path=path, assumed_by=assumed_by)
        self.policy = _attach(self, "Policy", description, statements, self.role)

    @cached_property
    def arn(self) -> str:
        return self.role.role_arn


class ServiceRole(_Role):
    """Lets a service act for this account alone; EC2 sends no source account when it assumes a role."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        service: str,
        description: str,
        statements: tuple[Statement, ...],
        path: str | None = None,
    ) -> None:
        conditions = {} if service == "ec2" else {"StringEquals": {"aws:SourceAccount": ACCOUNT_ID}}
        principal = iam.ServicePrincipal(f"{service}.amazonaws.com", conditions=conditions)
        super().__init__(
            scope, id, assumed_by=principal, description=description, statements=statements, path=path
        )


class AssumedRole(_Role):
    """Lets one role, and no other, pass on a part of its rights."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        by: iam.Role,
        description: str,
        statements: tuple[Statement, ...],
    ) -> None:
        principal = iam.ArnPrincipal(by.role_arn)
        super().__init__(scope, id, assumed_by=principal, description=description, statements=statements)
        hand_on = allow("HandOn", "sts:AssumeRole", on=self.arn)
        _attach(self, "HandOn", f"Hand on: {description}", (hand_on,), by)


def _attach(
    scope: Construct, id: str, description: str, statements: tuple[Statement, ...], role: iam.Role
) -> iam.ManagedPolicy:
    return iam.ManagedPolicy(
        scope, id, description=description, document=policy_document(statements), roles=[role]
    )


# The agent of Systems Manager needs these rights to write a command's output to a log group.


def run_command_output(log_group_arn: str) -> tuple[Statement, ...]:
    """Allow logging; the agent looks first ("Configuring CloudWatch Logs for Run Command")."""
    find_group = allow("FindLogGroup", "logs:DescribeLogGroups", on="*")
    write = allow(
        "WriteLogs",
        "logs:CreateLogStream",
        "logs:DescribeLogStreams",
        "logs:PutLogEvents",
        on=f"{log_group_arn}:*",  # its streams, the only resources of a group
    )
    return write, find_group


def session_manager() -> Statement:
    """Allow what the agent of Systems Manager calls.

    It also asks which associations an instance has, every half hour. Slipway makes none, so of
    AmazonSSMManagedInstanceCore's permissions only the two questions are here, to keep errors out of the
    agent's log: no documents of associations, inventory, patches or compliance.
    """
    return allow(
        "AnswerSessionManager",
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
        on="*",
    )


def report_metrics(sid: str = "ReportIdleness", namespace: str = METRIC_NAMESPACE) -> Statement:
    return allow(
        sid, "cloudwatch:PutMetricData", on="*", where={"StringEquals": {"cloudwatch:namespace": namespace}}
    )


def read_secrets_of_jobs(scope: Construct) -> Statement:
    """Allow jobs to read the secrets that users keep for them, and no others of the account.

    These are encrypted with the account's own key of Secrets Manager, which needs no permission of KMS.
    """
    secrets = Stack.of(scope).format_arn(
        service="secretsmanager",
        resource="secret",
        resource_name=f"{SECRETS_PREFIX}*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    return Statement(sid="ReadSecretsOfJobs", actions=["secretsmanager:GetSecretValue"], resources=[secrets])
