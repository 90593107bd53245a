"""Names derived from a cluster's name, each within its limit. A new sort of name is one row of LIMITS.

Two clusters never share a derived name: one that must be shortened ends in a digest of all of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256

# On every stack of a cluster and every node that it starts: by it they are found, counted and billed.
CLUSTER_TAG = "slipway:cluster"
# On every job of AWS Batch: the cluster that it was submitted to.
TARGET_TAG = "slipway:target"
# In the metadata of an assembly, on every stack that is ours: an app may have others of its owner's.
STACK_MARK = "slipway:stack"

# A cluster's name begins every derived one, so it keeps to what the strictest service takes.
CLUSTER_NAME = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"
NAMES_ALLOWED = "small letters, digits and single hyphens, beginning with a letter"
LONGEST_CLUSTER_NAME = 64

# What stands behind the cluster's name in a derived one.
PARTS = frozenset({"network", "storage", "images", "observability"})

# The longest name that AWS takes, from each service's API reference.
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
    """Return True for a name that a cluster can have, which no stack of another cluster can have, too."""
    is_part = "-" in name and name.rpartition("-")[2] in PARTS
    return len(name) <= LONGEST_CLUSTER_NAME and bool(re.fullmatch(CLUSTER_NAME, name)) and not is_part


def derived_name(sort: str, cluster: str, part: str = "") -> str:
    """Return `<cluster>-<part>`, or the cluster's own name, shortened to what AWS accepts.

    Parts have no hyphen and no cluster's name ends in one of PARTS, or a-network and the network of a were
    one. A name that already looks shortened is shortened again, or it could be taken for another's.
    """
    assert "-" not in part, f"the part of a derived name has no hyphen: {part!r}"
    name = f"{cluster}-{part}" if part else cluster
    limit = LIMITS[sort]
    if len(name) <= limit and not _LOOKS_SHORTENED.search(name):
        return name
    digest = sha256(name.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: limit - _DIGEST_LENGTH - 1].rstrip('-')}-{digest}"


def stack_name(cluster: str, part: str = "") -> str:
    """Name one stack of a cluster; the stack of its compute has the name of the cluster."""
    return derived_name("stack", cluster, part)


def owner_parameter(cluster: str) -> str:
    """Name the SSM parameter that says which project deployed the cluster."""
    return f"/slipway/owners/{cluster}"


def controller_name(cluster: str) -> str:
    """Name a cluster's Slurm controller; a fixed name keeps CloudFormation from replacing it."""
    return derived_name("pcs-cluster", f"slipway-{cluster}")


def idle_alarm_name(cluster: str) -> str:
    """Name the alarm that stops an MPI cluster's nodes when they idle; submitting asks whether it is on."""
    return derived_name("alarm", f"{cluster}-all-idle")


def cap_alarm_name(cluster: str) -> str:
    """Name the alarm that stops nodes which have run for hours; submitting asks for it, too."""
    return derived_name("alarm", f"{cluster}-up-for-hours")
