"""Refuses clusters, node groups and queues that AWS PCS refuses although its model allows them.

Sources: API reference of the actions; user guide, "Endpoints and service quotas" and "IAM instance profiles".
To add a check of a kind: a function and its line in _CHECKS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.pcs import accounts, nodes
from slipway.yard.services.pcs.slurm_conf import (
    CLUSTER,
    GPU,
    GROUP,
    QUEUE,
    PcsKind,
    devices,
    groups_of,
    is_gpu_record,
    missing,
    settings_of,
    store,
)
from slipway.yard.services.recorded import StoredRecord
from slipway.yard.services.refusals import launches

Parameters = Mapping[str, Any]

VERSIONS = ("24.11", "25.05", "25.11", "26.05")
# AWS PCS user guide, "Slurm versions in AWS PCS": the last day on which a cluster can be created with the
# version.
LAST_DAYS = {"25.05": date(2026, 11, 30)}
LARGEST = {"SMALL": 32, "MEDIUM": 512, "LARGE": 2048}  # nodes
MOST_CLUSTERS = 5  # per Region, in a new account
MOST_GROUPS = MOST_QUEUES = 10  # per cluster; AWS raises neither
ROLE_NAME, ROLE_PATH = "AWSPCS", "/aws-pcs/"
# AWS PCS user guide, "Configuring custom GRES settings in AWS PCS".
_GRES_ATTRIBUTES = frozenset(
    {"AutoDetect", "Name", "Type", "Count", "Cores", "Links", "Flags", "File", "MultipleFiles"}
)
_AUTO_DETECT_SINCE = "25.11"


def check(kind: PcsKind, cluster: StoredRecord | None, given: Parameters, region: str) -> None:
    """Raise ApiError for a request that PCS would refuse; `given` has all of the resource's new values."""
    for check_one in _CHECKS[kind.noun]:
        check_one(cluster, given, region)


def check_number(kind: PcsKind, cluster: StoredRecord | None, region: str) -> None:
    """Refuse another resource of a kind if its quota is used up."""
    most = {CLUSTER.noun: MOST_CLUSTERS, GROUP.noun: MOST_GROUPS, QUEUE.noun: MOST_QUEUES}[kind.noun]
    known = len(store.of_kind(kind.noun, region, cluster.arn if cluster else ""))
    if known >= most:
        where = "cluster" if cluster else "Region"
        raise _quota(f"The {where} has {known} {kind.member}s, and may have {most}.")


def _version(_cluster: StoredRecord | None, given: Parameters, _region: str) -> None:
    version = given["scheduler"]["version"]
    known = supported(datetime.now(UTC).date())
    if version not in known:
        raise _invalid(f"Slurm {version} is not supported. Supported versions are {', '.join(known)}.")


def supported(day: date) -> list[str]:
    """List the versions with which a cluster can be created on a day."""
    return [version for version in VERSIONS if day <= LAST_DAYS.get(version, date.max)]


def _network(_cluster: StoredRecord | None, given: Parameters, region: str) -> None:
    networking = given["networking"]
    backend = moto_backend("ec2", region)
    subnets = list(networking.get("subnetIds") or ())
    if len(subnets) != 1:
        raise _invalid(f"A cluster has exactly one subnet, and not {len(subnets)}.")
    (subnet,) = subnets
    vpc = _vpc_of(subnet, region)
    for group in networking.get("securityGroupIds") or ():
        found = backend.get_security_group_from_id(group)
        if found is None or found.vpc_id != vpc:
            raise _invalid(f"The security group {group} is not in the VPC {vpc} of the cluster's subnet.")


def _cluster_settings(_cluster: StoredRecord | None, given: Parameters, _region: str) -> None:
    slurm = given.get("slurmConfiguration") or {}
    if (slurm.get("accounting") or {}).get("defaultPurgeTimeInDays") == 0:
        raise _invalid("defaultPurgeTimeInDays is 0; allowed are -1 and 1 to 10000.")


