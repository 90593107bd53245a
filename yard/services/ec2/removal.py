"""VPCs and subnets that go: EC2 refuses one in use and takes its default network ACL along; moto doesn't."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.moto_backends import moto_backend

Parameters = Mapping[str, Any]


def call(operation: str, parameters: Parameters, region: str) -> dict[str, Any]:
    from moto.ec2.exceptions import EC2ClientError

    try:
        _OPERATIONS[operation](moto_backend("ec2", region), parameters)
    except EC2ClientError as error:
        raise ApiError(str(error.code), str(error.message)) from error
    return {}


def _delete_vpc(backend: Any, parameters: Parameters) -> None:
    vpc = parameters["VpcId"]
    if left := _left_in(backend, vpc):
        message = f"The vpc '{vpc}' has dependencies and cannot be deleted: {', '.join(left)}."
        raise ApiError("DependencyViolation", message)
    backend.delete_vpc(vpc)
    for identifier, acl in list(backend.network_acls.items()):
        if acl.vpc_id == vpc and acl.default:
            del backend.network_acls[identifier]


def _left_in(backend: Any, vpc: str) -> list[str]:
    endpoints = backend.vpc_end_points.values()
    gateways = backend.internet_gateways.values()
    return [
        *(group.id for group in backend.groups.get(vpc, {}).values() if group.name != "default"),
        *(one.id for one in endpoints if one.vpc_id == vpc and one.state != "deleted"),
        *(gateway.id for gateway in gateways if gateway.vpc and gateway.vpc.id == vpc),
    ]


def _delete_subnet(backend: Any, parameters: Parameters) -> None:
    subnet = parameters["SubnetId"]
    interfaces = [eni.id for eni in backend.enis.values() if eni.subnet and eni.subnet.id == subnet]
    if interfaces:
        used = ", ".join(sorted(interfaces))
        message = f"The subnet '{subnet}' has dependencies and cannot be deleted: {used}."
        raise ApiError("DependencyViolation", message)
    backend.delete_subnet(subnet)
    for acl in backend.network_acls.values():
        for key, association in list(acl._associations.items()):
            if association.subnet_id == subnet:
                del acl._associations[key]


_OPERATIONS: Mapping[str, Callable[[Any, Parameters], None]] = {
    "DeleteSubnet": _delete_subnet,
    "DeleteVpc": _delete_vpc,
}
