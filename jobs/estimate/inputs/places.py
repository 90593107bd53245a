"""Finds the place of an estimate: a declared cluster, an instance type by itself, or a target.

Another billed thing around a cluster's nodes is one field of Surroundings and its line here.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.estimates import PricedHardware
from slipway.jobs.estimate.prices import ON_DEMAND, Overheads, Rate, find_rate, require_rate
from slipway.jobs.words.catalogue.instances import InstanceType, find_instance_type, instance_type, names_like
from slipway.jobs.words.catalogue.regional import lustre_item
from slipway.jobs.words.errors import did_you_mean
from slipway.jobs.words.installation import NoProject, find_containers

# An instance type needs no declarations, whose import takes a fifth of an estimate's time.
if TYPE_CHECKING:
    from slipway.infra.declare.types import Cluster


def find_place(name: str, rates: Sequence[Rate], *, region: str | None, term: str) -> PricedHardware:
    """Find a cluster or instance type by name; a region or term that was named must have a price."""
    if (instance := find_instance_type(name)) is not None:
        return alone(instance, rates, region=region, term=term)
    cluster = _declared(name)
    if cluster is not None:
        return place_of(cluster, rates, region=region, term=term)
    from slipway.jobs.cloud.deployed import find_target_by_name

    # The record of a deployed target lists nothing but its nodes, so they alone have a price.
    target = find_target_by_name(name, region)
    instance = instance_type(target.instance_type)
    return PricedHardware(
        name=name,
        instance=instance,
        rate=_rate(instance, rates, region=target.region, term=term, asked=False),
        region=target.region,
        most_nodes=target.max_nodes,
    )


def declared_places(rates: Sequence[Rate], *, region: str | None, term: str) -> list[PricedHardware]:
    """Return all declared clusters, without those that lack a price for the named region or term."""
    from slipway.infra.declare.declared import declared_clusters

    try:
        clusters = declared_clusters()
    except NoProject:
        return []
    places = []
    for cluster in clusters:
        with suppress(CannotEstimate):
            places.append(place_of(cluster, rates, region=region, term=term))
    return places


def alone(instance: InstanceType, rates: Sequence[Rate], *, region: str | None, term: str) -> PricedHardware:
    """Return nodes of this type with nothing around them."""
    rate = _rate(instance, rates, region=region, term=term, asked=region is not None)
    return PricedHardware(
        name=instance.name, instance=instance, rate=rate, region=rate.region if rate else (region or "")
    )


def place_of(cluster: Cluster, rates: Sequence[Rate], *, region: str | None, term: str) -> PricedHardware:
    from slipway.infra.declare.node_images import locked_by
    from slipway.jobs.words.images.containers import locked_torch

    instance, where = instance_type(cluster.instance_type), region or cluster.region
    return PricedHardware(
        name=cluster.name,
        instance=instance,
        rate=_rate(instance, rates, region=where, term=term, asked=region is not None),
        region=where,
        overheads=overheads(cluster),
        most_nodes=cluster.max_nodes,
        torch=locked_torch(find_containers(), locked_by(cluster)),
    )


MOST_NETWORK_GBPS, MOST_DEVICES = 100_000, 1024  # of one node: a larger number is a typing error


def altered(place: PricedHardware, *, network_gbps: float | None, devices: int | None) -> PricedHardware:
    """Return such nodes with another network or number of devices; they have no price."""
    instance, accelerator = place.instance, place.instance.accelerator
    if network_gbps is not None:
        if not 0 < network_gbps <= MOST_NETWORK_GBPS:
            raise CannotEstimate(
                f"--network {network_gbps:g} cannot be; allowed are more than 0 to {MOST_NETWORK_GBPS:,}",
                hint="say how many gigabits a second one node sends, such as --network 400",
            )
        instance = replace(instance, network_gbps=network_gbps, baseline_gbps=network_gbps)
    if devices is not None:
        if accelerator is None:
            raise CannotEstimate(
                f"--devices {devices}: {instance.name} has no accelerators, only processors",
                hint="leave out --devices, or name a type with accelerators",
            )
        if not 1 <= devices <= MOST_DEVICES:
            raise CannotEstimate(
                f"--devices {devices} cannot be; allowed are 1 to {MOST_DEVICES:,}",
                hint="such as --devices 8",
            )
        instance = replace(instance, accelerator=replace(accelerator, count=devices))
    if instance == place.instance:
        return place
    said = ", ".join(
        [
            *([f"{devices} devices a node"] if devices is not None else []),
            *([f"{network_gbps:g} Gbit/s"] if network_gbps is not None else []),
        ]
    )
    return PricedHardware(name=f"{place.name} with {said}", instance=instance, rate=None, region="")


def overheads(cluster: Cluster) -> Overheads:
    from slipway.infra.declare.types import NodeCluster

    has_nat = cluster.egress == "nat"
    is_lustre = cluster.file_system == "fsx-lustre"
    item = lustre_item(cluster.fsx_mbps_per_tib) if is_lustre else cluster.file_system
    return Overheads(
        interface_endpoints=0 if has_nat else len(cluster.services),
        nat_gateways=int(has_nat),
        file_system=cluster.file_system,
        file_system_gib=cluster.fsx_capacity_gib if is_lustre else None,
        file_system_item=item,
        root_volume_gib=cluster.root_volume_gib if isinstance(cluster, NodeCluster) else 0,
    )


def _rate(
    instance: InstanceType, rates: Sequence[Rate], *, region: str | None, term: str, asked: bool
) -> Rate | None:
    if asked or term != ON_DEMAND:
        return require_rate(rates, instance, region, term)
    return find_rate(rates, instance.name, region, term) or find_rate(rates, instance.name, None, term)


def _declared(name: str) -> Cluster | None:
    """Return the declared cluster; None without any declarations, as on a laptop that only submits."""
    from slipway.infra.declare.declared import declared_clusters

    try:
        clusters = declared_clusters()
    except NoProject:
        return None
    for cluster in clusters:
        if cluster.name == name:
            return cluster
    names = [cluster.name for cluster in clusters]
    raise CannotEstimate(
        f"'{name}' is neither a declared cluster nor an instance type that AWS names",
        hint=did_you_mean(
            name,
            [*names, *names_like(name)],
            otherwise=f"declared are {', '.join(names) or 'none'}; types: slipway instance list --all",
            most=3,
        ),
    )
