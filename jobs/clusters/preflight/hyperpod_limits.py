"""What preflight asks of SageMaker's quotas for a cluster on HyperPod; training jobs have others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.cloud.declared import DeclaredCluster
from slipway.jobs.clusters.neighbours import Neighbour, Neighbourhood, QuotaShare
from slipway.jobs.clusters.preflight.training_limits import TrainingQuota, ask_sagemaker_quotas

HYPERPOD_KIND = "hyperpod"
# As Service Quotas calls them (SageMaker developer guide, "SageMaker HyperPod quotas").
USAGE = "{} for cluster usage"
OF_ONE_CLUSTER = "Maximum number of instances allowed per SageMaker HyperPod cluster"
OF_ALL_CLUSTERS = "Total number of instances allowed across SageMaker HyperPod clusters"


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperPodNeed:
    """Describes how many instances one quota has to allow; None is one that is not listed."""

    name: str
    instances: int
    quota: TrainingQuota | None
    others: tuple[QuotaShare, ...] = ()

    @property
    def needed(self) -> int:
        return self.instances + sum(share.amount for share in self.others)


def ask_hyperpod(
    cluster: DeclaredCluster, hood: Neighbourhood
) -> tuple[HyperPodNeed, ...] | Unanswered | None:
    """Ask for every quota that a cluster on HyperPod counts against; None for a cluster of another kind."""
    if cluster.kind != HYPERPOD_KIND:
        return None
    quotas = ask_sagemaker_quotas(cluster.region)
    if isinstance(quotas, Unanswered):
        return quotas
    return tuple(
        HyperPodNeed(name=name, instances=count, quota=quotas.get(name), others=tuple(_of_others(name, hood)))
        for name, count in needed(cluster)
    )


def _of_others(name: str, hood: Neighbourhood) -> Iterator[QuotaShare]:
    """Yield what other clusters on HyperPod take of a quota; that of one cluster counts no other."""
    for other in hood.clusters:
        if (
            other.kind == HYPERPOD_KIND
            and name != OF_ONE_CLUSTER
            and (amount := dict(needed(other)).get(name))
        ):
            yield QuotaShare(who=other.name, amount=amount, stands=other.is_deployed)


def needed(cluster: DeclaredCluster | Neighbour) -> Iterator[tuple[str, int]]:
    """Yield each quota's name and how many instances count against it, the limits of all types last."""
    nodes = standing_nodes(cluster)
    for kind, count in nodes.items():
        yield USAGE.format(kind), count
    for name in (OF_ONE_CLUSTER, OF_ALL_CLUSTERS):
        yield name, nodes.total()


def standing_nodes(cluster: DeclaredCluster | Neighbour) -> Counter[str]:
    """Count the nodes of each type, which stand from the cluster's creation to its deletion."""
    nodes = Counter({cluster.instance_type: cluster.max_nodes})
    nodes.update(type_ for type_ in (cluster.controller_instance_type, cluster.login_instance_type) if type_)
    return nodes
