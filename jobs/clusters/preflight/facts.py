"""Asks AWS all that preflight checks, one small function for each fact. None: the thing does not exist.

Another fact is a field of Facts and a function that asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from slipway.infra.declare.declared import declared_clusters
from slipway.infra.declare.node_images import ami_parameter_of, booted_image, container_of, locked_by
from slipway.infra.declare.types import BatchCluster, Cluster, NodeCluster, SlurmCluster
from slipway.jobs.cloud.aws import Unanswered, ask, ask_all, reader
from slipway.jobs.cloud.capacity import Reservation, ask_reservation
from slipway.jobs.cloud.deployed import ask_owner, ask_parameter, find_digest, find_target
from slipway.jobs.clusters.neighbours import Neighbourhood, find_neighbourhood
from slipway.jobs.clusters.preflight.training_limits import TrainingLimits, ask_training
from slipway.jobs.clusters.preflight.vcpu_limits import VcpuNeed, ask_vcpus
from slipway.jobs.platforms.platform import MissingMachine, missing_machines_of
from slipway.jobs.words.catalogue.instances import SAGEMAKER
from slipway.jobs.words.images.ami_locks import is_debian, lock_digest, machine_image_names
from slipway.jobs.words.images.amis import bakery_stack_name, image_of
from slipway.jobs.words.images.containers import Lock, image_names, image_tag, manifest_parameter, read_lock
from slipway.jobs.words.images.support import TOOLS, Pinned, pinned_versions
from slipway.jobs.words.installation import find_project
from slipway.jobs.words.names import CLUSTER_TAG, controller_name
from slipway.jobs.words.targets import BatchTarget, DamagedTarget, Target
from slipway.jobs.words.text import NewerRecord, decode_json

T = TypeVar("T")

# Enabled in every account, so it can tell which other regions are.
_ALWAYS_ENABLED = "us-east-1"
_BOOTSTRAP_VERSION = "/cdk-bootstrap/hnb659fds/version"


# EC2's alias for AWS's own accounts (API reference, Image: ImageOwnerAlias); some regions have others.
AMAZON = "amazon"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAmi:
    id: str
    architecture: str | None  # None: AWS does not say
    state: str
    owner: str | None = None  # an account id, or AMAZON; None, as for root_device: AWS does not say
    root_device: str | None = None
    root_gib: int = 0  # the least that its root disk may have; 0: AWS does not say


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    account: str | Unanswered
    region_status: str | Unanswered
    zones: tuple[str, ...] | Unanswered  # those of the region that offer the type today
    vcpus: tuple[VcpuNeed, ...] | Unanswered | None  # None: its machines are SageMaker's
    parameter: str | Unanswered | None  # the value of the AMI's SSM parameter
    machine_image: FoundAmi | Unanswered | None
    manifest: Mapping[str, object] | Unanswered | None  # what was baked into the AMI
    reservation: Reservation | Unanswered | None
    bootstrap_version: str | Unanswered | None
    owner: str | Unanswered | None  # the project that deployed the cluster; None: none with a name
    project: str | None  # this project's name in cdk.json
    asked_at: datetime
    bakery: str | Unanswered | None  # the state of the stack that bakes the AMI
    ami_is_debian: bool | None  # None: no lock here says what it is made of
    ebs_key: EbsKey | Unanswered
    default_group: DefaultGroup | Unanswered | None
    cost_tag: str | Unanswered | None
    controller: str | Unanswered | None  # the size of PCS's controller; None: none is deployed or needed
    training: TrainingLimits | Unanswered | None  # SageMaker's; None: the cluster trains nothing there
    other_ways: tuple[str, ...]  # declared clusters of the same machines that do not need AWS Batch
    target: Target | DamagedTarget | NewerRecord | Unanswered | None
    missing: Sequence[MissingMachine]
    pushed: bool | Unanswered | None  # the image that the job definition names; None: not deployed
    lock: Lock | None
    machine_lock_digest: str | None  # of the AMI's lock here; None: it has no lock of its own
    image_tag: str | None  # of the files in this checkout; None: no such image, or none needed
    pinned: Sequence[Pinned]  # by the locks here of its AMI and container, and by set-up
    today: date


def gather(cluster: Cluster, containers: Path) -> Facts:
    account = ask_account(cluster.region)
    region_status = account if isinstance(account, Unanswered) else ask_region(cluster.region)
    # Without credentials every request would fail: one refusal stands for all answers.
    refusal = region_status if isinstance(region_status, Unanswered) else None
    image = _own_image(containers, cluster)
    ami = ami_parameter_of(cluster) if isinstance(cluster, NodeCluster) else None
    parameter = refusal or (ask_parameter(ami, cluster.region) if ami else None)
    target = refusal or ask_target(cluster)
    declared = declared_clusters()
    hood = refusal or find_neighbourhood(cluster, str(account), declared)
    controller = controller_name(cluster.name) if isinstance(cluster, SlurmCluster) else None
    return Facts(
        account=account,
        region_status=region_status,
        zones=refusal or ask_zones(cluster.instance_type.removeprefix(SAGEMAKER), cluster.region),
        vcpus=_beside(hood, partial(ask_vcpus, cluster)),
        parameter=parameter,
        machine_image=ask_machine_image(parameter, cluster.region),
        manifest=refusal or (ask_manifest(ami, cluster.region) if ami else None),
        reservation=refusal or ask_reservation(cluster.reservation_id, cluster.region),
        bootstrap_version=refusal or ask_parameter(_BOOTSTRAP_VERSION, cluster.region),
        owner=refusal or ask_owner(cluster.name, cluster.region),
        project=find_project().name,
        asked_at=datetime.now(UTC),
        bakery=refusal or ask_bakery(cluster),
        ami_is_debian=is_debian(containers, image) if image else None,
        ebs_key=refusal or ask_ebs_key(cluster.region),
        default_group=refusal or ask_default_group(cluster.name, cluster.region),
        cost_tag=refusal or ask_cost_tag(),
        controller=refusal or (ask_controller(controller, cluster.region) if controller else None),
        training=_beside(hood, partial(ask_training, cluster)),
        other_ways=other_ways(cluster, declared),
        target=target,
        missing=missing_machines_of(target) if isinstance(target, Target) else (),
        pushed=ask_pushed(target),
        lock=read_lock(containers, locked_by(cluster)),
        machine_lock_digest=lock_digest(containers, image) if image else None,
        image_tag=_image_tag(containers, cluster),
        pinned=(*pinned_versions(containers, locks_of(cluster)), *TOOLS),
        today=datetime.now(UTC).date(),
    )


def other_ways(cluster: Cluster, declared: Sequence[Cluster]) -> tuple[str, ...]:
    """Return the names of declared clusters of the same machines that start jobs over MPI."""
    alike = [each for each in declared if each.instance_type == cluster.instance_type]
    return tuple(each.name for each in alike if each.kind == "mpi" and each.name != cluster.name)


def _beside(hood: Neighbourhood | Unanswered, ask: Callable[[Neighbourhood], T]) -> T | Unanswered:
    """Ask which quotas the cluster and its neighbours need; pass on a failure to find the neighbours."""
    return hood if isinstance(hood, Unanswered) else ask(hood)


def ask_bakery(cluster: Cluster) -> str | Unanswered | None:
    image = image_of(ami_parameter_of(cluster)) if isinstance(cluster, NodeCluster) else None
    return ask_stack(bakery_stack_name(image), cluster.region) if image else None


def ask_account(region: str) -> str | Unanswered:
    answer = ask(reader("sts", region), "GetCallerIdentity")
    return answer if isinstance(answer, Unanswered) else str(answer["Account"])


def ask_region(region: str) -> str | Unanswered:
    """Return opt-in-not-required, opted-in or not-opted-in."""
    ec2 = reader("ec2", _ALWAYS_ENABLED)
    answer = ask(ec2, "DescribeRegions", AllRegions=True, RegionNames=[region])
    return answer if isinstance(answer, Unanswered) else str(answer["Regions"][0]["OptInStatus"])


def ask_zones(instance_type: str, region: str) -> tuple[str, ...] | Unanswered:
    answer = ask_all(
        reader("ec2", region),
        "DescribeInstanceTypeOfferings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": [instance_type]}],
    )
    return answer if isinstance(answer, Unanswered) else tuple(sorted(each["Location"] for each in answer))


def ask_machine_image(image_id: str | Unanswered | None, region: str) -> FoundAmi | Unanswered | None:
    if not isinstance(image_id, str):
        return image_id
    answer = ask(reader("ec2", region), "DescribeImages", ImageIds=[image_id])
    if isinstance(answer, Unanswered):
        return None if answer.code.startswith("InvalidAMIID") else answer
    return next(map(_machine_image, answer["Images"]), None)


def ask_manifest(ami_parameter: str, region: str) -> Mapping[str, object] | Unanswered | None:
    """Read the manifest; a value that is not a JSON object was not written by a bake of ours."""
    text = ask_parameter(manifest_parameter(ami_parameter), region)
    if not isinstance(text, str):
        return text
    try:
        manifest = decode_json(text)
    except ValueError:
        return None
    return manifest if isinstance(manifest, dict) else None


def ask_target(cluster: Cluster) -> Target | DamagedTarget | NewerRecord | Unanswered | None:
    try:
        return find_target(cluster.name, cluster.region)
    except (DamagedTarget, NewerRecord) as error:
        return error


def ask_pushed(
    target: Target | DamagedTarget | NewerRecord | Unanswered | None,
) -> bool | Unanswered | None:
    """Ask whether the image is pushed; None if the target needs none, or is not deployed."""
    if isinstance(target, Unanswered):
        return target
    if not isinstance(target, BatchTarget):
        return None
    digest = find_digest(target, target.image_tag)
    return digest if isinstance(digest, Unanswered) else digest is not None


def _image_tag(containers: Path, cluster: Cluster) -> str | None:
    if not isinstance(cluster, BatchCluster) or container_of(cluster) not in image_names(containers):
        return None
    return image_tag(containers, container_of(cluster))


def _own_image(containers: Path, cluster: Cluster) -> str | None:
    """Return the folder of containers/images whose lock the AMI, or the AMI it copies, was made from."""
    if not isinstance(cluster, NodeCluster):
        return None
    image = booted_image(cluster)
    return image if image in machine_image_names(containers) else None


def locks_of(cluster: Cluster) -> tuple[str, ...]:
    """Return the folders of containers/images whose locks say what the cluster runs, if they exist."""
    booted = booted_image(cluster) if isinstance(cluster, NodeCluster) else None
    return tuple(dict.fromkeys(each for each in (booted, locked_by(cluster)) if each))


def _machine_image(image: Mapping[str, Any]) -> FoundAmi:
    # EC2 starts no instance whose root disk is smaller than its snapshot.
    disks = {each.get("DeviceName"): each.get("Ebs") or {} for each in image.get("BlockDeviceMappings") or ()}
    return FoundAmi(
        id=image["ImageId"],
        architecture=image.get("Architecture"),
        state=image["State"],
        owner=AMAZON if image.get("ImageOwnerAlias") == AMAZON else image.get("OwnerId"),
        root_device=image.get("RootDeviceName"),
        root_gib=int(disks.get(image.get("RootDeviceName"), {}).get("VolumeSize") or 0),
    )


# Settings of the account outside our stacks, one small function for each fact.
_BILLING_HOME = "us-east-1"  # Cost Explorer answers for all regions there
_AWS_OWN_KEY = "alias/aws/ebs"


@dataclass(frozen=True, slots=True, kw_only=True)
class EbsKey:
    """Describe the key that encrypts a volume for which no key is named."""

    id: str
    is_of_aws: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultGroup:
    """Describe the default security group of a cluster's network."""

    id: str
    admits_itself: bool  # all traffic from its own members
    lets_out: bool  # all traffic to its own members


