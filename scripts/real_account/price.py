"""Compute what a run costs at most: all hours of all machines, and what is deployed around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scripts.real_account.clusters import SLURM, SmallCluster
from slipway.infra.clusters import MACHINE_IMAGES
from slipway.jobs.cloud.templates import declared_templates
from slipway.jobs.clusters.bill import is_shared, standing_items, total_usd_per_month
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.catalogue.regional import HOURS_PER_MONTH, find_fee

# A bake that takes longer is ended with everything else; downloads and snapshots take most of its time.
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
    """Price the run as if everything ran for all of its hours; the controller's price must be given."""
    lines = [line for cluster in clusters for line in _cluster(cluster, region, hours)]
    if SLURM in clusters:
        usd = None if controller_usd_per_hour is None else controller_usd_per_hour * hours
        lines.append(PricedThing(what=f"{SLURM.name}: its small controller, for {hours:g} hours", usd=usd))
    for image in bakes:
        (built,) = [each for each in MACHINE_IMAGES if each.name == image]
        price = instance_type(built.instance_type).price
        usd = None if price is None else BAKE_HOURS * price.usd_per_hour
        what = f"{image}: a bake on {built.instance_type}, {BAKE_HOURS:g} hour"
        lines.append(PricedThing(what=what, usd=usd))
    return lines


def total(lines: Sequence[PricedThing]) -> float:
    return round(sum(line.usd or 0.0 for line in lines), 2)


def _cluster(cluster: SmallCluster, region: str, hours: float) -> list[PricedThing]:
    price = instance_type(cluster.instance_type).price
    running = min(hours, cluster.most_hours or hours)
    # SageMaker's volumes count like disks of nodes, since their prices were not collected.
    disks = cluster.nodes * int(cluster.settings.get("root_volume_gib") or cluster.settings["volume_gb"])
    fee = find_fee("ebs-gp3", region)
    per_gib = fee.usd_per_month if fee else None
    items = standing_items(declared_templates(cluster.name, cluster.folder), region)
    own = total_usd_per_month([item for item in items if not is_shared(item.stack)])
    lines = [
        PricedThing(
            what=f"{cluster.name}: {cluster.nodes} × {cluster.instance_type} for {running:g} hours",
            usd=None if price is None else cluster.nodes * running * price.usd_per_hour,
        ),
        PricedThing(
            what=f"{cluster.name}: {disks} GiB of disks",
            usd=None if per_gib is None else disks * per_gib * running / HOURS_PER_MONTH,
        ),
        PricedThing(what=f"{cluster.name}: what stands around its nodes", usd=own * hours / HOURS_PER_MONTH),
    ]
    if cluster.image is not None:
        bakery = total_usd_per_month([item for item in items if is_shared(item.stack)])
        what = f"{cluster.image}: what stands around its bakery"
        lines.append(PricedThing(what=what, usd=bakery * hours / HOURS_PER_MONTH))
    return lines
