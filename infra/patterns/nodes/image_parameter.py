"""The parameter of a stack by which its nodes find their AMI."""

from __future__ import annotations

from aws_cdk import CfnOutput, CfnParameter
from constructs import Construct

from slipway.infra.declare.types import Cluster, NodeCluster


def node_image_id(stack: Construct, ami_parameter: str) -> str:
    """Return the id that stands in an SSM parameter when the stack is deployed."""
    return _parameter(
        stack, ami_parameter, "Where the id of the nodes' machine image is kept"
    ).value_as_string


def require_node_image(stack: Construct, cluster: Cluster) -> None:
    """Refuse the stack before it makes anything where nobody has baked the AMI of its nodes yet.

    CloudFormation reads such a parameter before the first resource, and an output is a use that changes none.
    """
    if not isinstance(cluster, NodeCluster):
        return
    image = _parameter(
        stack, cluster.ami_parameter, "Has to be there before anything of the cluster costs money"
    )
    CfnOutput(stack, "NodeImageFound", value=image.value_as_string, description="The nodes' machine image")


def _parameter(stack: Construct, ami_parameter: str, description: str) -> CfnParameter:
    return CfnParameter(
        stack,
        "NodeImage",
        type="AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>",
        default=ami_parameter,
        description=description,
    )
