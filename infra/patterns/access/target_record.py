"""Publishes what was deployed, for those who submit jobs: one SSM parameter a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_ssm as ssm
from constructs import Construct

from slipway.jobs.words.names import owner_parameter
from slipway.jobs.words.targets import Target, encode_target, parameter_name


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRecordProps:
    target: Target


class TargetRecord(Construct):
    def __init__(self, scope: Construct, id: str, *, props: TargetRecordProps) -> None:
        super().__init__(scope, id)
        self.resource = ssm.CfnParameter(
            self,
            "Resource",
            type="String",
            name=parameter_name(props.target.name),
            value=encode_target(props.target),
            description=f"Slipway cluster {props.target.name}: what jobs need to know to be submitted",
        )


# Keeps two projects of one account from deploying a cluster of the same name over each other.
# The parameter has one name for a cluster and one logical id for each project. The deployment of another
# project adds its own before it removes the first one's, and CloudFormation refuses a name that is taken.


def add_ownership(scope: Construct, cluster: str, project: str | None) -> None:
    """Write down whose cluster this is, where the project has a name."""
    if project:
        ssm.StringParameter(
            scope,
            f"OwnedBy-{project}",
            parameter_name=owner_parameter(cluster),
            string_value=project,
            description=f"The project that cluster {cluster} belongs to; another project needs another name",
        )
