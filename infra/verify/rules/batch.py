"""Rules for jobs of AWS Batch: limits of time and memory, useful retries, roles of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from slipway.infra.declare.checks.values import secret_kind
from slipway.infra.verify.rules.template import (
    Finding,
    Properties,
    Template,
    checks,
    logical_id,
    resources,
    rule,
)
from slipway.jobs.words.catalogue.instances import find_instance_type, vcpus_of
from slipway.jobs.words.images.aws_images import is_published_by_aws

_JOB = "AWS::Batch::JobDefinition"
_POOL = "AWS::Batch::ComputeEnvironment"
_RETRY_EXIT_CODE = "85"
_HOST_LOST = "Host EC2*"
_SECRET_NAME = re.compile(r"(?i)(password|passwd|secret|token|api_?key|private_?key)")


def multi_node_jobs(template: Template) -> Iterator[tuple[str, Properties]]:
    for name, properties in resources(template, _JOB):
        if properties.get("Type") == "multinode":
            yield name, properties


def job_containers(template: Template) -> Iterator[tuple[str, Properties]]:
    for name, properties in resources(template, _JOB):
        yield from ((name, container) for container in containers_of(properties))


def containers_of(properties: Properties) -> Iterator[Properties]:
    """Yield the container of every node range, or the one of a single-node job."""
    ranges = properties.get("NodeProperties", {}).get("NodeRangeProperties", [])
    yield from (each["Container"] for each in ranges if "Container" in each)
    if "ContainerProperties" in properties:
        yield properties["ContainerProperties"]


def compute_resources(template: Template) -> Iterator[tuple[str, Properties]]:
    for name, properties in resources(template, _POOL):
        yield name, properties.get("ComputeResources", {})


@checks("batch-job-ends", _JOB)
def job_ends(properties: Properties) -> Iterator[str]:
    seconds = properties.get("Timeout", {}).get("AttemptDurationSeconds", 0)
    if seconds < 60:
        yield f"Timeout is {seconds or 'missing'}; Batch takes 60 s or more"


@checks("batch-retries-chosen", _JOB)
def retries_are_chosen(properties: Properties) -> Iterator[str]:
    """Require a last rule that exits: Batch retries what no rule of evaluateOnExit matches."""
    rules = properties.get("RetryStrategy", {}).get("EvaluateOnExit", [])
    if not rules or rules[-1] != {"Action": "EXIT", "OnReason": "*"}:
        yield "EvaluateOnExit must end with EXIT for the reason *"
    retried = [rule for rule in rules if rule.get("Action") == "RETRY"]
    for key, value in (("OnExitCode", _RETRY_EXIT_CODE), ("OnStatusReason", _HOST_LOST)):
        if not any(rule.get(key) == value for rule in retried):
            yield f"EvaluateOnExit has no RETRY with {key} {value}"


@checks("batch-memory-registers", source=multi_node_jobs)
def memory_registers(properties: Properties) -> Iterator[str]:
    """Limit memory to what ECS registers of a node: a job that asks for more waits forever."""
    for container in containers_of(properties):
        known = find_instance_type(container.get("InstanceType", ""))
        wanted = container.get("ResourceRequirements", [])
        asked = sum(int(each["Value"]) for each in wanted if each["Type"] == "MEMORY")
        if known is None:
            yield "InstanceType is missing or not in the catalogue"
        elif asked > known.job_memory_mib:
            most = f"{known.name} registers about {known.job_memory_mib}"
            yield f"asks for {asked} MiB of memory; {most}"


@checks("batch-not-privileged", source=job_containers)
def not_privileged(container: Properties) -> Iterator[str]:
    if container.get("Privileged"):
        yield "is privileged; name its devices in LinuxParameters instead"


@checks("batch-any-number-of-nodes", source=multi_node_jobs)
def any_number_of_nodes(properties: Properties) -> Iterator[str]:
    ranges = properties["NodeProperties"]["NodeRangeProperties"]
    found = [each["TargetNodes"] for each in ranges]
    if found != ["0:"]:
        yield f'TargetNodes are {found}; only ["0:"] lets a job ask for another number of nodes'


@checks("batch-image-never-moves", source=job_containers)
def image_never_moves(container: Properties) -> Iterator[str]:
    """Require a digest, or a tag of our own registry, whose tags are immutable (see data.py)."""
    image = _flat(container.get("Image"))
    tag = image.rpartition(":")[2]
    from_elsewhere = "<" not in image and ".dkr.ecr." not in image
    if "@sha256:" not in image and (from_elsewhere or tag in ("", "latest") or "/" in tag):
        yield f"image {image} can change; name it by digest"


@checks("batch-image-is-ours", source=job_containers)
def image_is_ours(container: Properties) -> Iterator[str]:
    """Require an image of this app, of this account or of AWS: nodes run it with the rights of a job."""
    image = container.get("Image")
    if not _is_own_registry(image) and not is_published_by_aws(str(image)):
        yield f"image {_flat(image)} is not from a repository of ours; copy it there"


@rule("batch-rights-apart")
def rights_are_apart(template: Template) -> Iterator[Finding]:
    """Require separate roles for the node, the start of a task and the training."""
    node_roles = {
        logical_id(role)
        for _, profile in resources(template, "AWS::IAM::InstanceProfile")
        for role in profile["Roles"]
    }
    for name, container in job_containers(template):
        job, execution = (logical_id(container.get(f"{each}RoleArn")) for each in ("Job", "Execution"))
        if job is None or execution is None:
            yield Finding(name, "needs a JobRoleArn and an ExecutionRoleArn of this template")
        elif job == execution or {job, execution} & node_roles:
            yield Finding(name, "job, execution and node need separate roles")


@checks("batch-no-secrets", source=job_containers)
def no_secrets_in_environment(container: Properties) -> Iterator[str]:
    for variable in container.get("Environment", []):
        value = variable.get("Value")
        kind = secret_kind(value) if isinstance(value, str) else None
        if kind or (isinstance(value, str) and _SECRET_NAME.search(variable["Name"])):
            yield f"{variable['Name']} looks like {kind or 'a secret'}; use Secrets (hidden)"


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
# AWS Batch user guide, "Automatic remediation with jobStateTimeLimitActions", for queues on ECS.
_REASONS = frozenset(
    {
        "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
        "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
        "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
    }
)
_SHORTEST_SECONDS, _LONGEST_SECONDS = 600, 86400


@rule("batch-multi-node-on-demand")
def multi_node_on_demand(template: Template) -> Iterator[Finding]:
    """Keep multi-node jobs off Spot, Fargate and unmanaged environments, where they never start."""
    if not any(multi_node_jobs(template)):
        return
    for name, properties in resources(template, _POOL):
        market = properties.get("ComputeResources", {}).get("Type")
        if properties.get("Type") != "MANAGED" or market != "EC2":
            found = f"{properties.get('Type')} and {market}"
            yield Finding(name, f"is {found}; multi-node jobs need MANAGED and EC2")


@rule("batch-room-for-nodes")
def room_for_every_node(template: Template) -> Iterator[Finding]:
    most = max((job["NodeProperties"]["NumNodes"] for _, job in multi_node_jobs(template)), default=0)
    for name, pool in compute_resources(template):
        needed = most * max(map(vcpus_of, pool.get("InstanceTypes", [])), default=0)
        if pool.get("MaxvCpus", 0) < needed:
            yield Finding(name, f"MaxvCpus is {pool.get('MaxvCpus')}; {most} nodes need {needed}")


@checks("batch-nothing-idle", source=compute_resources)
def nothing_runs_idle(pool: Properties) -> Iterator[str]:
    if least := pool.get("MinvCpus", 0):
        yield f"MinvCpus is {least}: nodes without a job are billed; use 0"


@checks("batch-template-version", source=compute_resources)
def template_version_is_explicit(pool: Properties) -> Iterator[str]:
    """Require a version: Batch takes $Default without one, and CloudFormation never changes that."""
    launch = pool.get("LaunchTemplate", {})
    if launch and launch.get("Version", "$Default") in ("$Default", "$Latest"):
        yield "names no version of its launch template; use the attribute"


@checks("batch-groups-in-template", source=compute_resources)
def groups_are_in_the_template(pool: Properties) -> Iterator[str]:
    """Keep groups in the template: EC2 refuses the instance's groups with network interfaces."""
    if "SecurityGroupIds" in pool:
        yield "has SecurityGroupIds, which EC2 refuses with the launch template's interfaces"


@checks("batch-queue-never-blocks", "AWS::Batch::JobQueue")
def queue_never_blocks(properties: Properties) -> Iterator[str]:
    actions = properties.get("JobStateTimeLimitActions", [])
    missing = _REASONS - {action.get("Reason") for action in actions}
    if missing:
        yield f"has no time limit for {', '.join(sorted(missing))}"
    for action in actions:
        seconds = action.get("MaxTimeSeconds", 0)
        if action.get("Action") != "CANCEL" or not _SHORTEST_SECONDS <= seconds <= _LONGEST_SECONDS:
            allowed = f"CANCEL after {_SHORTEST_SECONDS} to {_LONGEST_SECONDS} s"
            yield f"{action.get('Action')} after {seconds} s; use {allowed}"
