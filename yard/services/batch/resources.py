"""Resource types of AWS Batch: compute environments, queues, job definitions, scheduling policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    Name,
    call,
    changeable,
    find,
    mirrored,
    setting,
    shaped,
    tags,
)
from slipway.yard.cloudformation.resources.provider import Context, Properties, Provider, Resource
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, input_shape, prop, response
from slipway.yard.cloudformation.resources.shapes import like, to_request
from slipway.yard.errors import client_exception

# Batch accepts it only in an update, and never shows it.
UPDATE_ONLY = frozenset({"UpdateToLatestImageVersion"})
QUEUE_PROPERTIES = "ComputeEnvironmentOrder JobStateTimeLimitActions Priority SchedulingPolicyArn State"


def first_resources(scope: ResourceScope) -> dict[str, Any] | None:
    """Return the compute resources without those that are only about updates."""
    given = scope.properties.get("ComputeResources")
    return given and {name: value for name, value in given.items() if name not in UPDATE_ONLY}


def changed_resources(scope: ResourceScope) -> dict[str, Any] | None:
    """Return the compute resources that changed and that UpdateComputeEnvironment accepts.

    Unchanged ones are left out: the call's model would refuse the strategy BEST_FIT.
    """
    given = scope.properties.get("ComputeResources")
    if given is None or given == scope.before.get("ComputeResources"):
        return None
    call = input_shape(scope.context.client("batch"), "update_compute_environment")
    shape = call.members["computeResources"]
    members = {name.lower() for name in shape.members}
    live = _described(scope)["computeResources"]
    wanted = to_request(shape, {name: value for name, value in given.items() if name.lower() in members})
    return {name: value for name, value in wanted.items() if live.get(name) != value} or None


def refuse_invalid(scope: ResourceScope) -> None:
    """Raise ApiError with Batch's reason if the environment is INVALID, as CloudFormation does."""
    found = _described(scope)
    if found["status"] == "INVALID":
        reason = found["statusReason"]
        raise client_exception(f"Operation failed, ComputeEnvironment went INVALID with error: {reason}")


def _described(scope: ResourceScope) -> dict[str, Any]:
    named = scope.send("describe_compute_environments", computeEnvironments=[scope.id])
    (found,) = named["computeEnvironments"]
    return dict(found)


def delete_environment(scope: ResourceScope) -> None:
    """Disable and delete the environment; refuse one that a queue still uses, which moto does not check."""
    queues = scope.send("describe_job_queues")["jobQueues"]
    using = [
        queue["jobQueueName"]
        for queue in queues
        if any(
            item["computeEnvironment"] in (scope.id, _name(scope.id))
            for item in queue["computeEnvironmentOrder"]
        )
    ]
    if using:
        message = f"Cannot delete, found existing JobQueue relationship: {', '.join(using)}"
        raise client_exception(message)
    if scope.send("describe_compute_environments", computeEnvironments=[scope.id])["computeEnvironments"]:
        scope.send("update_compute_environment", computeEnvironment=scope.id, state="DISABLED")
        scope.send("delete_compute_environment", computeEnvironment=scope.id)


def delete_queue(scope: ResourceScope) -> None:
    if scope.send("describe_job_queues", jobQueues=[scope.id])["jobQueues"]:
        scope.send("update_job_queue", jobQueue=scope.id, state="DISABLED")
        scope.send("delete_job_queue", jobQueue=scope.id)


def update_queue(scope: ResourceScope) -> None:
    given = {name[0].lower() + name[1:]: scope.properties.get(name) for name in QUEUE_PROPERTIES.split()}
    if scope.before.get("JobStateTimeLimitActions") and not given["jobStateTimeLimitActions"]:
        given["jobStateTimeLimitActions"] = []
    scope.send("update_job_queue", jobQueue=scope.id, **given)


def read_retries(scope: ResourceScope) -> Any:
    """Return the retry strategy as in the template: Batch writes its actions in lower case."""
    given = scope.properties["RetryStrategy"]
    found = like(given, scope.live.get("retryStrategy") or {})
    return given if str(found).lower() == str(given).lower() else found


def read_resources(scope: ResourceScope) -> Any:
    given = scope.properties["ComputeResources"]
    unseen = {name: value for name, value in given.items() if name in UPDATE_ONLY}
    found = {**like(given, scope.live["computeResources"]), **unseen}
    if str(found.get("Type")).lower() == str(given.get("Type")).lower():
        found["Type"] = given["Type"]  # `ec2` in a template is `EC2` in Batch's answers
    return found


