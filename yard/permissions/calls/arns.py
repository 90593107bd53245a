"""Finds the resources that a call names: for each service and resource type, the parameters that name one.

For a type without a row, the parameter with the type's name counts if the type's ARN ends with its value.
To add one: a row of NAMED. `{}` is the parameter's value; a value that is already an ARN stays as it is.
Sources: Service Authorization Reference, "Resource types defined by …"; AWS's refusals for the logs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from slipway.yard.permissions.calls.asked import AskedCall, arn, found, key_arn, secret_arn

# cfn-lint bundles the Service Authorization Reference: AWS's actions and the resource types of each.
# botocore's service name -> prefix of its actions, where they differ.
PREFIXES: Mapping[str, str] = {
    "apigatewayv2": "apigateway",
    "cloudcontrol": "cloudformation",
    "efs": "elasticfilesystem",
    "elb": "elasticloadbalancing",
    "elbv2": "elasticloadbalancing",
    "emr": "elasticmapreduce",
    "opensearch": "es",
    "resourcegroupstaggingapi": "tag",
    "s3control": "s3",
    "sagemaker-metrics": "sagemaker",
    "sagemaker-runtime": "sagemaker",
    "service-quotas": "servicequotas",
    "sesv2": "ses",
    "sso-admin": "sso",
    "stepfunctions": "states",
}
_OF_ACCOUNT = "arn:${{Partition}}:{}:${{Region}}:${{Account}}:"
# Types in the reference that no call of current SDKs names.
_IGNORED_TYPES = frozenset({"dataset"})
# AWS's refusals of these name a resource type, although the reference lists none.
_LEFT_OUT: Mapping[str, tuple[str, ...]] = {"logs:describeloggroups": ("log-group",)}


def prefix(service: str) -> str:
    return PREFIXES.get(service, service)


def resource_types(action: str) -> tuple[str, ...] | None:
    """Return the action's resource types; () if it has none, None if there is no such action."""
    service, _, name = action.lower().partition(":")
    known = _reference().get(service, {}).get("Actions", {}).get(name)
    if known is None:
        return None
    types = known.get("Resources") or _LEFT_OUT.get(action.lower(), ())
    return tuple(kind.lower() for kind in types if kind.lower() not in _IGNORED_TYPES)


def arn_start(service: str, kind: str) -> str:
    """Return the text between account and name in a type's ARN; "" if the ARN has another form."""
    known = {name.lower(): fact for name, fact in _reference().get(service, {}).get("Resources", {}).items()}
    formats = known.get(kind, {}).get("ARNFormats", ())
    if len(formats) != 1 or not formats[0].startswith(_OF_ACCOUNT.format(service)):
        return ""
    start, name, rest = formats[0].removeprefix(_OF_ACCOUNT.format(service)).partition(".*")
    return "" if rest or not name else start


@lru_cache(maxsize=1)
def _reference() -> Mapping[str, Any]:
    path = files("cfnlint") / "data" / "AdditionalSpecs" / "Policies.json"
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


