"""A role for one service, with one customer-managed policy that says exactly what it may do."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from constructs import Construct


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRoleProps:
    service: str
    description: str
    statements: tuple[iam.PolicyStatement, ...]
    for_this_account_only: bool = True  # EC2 sends no source account when it assumes a role


class ServiceRole(Construct):
    def __init__(self, scope: Construct, id: str, *, props: ServiceRoleProps) -> None:
        super().__init__(scope, id)
        conditions = {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
        self.role = iam.Role(
            self,
            "Resource",
            description=props.description,
            assumed_by=iam.ServicePrincipal(
                f"{props.service}.amazonaws.com",
                conditions=conditions if props.for_this_account_only else {},
            ),
        )
        self.policy = iam.ManagedPolicy(
            self,
            "Policy",
            description=props.description,
            statements=list(props.statements),
            roles=[self.role],
        )

    @property
    def arn(self) -> str:
        return self.role.role_arn
