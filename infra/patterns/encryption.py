"""Customer-managed keys that rotate, and log groups encrypted with one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cached_property

from aws_cdk import ArnFormat, Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from slipway.infra.patterns.statements import ACCOUNT_ID, PARTITION, Statement, allow

# Spelled out: a wildcard such as kms:Encrypt* would grow with AWS.
_USE_KEY = (
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)


class KeyUser(Enum):
    """Names a service that uses a key by itself, not on behalf of a caller."""

    LOGS = "logs"
    ALARMS = "cloudwatch"
    EVENTS = "events"


class EncryptionKey(Construct):
    """Admits the services that use it; everyone else needs a permission of the account's IAM."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        description: str,
        region: str,
        keep: bool,
        users: tuple[KeyUser, ...] = (),
    ) -> None:
        super().__init__(scope, id)
        self.key = kms.Key(
            self,
            "Resource",
            description=description,
            enable_key_rotation=True,
            pending_window=Duration.days(30 if keep else 7),  # 7 is the shortest
            removal_policy=removal_policy(keep),
        )
        for user in users:
            self.key.add_to_resource_policy(_STATEMENTS[user](region))


class EncryptedLogGroup(Construct):
    """Keeps logs; CloudFormation makes up its name unless one is given."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        key: kms.IKey,
        retention_days: int,
        keep: bool,
        name: str | None = None,
    ) -> None:
        super().__init__(scope, id)
        # L1: the L2 takes its retention from an enum, and ours is a number already checked.
        self.resource = logs.CfnLogGroup(
            self,
            "Resource",
            log_group_name=name,
            kms_key_id=key.key_arn,
            retention_in_days=retention_days,
        )
        self.resource.apply_removal_policy(removal_policy(keep))

    @cached_property
    def name(self) -> str:
        return self.resource.ref

    @cached_property
    def arn(self) -> str:
        """Return the ARN without the ":*" at the end of the attribute Arn, so that streams can be named."""
        return Stack.of(self).format_arn(
            service="logs",
            resource="log-group",
            resource_name=self.name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )


def removal_policy(keep: bool) -> RemovalPolicy:
    """Keep what a stack stored, but delete what a failed creation made: it is empty, and billed."""
    return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if keep else RemovalPolicy.DESTROY


def use_key(*keys: kms.IKey) -> Statement:
    """Allow reading and writing what the keys encrypt."""
    return allow(
        "UseKey", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey", on=[key.key_arn for key in keys]
    )


def write_logs(log_group_arn: str) -> Statement:
    return allow("WriteLogs", "logs:CreateLogStream", "logs:PutLogEvents", on=f"{log_group_arn}:log-stream:*")


def _allow_logs(region: str) -> iam.PolicyStatement:
    """Allow log groups of this account (CloudWatch Logs user guide, "Encrypt log data")."""
    groups = f"arn:{PARTITION}:logs:{region}:{ACCOUNT_ID}:log-group:*"
    return iam.PolicyStatement(
        sid="EncryptLogs",
        principals=[iam.ServicePrincipal(f"logs.{region}.amazonaws.com")],
        actions=list(_USE_KEY),
        resources=["*"],
        conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
    )


def _allow_publishing(user: KeyUser) -> Callable[[str], iam.PolicyStatement]:
    """Allow a service to publish to topics encrypted with the key.

    EventBridge names no source when it asks for a key (Amazon SNS developer guide, "Enable compatibility
    between event sources from AWS services and encrypted topics"): with a condition on aws:SourceAccount all
    its messages would be dropped, without notice. Its topic's policy limits it instead.
    """

    def statement(_region: str) -> iam.PolicyStatement:
        source = {"StringEquals": {"aws:SourceAccount": ACCOUNT_ID}}
        return iam.PolicyStatement(
            sid=f"PublishFrom{user.name.title()}",
            principals=[iam.ServicePrincipal(f"{user.value}.amazonaws.com")],
            actions=["kms:Decrypt", "kms:GenerateDataKey"],
            resources=["*"],
            conditions=None if user is KeyUser.EVENTS else source,
        )

    return statement


_STATEMENTS: Mapping[KeyUser, Callable[[str], iam.PolicyStatement]] = {
    KeyUser.LOGS: _allow_logs,
    KeyUser.ALARMS: _allow_publishing(KeyUser.ALARMS),
    KeyUser.EVENTS: _allow_publishing(KeyUser.EVENTS),
}
