"""Batch's compute environments, where moto requires more than AWS or drops settings.

As on AWS, settings with which no node could start, such as a foreign AMI, make an environment INVALID.
Without a role AWS uses its own; security groups may come from a launch template; an update changes only the
compute resources that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError, client_exception
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.pcs import nodes
from slipway.yard.services.refusals import launches
from slipway.yard.services.stand_ins import BATCH_ROLE, BATCH_SERVICE

ROLE_ARN = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/{BATCH_SERVICE}/{BATCH_ROLE}"
# What a scaling update changes. Batch user guide, "Updating compute environments": all else is an
# infrastructure update, which BEST_FIT does not support. Source of the message, which names all fields:
# repost.aws/knowledge-center/batch-update-ec2-environment.
_SCALING = frozenset({"minvCpus", "maxvCpus", "desiredvCpus"})
_ON_EC2 = ("EC2", "SPOT")
_BEST_FIT = "BEST_FIT"  # the default
_IS_FIXED = (
    "Fields allocationStrategy, bidPercentage, ec2Configuration, ec2KeyPair, imageId, instanceRole, "
    "instanceTypes, launchTemplate, placementGroup, securityGroupIds, subnets, tags, type, updatePolicy, "
    "updateToLatestImageVersion, context can be updated for CE only with Allocation Strategy "
    "BEST_FIT_PROGRESSIVE and SPOT_CAPACITY_OPTIMIZED."
)
# AWS applies it during an update, and never shows it.
_NOT_KEPT = frozenset({"updateToLatestImageVersion"})

Parameters = Mapping[str, Any]


def call(operation: str, parameters: Parameters, region: str) -> dict[str, Any]:
    from moto.core.exceptions import AWSError

    if operation == "DescribeComputeEnvironments":
        # Show moto's environments, but as INVALID, with the reason, if their nodes could never start.
        names = parameters.get("computeEnvironments")
        backend = moto_backend("batch", region)
        shown: list[dict[str, Any]] = backend.describe_compute_environments(names)
        for environment in shown:
            if reason := backend.get_compute_environment(environment["computeEnvironmentArn"]).invalid_reason:
                environment |= {"status": "INVALID", "statusReason": reason}
        return {"computeEnvironments": shown}
    # Source of the message: aws/aws-parallelcluster, which reads the list of types from it.
    kinds = (parameters.get("computeResources") or {}).get("instanceTypes") or ()
    for kind in kinds:
        if "." in kind and launches.zones_of(kind, region) == []:
            known = ", ".join(["optimal", *sorted(launches.types_in(region))])
            raise client_exception(
                f"Error executing request, Exception : Instance type can only be one of [{known}]"
            )
    try:
        changed = _OPERATIONS[operation](parameters, region)
    except AWSError as error:
        raise client_exception(str(error.message)) from error
    changed.invalid_reason = _why_invalid(changed.compute_resources or {}, region)
    return {"computeEnvironmentName": changed.name, "computeEnvironmentArn": changed.arn}


def _create(parameters: Parameters, region: str) -> Any:
    resources = dict(parameters.get("computeResources") or {})
    groups_from_template = "launchTemplate" in resources and not resources.get("securityGroupIds")
    # Refuse a missing member, which moto would read unchecked; a launch template may give the groups.
    needed = () if groups_from_template else ("securityGroupIds",)
    if "FARGATE" not in str(resources.get("type")):
        needed = (*needed, "instanceTypes")
    if missing := [name for name in needed if resources and not resources.get(name)]:
        raise client_exception(f"Error executing request, Exception : {missing[0]} is required")
    if groups_from_template:
        subnet_ids = resources.get("subnets", ())
        backend = moto_backend("ec2", region)
        networks = {subnet.vpc_id for subnet in backend.describe_subnets() if subnet.id in subnet_ids}
        groups = backend.describe_security_groups(filters={"group-name": ["default"]})
        resources["securityGroupIds"] = [group.id for group in groups if group.vpc_id in networks]
    made = moto_backend("batch", region).create_compute_environment(
        compute_environment_name=parameters["computeEnvironmentName"],
        _type=parameters["type"],
        state=parameters.get("state", "ENABLED"),
        compute_resources=resources or None,
        service_role=_role_arn(parameters.get("serviceRole"), region) or ROLE_ARN,
        tags=parameters.get("tags"),
    )
    if groups_from_template:
        del made.compute_resources["securityGroupIds"]  # only for moto; never shown
    return made


def _update(parameters: Parameters, region: str) -> Any:
    backend, name = moto_backend("batch", region), parameters["computeEnvironment"]
    environment = backend.get_compute_environment(name)
    if environment is None:
        raise client_exception(f"Compute environment {name} does not exist")
    before, given = environment.compute_resources or {}, parameters.get("computeResources") or {}
    is_fixed = before.get("type") in _ON_EC2 and before.get("allocationStrategy", _BEST_FIT) == _BEST_FIT
    if is_fixed and any(given[name] != before.get(name) for name in set(given) - _SCALING):
        raise client_exception(_IS_FIXED)
    resources = {**before, **{key: value for key, value in given.items() if key not in _NOT_KEPT}}
    low, high = resources.get("minvCpus", 0), resources.get("maxvCpus", 0)
    if low > high:
        raise client_exception(f"minvCpus {low} must not be greater than maxvCpus {high}")
    if not low <= resources.get("desiredvCpus", low) <= high:
        if "desiredvCpus" in given:
            raise client_exception(f"desiredvCpus {given['desiredvCpus']} must be from {low} to {high}")
        resources["desiredvCpus"] = low
    role = _role_arn(parameters.get("serviceRole"), region)
    backend.update_compute_environment(name, parameters.get("state"), None, role)
    if given:
        environment.compute_resources = resources
    return environment


def _why_invalid(resources: Mapping[str, Any], region: str) -> str:
    """Return why the environment's nodes can never start, or "": Batch finds out after its creation."""
    data = launches.template_data(resources.get("launchTemplate") or {}, region) or {}
    if not nodes.is_mime(str(data.get("UserData") or "")):
        return "CLIENT_ERROR - The user data of the launch template is not in the MIME multi-part format"
    images = [
        configuration.get("imageIdOverride") for configuration in resources.get("ec2Configuration") or ()
    ]
    named = next(filter(None, images), None) or resources.get("imageId") or data.get("ImageId")
    group = resources.get("placementGroup") or (data.get("Placement") or {}).get("GroupName")
    launch = {**data, "ImageId": named, "Placement": {"GroupName": group} if group else {}}
    if key := resources.get("ec2KeyPair"):
        launch["KeyName"] = key
    for kind in resources.get("instanceTypes") or ():
        try:
            launches.refuse_launch({**launch, "InstanceType": launches.example_of(kind)}, region)
        except ApiError as refused:
            return f"CLIENT_ERROR - {refused.message}"
    return ""


def _role_arn(role: str | None, region: str) -> str | None:
    """Return the ARN of a role: Batch accepts a name or an ARN, moto only the ARN."""
    from moto.utilities.utils import get_partition

    if not role or role.startswith("arn:"):
        return role
    for known in moto_backend("iam", get_partition(region)).get_roles():
        if known.name == role:
            return str(known.arn)
    raise client_exception(f"Could not find IAM role {role}: give the name or ARN of one")


_OPERATIONS: Mapping[str, Callable[[Parameters, str], Any]] = {
    "CreateComputeEnvironment": _create,
    "UpdateComputeEnvironment": _update,
}
