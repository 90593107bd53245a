"""Launches instances of Auto Scaling groups as their launch template says; moto ignores most of it.

moto answers all other calls. Scaling activities are kept here.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from slipway.yard.chaos import conditions, consistency
from slipway.yard.errors import ApiError
from slipway.yard.gateway.faults import is_refused_by_script
from slipway.yard.machines.hosts import instances, reconciler
from slipway.yard.machines.hosts.instances import is_suspended
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.ec2 import template_launch
from slipway.yard.services.recorded import paged
from slipway.yard.services.service_quotas import quotas

Parameters = Mapping[str, Any]

GROUP_TAG = "aws:autoscaling:groupName"
RESOLVED = "resolve:ssm:"  # a launch template's prefix for a parameter that holds the AMI's id


def image_id(text: str, region: str) -> str:
    """Return the AMI that a launch template means; raise ApiError if there is none."""
    identifier = text
    if text.startswith(RESOLVED):
        name, _, version = text.removeprefix(RESOLVED).partition(":")
        found = moto_backend("ssm", region).get_parameters([f"{name}:{version}" if version else name])
        if not found:
            raise _no_image(f"There is no parameter {name}")
        identifier = str(next(iter(found.values())).value)
    if not any(image.id == identifier for image in moto_backend("ec2", region).describe_images()):
        raise _no_image(f"The image id '[{identifier}]' does not exist")
    return identifier


def _no_image(reason: str) -> ApiError:
    return ApiError("ValidationError", f"You must use a valid fully-formed launch template. {reason}")


def _create(parameters: Parameters, region: str) -> dict[str, Any]:
    """Check what AWS checks before it launches anything, then let moto make the group."""
    from moto.core.exceptions import ServiceException

    _launch_in_full()
    least, most = parameters["MinSize"], parameters["MaxSize"]
    wanted = parameters.get("DesiredCapacity", least)
    if not least <= wanted <= most:
        raise ApiError(
            "ValidationError",
            f"Desired capacity:{wanted} must be between the specified min size:{least} and max size:{most}",
        )
    _check_profile(parameters, region)
    backend = moto_backend("autoscaling", region)
    if parameters["AutoScalingGroupName"] in backend.autoscaling_groups:
        name = parameters["AutoScalingGroupName"]
        raise ApiError("AlreadyExists", f"AutoScalingGroup by this name already exists - {name}", status=400)
    try:
        backend.create_auto_scaling_group(**_arguments(parameters))
    except ServiceException as error:
        raise ApiError(str(error.code), str(error.message)) from error
    return {}


def _check_profile(parameters: Parameters, region: str) -> None:
    """Refuse a profile in the launch template of which IAM has not told Auto Scaling yet."""
    named = parameters.get("LaunchTemplate") or {}
    templates = moto_backend("ec2", region).launch_templates
    for template in templates.values():
        if named.get("LaunchTemplateId") == template.id or named.get("LaunchTemplateName") == template.name:
            data = template.get_version(named.get("Version", "$Default")).data
            profile = data.get("IamInstanceProfile") or {}
            name = profile.get("Name") or str(profile.get("Arn", "")).rpartition("/")[2]
            consistency.refuse_new_role("autoscaling", "CreateAutoScalingGroup", name)


def _arguments(parameters: Parameters) -> dict[str, Any]:
    """Read the arguments as moto's own handler does."""
    given = parameters.get
    return {
        "name": parameters["AutoScalingGroupName"],
        "availability_zones": given("AvailabilityZones", []),
        "desired_capacity": given("DesiredCapacity"),
        "max_size": given("MaxSize"),
        "min_size": given("MinSize"),
        "launch_config_name": given("LaunchConfigurationName"),
        "launch_template": dict(given("LaunchTemplate", {})),
        "mixed_instances_policy": given("MixedInstancesPolicy"),
        "vpc_zone_identifier": given("VPCZoneIdentifier"),
        "default_cooldown": given("DefaultCooldown"),
        "health_check_period": given("HealthCheckGracePeriod"),
        "health_check_type": given("HealthCheckType"),
        "load_balancers": given("LoadBalancerNames", []),
        "target_group_arns": given("TargetGroupARNs", []),
        "placement_group": given("PlacementGroup"),
        "termination_policies": given("TerminationPolicies", []),
        "tags": [dict(tag) for tag in given("Tags", [])],
        "capacity_rebalance": given("CapacityRebalance", False),
        "new_instances_protected_from_scale_in": given("NewInstancesProtectedFromScaleIn", False),
    }


@lru_cache(maxsize=1)
def _launch_in_full() -> None:
    from moto.autoscaling.models import FakeAutoScalingGroup

    by_configuration = FakeAutoScalingGroup.replace_autoscaling_group_instances

    def launch(group: Any, count: int, tags: dict[str, str]) -> None:
        if group.ec2_launch_template is None:
            by_configuration(group, count, tags)
        elif not is_suspended(group, "Launch"):
            _launch(group, count, tags)

    FakeAutoScalingGroup.replace_autoscaling_group_instances = launch


