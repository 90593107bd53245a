"""Prices a cluster: per hour, and per month while nothing runs, at the catalogue's dated prices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.infra.declare.types import Cluster
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.cloud.deployed import DeployedStack
from slipway.jobs.cloud.templates import Templates
from slipway.jobs.words.catalogue.instances import Price, instance_type
from slipway.jobs.words.catalogue.regional import find_fee, lustre_item, price_in
from slipway.jobs.words.images.amis import bakery_stack_name

# Billed whether nodes run or not.
_PAID_AHEAD = ("open-reservation", "targeted-reservation", "capacity-block")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Hold on-demand prices of the nodes, and the cost of everything else; None is unknown, never free."""

    price: Price | None
    usd_per_hour_now: float | None
    usd_per_hour_full: float | None
    usd_per_month_idle: float | None  # of deployed resources, without stored data
    not_counted: tuple[str, ...]


def bill(cluster: Cluster, templates: Templates | Unanswered, running_nodes: int | Unanswered) -> Bill:
    price = price_in(instance_type(cluster.instance_type), cluster.region)
    each = price.usd_per_hour if price else None
    running = None if isinstance(running_nodes, Unanswered) else running_nodes
    items = None if isinstance(templates, Unanswered) else standing_items(templates, cluster.region)
    return Bill(
        price=price,
        usd_per_hour_now=_times(running, each),
        usd_per_hour_full=_times(cluster.max_nodes, each),
        usd_per_month_idle=None if items is None else total_usd_per_month(items),
        not_counted=_not_counted(cluster, items, running),
    )


def count_resources(stacks: Sequence[DeployedStack] | Unanswered) -> Mapping[str, int] | None:
    """Count the resources of all stacks together; None if those of one stack are unknown."""
    if isinstance(stacks, Unanswered) or any(stack.resources is None for stack in stacks):
        return None
    total: Counter[str] = Counter()
    for stack in stacks:
        total.update(stack.resources or {})
    return dict(sorted(total.items()))


def _times(count: int | None, usd: float | None) -> float | None:
    """Multiply, with None for unknown; zero nodes cost nothing even at an unknown price."""
    if count == 0:
        return 0.0
    return None if count is None or usd is None else round(count * usd, 4)


def _not_counted(
    cluster: Cluster, items: Sequence[StandingItem] | None, running: int | None
) -> tuple[str, ...]:
    if items is None:
        return ("whatever else is deployed",)
    counts: Counter[str] = Counter()
    for item in items:
        if item.usd_per_month is None:
            counts[item.item] += item.count
    billed = [f"{words} ({count})" for words, count in sorted(counts.items())]
    volumes = ["EBS volumes of running nodes"] if running else []
    reservation = [f"the {cluster.market}, billed even when idle"] if cluster.market in _PAID_AHEAD else []
    return (*billed, *volumes, *reservation)


# The monthly cost of a cluster in which nothing runs: each billed resource in its templates, at the
# catalogue's prices. A resource type that AWS bills is one row of BILLED; types without a row are free while
# nothing runs.
Properties = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledType:
    """Describe how one resource type is billed."""

    words: str
    fee: Callable[[Properties], str | None]  # returns the item in fees.csv; None: this resource is free
    amount_gib: Callable[[Properties], int] | None = None  # size that is billed whatever is stored in it


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingItem:
    """Hold one line of the monthly bill of a stack in which nothing runs."""

    stack: str
    item: str
    count: int
    usd_per_month: float | None  # None: depends on what is stored, or no price is known
    note: str


def standing_items(templates: Templates, region: str) -> tuple[StandingItem, ...]:
    return tuple(item for stack in templates for item in _items(stack, templates[stack], region))


def total_usd_per_month(items: Sequence[StandingItem]) -> float:
    """Add up the known items; storage that is billed by use comes on top."""
    return round(sum(item.usd_per_month or 0.0 for item in items), 2)


