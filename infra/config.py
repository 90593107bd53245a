"""The types of the entries in clusters.py: what a user declares. They check themselves when they are made.

No CDK types here: `slipway preflight` reads declarations without loading aws_cdk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ClusterKind(StrEnum):
    BATCH = "batch"


class Market(StrEnum):
    """How capacity is bought. Batch runs multi-node jobs on no Spot compute environment, so Spot is not here."""

    ON_DEMAND = "on-demand"
    OPEN_RESERVATION = "open-reservation"
    TARGETED_RESERVATION = "targeted-reservation"
    CAPACITY_BLOCK = "capacity-block"
    SPOT = "spot"


class Egress(StrEnum):
    """How private subnets reach AWS: through interface endpoints only, or through a NAT gateway as well."""

    ENDPOINTS = "endpoints"
    NAT = "nat"


class FileSystem(StrEnum):
    NONE = "none"
    EFS = "efs"
    FSX_LUSTRE = "fsx-lustre"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCluster:
    """A cluster for AWS Batch multi-node jobs: one instance type, one zone, scaled from zero."""

    name: str
    instance_type: str
    max_nodes: int
    region: str
    zone: str
    account: str | None = None  # None: whichever account the credentials belong to
    efa_interfaces: int | None = None  # None: one per network card, as many as the type has
    market: Market = Market.ON_DEMAND
    reservation_id: str | None = None  # of the targeted reservation or the capacity block
    vpc_cidr: str = "10.20.0.0/16"
    peer_cidrs: tuple[str, ...] = ()  # networks that this one will be peered with
    egress: Egress = Egress.ENDPOINTS
    file_system: FileSystem = FileSystem.EFS
    fsx_capacity_gib: int = 1200
    fsx_mbps_per_tib: int = 125
    image: str = "gaudi"  # a folder of containers/images
    ami_parameter: str = "/slipway/amis/gaudi-ecs/id"  # the SSM parameter that names the machine image
    root_volume_gib: int = 200
    job_timeout_hours: int = 48
    job_attempts: int = 3
    runnable_timeout_minutes: int = 60
    log_retention_days: int = 365
    budget_usd_per_month: int
    alert_email: str
    keep_data: bool = True  # False: bucket, repositories, file system and key go with the stack
    tags: Mapping[str, str] = field(default_factory=dict)
