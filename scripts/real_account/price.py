"""What a run costs at most: every hour of every machine, and what stands around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scripts.real_account.clusters import NODES, SLURM, SmallCluster
from slipway.infra.clusters import MACHINE_IMAGES
from slipway.jobs.catalogue.fees import HOURS_PER_MONTH, find_fee
from slipway.jobs.catalogue.instances import instance_type
from slipway.jobs.clusters.standing import is_shared, standing_items, total_usd_per_month
from slipway.jobs.clusters.templates import declared_templates

# A bake that takes longer is ended with everything else; most of it is downloads and snapshots.
BAKE_HOURS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedThing:
    what: str
    usd: float | None  # None: no price is known


def at_most(
    clusters: Sequence[SmallCluster],
    bakes: Sequence[str],
    region: str,
    hours: float,
    controller_usd_per_hour: float | None = None,
) -> list[PricedThing]:
    """Price the run as if everything stood for all of its hours; nobody here knows a controller's price."""
    lines = [line for cluster in clusters for line in _cluster(cluster, region, hours)]
    if SLURM in clusters:
        usd = None if controller_usd_per_hour is None else controller_usd_per_hour * hours
        lines.append(PricedThing(what=f"{SLURM.name}: its small controller, for {hours:g} hours", usd=usd))
    lines += [_bake(image) for image in bakes]
    return lines


def total(lines: Sequence[PricedThing]) -> float:
    return round(sum(line.usd or 0.0 for line in lines), 2)


def _cluster(cluster: SmallCluster, region: str, hours: float) -> list[PricedThing]:
    price = instance_type(cluster.instance_type).price
    items = standing_items(declared_templates(cluster.name), region)
    own = total_usd_per_month([item for item in items if not is_shared(item.stack)])
    bakery = total_usd_per_month([item for item in items if is_shared(item.stack)])
    disks = NODES * int(cluster.settings["root_volume_gib"])
    return [
        PricedThing(
            what=f"{cluster.name}: {NODES} × {cluster.instance_type} for {hours:g} hours",
            usd=None if price is None else NODES * hours * price.usd_per_hour,
        ),
        PricedThing(
            what=f"{cluster.name}: {disks} GiB of disks", usd=_per_month("ebs-gp3", region, disks, hours)
        ),
        PricedThing(what=f"{cluster.name}: what stands around its nodes", usd=own * hours / HOURS_PER_MONTH),
        PricedThing(
            what=f"{cluster.image}: what stands around its bakery", usd=bakery * hours / HOURS_PER_MONTH
        ),
    ]


def _bake(image: str) -> PricedThing:
    (built,) = [each for each in MACHINE_IMAGES if each.name == image]
    price = instance_type(built.instance_type).price
    return PricedThing(
        what=f"{image}: a bake on {built.instance_type}, {BAKE_HOURS:g} hour",
        usd=None if price is None else BAKE_HOURS * price.usd_per_hour,
    )


def _per_month(item: str, region: str, amount: int, hours: float) -> float | None:
    fee = find_fee(item, region)
    price = fee.usd_per_month if fee else None
    return None if price is None else amount * price * hours / HOURS_PER_MONTH
