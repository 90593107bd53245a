"""Computes what EC2's vCPU quotas must allow: a cluster's machines, and all else that each counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.infra.declare.declared import build_type
from slipway.infra.declare.node_images import login_type_of
from slipway.infra.declare.types import Cluster, SlurmCluster
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.cloud.capacity import Quota, ask_quotas, find_quota
from slipway.jobs.clusters.neighbours import (
    OTHER_MACHINES,
    Neighbour,
    Neighbourhood,
    QuotaShare,
    share_words,
)
from slipway.jobs.clusters.preflight.training_limits import TRAINING_KIND
from slipway.jobs.words.catalogue.instances import CAPACITY_BLOCK, ON_DEMAND, vcpus_of


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMachines:
    """Describe equal machines that a cluster runs at one time."""

    purpose: str
    noun: str
    instance_type: str
    market: str
    count: int

    @property
    def vcpus(self) -> int:
        return self.count * vcpus_of(self.instance_type)

    @property
    def words(self) -> str:
        return f"{self.count} {self.noun} × {vcpus_of(self.instance_type)} vCPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class VcpuNeed:
    """Describe what one quota must allow; `quota` is None if Service Quotas lists none."""

    quota: Quota | None
    own: tuple[OwnMachines, ...]
    others: tuple[QuotaShare, ...]

    @property
    def own_vcpus(self) -> int:
        return sum(machines.vcpus for machines in self.own)

    @property
    def needed(self) -> int:
        return self.own_vcpus + sum(share.amount for share in self.others)

    @property
    def words(self) -> str:
        """Return the sum in words, such as `4 nodes × 64 vCPUs = 256 vCPUs and 2 of trn1, 258 in all`."""
        own = f"{' + '.join(machines.words for machines in self.own)} = {self.own_vcpus} vCPUs"
        return f"{own} and {share_words(self.others)}, {self.needed} in all" if self.others else own

    @property
    def needed_beside_what_stands(self) -> int:
        return self.own_vcpus + sum(share.amount for share in self.others if share.stands)


def ask_vcpus(
    cluster: Cluster, neighbourhood: Neighbourhood, *, bakes: bool = False
) -> tuple[VcpuNeed, ...] | Unanswered | None:
    """Ask for every quota that counts the cluster's machines or the bake of its AMI.

    None for a cluster whose machines are SageMaker's, with quotas of its own.
    """
    if cluster.kind == TRAINING_KIND:
        return None
    quotas = ask_quotas(cluster.region)
    if isinstance(quotas, Unanswered):
        return quotas
    own: dict[str, list[OwnMachines]] = {}
    for machines in _own(cluster):
        own.setdefault(_code(machines, quotas), []).append(machines)
    if bakes and (built_on := build_type(cluster)):
        bake = OwnMachines(
            purpose="baking its AMI", noun="bake", instance_type=built_on, market=ON_DEMAND, count=1
        )
        standing = own.setdefault(_code(bake, quotas), [])
        if sum(machines.vcpus for machines in standing) < bake.vcpus:
            standing[:] = [bake]
    return tuple(
        VcpuNeed(
            quota=find_quota(quotas, machines[0].instance_type, machines[0].market),
            own=tuple(machines),
            others=tuple(_shares(code, quotas, neighbourhood)) if code else (),
        )
        for code, machines in own.items()
    )


def _own(cluster: Cluster) -> Iterator[OwnMachines]:
    if cluster.market != CAPACITY_BLOCK:  # capacity blocks count against no quota
        yield OwnMachines(
            purpose=f"nodes of {cluster.name}",
            noun="nodes",
            instance_type=cluster.instance_type,
            market=cluster.market,
            count=cluster.max_nodes,
        )
    if isinstance(cluster, SlurmCluster):
        yield OwnMachines(
            purpose=f"the login node of {cluster.name}",
            noun="login node",
            instance_type=login_type_of(cluster),
            market=ON_DEMAND,
            count=1,
        )


def _shares(code: str, quotas: Sequence[Mapping[str, Any]], hood: Neighbourhood) -> Iterator[QuotaShare]:
    for neighbour in hood.clusters:
        if amount := _counted(code, quotas, _of_neighbour(neighbour)):
            yield QuotaShare(who=neighbour.name, amount=amount, stands=neighbour.is_deployed)
    if not isinstance(hood.running, Unanswered):
        running = ((type_, market, count) for (type_, market), count in hood.running.counted.items())
        if amount := _counted(code, quotas, running):
            yield QuotaShare(who=OTHER_MACHINES, amount=amount, stands=True)


def _of_neighbour(neighbour: Neighbour) -> Iterator[tuple[str, str, int]]:
    if neighbour.kind == TRAINING_KIND:
        return
    yield neighbour.instance_type, neighbour.market, neighbour.max_nodes
    if neighbour.login_instance_type:
        yield neighbour.login_instance_type, ON_DEMAND, 1


def _counted(code: str, quotas: Sequence[Mapping[str, Any]], machines: Iterable[tuple[str, str, int]]) -> int:
    """Return the vCPUs of those machines that a quota counts; capacity blocks count against none."""
    return sum(
        count * vcpus_of(type_)
        for type_, market, count in machines
        if market != CAPACITY_BLOCK
        and (quota := find_quota(quotas, type_, market)) is not None
        and quota.code == code
    )


def _code(machines: OwnMachines, quotas: Sequence[Mapping[str, Any]]) -> str:
    quota = find_quota(quotas, machines.instance_type, machines.market)
    return quota.code if quota else ""
