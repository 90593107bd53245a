"""Checks for rules if a resource exists: True if AWS would find it in the account and the region."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.ec2 import placement_groups

# AWS's prefix lists have ids with eight digits, which differ here from public templates'; customers' have 17.
_AWS_PREFIX_LIST = re.compile(r"pl-[0-9a-f]{8}")
_PARAMETER = "resolve:ssm:"  # a launch's prefix for a parameter that holds the AMI's id


def key_pair(name: str, region: str) -> bool:
    return name in moto_backend("ec2", region).key_pairs


def placement_group(name: str, region: str) -> bool:
    return placement_groups.is_there(name, region)


def security_group(identifier: str, region: str) -> bool:
    return moto_backend("ec2", region).get_security_group_from_id(identifier) is not None


def subnet(identifier: str, region: str) -> bool:
    return find_subnet(identifier, region) is not None


def snapshot(identifier: str, region: str) -> bool:
    return identifier in moto_backend("ec2", region).snapshots


def prefix_list(identifier: str, region: str) -> bool:
    known = identifier in moto_backend("ec2", region).managed_prefix_lists
    return known or _AWS_PREFIX_LIST.fullmatch(identifier) is not None


def endpoint_service(name: str, region: str) -> bool:
    """Return True for the services of AWS and of this account; those of other accounts count as existing."""
    own = moto_backend("ec2", region).configurations.values()
    is_of_account = any(name == service.service_name for service in own)
    return is_of_account or ".vpce." in name or name in _endpoint_services(region)


@lru_cache(maxsize=32)
def _endpoint_services(region: str) -> frozenset[str]:
    """Return the services in moto's snapshot, and, since it gets outdated, those that botocore knows."""
    from botocore.session import get_session

    listed = moto_backend("ec2", region)._collect_default_endpoint_services(ACCOUNT, region)
    names = {str(service.get("serviceName") or service.get("ServiceName")) for service in listed}
    newer = {f"com.amazonaws.{region}.{name}" for name in get_session().get_available_services()}
    return frozenset(names | newer)


def profile_name(name: str, _region: str) -> bool:
    return any(profile.name == name for profile in moto_backend("iam").instance_profiles.values())


def profile_arn(arn: str, _region: str) -> bool:
    return any(profile.arn == arn for profile in moto_backend("iam").instance_profiles.values())


def kms_key(identifier: str, region: str) -> bool:
    """Return True for a key by id, ARN or alias; AWS's own aliases count as existing."""
    if "alias/aws/" in identifier:
        return True
    backend, name = moto_backend("kms", region), identifier.rpartition(":")[2]
    if name.startswith("alias/"):
        return backend.get_key_id_from_alias(name) is not None
    return name.rpartition("/")[2] in backend.keys


def parameter(name: str, region: str) -> bool:
    return bool(moto_backend("ssm", region).get_parameters([name]))


def image_parent(text: str, region: str) -> bool:
    """Return True if the parent image of a recipe exists."""
    if text.startswith("ssm:"):
        return parameter(text.removeprefix("ssm:"), region)
    if text.startswith("ami-"):
        return find_image(text, region) is not None
    from slipway.yard.services.imagebuilder.api import images
    from slipway.yard.services.imagebuilder.api.definitions import refers

    return f":{ACCOUNT}:image/" not in text or any(refers(text, arn) for arn in images.bakes)


def find_subnet(identifier: str, region: str) -> Any:
    """Return moto's subnet, or None."""
    found = (zone.get(identifier) for zone in moto_backend("ec2", region).subnets.values())
    return next(filter(None, found), None)


def find_image(text: str, region: str) -> Any:
    """Return moto's AMI, also by the parameter that holds its id; None if the yard does not know it."""
    identifier = text
    if text.startswith(_PARAMETER):
        name, _, version = text.removeprefix(_PARAMETER).partition(":")
        found = moto_backend("ssm", region).get_parameters([f"{name}:{version}" if version else name])
        identifier = str(next(iter(found.values())).value) if found else ""
    return moto_backend("ec2", region).amis.get(identifier)
