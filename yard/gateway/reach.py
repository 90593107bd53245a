"""Which services a host or a job reaches from its subnet: those with a VPC endpoint, or all by a route out.

What it does not reach answers nothing, as on AWS. A VPC with neither endpoints nor a route out is let
through: nobody has said what its network is.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from slipway.yard.endpoint import ACCOUNT, HOST
from slipway.yard.errors import ApiError

ANYWHERE = "0.0.0.0/0"


def refusal(subnet_id: str, service: str, region: str) -> str:
    """Say why a call from this subnet does not arrive; "" where it does."""
    ec2 = _backend_of(subnet_id)
    if ec2 is None:
        return ""
    subnet = ec2.get_subnet(subnet_id)
    table = _route_table(ec2, subnet)
    endpoints = [point for point in ec2.vpc_end_points.values() if point.vpc_id == subnet.vpc_id]
    if _leads_out(table) or not endpoints:
        return ""
    names = _names(service)
    found = [
        endpoint
        for endpoint in endpoints
        if endpoint.service_name.partition(f".{ec2.region_name}.")[2] in names
    ]
    if ec2.region_name == region and any(_serves(each, subnet_id, table) for each in found):
        return ""
    return f"{service} in {region} cannot be reached from {subnet_id}: {subnet.vpc_id} has no endpoint for it"


def _backend_of(subnet_id: str) -> Any:
    """Return the region's backend that has the subnet; subnets' ids are unique."""
    from moto.ec2.models import ec2_backends

    for backend in list(ec2_backends[ACCOUNT].values()):
        if any(subnet_id in zone for zone in backend.subnets.values()):
            return backend
    return None


def _route_table(ec2: Any, subnet: Any) -> Any:
    """Return the table that the subnet is associated with, or its VPC's main one."""
    tables = [each for each in ec2.route_tables.values() if each.vpc_id == subnet.vpc_id]
    for table in tables:
        if any(association.get("SubnetId") == subnet.id for association in table.associations):
            return table
    return next((each for each in tables if each.main_association_id), None)


def _leads_out(table: Any) -> bool:
    routes: Iterable[Any] = table.routes if table else ()
    return any(route.destination_cidr_block == ANYWHERE for route in routes)


@cache
def _names(service: str) -> frozenset[str]:
    """Return what the endpoint of a service may be called: api.ecr of the API is ecr.api here."""
    from moto.core.utils import get_service_model  # read once: a session of botocore's own reads it again

    prefix = str(get_service_model(service).endpoint_prefix)
    return frozenset({prefix, ".".join(reversed(prefix.split(".")))})


def _serves(endpoint: Any, subnet_id: str, table: Any) -> bool:
    """Return True if the endpoint is in the subnet's own network, or in its route table."""
    if (endpoint.vpc_endpoint_type or "Gateway") == "Gateway":  # AWS takes one without a type for that
        return table is not None and table.id in (endpoint.route_table_ids or ())
    return bool(endpoint.subnet_ids)  # any subnet of the VPC: its private names hold in all of them


# Refuse what a web page could send: the yard listens where every browser of this machine can reach it. A page
# may send forms to any address, and its owner's name may lead to 127.0.0.1 (DNS rebinding). Both show in
# headers that a page cannot choose.
LOOPBACK_NAMES = frozenset({HOST, "localhost", "::1"})
BUCKET_HOSTS = ".localhost"  # bucket.localhost: browsers never ask a DNS for such names (RFC 6761)
OWN_PAGES = frozenset({"same-origin", "none"})  # "none": somebody typed the address


def check(environ: dict[str, Any]) -> None:
    """Raise ApiError unless the request is addressed to this machine and no other site's page sent it."""
    host = environ.get("HTTP_HOST", "")
    if not _is_loopback(host):
        raise _refusal(f"it is not called '{host}'; call it by its address, http://{HOST}")
    origin = environ.get("HTTP_ORIGIN")
    if origin is not None and origin != f"http://{host}":
        raise _refusal(f"it takes no orders from a web page, and this one is of '{origin}'")
    site = environ.get("HTTP_SEC_FETCH_SITE", "none")
    if site not in OWN_PAGES:
        raise _refusal(f"it takes no orders from a web page, and this one is '{site}'")


def _is_loopback(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name in LOOPBACK_NAMES or name.endswith(BUCKET_HOSTS)


def _refusal(reason: str) -> ApiError:
    return ApiError("AccessDenied", f"the yard refuses this request: {reason}", status=403)
