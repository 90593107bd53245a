"""Roles, each with one customer-managed policy that says exactly what it may do."""

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
    path: str | None = None
    for_this_account_only: bool = True  # EC2 sends no source account when it assumes a role


class ServiceRole(Construct):
    def __init__(self, scope: Construct, id: str, *, props: ServiceRoleProps) -> None:
        super().__init__(scope, id)
        conditions = {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
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
            statements=list(props.statements),
            roles=[self.role],
        )

    @property
    def arn(self) -> str:
        return self.role.role_arn


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedRoleProps:
    by: iam.Role  # the only one that may
    description: str
    statements: tuple[iam.PolicyStatement, ...]


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
            statements=list(props.statements),
            roles=[self.role],
        )
        hand_on = iam.PolicyStatement(sid="HandOn", actions=["sts:AssumeRole"], resources=[self.arn])
        iam.ManagedPolicy(
            self,
            "HandOn",
            description=f"Hand on: {props.description}",
            statements=[hand_on],
            roles=[props.by],
        )

    @property
    def arn(self) -> str:
        return self.role.role_arn
