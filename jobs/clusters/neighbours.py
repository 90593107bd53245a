"""Finds what else counts against an account's quotas: the project's other clusters, deployed ones, machines.

A quota is one number for an account and a region. A declared cluster counts with all of its nodes, deployed
or not; so does one that another project deployed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slipway.infra.declare.declared import declared_clusters
from slipway.infra.declare.node_images import login_type_of
from slipway.infra.declare.types import Cluster, SageMakerCluster, SlurmCluster
from slipway.jobs.cloud.aws import Unanswered, ask_all, reader
from slipway.jobs.words.catalogue.instances import ON_DEMAND, SPOT
from slipway.jobs.words.names import CLUSTER_TAG
from slipway.jobs.words.targets import (
    PARAMETER_ROOT,
    DamagedTarget,
    SageMakerTarget,
    Target,
    decode_target,
)
from slipway.jobs.words.text import NewerRecord

OTHER_MACHINES = "other machines that run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Describe another cluster, as far as quotas count it."""

    name: str
    kind: str
    instance_type: str
    max_nodes: int
    market: str
    login_instance_type: str | None = None
    is_warm: bool = False  # True: SageMaker's instances stay after a job
    is_deployed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaShare:
    """Hold how much of one quota a cluster or the other machines take."""

    who: str
    amount: int
    stands: bool  # True: it is deployed, or runs now


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningMachines:
    """Count the running machines of no cluster that counts already, by type and market."""

    counted: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    clusters: tuple[Neighbour, ...]
    running: RunningMachines | Unanswered


def find_neighbourhood(
    cluster: Cluster, account: str | None, declared: Sequence[Cluster] | None = None
) -> Neighbourhood:
    """Ask what else is in the cluster's region; `account` is the credentials' account, None if unknown."""
    everyone = declared_clusters() if declared is None else declared
    here = [each for each in everyone if each.region == cluster.region and each.account in (None, account)]
    answer = ask_all(reader("ssm", cluster.region), "GetParametersByPath", "Parameters", Path=PARAMETER_ROOT)
    targets: list[Target] = []
    for parameter in [] if isinstance(answer, Unanswered) else answer:
        try:
            targets.append(decode_target(parameter["Value"], parameter=parameter["Name"]))
        except (DamagedTarget, NewerRecord):
            continue
    known = {
        each.name: Neighbour(
            name=each.name,
            kind=each.kind,
            instance_type=each.instance_type,
            max_nodes=each.max_nodes,
            market=each.market,
            login_instance_type=login_type_of(each) if isinstance(each, SlurmCluster) else None,
            is_warm=isinstance(each, SageMakerCluster) and each.warm_pool_minutes > 0,
        )
        for each in here
        if each.name != cluster.name
    }
    for target in targets:
        if target.name != cluster.name:
            known[target.name] = _with_deployed(known.get(target.name), target)
    # The nodes of a cluster that is not declared here are known; its login node is not.
    counted: dict[str, str | None] = {target.name: target.instance_type for target in targets}
    counted |= dict.fromkeys([cluster.name, *(each.name for each in here)])
    return Neighbourhood(clusters=tuple(known.values()), running=_running(cluster.region, counted))


def share_words(shares: Iterable[QuotaShare]) -> str:
    return ", ".join(f"{share.amount} of {share.who}" for share in shares)


def _with_deployed(declared: Neighbour | None, target: Target) -> Neighbour:
    """Return what counts of a deployed cluster: the larger of declared and deployed numbers of nodes."""
    if declared is not None:
        is_larger = target.max_nodes > declared.max_nodes and target.instance_type == declared.instance_type
        nodes = target.max_nodes if is_larger else declared.max_nodes
        return replace(declared, max_nodes=nodes, is_deployed=True)
    return Neighbour(
        name=target.name,
        kind=target.kind,
        instance_type=target.instance_type,
        max_nodes=target.max_nodes,
        market=SPOT if target.is_spot else ON_DEMAND,
        is_warm=isinstance(target, SageMakerTarget) and target.warm_pool_seconds > 0,
        is_deployed=True,
    )


def _running(region: str, counted: Mapping[str, str | None]) -> RunningMachines | Unanswered:
    states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    answer = ask_all(reader("ec2", region), "DescribeInstances", "Reservations", Filters=states)
    if isinstance(answer, Unanswered):
        return answer
    others: Counter[tuple[str, str]] = Counter()
    for instance in (each for reservation in answer for each in reservation["Instances"]):
        tags = {str(tag["Key"]): str(tag["Value"]) for tag in instance.get("Tags") or ()}
        name = tags.get(CLUSTER_TAG, "")
        is_node = name in counted and counted[name] in (None, instance["InstanceType"])
        if not is_node and tags.get("CreatedBy") != "EC2 Image Builder":  # a bake counts where it is planned
            others[(str(instance["InstanceType"]), str(instance.get("InstanceLifecycle") or ON_DEMAND))] += 1
    return RunningMachines(counted=others)
