"""Rules between settings of one cluster. A new rule is one function and one row of RULES.

A problem's `where` is the setting; the caller adds the cluster. A rule runs only if every setting that it
reads is valid by itself, so that one mistake is reported once.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from slipway.infra.declare.checks.kinds import (
    bought_by_sagemaker,
    controller_with_room,
    efa_left_to_sagemaker,
    files_that_training_mounts,
    home_on_efs,
    login_node_of_one_architecture,
    no_capacity_block,
    no_warm_pool_of_spot,
    spot_with_files_that_outlive_it,
    ssh_from_named_networks,
    times_of_the_clock,
    training_image_of_the_region,
    volume_on_the_disks_of_the_host,
    wait_for_spot_alone,
)
from slipway.infra.declare.checks.networks import room_for_every_node, vpc_apart_from_peers, vpc_cidr
from slipway.infra.declare.checks.nodes import (
    ami_of_the_table,
    container_of_the_type,
    container_on_slurm,
    defaults_of,
    lustre_of_the_ami,
    mpi_of_the_ami,
    software_of_the_ami,
    type_with_images,
)
from slipway.infra.declare.checks.values import nearest, secret_kind, shown
from slipway.infra.declare.machine_images import CONTAINERS
from slipway.infra.declare.node_images import node_images
from slipway.infra.declare.s3_prefix_lists import S3_PREFIX_LISTS
from slipway.infra.declare.types import (
    BatchCluster,
    Cluster,
    ClusterKind,
    Egress,
    FileSystem,
    Market,
    NodeCluster,
    SlurmCluster,
)
from slipway.jobs.words.catalogue.instances import InstanceType, instance_type, instance_types
from slipway.jobs.words.errors import Problem
from slipway.jobs.words.images.containers import container_names

# Tags that every service accepts, so that none is refused in the middle of a deployment.
# https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html: 50 tags a resource.
_MOST = 50
RESERVED_FOR_SLIPWAY = 5
_LONGEST_KEY = 128
_LONGEST_VALUE = 256
_PUNCTUATION = frozenset("_.:/=+-@")


def tags(cluster: Cluster) -> Iterator[Problem]:
    allowed = _MOST - RESERVED_FOR_SLIPWAY
    if len(cluster.tags) > allowed:
        yield Problem(
            where="tags",
            message=f"has {len(cluster.tags)} tags; allowed are {allowed}",
            hint=f"AWS takes {_MOST}, and Slipway sets up to {RESERVED_FOR_SLIPWAY} of its own",
        )
    folded = Counter(key.casefold() for key in cluster.tags)
    for key in (key for key, count in folded.items() if count > 1):
        same = [shown(tag) for tag in cluster.tags if tag.casefold() == key]
        message = f"has {' and '.join(same)}, which IAM treats as one key"
        yield Problem(where="tags", message=message, hint="keep one of them")
    for key, value in cluster.tags.items():
        for message in _objections(key, value):
            yield Problem(where="tags", message=message)


def _objections(key: str, value: str) -> Iterator[str]:
    for sort, text in (("key", key), ("value", value)):
        if kind := secret_kind(text):
            yield f"holds {kind} in a {sort} (hidden): revoke it, and keep secrets in Secrets Manager"
        elif strange := [letter for letter in text if not _is_allowed(letter)]:
            yield (
                f"has the {sort} {shown(text)} with {strange[0]!a}; "
                "allowed are letters of any language, numbers, spaces and _.:/=+-@"
            )
    if key.lower().startswith(("aws:", "slipway:")):
        yield f"has the key {shown(key)}; keys that begin with aws: or slipway: are reserved"
    if not 1 <= len(key) <= _LONGEST_KEY:
        yield f"has a key of {len(key)} characters, {shown(key)}; allowed are 1 to {_LONGEST_KEY}"
    if len(value) > _LONGEST_VALUE:
        yield f"has a value of {len(value)} characters under {shown(key)}; allowed are {_LONGEST_VALUE}"


def _is_allowed(letter: str) -> bool:
    """Match the pattern that Batch and SageMaker share: Unicode letters, numbers and spaces."""
    return (
        letter in _PUNCTUATION
        or unicodedata.category(letter)[0] in "LN"
        or unicodedata.category(letter) == "Zs"
    )


# Names in a declaration that this checkout must know: the image's folder, and its region's S3 addresses.


def image_of_this_checkout(cluster: BatchCluster) -> Iterator[Problem]:
    known = container_names(CONTAINERS)
    if cluster.image is not None and cluster.image not in known:
        message = f"is {shown(cluster.image)}, which is no container image of containers/images"
        yield Problem(where="image", message=message, hint=nearest(cluster.image, known))


def machine_image_that_is_known(cluster: NodeCluster) -> Iterator[Problem]:
    known = tuple(node_images())
    if cluster.machine_image is not None and cluster.machine_image not in known:
        message = f"is {shown(cluster.machine_image)}, which is no machine image of Slipway's or AWS's"
        yield Problem(where="machine_image", message=message, hint=nearest(cluster.machine_image, known))


def prefix_list_of_region(cluster: Cluster) -> Iterator[Problem]:
    """Check that the region's S3 addresses are known: without NAT, nodes reach only those."""
    if cluster.egress is Egress.ENDPOINTS and cluster.region not in S3_PREFIX_LISTS:
        yield Problem(
            where="egress",
            message=f"is endpoints in {cluster.region}, whose S3 prefix list is not known",
            hint="add it to infra/declare/s3_prefix_lists.py, or use Egress.NAT",
        )


