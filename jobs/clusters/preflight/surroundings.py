"""Checks of the account's settings outside our stacks: EBS key, default group, tag, supported pairs."""

from __future__ import annotations

from slipway.infra.declare.node_images import ami_parameter_of, node_image_of
from slipway.infra.declare.types import BatchCluster, Cluster, SlurmCluster
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.clusters.preflight.facts import Facts
from slipway.jobs.clusters.preflight.verdicts import Verdict, failed, ok, unanswered, unknown, warning
from slipway.jobs.words.names import CLUSTER_TAG, stack_name
from slipway.jobs.words.slurm import most_workers, smallest_controller
from slipway.jobs.words.targets import Target

_ACTIVATE = (
    "aws ce update-cost-allocation-tags-status --region us-east-1 "
    f"--cost-allocation-tags-status TagKey={CLUSTER_TAG},Status=Active"
)
# What Cost Explorer says to a member account of an organization.
_NOT_THE_PAYER = "Linked account"


def cost_tag(_cluster: Cluster, facts: Facts) -> Verdict:
    """The budget counts by this tag, from the day of its activation on and never backwards."""
    status = facts.cost_tag
    if isinstance(status, Unanswered):
        if _NOT_THE_PAYER in status.message:
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
    """Two projects of an account have names of their own: one would deploy over the other's stacks."""
    if isinstance(facts.owner, Unanswered):
        return unanswered(facts.owner)
    if facts.owner is None or facts.owner == facts.project:
        return ok(f"no other project has deployed {cluster.name}")
    return failed(
        f"{cluster.name} belongs to project {facts.owner}; this one is {facts.project or 'without a name'}",
        "give the cluster another name in clusters.py, or work in the folder of that project",
    )


def ebs_key(cluster: Cluster, facts: Facts) -> Verdict:
    """Auto Scaling, AWS Batch and Image Builder have no grant for a key of the account's own.

    Our templates name AWS's key for every volume; that it goes before the account's default was not tried.
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
    """AWS Batch puts the network interface of every multi-node task into the VPC's default group."""
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
    """AWS Batch user guide, "Compute resource AMI specification": multi-node jobs need Amazon Linux."""
    if not isinstance(cluster, BatchCluster):
        return ok("no multi-node job of AWS Batch")
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
    """AWS PCS changes no controller's size, and CloudFormation refuses to replace one that has a name."""
    if not isinstance(cluster, SlurmCluster):
        return ok("no controller of AWS PCS")
    deployed, wanted = facts.controller, cluster.controller or smallest_controller(cluster.max_nodes)
    if isinstance(deployed, Unanswered):
        return unanswered(deployed)
    if deployed in (None, wanted):
        return ok(f"{wanted}, with room for {most_workers(wanted)} workers")
    return failed(
        f"the deployed controller is {deployed}, which never changes, and max_nodes={cluster.max_nodes} with "
        f"controller={cluster.controller} asks for a {wanted} one",
        f"declare controller=ControllerSize.{deployed.upper()} and at most {most_workers(deployed)} nodes; "
        f"or slipway destroy {cluster.name}",
    )


def machines(cluster: Cluster, facts: Facts) -> Verdict:
    """Quotas and capacity decide anew with each launch, also where a cluster is deployed already."""
    if isinstance(facts.target, Unanswered):
        return unanswered(facts.target)
    if not isinstance(facts.target, Target):
        return ok(f"{cluster.name} is not deployed, and asks for none")
    if not facts.missing:
        return ok("AWS refuses none that stays between jobs")
    return failed("; ".join(what for what, _ in facts.missing), facts.missing[0][1])
