"""The yard adds placement groups, reservations, the catalogue, stand-ins, prices and launches to EC2."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway.jobs.words.catalogue.instances import instance_type, instance_types
from slipway.jobs.words.errors import SlipwayError
from slipway.yard.endpoint import control
from slipway.yard.gateway.faults import Fault, FaultKind, script
from tests.waiting import until
from tests.yard.accounts import ENOUGH, IMAGES, own_image, stand_in
from tests.yard.asking import refusal, switch
from tests.yard.conftest import RunningYard

DL1 = "dl1.24xlarge"
QUOTA_OF_CLUSTERS = {"L-6E869C2A": DL1, "L-2C3B7624": "trn1.32xlarge", "L-417A185B": "p4d.24xlarge"}


@pytest.fixture
def ec2(yard: RunningYard) -> Any:
    return yard.client("ec2")


def test_a_placement_group_is_created_described_and_deleted(ec2: Any) -> None:
    tags = [{"ResourceType": "placement-group", "Tags": [{"Key": "cluster", "Value": "dl1"}]}]
    made = ec2.create_placement_group(GroupName="dl1", Strategy="cluster", TagSpecifications=tags)
    assert made["PlacementGroup"]["State"] == "available"
    (found,) = ec2.describe_placement_groups(GroupNames=["dl1"])["PlacementGroups"]
    assert found == made["PlacementGroup"]
    assert found["GroupArn"].endswith(":placement-group/dl1")
    ec2.delete_placement_group(GroupName="dl1")
    assert (
        refusal(ec2.describe_placement_groups, GroupNames=["dl1"])["Code"] == "InvalidPlacementGroup.Unknown"
    )
    assert refusal(ec2.delete_placement_group, GroupName="dl1")["Code"] == "InvalidPlacementGroup.Unknown"


def test_an_instance_starts_with_efa_alone_on_its_further_cards(ec2: Any, yard: RunningYard) -> None:
    group = ec2.create_security_group(GroupName="nodes", Description="nodes")["GroupId"]
    image = ec2.register_image(Name="nodes")["ImageId"]
    interfaces = [
        {"NetworkCardIndex": card, "DeviceIndex": 0, "InterfaceType": sort, "Groups": [group]}
        for card, sort in enumerate(("efa", "efa-only"))
    ]
    wanted = {"ImageId": image, "InstanceType": "c6in.32xlarge", "NetworkInterfaces": interfaces}
    template = ec2.create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData=wanted)
    named = {"LaunchTemplateId": template["LaunchTemplate"]["LaunchTemplateId"]}
    (made,) = ec2.run_instances(LaunchTemplate=named, MinCount=1, MaxCount=1)["Instances"]
    assert made["InstanceType"] == "c6in.32xlarge"


def test_placement_groups_have_two_names_in_one_region_and_are_filtered_as_ec2_does(
    ec2: Any, yard: RunningYard
) -> None:
    tags = [{"ResourceType": "placement-group", "Tags": [{"Key": "team", "Value": "x"}]}]
    ec2.create_placement_group(GroupName="a", Strategy="cluster")
    ec2.create_placement_group(GroupName="b", Strategy="spread", TagSpecifications=tags)
    assert refusal(ec2.create_placement_group, GroupName="a")["Code"] == "InvalidPlacementGroup.Duplicate"
    assert yard.client("ec2", "eu-west-1").create_placement_group(GroupName="a")["PlacementGroup"]
    for name, values, found in (
        ("strategy", ["spread"], "b"),
        ("group-name", ["a", "b"], "ab"),
        ("group-name", ["a*"], "a"),
        ("tag:team", ["x"], "b"),
        ("tag-key", ["team"], "b"),
        ("state", ["deleting"], ""),
    ):
        groups = ec2.describe_placement_groups(Filters=[{"Name": name, "Values": values}])["PlacementGroups"]
        assert "".join(group["GroupName"] for group in groups) == found, name


def test_a_reservation_is_held_until_it_is_cancelled(ec2: Any) -> None:
    wanted = {"InstanceType": DL1, "InstancePlatform": "Linux/UNIX", "InstanceCount": 2}
    refused = refusal(ec2.create_capacity_reservation, **wanted)
    assert refused["Code"] == "MissingParameter"
    made = ec2.create_capacity_reservation(**wanted, AvailabilityZone="us-east-1a")["CapacityReservation"]
    identifier = made["CapacityReservationId"]
    assert (made["State"], made["TotalInstanceCount"]) == ("active", 2)
    held = [{"Name": "instance-type", "Values": [DL1]}, {"Name": "state", "Values": ["active"]}]
    (found,) = ec2.describe_capacity_reservations(Filters=held)["CapacityReservations"]
    assert found["CapacityReservationId"] == identifier
    ec2.cancel_capacity_reservation(CapacityReservationId=identifier)
    assert ec2.describe_capacity_reservations(Filters=held)["CapacityReservations"] == []
    unknown = refusal(ec2.describe_capacity_reservations, CapacityReservationIds=["cr-none"])
    assert unknown["Code"] == "InvalidCapacityReservationId.NotFound"


def test_ec2_knows_every_type_of_the_catalogue_as_the_catalogue_does(ec2: Any) -> None:
    names = [known.name for known in instance_types()]
    found = {
        described["InstanceType"]: described
        for page in ec2.get_paginator("describe_instance_types").paginate(
            Filters=[{"Name": "instance-type", "Values": names}]
        )
        for described in page["InstanceTypes"]
    }
    assert sorted(found) == sorted(names)
    known, described = instance_type(DL1), found[DL1]
    assert described["VCpuInfo"]["DefaultVCpus"] == known.vcpus
    assert described["MemoryInfo"]["SizeInMiB"] == known.memory_mib
    assert described["NetworkInfo"]["EfaInfo"]["MaximumEfaInterfaces"] == known.efa_interfaces
    assert described["GpuInfo"]["Gpus"][0]["Count"] == 8


def test_a_type_is_offered_where_the_catalogue_says_and_nowhere_else_and_found_by_a_wildcard(
    yard: RunningYard,
) -> None:
    def offered(where: str, *types: str, by: str = "availability-zone") -> dict[str, str]:
        filters = [{"Name": "instance-type", "Values": list(types)}]
        pages = yard.client("ec2", where).get_paginator("describe_instance_type_offerings")
        found = pages.paginate(LocationType=by, Filters=filters)
        return {
            offer["Location"]: offer["InstanceType"]
            for page in found
            for offer in page["InstanceTypeOfferings"]
        }

    for region in ("us-east-1", "us-west-2"):
        zones = offered(region, DL1)
        assert zones
        assert all(zone.startswith(region) for zone in zones)
    assert "eu-north-1" not in instance_type(DL1).regions
    assert offered("eu-north-1", DL1) == offered("us-east-1", "dl1") == {}
    assert offered("us-east-1", "dl?.*", by="region") == {"us-east-1": DL1}


def test_no_ami_is_there_before_somebody_made_it(fresh_yard: RunningYard) -> None:
    for image in IMAGES:
        name = f"/slipway/amis/{image}/id"
        assert refusal(fresh_yard.client("ssm").get_parameter, Name=name)["Code"] == "ParameterNotFound"
    assert fresh_yard.client("ec2").describe_images(Owners=["self"])["Images"] == []


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
def test_an_ami_that_was_asked_for_says_that_it_stands_in(yard: RunningYard, region: str) -> None:
    stand_in(yard, "gaudi-ecs", region=region)
    ssm = yard.client("ssm", region)
    identifier = ssm.get_parameter(Name="/slipway/amis/gaudi-ecs/id")["Parameter"]["Value"]
    (image,) = yard.client("ec2", region).describe_images(ImageIds=[identifier])["Images"]
    assert (image["State"], "stand-in" in image["Description"]) == ("available", True)
    manifest = json.loads(ssm.get_parameter(Name="/slipway/amis/gaudi-ecs/manifest")["Parameter"]["Value"])
    assert (manifest["image"], manifest["synapseai"], manifest["driver"]) == (
        "gaudi-ecs",
        "1.18.0",
        "1.18.0-524",
    )
    assert manifest["stand_in"] is True


def test_quotas_that_were_granted_are_listed_beside_a_fresh_accounts(yard: RunningYard) -> None:
    quotas = yard.client("service-quotas")
    listed = quotas.list_service_quotas(ServiceCode="ec2", MaxResults=100)["Quotas"]
    for code, type_name in QUOTA_OF_CLUSTERS.items():
        quota = quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]
        assert quota["Value"] == ENOUGH >= 8 * instance_type(type_name).vcpus
        fresh = quotas.get_aws_default_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]
        assert fresh["Value"] == 0
        assert quota in listed
    refused = refusal(quotas.get_service_quota, ServiceCode="ec2", QuotaCode="L-00000000")
    assert (refused["Code"], "L-1216C47A" in refused["Message"]) == ("NoSuchResourceException", True)


def test_prices_are_the_catalogues_and_dated_and_none_is_made_up(yard: RunningYard) -> None:
    price, pricing = instance_type(DL1).price, yard.client("pricing")
    assert price

    def listed(**fields: str) -> list[str]:
        filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in fields.items()]
        found: list[str] = pricing.get_products(ServiceCode="AmazonEC2", Filters=filters)["PriceList"]
        return found

    (text,) = listed(instanceType=DL1, regionCode=price.region, operatingSystem="Linux")
    (offer,) = json.loads(text)["terms"]["OnDemand"].values()
    (dimension,) = offer["priceDimensions"].values()
    assert float(dimension["pricePerUnit"]["USD"]) == price.usd_per_hour
    assert (dimension["unit"], offer["effectiveDate"][:10]) == ("Hrs", price.date)
    unpriced = next(known.name for known in instance_types() if known.price is None)
    assert listed(instanceType=unpriced) == listed(regionCode="eu-west-1") == []
    assert "colour" in refusal(listed, colour="red")["Message"]


# Launches in EC2 and Auto Scaling: pending first, no capacity for large types, Spot taken back.
LARGE, SMALL = "c6i.16xlarge", "c6i.large"


def run(yard: RunningYard, instance_type: str) -> dict[str, Any]:
    return {
        "ImageId": own_image(yard.client("ec2")),
        "InstanceType": instance_type,
        "MinCount": 1,
        "MaxCount": 1,
    }


def group(yard: RunningYard, instance_type: str, nodes: int) -> None:
    data = {"ImageId": own_image(yard.client("ec2")), "InstanceType": instance_type}
    yard.client("ec2").create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData=data)
    yard.client("autoscaling").create_auto_scaling_group(
        AutoScalingGroupName="nodes",
        MinSize=0,
        MaxSize=4,
        DesiredCapacity=nodes,
        LaunchTemplate={"LaunchTemplateName": "nodes"},
        AvailabilityZones=["us-east-1a"],
    )


def instances(yard: RunningYard) -> list[dict[str, Any]]:
    (found,) = yard.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=["nodes"])[
        "AutoScalingGroups"
    ]
    return list(found["Instances"])


def activities(yard: RunningYard) -> list[dict[str, Any]]:
    scaling = yard.client("autoscaling")
    return list(scaling.describe_scaling_activities(AutoScalingGroupName="nodes")["Activities"])


def state(yard: RunningYard, instance: str) -> str:
    (status,) = yard.client("ec2").describe_instance_status(InstanceIds=[instance], IncludeAllInstances=True)[
        "InstanceStatuses"
    ]
    return str(status["InstanceState"]["Name"])


def test_ec2_has_no_capacity_for_a_large_type_and_some_for_a_small_one(yard: RunningYard) -> None:
    switch(yard, no_capacity=100)
    ec2 = yard.client("ec2")
    refused = refusal(ec2.run_instances, **run(yard, LARGE))
    assert (refused["Code"], refused["status"]) == ("InsufficientInstanceCapacity", 500)
    assert f"sufficient {LARGE} capacity in the Availability Zone" in refused["Message"]
    assert len(ec2.run_instances(**run(yard, SMALL))["Instances"]) == 1


def test_a_group_without_capacity_says_so_and_launches_when_there_is_some(yard: RunningYard) -> None:
    switch(yard, no_capacity=100)
    group(yard, LARGE, 2)
    assert instances(yard) == []
    newest = activities(yard)[0]
    assert newest["StatusCode"] == "Failed"
    assert f"do not have sufficient {LARGE} capacity" in newest["StatusMessage"]
    assert newest["StatusMessage"].endswith("Launching EC2 instance failed.")
    switch(yard, no_capacity=0)
    until(lambda: len(instances(yard)) >= 2, lambda: "the group never tried again")
    assert [activity["StatusCode"] for activity in activities(yard)[:2]] == ["Successful", "Failed"]


def test_a_scripted_lack_of_capacity_reaches_groups_too(yard: RunningYard) -> None:
    script(yard, Fault(service="ec2", operation="RunInstances", kind=FaultKind.INSUFFICIENT_CAPACITY))
    group(yard, SMALL, 2)
    assert len(instances(yard)) == 1


def test_activities_come_in_pages_as_aws_lists_them(yard: RunningYard) -> None:
    scaling = yard.client("autoscaling")
    group(yard, SMALL, 1)
    for nodes in (2, 3):
        scaling.set_desired_capacity(AutoScalingGroupName="nodes", DesiredCapacity=nodes)
    first = scaling.describe_scaling_activities(AutoScalingGroupName="nodes", MaxRecords=2)
    rest = scaling.describe_scaling_activities(AutoScalingGroupName="nodes", NextToken=first["NextToken"])
    assert (len(first["Activities"]), len(rest["Activities"]), "NextToken" in rest) == (2, 1, False)


def test_an_instance_is_pending_until_its_launch_is_over(yard: RunningYard) -> None:
    switch(yard, launch_delay=600)
    (made,) = yard.client("ec2").run_instances(**run(yard, SMALL))["Instances"]
    group(yard, SMALL, 1)
    assert state(yard, made["InstanceId"]) == "pending"
    assert state(yard, instances(yard)[0]["InstanceId"]) == "pending"
    yard.client("ec2").terminate_instances(InstanceIds=[made["InstanceId"]])
    assert state(yard, made["InstanceId"]) == "terminated"
    switch(yard, launch_delay=0.2)
    (made,) = yard.client("ec2").run_instances(**run(yard, SMALL))["Instances"]
    yard.client("ec2").get_waiter("instance_running").wait(
        InstanceIds=[made["InstanceId"]], WaiterConfig={"Delay": 0.1, "MaxAttempts": 600}
    )


@pytest.mark.parametrize("host", ["nobody", ""])
def test_only_a_host_can_be_interrupted(yard: RunningYard, host: str) -> None:
    with pytest.raises(SlipwayError, match=r"there are no hosts|matches 0 hosts"):
        control(yard, "POST", "/interrupt-host", {"host": host})


def test_a_terminated_instance_takes_the_interface_along_that_it_was_launched_with(yard: RunningYard) -> None:
    ec2 = yard.client("ec2")
    (made,) = ec2.run_instances(**run(yard, SMALL))["Instances"]
    (interface,) = made["NetworkInterfaces"]
    ec2.terminate_instances(InstanceIds=[made["InstanceId"]])
    assert interface["NetworkInterfaceId"] not in str(ec2.describe_network_interfaces()["NetworkInterfaces"])
