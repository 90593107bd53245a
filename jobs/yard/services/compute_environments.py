"""Batch's CreateComputeEnvironment: AWS takes its own role where none is given; moto insists on one."""

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

    try:
        made = batch_backends[ACCOUNT][region].create_compute_environment(
            compute_environment_name=parameters["computeEnvironmentName"],
            _type=parameters["type"],
            state=parameters.get("state", "ENABLED"),
            compute_resources=parameters.get("computeResources"),
            service_role=parameters.get("serviceRole") or ROLE_ARN,
            tags=parameters.get("tags"),
        )
    except AWSError as error:
        raise ApiError("ClientException", str(error.message)) from error
    return {"computeEnvironmentName": made.name, "computeEnvironmentArn": made.arn}
