"""Machines and the groups that they come in."""

from __future__ import annotations

from tests.yard.cloudformation.resources.cases.case import OTHER_TAGS, TAGS, Case, Cases
from tests.yard.cloudformation.resources.world import World


def launch_template(world: World) -> Case:
    interfaces = [
        {
            "DeviceIndex": 0 if card == 0 else 1,
            "NetworkCardIndex": card,
            "InterfaceType": "efa",
            "Groups": [world.security_group()],
            "DeleteOnTermination": True,
        }
        for card in range(4)
    ]
    data = {
        "InstanceType": "dl1.24xlarge",
        "UserData": "TUlNRS1WZXJzaW9uOiAxLjA=",
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "NetworkInterfaces": interfaces,
    }
    return Case(
        properties={
            "LaunchTemplateData": data,
            "TagSpecifications": [{"ResourceType": "launch-template", "Tags": TAGS}],
        },
        change={"LaunchTemplateData": {**data, "UserData": "b3RoZXI="}},
    )


def placement_group(_world: World) -> Case:
    return Case(properties={"Strategy": "cluster", "Tags": TAGS})


def instance(world: World) -> Case:
    return Case(
        properties={
            "ImageId": "ami-12c6146b",
            "InstanceType": "c6i.large",
            "SubnetId": world.subnet(),
            "SecurityGroupIds": [world.security_group()],
            "IamInstanceProfile": world.instance_profile().id,
            "Tags": TAGS,
        },
        change={"Tags": OTHER_TAGS},
    )


def scaling_group(world: World) -> Case:
    """Declare no instances: what a group launches is tried elsewhere."""
    return Case(
        properties={
            "MinSize": "0",
            "MaxSize": "4",
            "DesiredCapacity": "0",
            "VPCZoneIdentifier": [world.subnet()],
            "LaunchTemplate": {"LaunchTemplateId": world.launch_template().id, "Version": "1"},
            "PlacementGroup": world.make("AWS::EC2::PlacementGroup", Strategy="cluster").id,
            "HealthCheckType": "EC2",
            "HealthCheckGracePeriod": 0,
            "TerminationPolicies": ["NewestInstance"],
            "MetricsCollection": [{"Granularity": "1Minute"}],
            "Tags": [{"Key": "slipway:cluster", "Value": "c6i", "PropagateAtLaunch": True}],
        },
        change={
            "MaxSize": "6",
            "Tags": [{"Key": "owner", "Value": "you", "PropagateAtLaunch": False}],
        },
    )


def scheduled_action(world: World) -> Case:
    return Case(
        properties={
            "AutoScalingGroupName": world.scaling_group(),
            "Recurrence": "0 20 * * *",
            "MinSize": 0,
            "DesiredCapacity": 0,
        },
        change={"Recurrence": "0 21 * * *"},
    )


def scaling_policy(world: World) -> Case:
    return Case(
        properties={
            "AutoScalingGroupName": world.scaling_group(),
            "PolicyType": "SimpleScaling",
            "AdjustmentType": "ExactCapacity",
            "ScalingAdjustment": 0,
        },
        change={"ScalingAdjustment": 1},
    )


def lifecycle_hook(world: World) -> Case:
    return Case(
        properties={
            "AutoScalingGroupName": world.scaling_group(),
            "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
            "HeartbeatTimeout": 120,
            "DefaultResult": "CONTINUE",
        },
        change={"HeartbeatTimeout": 240},
    )


CASES: Cases = {
    "AWS::EC2::LaunchTemplate": launch_template,
    "AWS::EC2::PlacementGroup": placement_group,
    "AWS::EC2::Instance": instance,
    "AWS::AutoScaling::AutoScalingGroup": scaling_group,
    "AWS::AutoScaling::ScheduledAction": scheduled_action,
    "AWS::AutoScaling::ScalingPolicy": scaling_policy,
    "AWS::AutoScaling::LifecycleHook": lifecycle_hook,
}