# Any: a rule takes the class of its kind; mypy cannot follow that from RULES_OF_KIND.
Rule = Callable[[Any], Iterator[Problem]]


def offered_in_region(cluster: Cluster) -> Iterator[Problem]:
    regions = instance_type(cluster.instance_type).regions
    if regions and cluster.region not in regions:
        yield Problem(
            where="region",
            message=f"is {cluster.region}, but {cluster.instance_type} is offered in {', '.join(regions)}",
            hint="choose one of these, or another instance type",
        )


def zone_of_region(cluster: Cluster) -> Iterator[Problem]:
    zone, region = cluster.zone, cluster.region
    if re.fullmatch(rf"{region}[a-z]", zone):
        return
    sort = next((sort for pattern, sort in _OTHER_ZONES.items() if re.fullmatch(pattern, zone)), "")
    yield Problem(
        where="zone",
        message=f"is {shown(zone)}{sort and f', {sort}'}, not an Availability Zone of {region}",
        hint=f"write {region} and one letter, such as {region}a",
    )


_OTHER_ZONES: Mapping[str, str] = {
    r"[a-z0-9]+-az[0-9]+": "a zone ID",
    r"[a-z-]+-[0-9]-[a-z]{3}-[0-9]+[a-z]": "a Local Zone, where AWS Batch and EFA do not run",
    r"[a-z-]+-[0-9]-wl[0-9]+-[a-z0-9-]+": "a Wavelength Zone, where AWS Batch and EFA do not run",
}


def efa_that_the_type_has(cluster: Cluster) -> Iterator[Problem]:
    asked, type_ = cluster.efa_interfaces, instance_type(cluster.instance_type)
    if asked is None or 0 <= asked <= type_.efa_interfaces:
        return
    where = "efa_interfaces"
    if not type_.has_efa:
        yield Problem(where=where, message=f"is {asked}, but {type_.name} has no EFA", hint=_with_efa(type_))
        return
    device = type_.accelerator and type_.accelerator.name
    with_as_many = [
        f"{each.name} takes {each.efa_interfaces}"
        for each in instance_types()
        if each.efa_interfaces >= asked > 0 and (each.accelerator and each.accelerator.name) == device
    ]
    message = f"is {asked}; {type_.name} takes 0 to {type_.efa_interfaces}"
    yield Problem(where=where, message=message, hint=", ".join(with_as_many[:3]))


def trainium_nodes_joined_by_efa(cluster: Cluster) -> Iterator[Problem]:
    """Require EFA: Neuron's collectives between nodes need it (aws-neuron/aws-neuron-sdk#742)."""
    type_ = instance_type(cluster.instance_type)
    trainium = type_.accelerator is not None and type_.accelerator.name.startswith("Trainium")
    if trainium and not type_.has_efa and cluster.max_nodes > 1:
        yield Problem(
            where="max_nodes",
            message=f"is {cluster.max_nodes}, but nodes of {type_.name} cannot train together without EFA",
            hint=f"{_with_efa(type_)}, or set max_nodes=1",
        )


def _with_efa(type_: InstanceType) -> str:
    """Return, as a hint, types of the same family (the part before the dot) that have EFA."""
    family = type_.name.partition(".")[0]
    names = [each.name for each in instance_types() if each.has_efa and each.name.startswith(f"{family}.")]
    return f"use {' or '.join(names)}" if names else "`slipway instance list` lists types that have it"


