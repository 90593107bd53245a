"""Reads the policies in the yard from moto. To add a type of resource with a policy: a line of _READERS.

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
    reader = _READERS.get(parts[2]) if len(parts) > 5 else None
    text = reader(parts[3], parts[5], arn) if reader else None
    return decode(f"policy of {arn}", text) if text else None


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


def _bucket(_region: str, resource: str, _arn: str) -> str | None:
    bucket = _buckets().get(resource.partition("/")[0])
    return bucket.policy.decode() if bucket and bucket.policy else None


def _topic(region: str, _resource: str, arn: str) -> str | None:
    topic = moto_backend("sns", region).topics.get(arn)
    return str(topic.policy) if topic else None


def _key(region: str, resource: str, _arn: str) -> str | None:
    key = moto_backend("kms", region).keys.get(resource.removeprefix("key/"))
    return str(key.policy) if key else None


def _secret(region: str, _resource: str, arn: str) -> str | None:
    secret = moto_backend("secretsmanager", region).secrets.get(arn)
    return secret.policy if secret else None


def _repository(region: str, resource: str, _arn: str) -> str | None:
    repository = moto_backend("ecr", region).repositories.get(resource.removeprefix("repository/"))
    return repository.policy if repository else None


def _trust(_region: str, _resource: str, arn: str) -> str | None:
    found = _moto_role(arn)
    return str(found.assume_role_policy_document) if found else None


def _file_system(region: str, resource: str, _arn: str) -> str | None:
    found = moto_backend("efs", region).file_systems_by_id.get(resource.removeprefix("file-system/"))
    return found.file_system_policy if found else None


_READERS: Mapping[str, Callable[[str, str, str], str | None]] = {
    "ecr": _repository,
    "elasticfilesystem": _file_system,
    "iam": _trust,
    "kms": _key,
    "s3": _bucket,
    "secretsmanager": _secret,
    "sns": _topic,
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
