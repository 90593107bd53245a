"""Publishes what was deployed, for commands: an SSM parameter a cluster, and one a machine image."""

from __future__ import annotations

from aws_cdk import aws_ssm as ssm
from constructs import Construct

from slipway.jobs.words.images.amis import Bakery, bakery_parameter, encode_bakery
from slipway.jobs.words.names import owner_parameter
from slipway.jobs.words.targets import Target, encode_target, parameter_name


class _Record(Construct):
    def __init__(self, scope: Construct, id: str, *, name: str, value: str, description: str) -> None:
        super().__init__(scope, id)
        self.resource = ssm.CfnParameter(
            self, "Resource", type="String", name=name, value=value, description=description
        )


def publish_target(scope: Construct, target: Target) -> None:
    """Write down what those need who submit jobs to the cluster."""
    description = f"Slipway cluster {target.name}: what jobs need to know to be submitted"
    name = parameter_name(target.name)
    _Record(scope, "Target", name=name, value=encode_target(target), description=description)


def publish_bakery(scope: Construct, bakery: Bakery) -> None:
    """Write down where a machine image is baked, as `slipway image bake` reads it."""
    description = f"Slipway machine image {bakery.name}: where it is baked"
    name = bakery_parameter(bakery.name)
    _Record(scope, "Bakery", name=name, value=encode_bakery(bakery), description=description)


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
