"""What the yard serves itself: a service, or single operations of one that moto otherwise serves.

To add one: a module with `call(operation, parameters, region) -> dict` that raises ApiError, and a line here.
A module that keeps anything in memory also has `reset()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from jobs.yard.errors import ApiError

# botocore's name of the service -> module.
SERVICES: Mapping[str, str] = {
    "cloudformation": "jobs.yard.cloudformation.api",
    "codebuild": "jobs.yard.services.codebuild",
    "imagebuilder": "jobs.yard.services.imagebuilder",
    "pcs": "jobs.yard.services.pcs",
    "pricing": "jobs.yard.services.pricing",
    "service-quotas": "jobs.yard.services.service_quotas",
}

SSM_COMMANDS = (
    "CancelCommand",
    "DescribeInstanceInformation",
    "GetCommandInvocation",
    "ListCommandInvocations",
    "ListCommands",
    "SendCommand",
)

OPERATIONS: Mapping[tuple[str, str], str] = {
    ("autoscaling", "CreateAutoScalingGroup"): "jobs.yard.services.autoscaling",
    ("batch", "CancelJob"): "jobs.yard.services.batch_jobs",
    ("batch", "CreateComputeEnvironment"): "jobs.yard.services.compute_environments",
    ("batch", "CreateJobQueue"): "jobs.yard.services.batch_queues",
    ("batch", "DeregisterJobDefinition"): "jobs.yard.services.batch_job_definitions",
    ("batch", "DescribeJobDefinitions"): "jobs.yard.services.batch_job_definitions",
    ("batch", "DeleteJobQueue"): "jobs.yard.services.batch_queues",
    ("batch", "DescribeJobQueues"): "jobs.yard.services.batch_queues",
    ("batch", "DescribeJobs"): "jobs.yard.services.batch_jobs",
    ("batch", "ListJobs"): "jobs.yard.services.batch_jobs",
    ("batch", "RegisterJobDefinition"): "jobs.yard.services.batch_job_definitions",
    ("batch", "SubmitJob"): "jobs.yard.services.batch_jobs",
    ("batch", "TerminateJob"): "jobs.yard.services.batch_jobs",
    ("batch", "UpdateComputeEnvironment"): "jobs.yard.services.compute_environments",
    ("batch", "UpdateJobQueue"): "jobs.yard.services.batch_queues",
    ("cloudtrail", "LookupEvents"): "jobs.yard.services.cloudtrail",
    ("ec2", "CancelCapacityReservation"): "jobs.yard.services.capacity_reservations",
    ("ec2", "CreateCapacityReservation"): "jobs.yard.services.capacity_reservations",
    ("ec2", "CreatePlacementGroup"): "jobs.yard.services.placement_groups",
    ("ec2", "DeletePlacementGroup"): "jobs.yard.services.placement_groups",
    ("ec2", "DescribeCapacityReservations"): "jobs.yard.services.capacity_reservations",
    ("ec2", "DescribeInstanceStatus"): "jobs.yard.services.instance_status",
    ("ec2", "DescribePlacementGroups"): "jobs.yard.services.placement_groups",
    ("ec2", "GetConsoleOutput"): "jobs.yard.services.instance_status",
    ("imagebuilder", "CancelImageCreation"): "jobs.yard.services.imagebuilder_images",
    ("imagebuilder", "CreateImage"): "jobs.yard.services.imagebuilder_images",
    ("imagebuilder", "DeleteImage"): "jobs.yard.services.imagebuilder_images",
    ("imagebuilder", "GetImage"): "jobs.yard.services.imagebuilder_images",
    ("imagebuilder", "GetWorkflowExecution"): "jobs.yard.services.imagebuilder_workflows",
    ("imagebuilder", "ListImageBuildVersions"): "jobs.yard.services.imagebuilder_images",
    ("imagebuilder", "ListImagePipelineImages"): "jobs.yard.services.imagebuilder_images",
    ("imagebuilder", "ListImages"): "jobs.yard.services.imagebuilder_images",
    ("imagebuilder", "ListWorkflowExecutions"): "jobs.yard.services.imagebuilder_workflows",
    ("imagebuilder", "ListWorkflowStepExecutions"): "jobs.yard.services.imagebuilder_workflows",
    ("imagebuilder", "StartImagePipelineExecution"): "jobs.yard.services.imagebuilder_images",
    **{("ssm", operation): "jobs.yard.services.ssm_commands" for operation in SSM_COMMANDS},
}


def module_of(service: str, operation: str) -> ModuleType | None:
    """The module that answers this call; None leaves it to moto."""
    path = OPERATIONS.get((service, operation)) or SERVICES.get(service)
    return import_module(path) if path else None


def not_emulated(service: str, operation: str, detail: str = "") -> ApiError:
    """What everyone answers who is asked for what the yard has not; no SDK repeats a 501."""
    return ApiError(
        "NotImplemented",
        f"the yard does not emulate {service}:{operation or '(no such operation)'}"
        + (f" as it was asked ({detail})" if detail else "")
        + "; `slipway yard status` lists what it does emulate",
        status=501,
    )


def reset() -> None:
    """Forget everything that was created, in the modules that were used so far."""
    import sys

    for path in {*SERVICES.values(), *OPERATIONS.values()}:
        if forget := getattr(sys.modules.get(path), "reset", None):
            forget()
