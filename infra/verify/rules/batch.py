"""Rules for jobs of AWS Batch: limits of time and memory, useful retries, roles of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from slipway.infra.declare.checks.values import secret_kind
from slipway.infra.verify.rules.template import (
    Finding,
    Template,
    job_containers,
    logical_id,
    multi_node_jobs,
    resources,
)
from slipway.jobs.words.catalogue.instances import find_instance_type, vcpus_of
from slipway.jobs.words.images.aws_images import is_published_by_aws

_JOB = "AWS::Batch::JobDefinition"
_RETRY_EXIT_CODE = "85"
_HOST_LOST = "Host EC2*"
_SECRET_NAME = re.compile(r"(?i)(password|passwd|secret|token|api_?key|private_?key)")


def job_ends(template: Template) -> Iterator[Finding]:
    for name, properties in resources(template, _JOB):
        seconds = properties.get("Timeout", {}).get("AttemptDurationSeconds", 0)
        if seconds < 60:
            yield Finding(where=name, message=f"Timeout is {seconds or 'missing'}; Batch takes 60 s or more")


def retries_are_chosen(template: Template) -> Iterator[Finding]:
    """Require a last rule that exits: Batch retries what no rule of evaluateOnExit matches."""
    for name, properties in resources(template, _JOB):
        rules = properties.get("RetryStrategy", {}).get("EvaluateOnExit", [])
        if not rules or rules[-1] != {"Action": "EXIT", "OnReason": "*"}:
            yield Finding(where=name, message="EvaluateOnExit must end with EXIT for the reason *")
        retried = [rule for rule in rules if rule.get("Action") == "RETRY"]
        for key, value in (("OnExitCode", _RETRY_EXIT_CODE), ("OnStatusReason", _HOST_LOST)):
            if not any(rule.get(key) == value for rule in retried):
                yield Finding(where=name, message=f"EvaluateOnExit has no RETRY with {key} {value}")


def memory_registers(template: Template) -> Iterator[Finding]:
    """Limit memory to what ECS registers of a node: a job that asks for more waits forever."""
    for name, properties in multi_node_jobs(template):
        for container in job_containers(properties):
            known = find_instance_type(container.get("InstanceType", ""))
            wanted = container.get("ResourceRequirements", [])
            asked = sum(int(each["Value"]) for each in wanted if each["Type"] == "MEMORY")
            if known is None:
                yield Finding(where=name, message="InstanceType is missing or not in the catalogue")
            elif asked > known.job_memory_mib:
                most = f"{known.name} registers about {known.job_memory_mib}"
                yield Finding(where=name, message=f"asks for {asked} MiB of memory; {most}")


def not_privileged(template: Template) -> Iterator[Finding]:
    for name, properties in resources(template, _JOB):
        if any(container.get("Privileged") for container in job_containers(properties)):
            yield Finding(where=name, message="is privileged; name its devices in LinuxParameters instead")


def any_number_of_nodes(template: Template) -> Iterator[Finding]:
    for name, properties in multi_node_jobs(template):
        ranges = properties["NodeProperties"]["NodeRangeProperties"]
        found = [each["TargetNodes"] for each in ranges]
        if found != ["0:"]:
            message = f'TargetNodes are {found}; only ["0:"] lets a job ask for another number of nodes'
            yield Finding(where=name, message=message)


def image_never_moves(template: Template) -> Iterator[Finding]:
    """Require a digest, or a tag of our own registry, whose tags are immutable (see data.py)."""
    for name, properties in resources(template, _JOB):
        for container in job_containers(properties):
            image = _flat(container.get("Image"))
            tag = image.rpartition(":")[2]
            from_elsewhere = "<" not in image and ".dkr.ecr." not in image
            if "@sha256:" not in image and (from_elsewhere or tag in ("", "latest") or "/" in tag):
                yield Finding(where=name, message=f"image {image} can change; name it by digest")


def image_is_ours(template: Template) -> Iterator[Finding]:
    """Require an image of this app, of this account or of AWS: nodes run it with the rights of a job."""
    for name, properties in resources(template, _JOB):
        for container in job_containers(properties):
            image = container.get("Image")
            if not _is_own_registry(image) and not is_published_by_aws(str(image)):
                message = f"image {_flat(image)} is not from a repository of ours; copy it there"
                yield Finding(where=name, message=message)


def rights_are_apart(template: Template) -> Iterator[Finding]:
    """Require separate roles for the node, the start of a task and the training."""
    node_roles = {
        logical_id(role)
        for _, profile in resources(template, "AWS::IAM::InstanceProfile")
        for role in profile["Roles"]
    }
    for name, properties in resources(template, _JOB):
        for container in job_containers(properties):
            job, execution = (logical_id(container.get(f"{each}RoleArn")) for each in ("Job", "Execution"))
            if job is None or execution is None:
                yield Finding(
                    where=name, message="needs a JobRoleArn and an ExecutionRoleArn of this template"
                )
            elif job == execution or {job, execution} & node_roles:
                yield Finding(where=name, message="job, execution and node need separate roles")


def no_secrets_in_environment(template: Template) -> Iterator[Finding]:
    for name, properties in resources(template, _JOB):
        for container in job_containers(properties):
            for variable in container.get("Environment", []):
                value = variable.get("Value")
                kind = secret_kind(value) if isinstance(value, str) else None
                if kind or (isinstance(value, str) and _SECRET_NAME.search(variable["Name"])):
                    message = f"{variable['Name']} looks like {kind or 'a secret'}; use Secrets (hidden)"
                    yield Finding(where=name, message=message)


def _is_own_registry(image: object) -> bool:
    parts = [image]
    if isinstance(image, Mapping) and "Fn::Join" in image:
        delimiter, joined = image["Fn::Join"]
        parts = list(joined) if delimiter == "" else []  # no other delimiter keeps an image's beginning
    match parts:
        case [{"Fn::GetAtt": [_, "RepositoryUri"]}, *_]:
            return True
        case [{"Fn::ImportValue": str() as export}, *_]:
            return "RepositoryUri" in export
        case [{"Ref": "AWS::AccountId"}, str() as registry, *_]:
            return registry.startswith(".dkr.ecr.")
    return False


def _flat(value: object) -> str:
    """Write an expression as <…>, so that the text around it can be read."""
    if isinstance(value, Mapping) and "Fn::Join" in value:
        delimiter, parts = value["Fn::Join"]
        return str(delimiter).join(map(_flat, parts))
    return value if isinstance(value, str) else "<…>"


# Queues and compute environments of AWS Batch: capacity for multi-node jobs, no queue blocked for good.
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
        needed = most * max(map(vcpus_of, pool.get("InstanceTypes", [])), default=0)
        if pool.get("MaxvCpus", 0) < needed:
            message = f"MaxvCpus is {pool.get('MaxvCpus')}; {most} nodes need {needed}"
            yield Finding(where=name, message=message)


def nothing_runs_idle(template: Template) -> Iterator[Finding]:
    for name, properties in resources(template, _POOL):
        least = properties.get("ComputeResources", {}).get("MinvCpus", 0)
        if least:
            yield Finding(where=name, message=f"MinvCpus is {least}: nodes without a job are billed; use 0")


def template_version_is_explicit(template: Template) -> Iterator[Finding]:
    """Require a version: Batch takes $Default without one, and CloudFormation never changes that."""
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
