"""Queues and compute environments of AWS Batch: capacity for multi-node jobs, no queue blocked for good."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.infra.verify.rules.template import Finding, Template, multi_node_jobs, resources
from slipway.jobs.words.catalogue.instances import find_instance_type

_POOL = "AWS::Batch::ComputeEnvironment"

# AWS Batch user guide, "Automatic remediation with jobStateTimeLimitActions", for queues on ECS.
_REASONS = frozenset(
    {
        "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
        "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
        "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
    }
)
_SHORTEST_SECONDS, _LONGEST_SECONDS = 600, 86400


def multi_node_on_demand(template: Template) -> Iterator[Finding]:
    """Keep multi-node jobs off Spot, Fargate and unmanaged environments, where they never start."""
    if not any(multi_node_jobs(template)):
        return
    for name, properties in resources(template, _POOL):
        market = properties.get("ComputeResources", {}).get("Type")
        if properties.get("Type") != "MANAGED" or market != "EC2":
            found = f"{properties.get('Type')} and {market}"
            yield Finding(where=name, message=f"is {found}; multi-node jobs need MANAGED and EC2")


def room_for_every_node(template: Template) -> Iterator[Finding]:
    most = max(
        (job["NodeProperties"]["NumNodes"] for _, job in multi_node_jobs(template)),
        default=0,
    )
    for name, properties in resources(template, _POOL):
        pool = properties.get("ComputeResources", {})
        needed = most * max(map(_vcpus, pool.get("InstanceTypes", [])), default=0)
        if pool.get("MaxvCpus", 0) < needed:
            message = f"MaxvCpus is {pool.get('MaxvCpus')}; {most} nodes need {needed}"
            yield Finding(where=name, message=message)


def _vcpus(name: str) -> int:
    known = find_instance_type(name)
    return known.vcpus if known else 0


def nothing_runs_idle(template: Template) -> Iterator[Finding]:
    for name, properties in resources(template, _POOL):
        least = properties.get("ComputeResources", {}).get("MinvCpus", 0)
        if least:
            yield Finding(where=name, message=f"MinvCpus is {least}: nodes without a job are billed; use 0")


def template_version_is_explicit(template: Template) -> Iterator[Finding]:
    """Require a version: Batch takes $Default without one, and CloudFormation never moves that."""
    for name, properties in resources(template, _POOL):
        launch = properties.get("ComputeResources", {}).get("LaunchTemplate", {})
        if launch and launch.get("Version", "$Default") in ("$Default", "$Latest"):
            yield Finding(where=name, message="names no version of its launch template; use the attribute")


def groups_are_in_the_template(template: Template) -> Iterator[Finding]:
    """Keep groups in the template: EC2 refuses the instance's groups with network interfaces."""
    for name, properties in resources(template, _POOL):
        if "SecurityGroupIds" in properties.get("ComputeResources", {}):
            message = "has SecurityGroupIds, which EC2 refuses with the launch template's interfaces"
            yield Finding(where=name, message=message)


def queue_never_blocks(template: Template) -> Iterator[Finding]:
    for name, properties in resources(template, "AWS::Batch::JobQueue"):
        actions = properties.get("JobStateTimeLimitActions", [])
        missing = _REASONS - {action.get("Reason") for action in actions}
        if missing:
            yield Finding(where=name, message=f"has no time limit for {', '.join(sorted(missing))}")
        for action in actions:
            seconds = action.get("MaxTimeSeconds", 0)
            if action.get("Action") != "CANCEL" or not _SHORTEST_SECONDS <= seconds <= _LONGEST_SECONDS:
                allowed = f"CANCEL after {_SHORTEST_SECONDS} to {_LONGEST_SECONDS} s"
                yield Finding(where=name, message=f"{action.get('Action')} after {seconds} s; use {allowed}")
