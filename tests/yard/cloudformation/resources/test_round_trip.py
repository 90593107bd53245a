"""Every type is made, shows what a stack may ask of it, changes in place, and goes without a trace."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tests.yard.cloudformation.resources.cases import CASES, Case
from tests.yard.cloudformation.resources.looks import look
from tests.yard.cloudformation.resources.world import Made, World

# Attributes that the schemas name and our stacks never ask for: moto has nothing to answer with.
NOT_SHOWN = {
    "AWS::EC2::Subnet": {"BlockPublicAccessStates"},
    "AWS::EC2::NatGateway": {"AutoProvisionZones", "AutoScalingIps", "RouteTableId"},
    "AWS::FSx::FileSystem": {"RootVolumeId"},  # of OpenZFS alone
    "AWS::EC2::VPCCidrBlock": {"Ipv6AddressAttribute", "IpSource"},
    "AWS::EC2::NetworkInterface": {"PublicIpDnsNameOptions"},
    "Custom::PclusterCluster": {"Id"},  # nobody says which attributes a custom resource has
    "AWS::ImageBuilder::Component": {"LatestVersion"},  # its parts are shown, by dotted names
    "AWS::ImageBuilder::ImageRecipe": {"LatestVersion"},
    "AWS::ImageBuilder::ImagePipeline": {"DeploymentId"},
}

# As on AWS: terminated machines, keys in their waiting time and closed revisions can still be described.
LINGERING = {"AWS::EC2::Instance", "AWS::KMS::Key", "AWS::EC2::NatGateway", "AWS::EC2::VPCEndpoint"}


def read_only(kind: str) -> set[str]:
    from slipway.yard.cloudformation.template.schemas import read_only

    return {path for path in read_only(kind) if "/" not in path} - NOT_SHOWN.get(kind, set())


def difference(made: Made) -> dict[str, Any]:
    """Return what drift detection would show; nothing for a type that it does not check."""
    with suppress(NotImplementedError):
        live = made.read()
        assert live is not None, "it is there and drift calls it gone"
        return {
            name: (value, live.get(name))
            for name, value in made.properties.items()
            if live.get(name) != value
        }
    return {}


@pytest.mark.parametrize("kind", CASES)
def test_a_resource_is_made_changed_read_and_deleted(kind: str, world: World) -> None:
    case: Case = CASES[kind](world)
    made = world.make(kind, **case.properties)
    assert made.id
    assert {name for name, value in made.resource.attributes.items() if value is not None} >= read_only(kind)
    assert difference(made) == {}
    seen = look(kind, made)
    assert seen
    if case.change:
        before = made.id
        made.update(**case.change)
        assert made.id == before or kind == "AWS::Batch::JobDefinition"
        assert difference(made) == {}
        assert look(kind, made) != seen
    made.delete()
    assert not look(kind, made) or kind in LINGERING
    made.delete()
    world.made.remove(made)