def _launch(group: Any, count: int, tags: dict[str, str]) -> None:
    from moto.autoscaling.models import InstanceState

    version = group.ec2_launch_template.get_version(group.launch_template_version)
    profile = version.data.get("IamInstanceProfile") or {}
    market = (version.data.get("InstanceMarketOptions") or {}).get("MarketType")
    image = image_id(version.image_id, group.region)
    bought = market or quotas.ON_DEMAND
    fitting = quotas.fitting(version.instance_type, count, group.region, bought)
    granted = _granted(group, version.instance_type, fitting)
    record(
        group, launched=granted, refused=count - fitting, instance_type=version.instance_type, market=bought
    )
    if not granted:
        return
    wanted = template_launch.TemplateLaunch(
        version=version,
        image=image,
        instance_type=version.instance_type,
        count=granted,
        subnet=group.vpc_zone_identifier.split(",")[0] if group.vpc_zone_identifier else "",
        zone=group.availability_zones[0],
        user_data=version.user_data,
        tags={**tags, GROUP_TAG: group.name},
        market=market or "",
        profile=profile,
        placement_group=group.placement_group or "",
    )
    for instance in template_launch.launch(wanted, group.region):
        instance.autoscaling_group = group
        state = InstanceState(instance, protected_from_scale_in=group.new_instances_protected_from_scale_in)
        group.instance_states.append(state)


def _granted(group: Any, instance_type: str, count: int) -> int:
    """Return for how many of these EC2 has capacity now; the group retries the rest later."""
    zone = group.availability_zones[0]
    lacking = sum(is_refused_by_script() or conditions.lacks_capacity(instance_type) for _ in range(count))
    if lacking:
        record_lack(group, conditions.words_of_no_capacity(instance_type, zone), _launch_missing)
    return count - lacking


def _launch_missing(group: Any) -> None:
    """Let a group that lacks instances try again, if it still exists."""
    if moto_backend("autoscaling", group.region).autoscaling_groups.get(group.name) is group:
        group.set_desired_capacity(group.desired_capacity)
        reconciler.wake_if_kept()


def reset() -> None:
    _made.clear()
    instances.groups_without_capacity.clear()


# Scaling activities: what was launched, and why a group has too few instances.
RETRY_S = 3.0  # until a group without capacity tries again; minutes on AWS
MOST_KEPT = 200  # activities of all groups; AWS keeps them for six weeks

_FAILED = "Launching EC2 instance failed."

_made: list[tuple[str, dict[str, Any]]] = []  # (region, activity), the newest first


def record(group: Any, *, launched: int, refused: int, instance_type: str, market: str) -> None:
    """Record that this many instances were launched, and this many refused because of the quota."""
    if launched:
        _add(group, "Successful", f"Launching {launched} new EC2 instances.", "")
    if refused:
        said = quotas.refusal(instance_type, group.region, market)
        _add(group, "Failed", "Launching a new EC2 instance.", f"{said} {_FAILED}")


def record_lack(group: Any, reason: str, launch: Callable[[Any], None]) -> None:
    """Record that EC2 has no capacity, and let the group try again after a while."""
    _add(group, "Failed", f"Launching a new EC2 instance.  Status Reason: {reason}", f"{reason} {_FAILED}")
    waiting = instances.groups_without_capacity
    if (name := (group.region, group.name)) not in waiting:
        waiting[name] = group
        timer = threading.Timer(RETRY_S, _try_again, [group, launch])
        timer.daemon = True
        timer.start()


def describe_activities(parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    wanted = parameters.get("AutoScalingGroupName")
    found = [
        activity
        for where, activity in _made
        if where == region and wanted in (None, activity["AutoScalingGroupName"])
    ]
    return paged("Activities", found, parameters, asked=("NextToken", "MaxRecords"))


def _try_again(group: Any, launch: Callable[[Any], None]) -> None:
    waiting, name = instances.groups_without_capacity, (group.region, group.name)
    if waiting.get(name) is group:  # still the same group: no reset, no other group of its name
        del waiting[name]
        launch(group)


def _add(group: Any, status: str, description: str, message: str) -> None:
    now = datetime.now(UTC)
    activity = {
        "ActivityId": str(uuid.uuid4()),
        "AutoScalingGroupName": group.name,
        "Description": description,
        "Cause": f"At {now:%Y-%m-%dT%H:%M:%SZ} an instance was started in response to a difference between "
        "desired and actual capacity.",
        "StartTime": now,
        "EndTime": now,
        "StatusCode": status,
        "Progress": 100,
        **({"StatusMessage": message} if message else {}),
    }
    _made.insert(0, (group.region, activity))
    del _made[MOST_KEPT:]


OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "DescribeScalingActivities": describe_activities,
    "CreateAutoScalingGroup": _create,
}