def is_shared(stack: str) -> bool:
    """Return True for a bakery's stack, which serves every cluster of its image or its region."""
    return stack.startswith(bakery_stack_name(""))


def _items(stack: str, template: Mapping[str, Any], region: str) -> Iterator[StandingItem]:
    counts: Counter[tuple[str, str, int | None]] = Counter()
    for resource in template.get("Resources", {}).values():
        billed = BILLED.get(resource["Type"])
        properties = resource.get("Properties", {})
        fee = billed.fee(properties) if billed else None
        if billed and fee:
            gib = billed.amount_gib(properties) if billed.amount_gib else None
            counts[(billed.words, fee, gib)] += 1
    for (words, fee, gib), count in sorted(counts.items(), key=str):
        usd, note = _monthly(fee, region, count, gib)
        yield StandingItem(stack=stack, item=words, count=count, usd_per_month=usd, note=note)


def _monthly(fee_name: str, region: str, count: int, gib: int | None) -> tuple[float | None, str]:
    """Return the monthly cost of so many of a thing, each with so many GiB, and a note about the price."""
    fee = find_fee(fee_name, region)
    price = fee.usd_per_month if fee else None
    if fee is None or price is None:
        return None, f"no price in {region} is known"
    if fee.per == "gib-month" and gib is None:
        return None, f"as much as is stored, {fee.usd:g} USD per GiB-month, {fee.date}"
    return round(count * price * (gib or 1), 2), f"{fee.usd:g} USD per {fee.per}, {fee.date}"


def _always(fee: str) -> Callable[[Properties], str | None]:
    return lambda _properties: fee


def _endpoint(properties: Properties) -> str | None:
    """Return the fee of an interface endpoint; gateway endpoints, CloudFormation's default, are free."""
    return "interface-endpoint" if properties.get("VpcEndpointType") == "Interface" else None


def _lustre(properties: Properties) -> str | None:
    return lustre_item(properties.get("LustreConfiguration", {}).get("PerUnitStorageThroughput", ""))


def _controller(properties: Properties) -> str | None:
    return f"pcs-controller-{properties.get('Size', '').lower()}"


def _login_node(properties: Properties) -> str | None:
    """Return the fee of a group that is never empty, which is a login node; workers run only with jobs."""
    if not properties.get("ScalingConfiguration", {}).get("MinInstanceCount"):
        return None
    return f"ec2-{properties['InstanceConfigs'][0]['InstanceType']}"


BILLED: Mapping[str, BilledType] = {
    "AWS::CloudWatch::Alarm": BilledType(words="alarms", fee=_always("alarm")),
    "AWS::CloudWatch::Dashboard": BilledType(words="dashboards", fee=_always("dashboard")),
    "AWS::EC2::EIP": BilledType(words="public addresses", fee=_always("public-ipv4")),
    "AWS::EC2::NatGateway": BilledType(words="NAT gateways", fee=_always("nat-gateway")),
    "AWS::EC2::VPCEndpoint": BilledType(words="interface endpoints", fee=_endpoint),
    "AWS::ECR::Repository": BilledType(words="images in ECR", fee=_always("ecr")),
    "AWS::EFS::FileSystem": BilledType(words="EFS storage", fee=_always("efs")),
    "AWS::FSx::FileSystem": BilledType(
        words="FSx for Lustre",
        fee=_lustre,
        amount_gib=lambda properties: int(properties["StorageCapacity"]),
    ),
    "AWS::KMS::Key": BilledType(words="KMS keys", fee=_always("kms-key")),
    "AWS::Logs::LogGroup": BilledType(words="log storage", fee=_always("logs")),
    "AWS::PCS::Cluster": BilledType(words="Slurm controllers", fee=_controller),
    "AWS::PCS::ComputeNodeGroup": BilledType(words="login nodes", fee=_login_node),
    "AWS::S3::Bucket": BilledType(words="S3 storage", fee=_always("s3")),
    "AWS::SecretsManager::Secret": BilledType(words="secrets", fee=_always("secret")),
}
