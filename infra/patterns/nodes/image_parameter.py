"""The parameter of a stack by which its nodes find their AMI."""

from __future__ import annotations

from aws_cdk import CfnParameter
from constructs import Construct


def node_image_id(stack: Construct, ami_parameter: str) -> str:
    """Return the id that stands in an SSM parameter when the stack is deployed."""
    return CfnParameter(
        stack,
        "NodeImage",
        type="AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>",
        default=ami_parameter,
        description="Where the id of the nodes' machine image is kept",
    ).value_as_string
