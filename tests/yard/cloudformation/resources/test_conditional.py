"""When a conditionally create-only property replaces its resource."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.yard.cloudformation.resources.nested import RULES, replaces
from slipway.yard.cloudformation.template import schemas


@pytest.mark.parametrize(
    ("kind", "path", "new", "replaced"),
    [
        ("AWS::Batch::ComputeEnvironment", "ComputeResources/InstanceTypes", {}, True),
        (
            "AWS::Batch::ComputeEnvironment",
            "ComputeResources/LaunchTemplate",
            {"ReplaceComputeEnvironment": False},
            False,
        ),
        ("AWS::AutoScaling::AutoScalingGroup", "LaunchTemplate", {}, False),
        ("AWS::EC2::VPC", "InstanceTenancy", {"InstanceTenancy": "dedicated"}, True),
        ("AWS::EC2::VPC", "InstanceTenancy", {"InstanceTenancy": "default"}, False),
        ("AWS::EC2::Instance", "InstanceType", {}, False),
        ("AWS::EC2::Instance", "BlockDeviceMappings", {}, True),
        ("AWS::SSM::Document", "Content", {"UpdateMethod": "NewVersion"}, False),
        ("AWS::SSM::Document", "Content", {}, True),
        ("AWS::Events::Rule", "EventBusName", {}, True),
    ],
)
def test_a_conditional_change_replaces_as_cloudformation_says(
    kind: str, path: str, new: dict[str, Any], replaced: bool
) -> None:
    assert replaces(kind, path, {}, new) is replaced


@pytest.mark.parametrize(("kind", "path"), [(kind, path) for kind, paths in RULES.items() for path in paths])
def test_every_rule_is_about_a_property_that_the_schema_calls_conditional(kind: str, path: str) -> None:
    assert path == "*" or path in schemas.conditional_create_only(kind)