def read_role(scope: ResourceScope) -> Any:
    """Return the service role as in the template, by name or ARN: Batch shows only the ARN."""
    given, found = str(scope.properties["ServiceRole"]), str(scope.live.get("serviceRole"))
    return given if found.rpartition("/")[2] == given else found


REVISION = ApiResource(
    service="batch",
    name=Name(property="JobDefinitionName", limit=128),
    create_call=shaped("register_job_definition"),
    identity=response("jobDefinitionArn"),
    describe=find("describe_job_definitions", "jobDefinitions.0", jobDefinitions=[ID]),
    attributes={"JobDefinitionArn": ID},
    delete_call=call("deregister_job_definition", jobDefinition=ID),
    reads={**mirrored("NodeProperties ContainerProperties Timeout"), "RetryStrategy": read_retries},
)


class JobDefinition:
    """Provides job definitions. The physical id is a revision's ARN.

    An update registers a new revision, so the id changes without a replacement.
    """

    def create(self, context: Context, properties: Properties) -> Resource:
        return REVISION.create(context, properties)

    def update(self, context: Context, resource: Resource, old: Properties, new: Properties) -> Resource:
        name = _name(resource.physical_id).rpartition(":")[0]
        revision = REVISION.create(context, {**new, "JobDefinitionName": name})
        if not new.get("ResourceRetentionPolicy", {}).get("SkipDeregisterOnUpdate"):
            REVISION.delete(context, resource, old)
        return revision

    def delete(self, context: Context, resource: Resource, properties: Properties) -> None:
        REVISION.delete(context, resource, properties)

    def read(self, context: Context, resource: Resource, properties: Properties) -> Properties | None:
        scope = ResourceScope(
            context=context, service="batch", id=resource.physical_id, properties=properties
        )
        found = REVISION.describe(scope) if REVISION.describe else None
        return REVISION.read(context, resource, properties) if found and found["status"] == "ACTIVE" else None


PROVIDERS: Mapping[str, Provider] = {
    "AWS::Batch::ComputeEnvironment": ApiResource(
        service="batch",
        name=Name(property="ComputeEnvironmentName", limit=128),
        create_call=shaped(
            "create_compute_environment", computeResources=first_resources, state=prop("State", "ENABLED")
        ),
        identity=response("computeEnvironmentArn"),
        describe=find("describe_compute_environments", "computeEnvironments.0", computeEnvironments=[ID]),
        attributes={"ComputeEnvironmentArn": ID},
        settings=(
            changeable(
                "ComputeResources ServiceRole State UnmanagedvCpus",
                put=call(
                    "update_compute_environment",
                    computeEnvironment=ID,
                    computeResources=changed_resources,
                    serviceRole=prop("ServiceRole"),
                    state=prop("State", "ENABLED"),
                    unmanagedvCpus=prop("UnmanagedvCpus"),
                    updatePolicy=prop("UpdatePolicy"),
                ),
            ),
            setting("ComputeResources", put=refuse_invalid),
            # These two control an update; Batch does not keep them.
            setting("ReplaceComputeEnvironment UpdatePolicy", put=lambda _scope: None),
        ),
        delete_call=delete_environment,
        reads={**mirrored("State"), "ServiceRole": read_role, "ComputeResources": read_resources},
    ),
    "AWS::Batch::JobQueue": ApiResource(
        service="batch",
        name=Name(property="JobQueueName", limit=128),
        create_call=shaped("create_job_queue", state=prop("State", "ENABLED")),
        identity=response("jobQueueArn"),
        describe=find("describe_job_queues", "jobQueues.0", jobQueues=[ID]),
        attributes={"JobQueueArn": ID},
        settings=(
            changeable(QUEUE_PROPERTIES, put=update_queue),
            tags(resourceArn=ID),
        ),
        delete_call=delete_queue,
        reads=mirrored("ComputeEnvironmentOrder JobStateTimeLimitActions Priority State"),
    ),
    "AWS::Batch::JobDefinition": JobDefinition(),
    "AWS::Batch::SchedulingPolicy": ApiResource(
        service="batch",
        name=Name(property="Name", limit=128),
        create_call=shaped("create_scheduling_policy"),
        identity=response("arn"),
        describe=find("describe_scheduling_policies", "schedulingPolicies.0", arns=[ID]),
        attributes={"Arn": ID},
        settings=(
            changeable(
                "FairsharePolicy",
                put=call("update_scheduling_policy", arn=ID, fairsharePolicy=prop("FairsharePolicy", {})),
            ),
            tags(resourceArn=ID),
        ),
        delete_call=call("delete_scheduling_policy", arn=ID),
        reads=mirrored("FairsharePolicy"),
    ),
}


def _name(arn: str) -> str:
    return arn.rpartition("/")[2]