def no_spot_with_batch(cluster: Cluster) -> Iterator[Problem]:
    if cluster.market is Market.SPOT:
        yield Problem(
            where="market",
            message="is spot, but AWS Batch does not run multi-node jobs on Spot instances",
            hint="use market=Market.ON_DEMAND",
        )


def market_and_reservation(cluster: Cluster) -> Iterator[Problem]:
    reserved = cluster.market in (Market.TARGETED_RESERVATION, Market.CAPACITY_BLOCK)
    where = "reservation_id"
    if reserved and cluster.reservation_id is None:
        yield Problem(
            where=where, message=f"is missing, but market {cluster.market} needs it", hint="write cr-…"
        )
    if not reserved and cluster.reservation_id is not None:
        yield Problem(
            where=where,
            message=f"is {cluster.reservation_id}, but market {cluster.market} takes no reservation",
            hint="leave it out, or use Market.TARGETED_RESERVATION or Market.CAPACITY_BLOCK",
        )


def fsx_settings_with_fsx(cluster: Cluster) -> Iterator[Problem]:
    if cluster.file_system is FileSystem.FSX_LUSTRE or (
        isinstance(cluster, SlurmCluster) and cluster.scratch
    ):
        return
    defaults = defaults_of(type(cluster))
    for name in ("fsx_capacity_gib", "fsx_mbps_per_tib"):
        if getattr(cluster, name) != defaults[name]:
            yield Problem(
                where=name,
                message=f"has no effect: the file system is {cluster.file_system}",
                hint="leave it out, or set file_system=FileSystem.FSX_LUSTRE",
            )


# The settings that each rule reads: rules of every kind first, then those of one kind.
RULES: Mapping[Rule, tuple[str, ...]] = {
    offered_in_region: ("instance_type", "region"),
    zone_of_region: ("zone", "region"),
    efa_that_the_type_has: ("instance_type", "efa_interfaces"),
    trainium_nodes_joined_by_efa: ("instance_type", "max_nodes"),
    market_and_reservation: ("market", "reservation_id"),
    vpc_cidr: ("vpc_cidr",),
    room_for_every_node: ("vpc_cidr", "max_nodes"),
    vpc_apart_from_peers: ("vpc_cidr", "peer_cidrs"),
    prefix_list_of_region: ("egress", "region"),
    fsx_settings_with_fsx: ("file_system", "fsx_capacity_gib", "fsx_mbps_per_tib"),
    tags: ("tags",),
}
_AMI = ("instance_type", "machine_image", "ami_parameter", "ami_made_from", "ami_adds")
_RULES_OF_NODES: Mapping[Rule, tuple[str, ...]] = {
    type_with_images: ("instance_type", "region", "efa_interfaces"),
    machine_image_that_is_known: ("machine_image",),
    ami_of_the_table: _AMI,
    software_of_the_ami: _AMI,
    lustre_of_the_ami: (*_AMI, "file_system", "scratch"),
}
RULES_OF_KIND: Mapping[ClusterKind, Mapping[Rule, tuple[str, ...]]] = {
    ClusterKind.BATCH: {
        **_RULES_OF_NODES,
        no_spot_with_batch: ("market",),
        no_capacity_block: ("market", "instance_type"),
        image_of_this_checkout: ("image",),
        container_of_the_type: ("instance_type", "image", "region"),
    },
    ClusterKind.MPI: {
        **_RULES_OF_NODES,
        ssh_from_named_networks: ("ssh_cidrs",),
        mpi_of_the_ami: (*_AMI, "mpi"),
        no_capacity_block: ("market", "instance_type"),
        spot_with_files_that_outlive_it: ("market", "file_system"),
        times_of_the_clock: ("start_at", "stop_at", "time_zone"),
    },
    ClusterKind.SLURM: {
        **_RULES_OF_NODES,
        controller_with_room: ("controller", "max_nodes"),
        home_on_efs: ("file_system",),
        login_node_of_one_architecture: ("login_instance_type", "instance_type"),
        container_on_slurm: (*_AMI, "egress", "region"),
        no_capacity_block: ("market", "instance_type"),
    },
    ClusterKind.SAGEMAKER: {
        bought_by_sagemaker: ("market",),
        wait_for_spot_alone: ("market", "spot_wait_hours"),
        no_warm_pool_of_spot: ("market", "warm_pool_minutes"),
        volume_on_the_disks_of_the_host: ("instance_type", "volume_gb"),
        files_that_training_mounts: ("file_system",),
        training_image_of_the_region: ("machine_image", "region", "instance_type"),
        efa_left_to_sagemaker: ("efa_interfaces",),
    },
}