SOME_ID = "00000000-0000-0000-0000-000000000000"  # for an id that AWS generates
_ENDINGS = ("id", "name", "identifier")
_PUBLIC_DOCUMENTS = ("AWS-", "AmazonCloudWatch-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    parameters: tuple[str, ...]
    resource: str  # after the account
    in_region: bool = True


def named(call: AskedCall, prefix: str, kind: str) -> list[str]:
    """Return the ARNs of this type that the call names."""
    if custom := _CUSTOM.get((prefix, kind)):
        return list(custom(call))
    naming = NAMED.get((prefix, kind))
    if naming is None:
        # Parameters such as imagePipelineArn are ARNs already.
        return [
            value
            for value in call.parameters.values()
            if isinstance(value, str) and value.startswith(f"arn:aws:{prefix}:")
        ] or _named_after(call, prefix, kind)
    region = call.region if naming.in_region else ""
    return [
        value
        if value.startswith("arn:")
        else arn(prefix, region, naming.resource.format(value.removeprefix("/")))
        for path in naming.parameters
        for value in found(call.parameters, path)
    ]


def _named_after(call: AskedCall, prefix: str, kind: str) -> list[str]:
    """Return the resources in a parameter with the type's name, such as DirectoryId for a directory."""
    start = arn_start(prefix, kind)
    word = kind.replace("-", "")
    return [
        arn(prefix, call.region, start + value)
        for name, value in call.parameters.items()
        if start and isinstance(value, str) and name.lower() in (word, *(word + end for end in _ENDINGS))
    ]


def _each(*paths: str, of: Callable[[str, str], str]) -> Callable[[AskedCall], Iterator[str]]:
    """Find the values of these parameters; `of` makes an ARN from a value and the region."""
    return lambda call: (of(value, call.region) for path in paths for value in found(call.parameters, path))


def _log_group(call: AskedCall) -> Iterator[str]:
    """Yield log groups; CloudWatch Logs appends an empty log stream, even without a group."""
    paths = ("logGroupName", "logGroupIdentifier", "logGroupNames[]", "logGroupIdentifiers[]")
    names = [value for path in paths for value in found(call.parameters, path)]
    if call.operation == "DescribeLogGroups":
        names = [""]
    for name in names:
        group = name.partition(":log-group:")[2].removesuffix(":*") if name.startswith("arn:") else name
        yield arn("logs", call.region, f"log-group:{group}:log-stream:")


def _log_stream(call: AskedCall) -> Iterator[str]:
    stream = "".join(found(call.parameters, "logStreamName"))
    for group in _log_group(call):
        yield group + stream


def _parameter(call: AskedCall) -> Iterator[str]:
    for path in ("Name", "Names[]", "Path"):
        for value in found(call.parameters, path):
            name = value if value.startswith("arn:") else value.partition(":")[0].removeprefix("/")
            owned = {"account": ""} if name.startswith("aws/") else {}
            yield name if name.startswith("arn:") else arn("ssm", call.region, f"parameter/{name}", **owned)


def _document(call: AskedCall) -> Iterator[str]:
    for path in ("DocumentName", "Name"):
        for name in found(call.parameters, path):
            owned = {"account": ""} if name.startswith(_PUBLIC_DOCUMENTS) else {}
            yield name if name.startswith("arn:") else arn("ssm", call.region, f"document/{name}", **owned)


def _automation(call: AskedCall) -> Iterator[str]:
    """AWS asks for an execution even of StartAutomationExecution, whose own has no id yet."""
    starts = [SOME_ID] if call.operation == "StartAutomationExecution" else []
    for id_ in found(call.parameters, "AutomationExecutionId") or starts:
        yield arn("ssm", call.region, f"automation-execution/{id_}")


def _instance_of_command(call: AskedCall) -> Iterator[str]:
    targets = call.parameters.get("Targets")
    ids = [
        *found(call.parameters, "InstanceIds[]"),
        *found(call.parameters, "InstanceId"),
        *found(call.parameters, "Target"),  # StartSession
        *(
            value
            for target in (targets if isinstance(targets, list) else ())
            if isinstance(target, Mapping) and str(target.get("Key", "")).lower() == "instanceids"
            for value in found(target, "Values[]")
        ),
    ]
    for instance in ids or (["*"] if targets else []):
        yield arn("ec2", call.region, f"instance/{instance}")


_CUSTOM: Mapping[tuple[str, str], Callable[[AskedCall], Iterator[str]]] = {
    # The id of a build is PROJECT:NUMBER.
    ("codebuild", "project"): _each(
        *("projectName", "name", "names[]", "id", "ids[]", "project.name"),
        of=lambda value, region: arn(
            "codebuild", region, f"project/{value.rpartition('/')[2].partition(':')[0]}"
        ),
    ),
    ("ec2-instance-connect", "instance"): _each(
        "InstanceId", of=lambda value, region: arn("ec2", region, f"instance/{value}")
    ),
    ("kms", "key"): _each("KeyId", "TargetKeyId", "SourceKeyId", "DestinationKeyId", of=key_arn),
    ("logs", "log-group"): _log_group,
    ("logs", "log-stream"): _log_stream,
    ("secretsmanager", "secret"): _each("SecretId", "Name", "SecretIdList[]", of=secret_arn),
    # The end of a queue's URL is its name.
    ("sqs", "queue"): _each(
        *("QueueName", "QueueUrl"),
        of=lambda value, region: arn("sqs", region, value.rpartition("/")[2]),
    ),
    ("ssm", "automation-execution"): _automation,
    ("ssm", "document"): _document,
    ("ssm", "instance"): _instance_of_command,
    ("ssm", "parameter"): _parameter,
}

NAMED: Mapping[tuple[str, str], Naming] = {
    ("autoscaling", "autoscalinggroup"): Naming(
        parameters=("AutoScalingGroupName", "Tags[].ResourceId"),
        resource=f"autoScalingGroup:{SOME_ID}:autoScalingGroupName/{{}}",
    ),
    ("batch", "compute-environment"): Naming(
        parameters=("computeEnvironment", "computeEnvironmentName"), resource="compute-environment/{}"
    ),
    ("batch", "job"): Naming(parameters=("jobId",), resource="job/{}"),
    ("batch", "job-definition"): Naming(
        parameters=("jobDefinition", "jobDefinitionName"), resource="job-definition/{}"
    ),
    ("batch", "job-queue"): Naming(parameters=("jobQueue", "jobQueueName"), resource="job-queue/{}"),
    ("budgets", "budget"): Naming(
        parameters=("BudgetName", "Budget.BudgetName"), resource="budget/{}", in_region=False
    ),
    ("cloudformation", "stack"): Naming(parameters=("StackName",), resource=f"stack/{{}}/{SOME_ID}"),
    ("cloudwatch", "alarm"): Naming(parameters=("AlarmName", "AlarmNames[]"), resource="alarm:{}"),
    ("cloudwatch", "dashboard"): Naming(
        parameters=("DashboardName", "DashboardNames[]"), resource="dashboard/{}", in_region=False
    ),
    ("dynamodb", "table"): Naming(parameters=("TableName",), resource="table/{}"),
    ("ecr", "repository"): Naming(
        parameters=("repositoryName", "repositoryNames[]", "resourceArn"), resource="repository/{}"
    ),
    ("ecs", "cluster"): Naming(parameters=("cluster", "clusterName", "clusters[]"), resource="cluster/{}"),
    ("elasticfilesystem", "access-point"): Naming(parameters=("AccessPointId",), resource="access-point/{}"),
    ("elasticfilesystem", "file-system"): Naming(
        parameters=("FileSystemId", "ResourceId", "SourceFileSystemId"), resource="file-system/{}"
    ),
    ("events", "rule-on-default-event-bus"): Naming(parameters=("Name", "Rule"), resource="rule/{}"),
    ("iam", "instance-profile"): Naming(
        parameters=("InstanceProfileName",), resource="instance-profile/{}", in_region=False
    ),
    ("iam", "policy"): Naming(parameters=("PolicyArn",), resource="policy/{}", in_region=False),
    ("iam", "role"): Naming(parameters=("RoleName",), resource="role/{}", in_region=False),
    ("lambda", "function"): Naming(parameters=("FunctionName",), resource="function:{}"),
    ("pcs", "cluster"): Naming(parameters=("clusterIdentifier",), resource="cluster/{}"),
    ("sagemaker", "training-job"): Naming(parameters=("TrainingJobName",), resource="training-job/{}"),
    ("sns", "topic"): Naming(parameters=("TopicArn", "TargetArn", "ResourceArn", "Name"), resource="{}"),
    ("sts", "role"): Naming(parameters=("RoleArn",), resource="role/{}", in_region=False),
}
