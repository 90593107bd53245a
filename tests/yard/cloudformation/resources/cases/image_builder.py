"""EC2 Image Builder."""

from __future__ import annotations

from typing import Any

from tests.yard.cloudformation.resources.cases.case import OTHER_TAG_MAP, TAG_MAP, Case, Cases
from tests.yard.cloudformation.resources.world import World


def lifecycle_policy(world: World) -> Case:
    return Case(
        properties={
            "Name": "keep-three",
            "ExecutionRole": world.role().attribute("Arn"),
            "ResourceType": "AMI_IMAGE",
            "PolicyDetails": [
                {"Action": {"Type": "DELETE"}, "Filter": {"Type": "COUNT", "Value": 3}},
            ],
            "ResourceSelection": {"TagMap": TAG_MAP},
        },
        change={"Status": "DISABLED"},
    )


def component(_world: World) -> Case:
    return Case(
        properties={
            "Name": "efa",
            "Version": "1.2.3",
            "Platform": "Linux",
            "Data": "name: efa\nschemaVersion: 1.0\nphases: []\n",
            "Tags": TAG_MAP,
        },
        change={"Tags": OTHER_TAG_MAP},
    )


def image_recipe(world: World) -> Case:
    part = world.make("AWS::ImageBuilder::Component", **component(world).properties)
    return Case(
        properties={
            "Name": "neuron",
            "Version": "1.0.0",
            "ParentImage": "ami-12c6146b",
            "Components": [{"ComponentArn": part.id}],
            "BlockDeviceMappings": [
                {
                    "DeviceName": "/dev/xvda",
                    "Ebs": {"VolumeSize": 200, "Encrypted": True},
                }
            ],
            "Tags": TAG_MAP,
        },
        change={"Tags": OTHER_TAG_MAP},
    )


def infrastructure(world: World) -> Case:
    return Case(
        properties={
            "Name": "neuron",
            "InstanceProfileName": world.instance_profile().id,
            "InstanceTypes": ["trn1.2xlarge"],
            "InstanceMetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
            "SubnetId": world.subnet(),
            "SecurityGroupIds": [world.security_group()],
            "TerminateInstanceOnFailure": True,
        },
        change={"InstanceTypes": ["trn1.32xlarge"]},
    )


def distribution(_world: World) -> Case:
    def to(name: str) -> list[dict[str, Any]]:
        return [{"Region": "us-east-1", "AmiDistributionConfiguration": {"Name": name, "AmiTags": TAG_MAP}}]

    return Case(
        properties={"Name": "neuron", "Distributions": to("neuron-{{ imagebuilder:buildDate }}")},
        change={"Distributions": to("trn-{{ imagebuilder:buildDate }}")},
    )


def image_pipeline(world: World) -> Case:
    recipe = world.make("AWS::ImageBuilder::ImageRecipe", **image_recipe(world).properties)
    machines = world.make(
        "AWS::ImageBuilder::InfrastructureConfiguration", **infrastructure(world).properties
    )
    return Case(
        properties={
            "Name": "neuron",
            "ImageRecipeArn": recipe.id,
            "InfrastructureConfigurationArn": machines.id,
            "Status": "ENABLED",
            "ImageTestsConfiguration": {"ImageTestsEnabled": True, "TimeoutMinutes": 60},
        },
        change={"Status": "DISABLED"},
    )


CASES: Cases = {
    "AWS::ImageBuilder::Component": component,
    "AWS::ImageBuilder::ImageRecipe": image_recipe,
    "AWS::ImageBuilder::InfrastructureConfiguration": infrastructure,
    "AWS::ImageBuilder::DistributionConfiguration": distribution,
    "AWS::ImageBuilder::ImagePipeline": image_pipeline,
    "AWS::ImageBuilder::LifecyclePolicy": lifecycle_policy,
}
