"""EC2's capacity reservations, which moto lacks. They are only kept: no instance needs or uses one."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
from slipway.yard.services.recorded import given_tags

Parameters = Mapping[str, Any]

_reservations: dict[str, dict[str, Any]] = {}
_lock = threading.Lock()

_DEFAULTS = {
    "Tenancy": "default",
    "EndDateType": "unlimited",
    "InstanceMatchCriteria": "open",
    "EbsOptimized": False,
    "EphemeralStorage": False,
}
_GIVEN = (
    *_DEFAULTS,
    "AvailabilityZone",
    "AvailabilityZoneId",
    "EndDate",
    "InstancePlatform",
    "InstanceType",
    "OutpostArn",
    "PlacementGroupArn",
)
_FILTERS = {
    "instance-type": "InstanceType",
    "instance-match-criteria": "InstanceMatchCriteria",
    "availability-zone": "AvailabilityZone",
    "state": "State",
    "tenancy": "Tenancy",
}


def reset() -> None:
    _reservations.clear()


def _create(parameters: Parameters, region: str) -> dict[str, Any]:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    if parameters["InstanceType"] not in INSTANCE_TYPES:
        raise ApiError("InvalidInstanceType", f"Invalid instance type: {parameters['InstanceType']}")
    if not parameters.get("AvailabilityZone") and not parameters.get("AvailabilityZoneId"):
        raise ApiError("MissingParameter", "The request must contain AvailabilityZone or AvailabilityZoneId")
    identifier = f"cr-{secrets.token_hex(9)[:17]}"
    now = datetime.now(UTC)
    reservation = {
        **_DEFAULTS,
        **{member: parameters[member] for member in _GIVEN if member in parameters},
        "CapacityReservationId": identifier,
        "CapacityReservationArn": f"arn:aws:ec2:{region}:{ACCOUNT}:capacity-reservation/{identifier}",
        "OwnerId": ACCOUNT,
        "TotalInstanceCount": parameters["InstanceCount"],
        "AvailableInstanceCount": parameters["InstanceCount"],
        "State": "active",
        "ReservationType": "default",
        "CreateDate": now,
        "StartDate": now,
        "Tags": given_tags(parameters),
    }
    with _lock:
        _reservations[identifier] = reservation
    return {"CapacityReservation": reservation}


def _describe(parameters: Parameters, region: str) -> dict[str, Any]:
    wanted = parameters.get("CapacityReservationIds", [])
    found = [
        one for one in list(_reservations.values()) if one["CapacityReservationArn"].split(":")[3] == region
    ]
    if unknown := set(wanted) - {one["CapacityReservationId"] for one in found}:
        raise _unknown(", ".join(sorted(unknown)))
    found = [one for one in found if not wanted or one["CapacityReservationId"] in wanted]
    for condition in parameters.get("Filters", []):
        if condition["Name"] not in _FILTERS:
            raise ApiError("InvalidParameterValue", f"The filter '{condition['Name']}' is invalid")
        member = _FILTERS[condition["Name"]]
        found = [one for one in found if one.get(member) in condition["Values"]]
    return {"CapacityReservations": found}


def _cancel(parameters: Parameters, _region: str) -> dict[str, Any]:
    with _lock:
        reservation = _reservations.get(parameters["CapacityReservationId"])
        if reservation is None:
            raise _unknown(parameters["CapacityReservationId"])
        reservation |= {"State": "cancelled", "AvailableInstanceCount": 0}
    return {"Return": True}


def _unknown(identifier: str) -> ApiError:
    return ApiError(
        "InvalidCapacityReservationId.NotFound", f"The capacity reservation '{identifier}' does not exist"
    )


OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "CreateCapacityReservation": _create,
    "DescribeCapacityReservations": _describe,
    "CancelCapacityReservation": _cancel,
}
