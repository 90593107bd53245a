"""What the agent of Systems Manager needs to write what a command printed to a log group."""

from __future__ import annotations

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from slipway.infra.patterns.storage.encryption import write_logs


def run_command_output(scope: Construct, log_group_arn: str) -> tuple[iam.PolicyStatement, ...]:
    """Allow logging; the agent looks first ("Configuring CloudWatch Logs for Run Command")."""
    groups = Stack.of(scope).format_arn(
        service="logs", resource="log-group", resource_name="*", arn_format=ArnFormat.COLON_RESOURCE_NAME
    )
    find_group = iam.PolicyStatement(
        sid="FindLogGroup", actions=["logs:DescribeLogGroups"], resources=[groups]
    )
    find_stream = iam.PolicyStatement(
        sid="FindLogStream", actions=["logs:DescribeLogStreams"], resources=[f"{log_group_arn}:*"]
    )
    return write_logs(log_group_arn), find_group, find_stream
