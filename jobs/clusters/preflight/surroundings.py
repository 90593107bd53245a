"""Checks of settings outside our stacks: cost tag, EBS key, security group, AMI, SageMaker's quotas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import NamedTuple

from slipway.infra.declare.node_images import ami_parameter_of, node_image_of
from slipway.infra.declare.types import BatchCluster, Cluster, SageMakerCluster, SlurmCluster
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.clusters.neighbours import QuotaShare, share_words
from slipway.jobs.clusters.preflight.facts import Facts
from slipway.jobs.clusters.preflight.training_limits import (
    WARM_POOL,
    TrainingLimits,
    TrainingQuota,
    instance_quota,
)
from slipway.jobs.clusters.preflight.verdicts import Verdict, failed, ok, spared, unanswered, unknown, warning
from slipway.jobs.words.names import CLUSTER_TAG, stack_name
from slipway.jobs.words.run import SECONDS_PER_HOUR
from slipway.jobs.words.slurm import most_workers, smallest_controller
from slipway.jobs.words.targets import SageMakerTarget, Target

_ACTIVATE = (
    "aws ce update-cost-allocation-tags-status --region us-east-1 "
    f"--cost-allocation-tags-status TagKey={CLUSTER_TAG},Status=Active"
)


def cost_tag(_cluster: Cluster, facts: Facts) -> Verdict:
    """Check that the tag by which the budget counts is active; costs before that day are never counted."""
    status = facts.cost_tag
    if isinstance(status, Unanswered):
        if "Linked account" in status.message:  # a member account of an organization asks
            return unknown(
                f"only the account that pays for this one may see whether {CLUSTER_TAG} is activated",
                f"in the paying account: {_ACTIVATE}",
            )
        return unanswered(status)
    if status == "Active":
        return ok(f"{CLUSTER_TAG} is activated, so the budget counts this cluster, 8 to 12 hours late")
    if status is None:
        return warning(
            f"Billing has not seen {CLUSTER_TAG} yet, so the budget counts nothing; it lists a tag up to 24 "
            "hours after the first resource carries it",
            f"a day after the first deployment: {_ACTIVATE}",
        )
    return failed(f"{CLUSTER_TAG} is {status.lower()} in Billing, so the budget counts nothing", _ACTIVATE)


def project(cluster: Cluster, facts: Facts) -> Verdict:
    """Check that no other project deployed a cluster of this name: one would overwrite the other's stacks."""
    if isinstance(facts.owner, Unanswered):
        return unanswered(facts.owner)
    if facts.owner is None or facts.owner == facts.project:
        return ok(f"no other project has deployed {cluster.name}")
    return failed(
        f"{cluster.name} belongs to project {facts.owner}; this one is {facts.project or 'without a name'}",
        "give the cluster another name in clusters.py, or work in the folder of that project",
    )


def ebs_key(cluster: Cluster, facts: Facts) -> Verdict:
    """Check the default key of volumes: Auto Scaling, AWS Batch and Image Builder may not use the account's
    own.

    Our templates name AWS's key for every volume; that it takes precedence over the default was not tried.
    """
    key = facts.ebs_key
    if isinstance(key, Unanswered):
        return unanswered(key)
    if key.is_of_aws:
        return ok("volumes are encrypted with AWS's own key")
    return warning(
        f"the account's default key for volumes is {key.id}, which Auto Scaling may not use; ours name "
        "alias/aws/ebs instead. If nodes still end with Client.InternalError, take AWS's as the default",
        f"aws ec2 reset-ebs-default-kms-key-id --region {cluster.region}",
    )


def default_group(cluster: Cluster, facts: Facts) -> Verdict:
    """Check the VPC's default group, to which AWS Batch adds the network interfaces of multi-node tasks."""
    if not isinstance(cluster, BatchCluster):
        return ok("not used: jobs run on the machines themselves")
    group = facts.default_group
    if isinstance(group, Unanswered):
        return unanswered(group)
    if group is None:
        network = stack_name(cluster.name, "network")
        return unknown(
            f"{network} is not deployed, and an account's rules may empty the default group of a new network",
            f"cdk deploy {network} && slipway preflight {cluster.name}",
        )
    if not group.admits_itself:
        return failed(
            f"the default group {group.id} does not admit its own members, so the nodes of a job cannot meet",
            f"aws ec2 authorize-security-group-ingress --group-id {group.id} --protocol all "
            f"--source-group {group.id} --region {cluster.region}",
        )
    if not group.lets_out:
        return failed(
            f"the default group {group.id} lets nothing out, so the nodes of a job cannot meet",
            f"aws ec2 authorize-security-group-egress --group-id {group.id} --region {cluster.region} "
            "--ip-permissions IpProtocol=-1,IpRanges=[{CidrIp=0.0.0.0/0}]",
        )
    return ok(f"{group.id} admits its own members")


def supported_pair(cluster: Cluster, facts: Facts) -> Verdict:
    """Check the operating system: multi-node jobs of AWS Batch need Amazon Linux.

    AWS Batch user guide, "Compute resource AMI specification".
    """
    if not isinstance(cluster, BatchCluster):
        return spared("no multi-node job of AWS Batch")
    if not node_image_of(cluster).is_baked:
        return ok("Amazon Linux, by AWS itself")
    if facts.ami_is_debian is None:
        return unknown(
            "AWS Batch supports multi-node jobs on Amazon Linux only, and who made "
            f"{ami_parameter_of(cluster)} is not known here",
            "ask who made it for its operating system",
        )
    if not facts.ami_is_debian:
        return ok("the AMI is no Ubuntu")
    others = " or ".join(facts.other_ways)
    return warning(
        "AWS Batch supports multi-node jobs on Amazon Linux only, and this AMI is Ubuntu: it may work, but "
        "AWS takes no support case",
        f"the other way, over MPI: slipway preflight {others}" if others else "",
    )


