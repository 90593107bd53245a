"""Decides which services a host or a job can reach from its subnet, and refuses requests from web pages.

A subnet reaches services that have a VPC endpoint, or all if it has a route out. Others do not answer, as on
AWS. A VPC with neither endpoints nor a route out reaches all: its network was not modelled.
"""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import urlsplit

from slipway.yard.endpoint import ACCOUNT, HOST
from slipway.yard.errors import ApiError

ANYWHERE = "0.0.0.0/0"


def refusal(subnet_id: str, service: str, region: str) -> str:
    """Return why a call from this subnet does not arrive; "" if it does."""
    ec2 = _backend_of(subnet_id)
    if ec2 is None:
        return ""
    subnet = ec2.get_subnet(subnet_id)
    table = _route_table(ec2, subnet)
    endpoints = [point for point in ec2.vpc_end_points.values() if point.vpc_id == subnet.vpc_id]
    routes = table.routes if table else ()
    if any(route.destination_cidr_block == ANYWHERE for route in routes) or not endpoints:
        return ""
    names = _names(service)
    found = [
        endpoint
        for endpoint in endpoints
        if endpoint.service_name.partition(f".{ec2.region_name}.")[2] in names
    ]
    if ec2.region_name == region and any(_serves(endpoint, subnet_id, table) for endpoint in found):
        return ""
    return f"{service} in {region} cannot be reached from {subnet_id}: {subnet.vpc_id} has no endpoint for it"


def _backend_of(subnet_id: str) -> Any:
    """Return the region's backend that has the subnet, whose id is unique in all regions."""
    from moto.ec2.models import ec2_backends

    for backend in list(ec2_backends[ACCOUNT].values()):
        if any(subnet_id in zone for zone in backend.subnets.values()):
            return backend
    return None


def _route_table(ec2: Any, subnet: Any) -> Any:
    """Return the table that the subnet is associated with, or its VPC's main one."""
    tables = [table for table in ec2.route_tables.values() if table.vpc_id == subnet.vpc_id]
    for table in tables:
        if any(association.get("SubnetId") == subnet.id for association in table.associations):
            return table
    return next((table for table in tables if table.main_association_id), None)


@cache
def _names(service: str) -> frozenset[str]:
    """Return the names that an endpoint of the service may have, such as ecr.api for api.ecr."""
    from moto.core.utils import get_service_model  # cached, unlike a session of botocore

    prefix = str(get_service_model(service).endpoint_prefix)
    return frozenset({prefix, ".".join(reversed(prefix.split(".")))})


def _serves(endpoint: Any, subnet_id: str, table: Any) -> bool:
    """Return True if the endpoint has an interface in the VPC, or is in the subnet's route table."""
    if (endpoint.vpc_endpoint_type or "Gateway") == "Gateway":  # AWS's default type
        return table is not None and table.id in (endpoint.route_table_ids or ())
    return bool(endpoint.subnet_ids)  # in any subnet: private DNS names apply to the whole VPC


# Refuses requests that a web page sends: browsers on this machine can reach the yard. A page may send forms
# to any address, and its own domain may resolve to 127.0.0.1 (DNS rebinding). Both are visible in headers
# that a page cannot set.
LOOPBACK_NAMES = frozenset({HOST, "localhost", "::1"})
BUCKET_HOSTS = ".localhost"  # bucket.localhost: browsers never ask a DNS for such names (RFC 6761)
OWN_PAGES = frozenset({"same-origin", "none"})  # "none": the user typed the address


def check(environ: dict[str, Any]) -> None:
    """Raise ApiError unless the request is addressed to this machine and no other site's page sent it."""
    host = environ.get("HTTP_HOST", "")
    if not _is_loopback(host):
        raise _refusal(f"its host is '{host}'; use the yard's address, http://{HOST}")
    origin = environ.get("HTTP_ORIGIN")
    if origin is not None and origin != f"http://{host}":
        raise _refusal(f"a web page of '{origin}' sent it; the yard takes no requests from web pages")
    site = environ.get("HTTP_SEC_FETCH_SITE", "none")
    if site not in OWN_PAGES:
        raise _refusal(f"a web page sent it ({site}); the yard takes no requests from web pages")


def _is_loopback(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name in LOOPBACK_NAMES or name.endswith(BUCKET_HOSTS)


def _refusal(reason: str) -> ApiError:
    return ApiError("AccessDenied", f"the yard refuses this request: {reason}", status=403)
