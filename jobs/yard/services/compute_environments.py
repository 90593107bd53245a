"""Batch's CreateComputeEnvironment, where moto asks for more than AWS does.

AWS takes its own role where none is given, and no security groups where a launch template brings them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobs.yard.endpoint import ACCOUNT
from jobs.yard.errors import ApiError
from jobs.yard.stand_ins import BATCH_ROLE, BATCH_SERVICE

ROLE_ARN = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/{BATCH_SERVICE}/{BATCH_ROLE}"


def call(_operation: str, parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    from moto.batch.models import batch_backends
    from moto.core.exceptions import AWSError

    resources = dict(parameters.get("computeResources") or {})
    groups_from_template = "launchTemplate" in resources and not resources.get("securityGroupIds")
    if groups_from_template:
        resources["securityGroupIds"] = _default_groups(resources.get("subnets", ()), region)
    try:
        made = batch_backends[ACCOUNT][region].create_compute_environment(
            compute_environment_name=parameters["computeEnvironmentName"],
            _type=parameters["type"],
            state=parameters.get("state", "ENABLED"),
            compute_resources=resources or None,
            service_role=parameters.get("serviceRole") or ROLE_ARN,
            tags=parameters.get("tags"),
        )
    except AWSError as error:
        raise ApiError("ClientException", str(error.message)) from error
    if groups_from_template:
        del made.compute_resources["securityGroupIds"]  # moto is satisfied, and nobody is told of them
    return {"computeEnvironmentName": made.name, "computeEnvironmentArn": made.arn}


def _default_groups(subnet_ids: list[str], region: str) -> list[str]:
    from moto.ec2.models import ec2_backends

    backend = ec2_backends[ACCOUNT][region]
    networks = {subnet.vpc_id for subnet in backend.describe_subnets() if subnet.id in subnet_ids}
    groups = backend.describe_security_groups(filters={"group-name": ["default"]})
    return [group.id for group in groups if group.vpc_id in networks]