def controller_size(cluster: Cluster, facts: Facts) -> Verdict:
    """Check the controller's size: AWS PCS cannot change it, nor CloudFormation replace a named one."""
    if not isinstance(cluster, SlurmCluster):
        return spared("no controller of AWS PCS")
    deployed, wanted = facts.controller, cluster.controller or smallest_controller(cluster.max_nodes)
    if isinstance(deployed, Unanswered):
        return unanswered(deployed)
    if deployed in (None, wanted):
        return ok(f"{wanted}, with room for {most_workers(wanted)} workers")
    return failed(
        f"the deployed controller is {deployed}, which never changes, and max_nodes={cluster.max_nodes} with "
        f"controller={cluster.controller} asks for a {wanted} one",
        f"declare controller=ControllerSize.{deployed.upper()} and at most {most_workers(deployed)} nodes; "
        f"or slipway cluster destroy {cluster.name}",
    )


def machines(cluster: Cluster, facts: Facts) -> Verdict:
    """Check that AWS starts a deployed cluster's machines; each launch depends on quota and capacity."""
    if isinstance(facts.target, Unanswered):
        return unanswered(facts.target)
    if not isinstance(facts.target, Target):
        return ok(f"{cluster.name} is not deployed, and asks for none")
    silent = [each for each in facts.missing if isinstance(each, Unanswered)]
    refused = [each for each in facts.missing if not isinstance(each, Unanswered)]
    if refused:
        return failed("; ".join(what for what, _ in refused), refused[0][1])
    return unanswered(silent[0]) if silent else ok("AWS refuses none that stays between jobs")


# Checks of SageMaker's quotas for training, and of the log group that all its jobs share.
Judge = Callable[[SageMakerCluster, TrainingLimits], Verdict]


def _of_training(judge: Judge) -> Callable[[Cluster, Facts], Verdict]:
    """Make a check of a judgement: no answer is unknown, and clusters of other kinds pass."""

    @wraps(judge)
    def check(cluster: Cluster, facts: Facts) -> Verdict:
        limits = facts.training
        if isinstance(limits, Unanswered):
            return unanswered(limits)
        if limits is None or not isinstance(cluster, SageMakerCluster):
            return spared("no training job of SageMaker")
        return judge(cluster, limits)

    return check


@_of_training
def training_instances(cluster: SageMakerCluster, limits: TrainingLimits) -> Verdict:
    """Check the quota of training instances: a new account may start none of the large types in SageMaker."""
    need = _Need(cluster.max_nodes, f"max_nodes is {cluster.max_nodes}", limits.instances_of_others)
    return _held(cluster, limits.instances, instance_quota(cluster), need)


@_of_training
def warm_pool(cluster: SageMakerCluster, limits: TrainingLimits) -> Verdict:
    if not cluster.warm_pool_minutes:
        return ok("none is kept: instances go with their job")
    name = WARM_POOL.format(cluster.instance_type)
    need = _Need(cluster.max_nodes, "every instance stays warm", limits.warm_of_others)
    verdict = _held(cluster, limits.warm_pool, name, need)
    billed = f"instances are billed for {cluster.warm_pool_minutes} minutes after each job"
    return warning(f"{verdict.found}; {billed}") if not verdict.fix else verdict


@_of_training
def longest_job(cluster: SageMakerCluster, limits: TrainingLimits) -> Verdict:
    hours = cluster.job_timeout_hours
    need = _Need(hours * SECONDS_PER_HOUR, f"job_timeout_hours is {hours}")
    return _held(cluster, limits.longest_job, "longest run time", need)


@_of_training
def training_log(cluster: SageMakerCluster, limits: TrainingLimits) -> Verdict:
    """Check the log group of all training jobs: our stacks cannot own it, and SageMaker keeps it for ever."""
    found, group = limits.log, SageMakerTarget.log_group
    if isinstance(found, Unanswered):
        return unanswered(found)
    keep = f"aws logs put-retention-policy --log-group-name {group} --retention-in-days 365"
    if found is None:
        return warning(
            f"SageMaker makes {group} with the first job, and nothing in it ends",
            f"after the first job: {keep} --region {cluster.region}",
        )
    if found.keeps_days is None:
        return warning(f"{group} keeps what jobs print for ever", f"{keep} --region {cluster.region}")
    key = "a key of this account" if found.is_encrypted else "AWS's own key"
    return ok(f"{group} keeps {found.keeps_days} days, encrypted with {key}")


class _Need(NamedTuple):
    own: int
    because: str
    others: Sequence[QuotaShare] = ()


def _held(cluster: Cluster, quota: TrainingQuota | None, name: str, need: _Need) -> Verdict:
    own, because, others = need
    needed = own + sum(share.amount for share in others)
    if others:
        because = f"{because}, and {share_words(others)}, {needed} in all"
    if quota is None:
        return unknown(
            f"{because}, and Service Quotas lists no '{name}'", "look in the Service Quotas console"
        )
    said = f"{because}, the quota '{quota.name}' is {quota.value:.0f}"
    if needed <= quota.value:
        return ok(said)
    fix = f"slipway cluster quota {cluster.name} --request"
    if own + sum(share.amount for share in others if share.stands) <= quota.value:
        return warning(
            f"{said}: enough unless clusters that are declared and not deployed are deployed, too", fix
        )
    return failed(said, fix)
