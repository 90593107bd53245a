"""What SageMaker refuses of a cluster on HyperPod, and what fails one. Another refusal is a line of _CHECKS.

Sources: the API reference of CreateCluster and its shapes, and the developer guide's pages on keys of one's
own and on lifecycle scripts. AWS's words are not known; these are plain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
from slipway.yard.permissions import roles
from slipway.yard.permissions.calls.asked import ActionNeed
from slipway.yard.services.registry import not_emulated
from slipway.yard.services.sagemaker.training.checks import (
    SERVICE,
    invalid,
    refuse_above,
    refuse_unknown_networks,
)

Parameters = Mapping[str, Any]
Group = Mapping[str, Any]

CLUSTER_USAGE = "{} for cluster usage"
_CREATE, _EXTEND = "OnCreate", "OnInitComplete"


def refuse(parameters: Parameters, region: str) -> None:
    """Raise what AWS answers to a request that it does not take."""
    for check in _CHECKS:
        check(parameters, region)


def refuse_above_quota(groups: Sequence[Group], region: str, in_use: Callable[[str], int]) -> None:
    """Hold the account to each type's quota of HyperPod, which is another than that of training jobs."""
    asked: Counter[str] = Counter()
    for group in groups:
        asked[group.get("InstanceType", "")] += group["InstanceCount"]
    for kind, count in asked.items():
        refuse_above(CLUSTER_USAGE.format(kind), region, in_use(kind), count, "Instances")


def lifecycle_failure(groups: Sequence[Group], region: str) -> str:
    """Return why a node could not get its scripts or its files, which fails the cluster; "" if nothing."""
    return next((why for group in groups for why in _failures(group, region)), "")


def _failures(group: Group, region: str) -> Iterator[str]:
    found = group.get("LifeCycleConfig") or {}
    source, script = found.get("SourceS3Uri"), found.get(_CREATE) or found.get(_EXTEND)
    name = group["InstanceGroupName"]
    if source and script:
        bucket, prefix = urlsplit(source).netloc, urlsplit(source).path.strip("/")
        key = f"{prefix}/{script}" if prefix else script
        needs = (
            ActionNeed(
                action="s3:ListBucket", resource=f"arn:aws:s3:::{bucket}", keys={"s3:prefix": (f"{prefix}/",)}
            ),
            ActionNeed(action="s3:GetObject", resource=f"arn:aws:s3:::{bucket}/{key}"),
        )
        session = roles.assume(group["ExecutionRole"], SERVICE, "SageMaker")
        if words := roles.refused(session, region, needs):
            yield f"Instance group {name} could not download its lifecycle scripts from {source}: {words}"
        elif not _is_object(bucket, key):
            yield f"Instance group {name} found no lifecycle script {script} in {source}."
    for storage in group.get("InstanceStorageConfigs") or ():
        address = (storage.get("FsxLustreConfig") or {}).get("DnsName", "")
        if address and not _is_file_system(address.partition(".")[0], region):
            yield f"Instance group {name} could not mount {address}: there is no such file system."


def _is_object(bucket: str, key: str) -> bool:
    from moto.s3.models import s3_backends

    found: Any = s3_backends[ACCOUNT]["aws"].buckets.get(bucket)
    return found is not None and key in found.keys


def _is_file_system(name: str, region: str) -> bool:
    from moto.fsx.models import fsx_backends

    return name in fsx_backends[ACCOUNT][region].file_systems


def _no_groups(parameters: Parameters, _region: str) -> None:
    if parameters.get("RestrictedInstanceGroups"):
        raise not_emulated("sagemaker", "CreateCluster", "RestrictedInstanceGroups")
    groups = parameters.get("InstanceGroups")
    if not groups:
        raise invalid("InstanceGroups must have at least one instance group.")
    names = [group["InstanceGroupName"] for group in groups]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise invalid(f"Instance group names must be unique; {twice} is given {names.count(twice)} times.")


def _orchestrator(parameters: Parameters, _region: str) -> None:
    asked = parameters.get("Orchestrator")
    if asked is None:
        return
    named = [name for name in ("Eks", "Slurm") if asked.get(name) is not None]
    if len(named) != 1:
        raise invalid("Exactly one of Eks and Slurm must be given in Orchestrator.")
    if named == ["Eks"]:
        raise not_emulated("sagemaker", "CreateCluster", "Orchestrator Eks")


def _slurms_topology(parameters: Parameters, _region: str) -> None:
    said = [
        group["SlurmConfig"]["NodeType"] for group in parameters["InstanceGroups"] if group.get("SlurmConfig")
    ]
    if not said:
        return
    if (parameters.get("Orchestrator") or {}).get("Slurm") is None:
        raise invalid("SlurmConfig is for clusters whose Orchestrator is Slurm.")
    if len(said) != len(parameters["InstanceGroups"]):
        raise invalid("SlurmConfig must be given in every instance group or in none.")
    if "Controller" not in said or "Compute" not in said:
        raise invalid("A Slurm cluster needs an instance group of Controller and one of Compute.")


def _scripts(parameters: Parameters, _region: str) -> None:
    for group in parameters["InstanceGroups"]:
        name, found = group["InstanceGroupName"], group.get("LifeCycleConfig") or {}
        scripts = [key for key in (_CREATE, _EXTEND) if found.get(key)]
        if len(scripts) == 2:
            raise invalid(f"Instance group {name} has OnCreate and OnInitComplete, which exclude each other.")
        if bool(scripts) != bool(found.get("SourceS3Uri")):
            raise invalid(f"Instance group {name} needs SourceS3Uri and a script together.")


def _disks(parameters: Parameters, _region: str) -> None:
    is_continuous = parameters.get("NodeProvisioningMode") == "Continuous"
    for group in parameters["InstanceGroups"]:
        for storage in group.get("InstanceStorageConfigs") or ():
            disk = storage.get("EbsVolumeConfig") or {}
            if disk.get("RootVolume") and disk.get("VolumeSizeInGB"):
                raise invalid("VolumeSizeInGB cannot be given for the root volume.")
            if disk and not disk.get("RootVolume") and not disk.get("VolumeSizeInGB"):
                raise invalid("VolumeSizeInGB must be given for a secondary volume.")
            if disk.get("VolumeKmsKeyId") and not is_continuous:
                raise invalid("VolumeKmsKeyId is for clusters whose NodeProvisioningMode is Continuous.")


def _counts(parameters: Parameters, _region: str) -> None:
    for group in parameters["InstanceGroups"]:
        if (group.get("MinInstanceCount") or 0) > group["InstanceCount"]:
            raise invalid("MinInstanceCount must be less than or equal to InstanceCount.")
        if bool(group.get("InstanceType")) == bool(group.get("InstanceRequirements")):
            raise invalid("Exactly one of InstanceType and InstanceRequirements must be given.")


def _roles(parameters: Parameters, _region: str) -> None:
    for group in parameters["InstanceGroups"]:
        role = group["ExecutionRole"]
        try:
            roles.assume(role, SERVICE, "check")
        except ApiError as error:
            raise invalid(
                f"Could not assume role {role}. Please ensure that the role exists and allows principal "
                f"'{SERVICE}' to assume the role."
            ) from error


_CHECKS: tuple[Callable[[Parameters, str], None], ...] = (
    _no_groups,
    _orchestrator,
    _slurms_topology,
    _counts,
    _scripts,
    _disks,
    _roles,
    refuse_unknown_networks,
)
