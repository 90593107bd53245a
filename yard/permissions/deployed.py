"""Reads the policies in the yard from moto. To add a type of resource with a policy: a row of _POLICIES.

An absent resource has no policy; its service refuses the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.moto_backends import moto_backend
from slipway.yard.permissions.policies import PolicyDocument, decode


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedRole:
    name: str
    arn: str
    id: str
    tags: Mapping[str, str]
    identity: tuple[PolicyDocument, ...]
    boundary: PolicyDocument | None
    trust: PolicyDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedEndpoint:
    id: str
    policy: PolicyDocument


def role(name_or_arn: str) -> DeployedRole | None:
    """Find a role by its name or ARN."""
    found = _moto_role(name_or_arn)
    if found is None:
        return None
    managed = [_managed(policy) for policy in list(found.managed_policies.values())]
    inline = [decode(name, text) for name, text in list(found.policies.items())]
    boundary = moto_backend("iam").managed_policies.get(found.permissions_boundary_arn)
    return DeployedRole(
        name=found.name,
        arn=found.arn,
        id=found.id,
        tags={tag["Key"]: tag["Value"] for tag in found.tags or ()},
        identity=(*managed, *inline),
        boundary=_managed(boundary) if boundary else None,
        trust=decode("trust policy", found.assume_role_policy_document),
    )


def role_names() -> list[str]:
    return sorted(found.name for found in list(moto_backend("iam").roles.values()))


def of_resource(arn: str) -> PolicyDocument | None:
    """Return the resource's own policy, if any."""
    parts = arn.split(":", 5)
    if len(parts) < 6 or parts[2] not in _POLICIES:
        return None
    find, attribute = _POLICIES[parts[2]]
    found = find(parts[3], parts[5], arn)
    text = getattr(found, attribute) if found else None
    if isinstance(text, bytes):  # a bucket's
        text = text.decode()
    return decode(f"policy of {arn}", str(text)) if text else None


def endpoint(vpc: str, region: str, service: str) -> DeployedEndpoint | None:
    """Find the endpoint through which this VPC reaches the service."""
    for found in list(moto_backend("ec2", region).vpc_end_points.values()):
        names = {f"com.amazonaws.{region}.{service}", f"com.amazonaws.{region}.{service}.api"}
        if found.vpc_id == vpc and found.service_name in names:
            return DeployedEndpoint(
                id=found.id, policy=decode(f"policy of {found.id}", found.policy_document)
            )
    return None


def _moto_role(name_or_arn: str) -> Any:
    for found in list(moto_backend("iam").roles.values()):
        if name_or_arn in (found.name, found.arn):
            return found
    return None


def _managed(policy: Any) -> PolicyDocument:
    default = next(version for version in policy.versions if version.is_default)
    return decode(policy.arn, default.document)


# Service -> how to find a resource by its region, its part of the ARN and the ARN; and what holds its policy.
_POLICIES: Mapping[str, tuple[Callable[[str, str, str], Any], str]] = {
    "ecr": (
        lambda region, name, _arn: moto_backend("ecr", region).repositories.get(
            name.removeprefix("repository/")
        ),
        "policy",
    ),
    "elasticfilesystem": (
        lambda region, name, _arn: moto_backend("efs", region).file_systems_by_id.get(
            name.removeprefix("file-system/")
        ),
        "file_system_policy",
    ),
    "iam": (lambda _region, _name, arn: _moto_role(arn), "assume_role_policy_document"),
    "kms": (
        lambda region, name, _arn: moto_backend("kms", region).keys.get(name.removeprefix("key/")),
        "policy",
    ),
    "s3": (lambda _region, name, _arn: _buckets().get(name.partition("/")[0]), "policy"),
    "secretsmanager": (
        lambda region, _name, arn: moto_backend("secretsmanager", region).secrets.get(arn),
        "policy",
    ),
    "sns": (lambda region, _name, arn: moto_backend("sns", region).topics.get(arn), "policy"),
}


def is_owned(arn: str) -> bool:
    """Return True if the resource is in this account; a bucket's ARN does not name its account."""
    parts = arn.split(":", 5)
    return parts[4] == ACCOUNT or (parts[2] == "s3" and parts[5].partition("/")[0] in _buckets())


def tags_of(arn: str) -> Mapping[str, str]:
    """Return a resource's tags, for those types whose tags are read here."""
    parts = arn.split(":", 5)
    reader = _TAGS.get(parts[2]) if len(parts) > 5 else None
    return reader(parts[3], parts[5].rpartition("/")[2], arn) if reader else {}


def _buckets() -> Mapping[str, Any]:
    found: Mapping[str, Any] = moto_backend("s3").buckets
    return found


def _secret_tags(region: str, _id: str, arn: str) -> Mapping[str, str]:
    secret = moto_backend("secretsmanager", region).secrets.get(arn)
    return {tag["Key"]: tag["Value"] for tag in (secret.tags or [])} if secret else {}


def _training_tags(region: str, name: str, _arn: str) -> Mapping[str, str]:
    job = moto_backend("sagemaker", region).training_jobs.get(name)
    return {tag["Key"]: tag["Value"] for tag in job.tags} if job else {}


_TAGS: Mapping[str, Callable[[str, str, str], Mapping[str, str]]] = {
    "batch": lambda region, _id, arn: dict(moto_backend("batch", region).list_tags_for_resource(arn)),
    "ec2": lambda region, id_, _arn: dict(moto_backend("ec2", region).tags.get(id_, {})),
    "elasticfilesystem": lambda region, id_, _arn: dict(
        moto_backend("efs", region).tagging_service.get_tag_dict_for_resource(id_)
    ),
    "kms": lambda region, id_, _arn: dict(moto_backend("kms", region).tagger.get_tag_dict_for_resource(id_)),
    "sagemaker": _training_tags,
    "secretsmanager": _secret_tags,
}