def ask_cost_tag() -> str | Unanswered | None:
    """Return Active or Inactive; None if Billing has not seen the tag on anything yet."""
    answer = ask_all(
        reader("ce", _BILLING_HOME),
        "ListCostAllocationTags",
        "CostAllocationTags",
        TagKeys=[CLUSTER_TAG],
        Type="UserDefined",
    )
    if isinstance(answer, Unanswered):
        return answer
    return next((str(tag["Status"]) for tag in answer if tag["TagKey"] == CLUSTER_TAG), None)


def ask_ebs_key(region: str) -> EbsKey | Unanswered:
    answer = ask(reader("ec2", region), "GetEbsDefaultKmsKeyId")
    if isinstance(answer, Unanswered):
        return answer
    key = str(answer["KmsKeyId"])
    if key.endswith(_AWS_OWN_KEY):
        return EbsKey(id=key, is_of_aws=True)
    described = ask(reader("kms", region), "DescribeKey", KeyId=key)
    if isinstance(described, Unanswered):
        return described
    return EbsKey(id=key, is_of_aws=described["KeyMetadata"]["KeyManager"] == "AWS")


def ask_default_group(cluster: str, region: str) -> DefaultGroup | Unanswered | None:
    """Find the default group of the cluster's VPC; None if nothing of the cluster is deployed.

    A VPC of the user's own has no tag of ours: it is found by the groups of our nodes.
    """
    ec2 = reader("ec2", region)
    of_cluster = [{"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster]}]
    networks = ask_all(ec2, "DescribeVpcs", "Vpcs", Filters=of_cluster)
    if not isinstance(networks, Unanswered) and not networks:
        networks = ask_all(ec2, "DescribeSecurityGroups", "SecurityGroups", Filters=of_cluster)
    if isinstance(networks, Unanswered):
        return networks
    if not networks:
        return None
    default = [
        {"Name": "vpc-id", "Values": [networks[0]["VpcId"]]},
        {"Name": "group-name", "Values": ["default"]},
    ]
    groups = ask_all(ec2, "DescribeSecurityGroups", "SecurityGroups", Filters=default)
    if isinstance(groups, Unanswered):
        return groups
    return next(map(_default_group, groups), None)


def ask_stack(name: str, region: str) -> str | Unanswered | None:
    """Return the state of one stack; None if there is no such stack."""
    answer = ask(reader("cloudformation", region), "DescribeStacks", StackName=name)
    if isinstance(answer, Unanswered):
        return None if answer.code == "ValidationError" else answer  # there is no such stack
    return str(answer["Stacks"][0]["StackStatus"])


def _default_group(group: Mapping[str, Any]) -> DefaultGroup:
    group_id = group["GroupId"]
    return DefaultGroup(
        id=group_id,
        admits_itself=any(_is_of_group(rule, group_id) for rule in group["IpPermissions"]),
        lets_out=any(
            _is_of_group(rule, group_id) or _is_everywhere(rule) for rule in group["IpPermissionsEgress"]
        ),
    )


def _is_of_group(rule: Mapping[str, Any], group: str) -> bool:
    pairs = rule.get("UserIdGroupPairs", ())
    return rule["IpProtocol"] == "-1" and any(pair["GroupId"] == group for pair in pairs)


def _is_everywhere(rule: Mapping[str, Any]) -> bool:
    ranges = rule.get("IpRanges", ())
    return rule["IpProtocol"] == "-1" and any(each["CidrIp"] == "0.0.0.0/0" for each in ranges)


def ask_controller(name: str, region: str) -> str | Unanswered | None:
    """Return the size of a deployed controller of AWS PCS; None if there is none of this name."""
    answer = ask(reader("pcs", region), "GetCluster", clusterIdentifier=name)
    if isinstance(answer, Unanswered):
        return None if answer.code == "ResourceNotFoundException" else answer
    return str(answer["cluster"]["size"]).lower()
