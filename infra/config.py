"""The types of the entries in clusters.py: what a user declares. A new setting is one field with its check.

An entry may say anything until infra/checks/clusters.py has looked at all of them together, so that every
mistake is reported at once. No CDK types here: `slipway preflight` reads declarations without aws_cdk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar

from infra.checks.values import between, cluster_name, fsx_capacity, known_instance_type, matching, one_of


class ClusterKind(StrEnum):
    BATCH = "batch"


class Market(StrEnum):
    """How capacity is bought."""

    ON_DEMAND = "on-demand"
    OPEN_RESERVATION = "open-reservation"
    TARGETED_RESERVATION = "targeted-reservation"
    CAPACITY_BLOCK = "capacity-block"
    SPOT = "spot"  # refused with its reason: a user who asks for it should learn why


class Egress(StrEnum):
    """How private subnets reach AWS: through interface endpoints only, or through a NAT gateway as well."""

    ENDPOINTS = "endpoints"
    NAT = "nat"


class FileSystem(StrEnum):
    NONE = "none"
    EFS = "efs"
    FSX_LUSTRE = "fsx-lustre"


# The periods that CloudWatch Logs keeps (PutRetentionPolicy, retentionInDays).
# fmt: off
_RETENTION_DAYS = (
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731,
    1096, 1827, 2192, 2557, 2922, 3288, 3653,
)
# fmt: on

_REGION = matching(r"[a-z]{2}(-[a-z]+)+-[0-9]", "a region such as us-east-1", longest=32)
_ACCOUNT = matching(r"[0-9]{12}", "an account of twelve digits", longest=12)
_RESERVATION = matching(
    r"cr-([0-9a-f]{8}|[0-9a-f]{17})", "a capacity reservation such as cr-0123456789abcdef0", longest=20
)
_PARAMETER = matching(
    r"(/[A-Za-z0-9_.-]+)+", "a full SSM parameter name such as /slipway/amis/gaudi-ecs/id", longest=1011
)
_IMAGE = matching(r"[a-z0-9]+([._-][a-z0-9]+)*", "the name of a folder of containers/images", longest=64)
_EMAIL = matching(r"[^@\s,;<>]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", "one e-mail address", longest=254)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCluster:
    """A cluster for AWS Batch multi-node jobs: one instance type, one zone, scaled from zero."""

    kind: ClassVar[ClusterKind] = ClusterKind.BATCH

    name: Annotated[str, cluster_name]
    instance_type: Annotated[str, known_instance_type]
    max_nodes: Annotated[int, between(1, 1000, why="AWS Batch runs a job on at most 1000 nodes")]
    region: Annotated[str, _REGION]
    zone: str
    account: Annotated[str, _ACCOUNT] | None = None  # None: whichever account the credentials belong to
    efa_interfaces: int | None = None  # None: one per network card, as many as the type has
    market: Market = Market.ON_DEMAND
    reservation_id: Annotated[str, _RESERVATION] | None = (
        None  # of the targeted reservation or the capacity block
    )
    vpc_cidr: str = "10.20.0.0/16"
    peer_cidrs: tuple[str, ...] = ()  # networks that this one will be peered with
    egress: Egress = Egress.ENDPOINTS
    file_system: FileSystem = FileSystem.EFS
    fsx_capacity_gib: Annotated[int, fsx_capacity] = 1200
    fsx_mbps_per_tib: Annotated[int, one_of(125, 250, 500, 1000)] = 125
    image: Annotated[str, _IMAGE] = "gaudi"  # a folder of containers/images
    ami_parameter: Annotated[str, _PARAMETER] = "/slipway/amis/gaudi-ecs/id"  # names the machine image
    root_volume_gib: Annotated[int, between(50, 16384, "GiB")] = 200
    job_timeout_hours: Annotated[int, between(1, 8760, "hours")] = 48
    job_attempts: Annotated[int, between(1, 10, why="1 is no retry")] = 3
    runnable_timeout_minutes: Annotated[int, between(10, 1440, "minutes")] = 60
    log_retention_days: Annotated[int, one_of(*_RETENTION_DAYS)] = 365
    budget_usd_per_month: Annotated[int, between(1, 100_000_000, "dollars")]
    alert_email: Annotated[str, _EMAIL]
    keep_data: bool = True  # False: bucket, repositories, file system and key go with the stack
    tags: Mapping[str, str] = field(default_factory=dict)
