"""Publishes what was deployed, for commands: one SSM parameter for each cluster and machine image.

Also records which project owns a cluster.
"""

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
    """Write the record that commands need to submit jobs to the cluster."""
    description = f"Slipway cluster {target.name}: what jobs need to know to be submitted"
    name = parameter_name(target.name)
    _Record(scope, "Target", name=name, value=encode_target(target), description=description)


def publish_bakery(scope: Construct, bakery: Bakery) -> None:
    """Write the record of where a machine image is baked, which `slipway image bake` reads."""
    description = f"Slipway machine image {bakery.name}: where it is baked"
    name = bakery_parameter(bakery.name)
    _Record(scope, "Bakery", name=name, value=encode_bakery(bakery), description=description)


# Stops two projects of one account from deploying clusters of the same name over each other. The parameter
# has one name for a cluster and one logical id for each project. Another project's deployment would add its
# own before it removes the first one's, and CloudFormation refuses a name that exists.


def add_ownership(scope: Construct, cluster: str, project: str | None) -> None:
    """Write the name of the cluster's project, if it has one."""
    if project:
        ssm.StringParameter(
            scope,
            f"OwnedBy-{project}",
            parameter_name=owner_parameter(cluster),
            string_value=project,
            description=f"The project that cluster {cluster} belongs to; another project needs another name",
        )