def check_accounts_stay(record: StoredRecord, wanted: Parameters) -> None:
    """Refuse to disable a cluster's accounting, as the user guide says."""
    if accounts.purge_days(record.given) is not None and accounts.purge_days(wanted) is None:
        raise _invalid(f"Accounting of the cluster {record.name} is enabled and can't be disabled.")


def _scaling(cluster: StoredRecord | None, given: Parameters, _region: str) -> None:
    assert cluster
    scaling = given["scalingConfiguration"]
    least, most = scaling["minInstanceCount"], scaling["maxInstanceCount"]
    if least > most:
        raise _invalid(f"minInstanceCount {least} is more than maxInstanceCount {most}.")
    group_name = given.get("computeNodeGroupName") or given.get("name")
    others = sum(
        group.given["scalingConfiguration"]["maxInstanceCount"]
        for group in groups_of(cluster)
        if group.name != group_name
    )
    size = cluster.given["size"]
    if others + most > LARGEST[size]:
        raise _quota(f"A {size} cluster has at most {LARGEST[size]} nodes, and not {others + most}.")


def _places(cluster: StoredRecord | None, given: Parameters, region: str) -> None:
    assert cluster
    vpc = _vpc_of(cluster.given["networking"]["subnetIds"][0], region)
    if not given["subnetIds"]:
        raise _invalid("A compute node group needs a subnet.")
    for subnet in given["subnetIds"]:
        if _vpc_of(subnet, region) != vpc:
            raise _invalid(f"The subnet {subnet} is not in the cluster's VPC {vpc}.")


def _template(_cluster: StoredRecord | None, given: Parameters, region: str) -> None:
    if given.get("launchTemplateMode") == "MANAGED":
        raise ApiError(
            "NotImplemented",
            "launchTemplateMode is MANAGED: the yard manages none; give a customLaunchTemplate",
            status=501,
        )
    if not given.get("customLaunchTemplate"):
        raise _invalid("A node group whose launchTemplateMode is CUSTOM needs a customLaunchTemplate.")
    version = nodes.template_version(given["customLaunchTemplate"], region)
    nodes.image(given, region)
    if given.get("securityGroupIds") and version.data.get("NetworkInterfaces"):
        raise _invalid("securityGroupIds cannot be given where the launch template has network interfaces.")
    if not nodes.is_mime(str(version.data.get("UserData") or "")):
        raise _invalid("The user data of the launch template is not in the MIME multi-part format.")
    market = version.data.get("InstanceMarketOptions") or {}
    if given.get("purchaseOption") == "CAPACITY_BLOCK" and market.get("MarketType") != "capacity-block":
        raise _invalid("CAPACITY_BLOCK needs a launch template whose MarketType is capacity-block.")


def _instance_types(_cluster: StoredRecord | None, given: Parameters, region: str) -> None:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    kinds = [config.get("instanceType", "") for config in given["instanceConfigs"]]
    if not kinds:
        raise _invalid("A compute node group needs an instance type.")
    for kind in kinds:
        if kind not in INSTANCE_TYPES:
            raise _invalid(f"The instance type {kind} does not exist.")
    if len({INSTANCE_TYPES[kind]["VCpuInfo"]["DefaultVCpus"] for kind in kinds}) > 1:
        raise _invalid(f"The instance types {', '.join(kinds)} have different numbers of vCPUs.")
    for kind in kinds:
        # Check the AMI, too. That PCS does so is not documented, but the node could never start.
        data = nodes.template_version(given["customLaunchTemplate"], region).data
        wanted = {**data, "InstanceType": kind, "ImageId": nodes.image(given, region)}
        try:
            launches.refuse_launch(wanted, region)
        except ApiError as refused:
            raise _invalid(refused.message) from refused


