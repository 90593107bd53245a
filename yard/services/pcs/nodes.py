"""The instances of a PCS cluster's nodes: launched from the node group's launch template, and ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.jobs.words import slurm
from slipway.yard.chaos import capacity
from slipway.yard.endpoint import ACCOUNT, own_client
from slipway.yard.errors import ApiError
from slipway.yard.gateway.faults import is_refused_by_script
from slipway.yard.machines.hosts import reconciler
from slipway.yard.services.autoscaling.api import image_id
from slipway.yard.services.ec2 import template_launch
from slipway.yard.services.pcs import bootstrap
from slipway.yard.services.recorded import StoredRecord

# PCS's words -> EC2's for how an instance is bought.
_MARKETS: Mapping[str, str] = {"SPOT": "spot", "CAPACITY_BLOCK": "capacity-block"}
_THERE = ("pending", "running")


def launch(group: StoredRecord) -> Any:
    """Return moto's new instance for a node of the group; raises ApiError where EC2 has none to give."""
    from moto.core.exceptions import ServiceException
    from moto.core.types import Base64EncodedString

    given, region = group.given, group.region
    version = template_version(given["customLaunchTemplate"], region)
    subnet = _ec2(region).get_subnet(given["subnetIds"][0])
    user_data = bootstrap.merged(str(version.data.get("UserData") or ""), group.facts["clusterId"], region)
    tags = {slurm.CLUSTER_TAG: group.facts["clusterId"], slurm.GROUP_TAG: group.facts["id"]}
    wanted = template_launch.TemplateLaunch(
        version=version,
        image=image(given, region),
        instance_type=_available(given, subnet.availability_zone),
        count=1,
        subnet=subnet.id,
        zone=subnet.availability_zone,
        user_data=Base64EncodedString(user_data),
        tags=tags,
        market=_MARKETS.get(given.get("purchaseOption", "ONDEMAND"), ""),
        profile={"Arn": given["iamInstanceProfileArn"]},
        security_groups=tuple(given.get("securityGroupIds") or ()),
        at_shutdown="terminate",
    )
    try:
        (instance,) = template_launch.launch(wanted, region)
    except ServiceException as refused:
        raise ApiError(str(refused.code), str(refused.message)) from refused
    reconciler.wake_if_kept()
    return instance


def end(instance: str, region: str) -> None:
    if is_there(instance, region):
        own_client("ec2", region).terminate_instances(InstanceIds=[instance])


def is_there(instance: str, region: str) -> bool:
    """Return True for an instance that runs or will."""
    found = {each.id: each.state for each in _ec2(region).all_instances()}
    return found.get(instance) in _THERE


def template_version(given: Mapping[str, str], region: str) -> Any:
    """Return moto's version of the launch template; raises ApiError for one that is not there."""
    template = _ec2(region).launch_templates.get(given["id"])
    if template is None:
        raise ApiError("ValidationException", f"The launch template {given['id']} does not exist.")
    number = given["version"]
    if number not in ("$Latest", "$Default") and not 1 <= _whole(number) <= len(template.versions):
        raise ApiError(
            "ValidationException", f"Version {number} of the launch template {given['id']} does not exist."
        )
    return template.get_version(number)


def image(given: Mapping[str, Any], region: str) -> str:
    """Return the AMI of the node group, or of its launch template."""
    asked = given.get("amiId") or template_version(given["customLaunchTemplate"], region).image_id
    if not asked:
        raise ApiError("ValidationException", "Neither the node group nor its launch template names an AMI.")
    try:
        return image_id(asked, region)
    except ApiError as refused:
        raise ApiError("ValidationException", refused.message) from refused


def _available(given: Mapping[str, Any], zone: str) -> str:
    """Return the first of the group's instance types that EC2 has now."""
    kinds = [each["instanceType"] for each in given["instanceConfigs"]]
    for kind in kinds:
        if not is_refused_by_script() and not capacity.is_lacking(kind):
            return str(kind)
    raise capacity.refusal(kinds[-1], zone)


def _whole(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _ec2(region: str) -> Any:
    from moto.ec2.models import ec2_backends

    return ec2_backends[ACCOUNT][region]
