"""Who talked to whom in a VPC, kept in an encrypted log group."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from slipway.infra.patterns.access.roles import ServiceRole, ServiceRoleProps
from slipway.infra.patterns.storage.encryption import EncryptedLogGroup, EncryptedLogGroupProps, write_logs


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLogsProps:
    vpc_id: str
    key: kms.IKey
    retention_days: int
    keep: bool


class FlowLogs(Construct):
    def __init__(self, scope: Construct, id: str, *, props: FlowLogsProps) -> None:
        super().__init__(scope, id)
        group = EncryptedLogGroup(
            self,
            "Group",
            props=EncryptedLogGroupProps(key=props.key, retention_days=props.retention_days, keep=props.keep),
        )
        role = _role(self, group.arn)
        self.resource = ec2.CfnFlowLog(
            self,
            "Resource",
            resource_id=props.vpc_id,
            resource_type="VPC",
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_group_name=group.name,
            deliver_logs_permission_arn=role.arn,
            max_aggregation_interval=600,
        )
        self.resource.node.add_dependency(role.policy)


def _role(scope: Construct, log_group_arn: str) -> ServiceRole:
    # VPC user guide, "Publish flow logs to CloudWatch Logs": without these the flow log reports an access
    # error.
    describe = iam.PolicyStatement(
        sid="FindGroup",
        actions=["logs:DescribeLogStreams"],
        resources=[log_group_arn, f"{log_group_arn}:log-stream:*"],
    )
    return ServiceRole(
        scope,
        "Role",
        props=ServiceRoleProps(
            service="vpc-flow-logs",
            description="Writes the flow logs of the VPC",
            statements=(write_logs(log_group_arn), describe),
        ),
    )
