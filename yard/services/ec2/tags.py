"""EC2's CreateTags: its tags are seen a while after they were put on, where the fault `consistency` is on.

moto keeps the tags, and answers for everything else that is done with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.chaos import consistency
from slipway.yard.errors import ApiError
from slipway.yard.moto_backends import moto_backend

Parameters = Mapping[str, Any]


def call(_operation: str, parameters: Parameters, region: str) -> dict[str, Any]:
    """Check everything now, as AWS does, and put the tags on when news of them has spread."""
    from moto.core.exceptions import ServiceException
    from moto.ec2.models import validate_resource_ids

    resources = list(parameters.get("Resources", ()))
    tags = {tag["Key"]: tag.get("Value", "") for tag in parameters.get("Tags", ())}
    backend = moto_backend("ec2", region)
    try:
        validate_resource_ids(resources)
        backend.do_resources_exist(resources)
    except ServiceException as error:
        raise ApiError(str(error.code), str(error.message)) from error
    if parameters.get("DryRun"):
        message = "Request would have succeeded, but DryRun flag is set."
        raise ApiError("DryRunOperation", message, status=412)

    def put() -> None:
        try:
            backend.create_tags(resources, tags)
        except ServiceException as error:
            raise ApiError(str(error.code), str(error.message)) from error

    consistency.later("tags", put)
    return {}
