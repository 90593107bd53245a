"""Clusters on HyperPod: nodes in our network, Slurm said in the groups, everything counted by the budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slipway.infra.verify.rules.efa import self_rules
from slipway.infra.verify.rules.template import Finding, Template, logical_id, resources
from slipway.jobs.words.names import CLUSTER_TAG

_TYPE = "AWS::SageMaker::Cluster"
_CREATE, _EXTEND = "OnCreate", "OnInitComplete"


def nodes_are_in_a_group_that_lets_itself_through(template: Template) -> Iterator[Finding]:
    """Require our network: without one nodes stand in SageMaker's, and without these rules EFA is mute."""
    open_in = self_rules(template, "AWS::EC2::SecurityGroupIngress", "SourceSecurityGroupId")
    open_out = self_rules(template, "AWS::EC2::SecurityGroupEgress", "DestinationSecurityGroupId")
    for name, properties in resources(template, _TYPE):
        groups = [logical_id(group) for group in properties.get("VpcConfig", {}).get("SecurityGroupIds", ())]
        if not groups:
            yield Finding(where=name, message="has no VpcConfig; name a subnet and a group of ours")
        for group in groups:
            if group not in open_in & open_out:
                yield Finding(where=name, message=f"is in {group}, which lacks rules for its own traffic")


def slurm_is_said_in_the_groups(template: Template) -> Iterator[Finding]:
    """Require one controller and a partition for every worker; HyperPod configures Slurm from these words."""
    for name, properties in resources(template, _TYPE):
        if "Slurm" not in properties.get("Orchestrator", {}):
            yield Finding(where=name, message="has no Orchestrator.Slurm; HyperPod would start no Slurm")
        slurm = [group.get("SlurmConfig", {}) for group in properties["InstanceGroups"]]
        kinds = Counter(each.get("NodeType") for each in slurm)
        if kinds["Controller"] != 1 or not kinds["Compute"] or kinds[None]:
            yield Finding(where=name, message=f"has groups of {dict(kinds)}; say one Controller, and Compute")
        if any(each.get("NodeType") == "Compute" and not each.get("PartitionNames") for each in slurm):
            yield Finding(where=name, message="has workers of no partition, which no job would reach")


def scripts_extend_hyperpods_own(template: Template) -> Iterator[Finding]:
    """Require OnInitComplete: beside OnCreate, HyperPod leaves all of its own set-up to the script."""
    for name, properties in resources(template, _TYPE):
        for group in properties["InstanceGroups"]:
            found, own = group.get("LifeCycleConfig", {}), group["InstanceGroupName"]
            if _CREATE in found or not {_EXTEND, "SourceS3Uri"} <= found.keys():
                yield Finding(where=name, message=f"{own} has {sorted(found)}; say SourceS3Uri and {_EXTEND}")


def nodes_are_counted_by_the_budget(template: Template) -> Iterator[Finding]:
    """Require the cluster's tag: nodes bill from creation to deletion, and a budget counts by it."""
    for name, properties in resources(template, _TYPE):
        if CLUSTER_TAG not in {tag["Key"] for tag in properties.get("Tags", ())}:
            yield Finding(where=name, message=f"has no tag {CLUSTER_TAG}, by which its budget counts")