def _gres(cluster: StoredRecord | None, given: Parameters, _region: str) -> None:
    """Check that gresCustomSettings and the setting Gres agree ("Configuring custom GRES settings")."""
    assert cluster
    slurm = given.get("slurmConfiguration") or {}
    records: list[Mapping[str, str]] = list(slurm.get("gresCustomSettings") or ())
    for record in records:
        version = str(cluster.given["scheduler"]["version"])
        if unknown := sorted(set(record) - _GRES_ATTRIBUTES):
            raise _invalid(f"The attribute {unknown[0]} is not supported in gresCustomSettings.")
        detects = record.get("AutoDetect", "off") != "off"
        if "AutoDetect" in record and version < _AUTO_DETECT_SINCE:
            raise _invalid(f"AutoDetect needs Slurm {_AUTO_DETECT_SINCE} or later, and this is {version}.")
        if "Name" not in record and not detects:
            raise _invalid("A record of gresCustomSettings needs a Name or an active AutoDetect.")
        if record.get("Name") == GPU and not detects and not {"File", "MultipleFiles"} & set(record):
            raise _invalid("A GPU record needs File or MultipleFiles, or an active AutoDetect.")
    if sum(map(is_gpu_record, records)) > 1:
        raise _invalid("A compute node group has at most one GPU record in gresCustomSettings.")
    for entry in filter(None, settings_of(slurm).get("Gres", "").split(",")):
        name, *more = entry.split(":")
        matching = [
            record
            for record in records
            if record.get("Name") == name or (name == GPU and is_gpu_record(record))
        ]
        if not matching:
            raise _invalid(f"The Gres setting names {name}, which no record of gresCustomSettings declares.")
        asked = int(more[-1]) if more and more[-1].isdigit() else 1
        is_discovered = any("AutoDetect" in record and "File" not in record for record in matching)
        if not is_discovered and asked > sum(map(devices, matching)):
            raise _invalid(f"The Gres setting {entry} is more than gresCustomSettings declares of {name}.")


def _profile(_cluster: StoredRecord | None, given: Parameters, _region: str) -> None:
    arn = given["iamInstanceProfileArn"]
    profiles = list(moto_backend("iam").instance_profiles.values())
    profile = next((profile for profile in profiles if profile.arn == arn), None)
    if profile is None or not profile.roles:
        raise _invalid(f"The instance profile {arn} does not exist, or has no role.")
    role = profile.roles[0]
    if not role.name.startswith(ROLE_NAME) and ROLE_PATH not in role.path:
        raise _invalid(
            f"The name of the role {role.name} must start with {ROLE_NAME}, or its path be {ROLE_PATH}."
        )


def _groups(cluster: StoredRecord | None, given: Parameters, _region: str) -> None:
    """Refuse a queue with node groups of another cluster."""
    assert cluster
    known = {group.facts["id"] for group in groups_of(cluster)}
    for item in given.get("computeNodeGroupConfigurations") or ():
        if item["computeNodeGroupId"] not in known:
            raise missing(GROUP.member, item["computeNodeGroupId"])


def check_unused(record: StoredRecord) -> None:
    """Refuse to delete a resource that another one uses."""
    users = []
    for other in store.everything():
        groups = other.given.get("computeNodeGroupConfigurations") or ()
        named = [item.get("computeNodeGroupId") for item in groups]
        if other.parent_arn == record.arn or record.facts["id"] in named:
            users.append(other.name)
    if users:
        what = record.kind[0].lower() + record.kind[1:]
        raise ApiError(
            "ConflictException", f"{what} '{record.name}' is used by {', '.join(users)}", status=409
        )


def _vpc_of(subnet: str, region: str) -> str:
    found = moto_backend("ec2", region).describe_subnets(subnet_ids=None)
    vpc = next((subnet_found.vpc_id for subnet_found in found if subnet_found.id == subnet), None)
    if vpc is None:
        raise _invalid(f"The subnet {subnet} does not exist.")
    return str(vpc)


def _invalid(message: str) -> ApiError:
    return ApiError("ValidationException", message)


def _quota(message: str) -> ApiError:
    return ApiError("ServiceQuotaExceededException", message)


_CHECKS: Mapping[str, tuple[Callable[[StoredRecord | None, Parameters, str], None], ...]] = {
    CLUSTER.noun: (_version, _network, _cluster_settings),
    GROUP.noun: (_scaling, _places, _template, _instance_types, _gres, _profile),
    QUEUE.noun: (_groups,),
}
