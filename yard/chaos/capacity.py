"""Decide whether EC2 has a machine to give: always a small one; a large one as `no-capacity` lets it."""

from __future__ import annotations

from slipway.jobs.words.catalogue.instances import find_instance_type
from slipway.yard.chaos import conditions
from slipway.yard.errors import ApiError

CODE = "InsufficientInstanceCapacity"
LARGE_VCPUS = 64
_STATUS = 500  # EC2's error codes list it among the server errors


def is_lacking(instance_type: str) -> bool:
    """Decide the next launch of this type."""
    return _is_large(instance_type) and conditions.strikes("no-capacity", instance_type)


def refusal(instance_type: str, zone: str) -> ApiError:
    return ApiError(CODE, message(instance_type, zone), status=_STATUS)


def message(instance_type: str, zone: str) -> str:
    """Return EC2's words."""
    return (
        f"We currently do not have sufficient {instance_type} capacity in the Availability Zone you "
        f"requested ({zone}). Our system will be working on provisioning additional capacity."
    )


def _is_large(instance_type: str) -> bool:
    known = find_instance_type(instance_type)
    return known is not None and (known.vcpus >= LARGE_VCPUS or known.accelerator is not None)
