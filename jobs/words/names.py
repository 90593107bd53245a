"""Derives names from a cluster's name, each within its limit; also lists AWS's regions and our metrics.

A new sort of name is a row of LIMITS. Two clusters never share a derived name: one that must be shortened
ends in a digest of the whole name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256

from slipway.jobs.words.errors import SlipwayError, did_you_mean

# The tag of a cluster's stacks and nodes, by which they are found, counted and billed.
CLUSTER_TAG = "slipway:cluster"
# The tag of an AWS Batch job that names the cluster to which it was submitted.
TARGET_TAG = "slipway:target"
# Metadata in an assembly that marks our stacks: an app may have its owner's own stacks, too.
STACK_MARK = "slipway:stack"

# Every derived name begins with the cluster's, so that must satisfy the strictest service.
CLUSTER_NAME = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"
NAMES_ALLOWED = "small letters, digits and single hyphens, beginning with a letter"
LONGEST_CLUSTER_NAME = 64

# Suffixes of the cluster's name in derived ones.
PARTS = frozenset({"network", "storage", "images", "observability"})

# The longest name that AWS accepts, from each service's API reference.
LIMITS: Mapping[str, int] = {
    "stack": 128,
    "alarm": 255,
    "batch": 128,  # compute environments, job queues, job definitions
    "build-project": 150,
    "dashboard": 255,
    "log-delivery": 60,  # of CloudWatch Logs: sources and destinations
    "pcs-cluster": 40,
    "document": 128,  # of Systems Manager
    "node-group": 255,  # Auto Scaling groups
}

_DIGEST_LENGTH = 10
_LOOKS_SHORTENED = re.compile(rf"-[0-9a-f]{{{_DIGEST_LENGTH}}}$")


def is_cluster_name(name: str) -> bool:
    """Return True for a name that a cluster can have and that cannot be another cluster's derived name."""
    is_part = "-" in name and name.rpartition("-")[2] in PARTS
    return len(name) <= LONGEST_CLUSTER_NAME and bool(re.fullmatch(CLUSTER_NAME, name)) and not is_part


def derived_name(sort: str, cluster: str, part: str = "") -> str:
    """Return `<cluster>-<part>`, or the cluster's own name, shortened to what AWS accepts.

    Parts have no hyphen, and no cluster's name ends in one of PARTS: otherwise a cluster a-network and the
    network of a would have the same name. A name that already looks shortened is shortened again, for the
    same reason.
    """
    assert "-" not in part, f"the part of a derived name has no hyphen: {part!r}"
    name = f"{cluster}-{part}" if part else cluster
    limit = LIMITS[sort]
    if len(name) <= limit and not _LOOKS_SHORTENED.search(name):
        return name
    digest = sha256(name.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: limit - _DIGEST_LENGTH - 1].rstrip('-')}-{digest}"


def stack_name(cluster: str, part: str = "") -> str:
    """Return the name of one stack of a cluster; the stack of its compute has the cluster's own."""
    return derived_name("stack", cluster, part)


def owner_parameter(cluster: str) -> str:
    """Return the SSM parameter that says which project deployed the cluster."""
    return f"/slipway/owners/{cluster}"


def controller_name(cluster: str) -> str:
    """Return the name of a cluster's Slurm controller; as it is fixed, CloudFormation cannot replace it."""
    return derived_name("pcs-cluster", f"slipway-{cluster}")


def idle_alarm_name(cluster: str) -> str:
    """Return the alarm that stops an MPI cluster's idle nodes; submitting asks whether it is on."""
    return derived_name("alarm", f"{cluster}-all-idle")


def cap_alarm_name(cluster: str) -> str:
    """Return the alarm that stops nodes that have run for hours; submitting asks for it, too."""
    return derived_name("alarm", f"{cluster}-up-for-hours")


# The regions of AWS. A new one is a line of REGIONS; a test compares them with botocore's.
_SHOWN = 60
# fmt: off
REGIONS = (
    "af-south-1",
    "ap-east-1", "ap-east-2",
    "ap-northeast-1", "ap-northeast-2", "ap-northeast-3",
    "ap-south-1", "ap-south-2",
    "ap-southeast-1", "ap-southeast-2", "ap-southeast-3", "ap-southeast-4", "ap-southeast-5",
    "ap-southeast-6", "ap-southeast-7",
    "ca-central-1", "ca-west-1",
    "cn-north-1", "cn-northwest-1",
    "eu-central-1", "eu-central-2", "eu-north-1", "eu-south-1", "eu-south-2",
    "eu-west-1", "eu-west-2", "eu-west-3",
    "eu-isoe-west-1", "eusc-de-east-1",
    "il-central-1",
    "me-central-1", "me-south-1",
    "mx-central-1",
    "sa-east-1",
    "us-east-1", "us-east-2", "us-west-1", "us-west-2",
    "us-gov-east-1", "us-gov-west-1",
    "us-iso-east-1", "us-iso-west-1", "us-isob-east-1", "us-isob-west-1", "us-isof-east-1", "us-isof-south-1",
)
# fmt: on
# How the names of regions outside of the partition `aws` begin: ARNs and domains differ there.
OTHER_PARTITIONS = ("cn-", "us-gov-", "us-iso", "eu-isoe-", "eusc-")


class UnknownRegion(SlipwayError):
    exit_code = 2


def checked_region(region: str) -> str:
    """Return the region as given; refuse one that AWS does not have, also in another spelling."""
    if region not in REGIONS:
        raise UnknownRegion(f"AWS has no region {region[:_SHOWN]!r}", hint=nearest_region(region))
    return region


def nearest_region(region: str) -> str:
    """Suggest the nearest region, or return what a region looks like."""
    return did_you_mean(region.strip().lower(), REGIONS, otherwise="give one such as us-east-1")


# The metrics that nodes write about themselves (infra/boot): infra's alarms and `explain` read them.
METRIC_NAMESPACE = "Slipway"
CLUSTER_DIMENSION = "Cluster"
IDLE_METRIC = "IdleNodes"
# 1 a minute from each node that is late to join; a second time with the dimension Reason, a key of REASONS.
NOT_JOINED_METRIC = "NodesNotJoined"
REASON_DIMENSION = "Reason"
REASONS = {
    "local-disks": "its local disks could not be made one file system",
    "processor-threads": "the second threads of its processors could not be switched off",
    "huge-pages": "huge pages could not be reserved on it",
    "shared-files": "the cluster's shared files could not be mounted",
    "software": "what it needs of the cluster's software could not be installed (slipway-payload.service)",
    "ecs-agent": "its ECS agent did not register with the cluster",
    "slipway-node": "slipway-node did not join the cluster",
    "pcs-agent": "AWS PCS's agent did not start Slurm on it: /var/log/amazon/pcs/bootstrap.log",
}
