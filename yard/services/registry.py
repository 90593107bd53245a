"""What the yard serves itself: a service, or single operations of one that moto otherwise serves.

To add one: a module with `call(operation, parameters, region) -> dict` that raises ApiError, and a line here.
A module that keeps anything in memory also has `reset()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from slipway.yard.errors import not_emulated
from slipway.yard.services import pretending

# botocore's name of the service -> module.
SERVICES: Mapping[str, str] = {
    "cloudformation": "slipway.yard.cloudformation.api.api",
    "codebuild": "slipway.yard.services.codebuild.api",
    "imagebuilder": "slipway.yard.services.imagebuilder.api.definitions",
    "pcs": "slipway.yard.services.pcs.api",
    "pricing": "slipway.yard.services.pricing.api",
    "service-quotas": "slipway.yard.services.service_quotas.api",
}

SNS_SUBSCRIPTIONS = (
    "ConfirmSubscription",
    "DeleteTopic",
    "ListSubscriptions",
    "ListSubscriptionsByTopic",
    "Subscribe",
)

SSM_AUTOMATION = (
    "DescribeAutomationExecutions",
    "GetAutomationExecution",
    "StartAutomationExecution",
    "StopAutomationExecution",
)

SSM_COMMANDS = (
    "CancelCommand",
    "DescribeInstanceInformation",
    "GetCommandInvocation",
    "ListCommandInvocations",
    "ListCommands",
    "SendCommand",
)

SAGEMAKER_TRAINING = ("CreateTrainingJob", "DescribeTrainingJob", "ListTrainingJobs", "StopTrainingJob")

OPERATIONS: Mapping[tuple[str, str], str] = {
    ("iam", "AddClientIDToOpenIDConnectProvider"): "slipway.yard.services.iam.open_id",
    ("iam", "RemoveClientIDFromOpenIDConnectProvider"): "slipway.yard.services.iam.open_id",
    ("autoscaling", "CreateAutoScalingGroup"): "slipway.yard.services.autoscaling.api",
    ("autoscaling", "DescribeScalingActivities"): "slipway.yard.services.autoscaling.api",
    ("batch", "CancelJob"): "slipway.yard.services.batch.api.jobs",
    ("batch", "CreateComputeEnvironment"): "slipway.yard.services.batch.api.environments",
    ("batch", "CreateJobQueue"): "slipway.yard.services.batch.api.queues",
    ("batch", "DeregisterJobDefinition"): "slipway.yard.services.batch.api.definitions",
    ("batch", "DescribeComputeEnvironments"): "slipway.yard.services.batch.api.environments",
    ("batch", "DescribeJobDefinitions"): "slipway.yard.services.batch.api.definitions",
    ("batch", "DeleteJobQueue"): "slipway.yard.services.batch.api.queues",
    ("batch", "DescribeJobQueues"): "slipway.yard.services.batch.api.queues",
    ("batch", "DescribeJobs"): "slipway.yard.services.batch.api.jobs",
    ("batch", "ListJobs"): "slipway.yard.services.batch.api.jobs",
    ("batch", "RegisterJobDefinition"): "slipway.yard.services.batch.api.definitions",
    ("batch", "SubmitJob"): "slipway.yard.services.batch.api.jobs",
    ("batch", "TerminateJob"): "slipway.yard.services.batch.api.jobs",
    ("batch", "UpdateComputeEnvironment"): "slipway.yard.services.batch.api.environments",
    ("batch", "UpdateJobQueue"): "slipway.yard.services.batch.api.queues",
    ("budgets", "CreateBudget"): "slipway.yard.services.budgets.api",
    ("budgets", "DescribeBudget"): "slipway.yard.services.budgets.api",
    ("budgets", "DescribeBudgets"): "slipway.yard.services.budgets.api",
    ("ce", "ListCostAllocationTags"): "slipway.yard.services.budgets.spend",
    ("ce", "UpdateCostAllocationTagsStatus"): "slipway.yard.services.budgets.spend",
    ("cloudtrail", "LookupEvents"): "slipway.yard.services.cloudtrail.api",
    ("cloudwatch", "DescribeAlarmHistory"): "slipway.yard.services.cloudwatch.alarms",
    ("ec2", "CancelCapacityReservation"): "slipway.yard.services.ec2.capacity_reservations",
    ("ec2", "CreateCapacityReservation"): "slipway.yard.services.ec2.capacity_reservations",
    ("ec2", "CreatePlacementGroup"): "slipway.yard.services.ec2.placement_groups",
    ("ec2", "CreateTags"): "slipway.yard.services.ec2.tags",
    ("ec2", "DeletePlacementGroup"): "slipway.yard.services.ec2.placement_groups",
    ("ec2", "DeleteSubnet"): "slipway.yard.services.ec2.removal",
    ("ec2", "DeleteVpc"): "slipway.yard.services.ec2.removal",
    ("ec2", "DescribeCapacityReservations"): "slipway.yard.services.ec2.capacity_reservations",
    ("ec2", "DescribeInstanceStatus"): "slipway.yard.services.ec2.instance_status",
    ("ec2", "DescribePlacementGroups"): "slipway.yard.services.ec2.placement_groups",
    ("ec2", "GetConsoleOutput"): "slipway.yard.services.ec2.instance_status",
    ("ec2", "GetEbsDefaultKmsKeyId"): "slipway.yard.services.ec2.ebs_key",
    ("ec2", "RebootInstances"): "slipway.yard.services.ec2.instance_status",
    ("ec2", "ResetEbsDefaultKmsKeyId"): "slipway.yard.services.ec2.ebs_key",
    ("events", "PutEvents"): "slipway.yard.services.events.bus",
    ("ec2-instance-connect", "SendSSHPublicKey"): "slipway.yard.services.ec2.instance_connect",
    ("ecs", "ListClusters"): "slipway.yard.services.ecs.api",
    ("fsx", "CreateFileSystem"): "slipway.yard.services.file_systems.fsx",
    ("fsx", "DescribeFileSystems"): "slipway.yard.services.file_systems.fsx",
    ("fsx", "UpdateFileSystem"): "slipway.yard.services.file_systems.fsx",
    ("imagebuilder", "CancelImageCreation"): "slipway.yard.services.imagebuilder.api.images",
    ("imagebuilder", "CreateImage"): "slipway.yard.services.imagebuilder.api.images",
    ("imagebuilder", "DeleteImage"): "slipway.yard.services.imagebuilder.api.images",
    ("imagebuilder", "GetImage"): "slipway.yard.services.imagebuilder.api.images",
    ("imagebuilder", "GetWorkflowExecution"): "slipway.yard.services.imagebuilder.api.workflows",
    ("imagebuilder", "ListImageBuildVersions"): "slipway.yard.services.imagebuilder.api.images",
    ("imagebuilder", "ListImagePipelineImages"): "slipway.yard.services.imagebuilder.api.images",
    ("imagebuilder", "ListImages"): "slipway.yard.services.imagebuilder.api.images",
    ("imagebuilder", "ListWorkflowExecutions"): "slipway.yard.services.imagebuilder.api.workflows",
    ("imagebuilder", "ListWorkflowStepExecutions"): "slipway.yard.services.imagebuilder.api.workflows",
    ("imagebuilder", "StartImagePipelineExecution"): "slipway.yard.services.imagebuilder.api.images",
    ("lambda", "Invoke"): "slipway.yard.services.functions.api",
    **{
        ("sagemaker", operation): "slipway.yard.services.sagemaker.training.api"
        for operation in SAGEMAKER_TRAINING
    },
    **{("sns", operation): "slipway.yard.services.sns.subscriptions" for operation in SNS_SUBSCRIPTIONS},
    **{("ssm", operation): "slipway.yard.services.ssm.automation" for operation in SSM_AUTOMATION},
    **{("ssm", operation): "slipway.yard.services.ssm.api" for operation in SSM_COMMANDS},
    ("ssm", "StartSession"): "slipway.yard.services.ssm.sessions",
}


def module_of(service: str, operation: str) -> ModuleType | None:
    """The module that answers this call; None leaves it to moto, unless moto would only pretend."""
    if reason := pretending.REASONS.get((service, operation)):
        raise not_emulated(service, operation, reason=reason)
    path = OPERATIONS.get((service, operation)) or SERVICES.get(service)
    return import_module(path) if path else None


def reset() -> None:
    """Forget everything that was created, in the modules that were used so far."""
    import sys

    for path in {*SERVICES.values(), *OPERATIONS.values()}:
        if forget := getattr(sys.modules.get(path), "reset", None):
            forget()
