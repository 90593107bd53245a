"""Asks for SageMaker's quotas and its log group, which all training jobs of an account share."""

from __future__ import annotations

from dataclasses import dataclass

from slipway.infra.declare.types import Cluster, SageMakerCluster
from slipway.jobs.cloud.aws import Unanswered, ask_all, reader
from slipway.jobs.clusters.neighbours import Neighbour, Neighbourhood, QuotaShare
from slipway.jobs.words.catalogue.instances import SPOT as SPOT_MARKET
from slipway.jobs.words.targets import SageMakerTarget

TRAINING_KIND = SageMakerTarget.kind
SERVICE = "sagemaker"
# Names in Service Quotas; {} is the type, such as ml.p4d.24xlarge.
ON_DEMAND = "{} for training job usage"
SPOT = "{} for spot training job usage"
WARM_POOL = "{} for training warm pool usage"
LONGEST = "Longest run time for a training job"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingQuota:
    code: str
    name: str
    value: float  # instances, or seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLog:
    """Describe the log group of all training jobs."""

    keeps_days: int | None  # None: for ever
    is_encrypted: bool  # with a key of the account's own


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLimits:
    """Hold what the account may use; None is a quota that Service Quotas does not list."""

    instances: TrainingQuota | None
    warm_pool: TrainingQuota | None
    longest_job: TrainingQuota | None
    log: TrainingLog | Unanswered | None  # None: SageMaker makes it with the first job
    instances_of_others: tuple[QuotaShare, ...] = ()  # other clusters that count against the same quota
    warm_of_others: tuple[QuotaShare, ...] = ()


def ask_training(cluster: Cluster, hood: Neighbourhood) -> TrainingLimits | Unanswered | None:
    if not isinstance(cluster, SageMakerCluster):
        return None
    service_quotas = reader("service-quotas", cluster.region)
    answer = ask_all(service_quotas, "ListServiceQuotas", "Quotas", ServiceCode=SERVICE)
    if isinstance(answer, Unanswered):
        return answer
    quotas = {
        str(each["QuotaName"]): TrainingQuota(
            code=each["QuotaCode"], name=each["QuotaName"], value=float(each["Value"])
        )
        for each in answer
    }
    alike = [
        each
        for each in hood.clusters
        if each.kind == TRAINING_KIND and each.instance_type == cluster.instance_type
    ]
    return TrainingLimits(
        instances=quotas.get(instance_quota(cluster)),
        warm_pool=quotas.get(WARM_POOL.format(cluster.instance_type)),
        longest_job=quotas.get(LONGEST),
        log=_ask_log(cluster.region),
        # Spot has another quota of instances.
        instances_of_others=tuple(
            _share(each) for each in alike if (each.market == SPOT_MARKET) == (cluster.market == SPOT_MARKET)
        ),
        warm_of_others=tuple(_share(each) for each in alike if each.is_warm),
    )


def _share(cluster: Neighbour) -> QuotaShare:
    return QuotaShare(who=cluster.name, amount=cluster.max_nodes, stands=cluster.is_deployed)


def instance_quota(cluster: Cluster) -> str:
    return (SPOT if cluster.market == SPOT_MARKET else ON_DEMAND).format(cluster.instance_type)


def _ask_log(region: str) -> TrainingLog | Unanswered | None:
    group = SageMakerTarget.log_group
    answer = ask_all(reader("logs", region), "DescribeLogGroups", "logGroups", logGroupNamePrefix=group)
    if isinstance(answer, Unanswered):
        return answer
    for each in answer:
        if each["logGroupName"] == group:
            return TrainingLog(
                keeps_days=each.get("retentionInDays"), is_encrypted=bool(each.get("kmsKeyId"))
            )
    return None
