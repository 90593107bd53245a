"""Lists what the yard serves itself: whole services, and single operations of services that moto serves.

To add one: a module and its name here. Its table OPERATIONS has a function of the parameters and the region
for each operation, or its `call(operation, parameters, region)` answers all of them; both raise ApiError.
A module that keeps anything in memory also has `reset()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module

from slipway.yard.errors import not_emulated
from slipway.yard.gateway.pipeline import Answerer
from slipway.yard.services import pretending

# botocore's service name -> module.
SERVICES: Mapping[str, str] = {
    "cloudformation": "slipway.yard.cloudformation.api.api",
    "codebuild": "slipway.yard.services.codebuild.api",
    "imagebuilder": "slipway.yard.services.imagebuilder.api.definitions",
    "pcs": "slipway.yard.services.pcs.api",
    "pricing": "slipway.yard.services.pricing.api",
    "service-quotas": "slipway.yard.services.service_quotas.api",
}

# Operations of services that moto serves: (service, module below this package) -> operations.
_ROWS: Mapping[tuple[str, str], str] = {
    ("iam", "corrections"): "AddClientIDToOpenIDConnectProvider RemoveClientIDFromOpenIDConnectProvider",
    ("autoscaling", "autoscaling.api"): "CreateAutoScalingGroup DescribeScalingActivities",
    ("batch", "batch.api.jobs"): "CancelJob DescribeJobs ListJobs SubmitJob TerminateJob",
    ("batch", "batch.api.environments"): (
        "CreateComputeEnvironment DescribeComputeEnvironments UpdateComputeEnvironment"
    ),
    ("batch", "batch.api.queues"): "CreateJobQueue DeleteJobQueue DescribeJobQueues UpdateJobQueue",
    ("batch", "batch.api.definitions"): (
        "DeregisterJobDefinition DescribeJobDefinitions RegisterJobDefinition"
    ),
    ("budgets", "budgets.api"): "CreateBudget DescribeBudget DescribeBudgets",
    ("ce", "budgets.api"): "ListCostAllocationTags UpdateCostAllocationTagsStatus",
    ("cloudtrail", "corrections"): "LookupEvents",
    ("cloudwatch", "cloudwatch.alarms"): "DescribeAlarmHistory",
    ("ec2", "ec2.capacity_reservations"): (
        "CancelCapacityReservation CreateCapacityReservation DescribeCapacityReservations"
    ),
    ("ec2", "ec2.placement_groups"): "CreatePlacementGroup DeletePlacementGroup DescribePlacementGroups",
    ("ec2", "corrections"): "CreateTags DeleteSubnet DeleteVpc GetEbsDefaultKmsKeyId ResetEbsDefaultKmsKeyId",
    ("ec2", "ec2.instance_status"): "DescribeInstanceStatus GetConsoleOutput RebootInstances",
    ("events", "events.bus"): "PutEvents",
    ("ecs", "corrections"): "ListClusters",
    ("fsx", "file_systems.fsx"): "CreateFileSystem DescribeFileSystems UpdateFileSystem",
    ("imagebuilder", "imagebuilder.api.images"): (
        "CancelImageCreation CreateImage DeleteImage GetImage ListImageBuildVersions"
        " ListImagePipelineImages ListImages StartImagePipelineExecution"
    ),
    ("imagebuilder", "imagebuilder.api.workflows"): (
        "GetWorkflowExecution ListWorkflowExecutions ListWorkflowStepExecutions"
    ),
    ("lambda", "functions.api"): "Invoke",
    ("sagemaker", "sagemaker.training.api"): (
        "CreateTrainingJob DescribeTrainingJob ListTrainingJobs StopTrainingJob"
    ),
    ("sns", "sns.subscriptions"): (
        "ConfirmSubscription DeleteTopic ListSubscriptions ListSubscriptionsByTopic Subscribe"
    ),
    ("ec2-instance-connect", "corrections"): "SendSSHPublicKey",
    ("ssm", "ssm.sessions"): "StartSession",
    ("ssm", "ssm.automation"): (
        "DescribeAutomationExecutions GetAutomationExecution StartAutomationExecution StopAutomationExecution"
    ),
    ("ssm", "ssm.api"): (
        "CancelCommand DescribeInstanceInformation GetCommandInvocation ListCommandInvocations"
        " ListCommands SendCommand"
    ),
}
OPERATIONS: Mapping[tuple[str, str], str] = {
    (service, operation): f"slipway.yard.services.{module}"
    for (service, module), operations in _ROWS.items()
    for operation in operations.split()
}


def answerer_of(service: str, operation: str) -> Answerer | None:
    """Return the function that answers this call; None: moto. Refuse what moto would only pretend to do."""
    if reason := pretending.REASONS.get((service, operation)):
        raise not_emulated(service, operation, reason=reason)
    path = OPERATIONS.get((service, operation)) or SERVICES.get(service)
    if path is None:
        return None
    module = import_module(path)
    table: Mapping[str, Answerer] | None = getattr(module, "OPERATIONS", None)
    if table is None:
        return partial(module.call, operation)
    if operation not in table:
        raise not_emulated(service, operation)
    return table[operation]


def reset() -> None:
    """Reset all modules that were used so far."""
    import sys

    for path in {*SERVICES.values(), *OPERATIONS.values()}:
        if forget := getattr(sys.modules.get(path), "reset", None):
            forget()
