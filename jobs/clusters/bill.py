"""What a cluster costs per hour, as far as the catalogue's dated prices go, and what is billed besides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipway.jobs.aws import Unanswered
from slipway.jobs.catalogue.instances import Price, instance_type
from slipway.jobs.clusters.declared import DeclaredCluster
from slipway.jobs.clusters.deployed import DeployedStack

# Resources that AWS bills and the catalogue has no price of; a new one is one row.
NOT_COUNTED: Mapping[str, str] = {
    "AWS::CloudWatch::Alarm": "alarms",
    "AWS::CloudWatch::Dashboard": "dashboards",
    "AWS::EC2::LaunchTemplate": "EBS volumes of running nodes",
    "AWS::EC2::NatGateway": "NAT gateways",
    "AWS::EC2::VPCEndpoint": "VPC endpoints",
    "AWS::ECR::Repository": "images in ECR",
    "AWS::EFS::FileSystem": "EFS storage",
    "AWS::FSx::FileSystem": "FSx for Lustre",
    "AWS::KMS::Key": "KMS keys",
    "AWS::Logs::LogGroup": "log storage",
    "AWS::S3::Bucket": "S3 storage",
    "AWS::SecretsManager::Secret": "secrets",
}
# Paid for whether nodes run or not.
_PAID_AHEAD = ("open-reservation", "targeted-reservation", "capacity-block")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Holds on-demand prices of the nodes; None is unknown, never free."""

    price: Price | None
    usd_per_hour_now: float | None
    usd_per_hour_full: float | None
    not_counted: tuple[str, ...]


def bill(
    cluster: DeclaredCluster, stacks: Sequence[DeployedStack] | Unanswered, running_nodes: int | Unanswered
) -> Bill:
    price = instance_type(cluster.instance_type).price
    each = price.usd_per_hour if price else None
    running = None if isinstance(running_nodes, Unanswered) else running_nodes
    return Bill(
        price=price,
        usd_per_hour_now=_times(running, each),
        usd_per_hour_full=_times(cluster.max_nodes, each),
        not_counted=_not_counted(cluster, count_resources(stacks)),
    )


def count_resources(stacks: Sequence[DeployedStack] | Unanswered) -> Mapping[str, int] | None:
    """Count the resources of all stacks together; None if those of one are unknown."""
    if isinstance(stacks, Unanswered) or any(stack.resources is None for stack in stacks):
        return None
    total: Counter[str] = Counter()
    for stack in stacks:
        total.update(stack.resources or {})
    return dict(sorted(total.items()))


def _times(count: int | None, usd: float | None) -> float | None:
    """Multiply; zero nodes cost nothing even if the price is unknown."""
    if count == 0:
        return 0.0
    return None if count is None or usd is None else round(count * usd, 4)


def _not_counted(cluster: DeclaredCluster, resources: Mapping[str, int] | None) -> tuple[str, ...]:
    if resources is None:
        return ("whatever else is deployed",)
    billed = [f"{words} ({resources[type_]})" for type_, words in NOT_COUNTED.items() if type_ in resources]
    reservation = [f"the {cluster.market}, billed even when idle"] if cluster.market in _PAID_AHEAD else []
    return (*billed, *reservation)
