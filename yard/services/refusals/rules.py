"""The table of values that each operation refuses, in AWS's words, with the source.

The first row that refuses decides. For combinations of values: a function of REQUESTS, below the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.gateway.protocols import Call
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.refusals import launches, principals, reserved, there, volumes
from slipway.yard.services.refusals.table import (
    Holds,
    Parameters,
    RefusalRule,
    matching,
    one_of,
    refuse,
    rows,
)

# Custom Slurm settings that AWS PCS accepts at each level (user guide).
_CLUSTERS = """
    AccountingStorageEnforce AccountingStorageTRES AccountingStoreFlags AuthAltParameters CliFilterParameters
    CliFilterPlugins CommunicationParameters DefMemPerCPU Epilog EnforcePartLimits FairShareDampeningFactor
    FirstJobId HealthCheckInterval HealthCheckNodeState HealthCheckProgram JobRequeue LaunchParameters
    Licenses MetricsType MinJobAge OverTimeLimit PreemptExemptTime PreemptMode PreemptParameters PreemptType
    PriorityCalcPeriod PriorityDecayHalfLife PriorityFavorSmall PriorityFlags PriorityMaxAge
    PriorityUsageResetPeriod PriorityWeightAge PriorityWeightAssoc PriorityWeightFairshare
    PriorityWeightJobSize PriorityWeightPartition PriorityWeightQOS PriorityWeightTRES Prolog PrologFlags
    RequeueExit RequeueExitHold SchedulerParameters SelectTypeParameters SrunPortRange TaskEpilog
    TaskPluginParam TaskProlog TrackWCKey UnkillableStepProgram UnkillableStepTimeout
"""
_NODE_GROUPS = "CpuSpecList Features Gres MemSpecLimit Parameters RealMemory Sockets Weight"
_QUEUES = """
    AllowAccounts AllowQos Default DefaultTime DenyAccounts DenyQos Exclusive ExclusiveUser GraceTime MaxTime
    OverSubscribe OverTimeLimit PowerDownOnIdle PreemptMode PriorityJobFactor PriorityTier QOS
    TRESBillingWeights
"""

_RETENTION_DAYS = (
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
)  # fmt: skip
_TEXT = "a-zA-Z0-9. _-:/()#,@[]+=&;{}!$*"
_ENVIRONMENT = (
    "containerProperties.environment[].name",
    "nodeProperties.nodeRangeProperties[].container.environment[].name",
    "ecsProperties.taskProperties[].containers[].environment[].name",
    "containerOverrides.environment[].name",
    "nodeOverrides.nodePropertyOverrides[].containerOverrides.environment[].name",
)
_MOST_INLINE = 10_240  # characters
_PERMISSIONS = ("IpRanges", "Ipv6Ranges", "UserIdGroupPairs", "PrefixListIds")


def within(most: int) -> Holds:
    """Return a check of a policy's length; IAM counts its characters without white space."""
    return lambda value, _region: len(re.sub(r"\s", "", str(value))) <= most


def _quota(path: str, most: int, name: str) -> tuple[RefusalRule, ...]:
    words = f"Cannot exceed quota for {name}: {most}"
    return rows([path], within(most), "LimitExceeded", words, "IAM user guide, IAM and AWS STS quotas")


def _slurm(level: str, names: Sequence[str]) -> tuple[RefusalRule, ...]:
    return rows(
        ["slurmConfiguration.slurmCustomSettings[].parameterName"],
        one_of(names),
        "ValidationException",
        f"The Slurm setting {{value}} cannot be customized for a {level}.",
        f"AWS PCS user guide, Custom Slurm settings for a {level}",
    )


_RESERVED_NAMES = rows(
    _ENVIRONMENT,
    matching(r"(?!AWS_BATCH).*"),
    "ClientException",
    "Environment variables cannot start with AWS_BATCH. "
    "This naming convention is reserved for variables that Batch sets: {value}",
    "AWS Batch API reference, ContainerProperties",
)
_GROUP_RULES = (
    *rows(
        [f"IpPermissions[].{kind}[].Description" for kind in _PERMISSIONS],
        matching(f"[{re.escape(_TEXT)}a-zA-Z0-9]{{0,255}}"),
        "InvalidParameterValue",
        "Invalid rule description. Valid descriptions are strings less than 256 characters "
        f"from the following set: {_TEXT}",
        "EC2 API reference, IpRange",
    ),
    *rows(
        ["IpPermissions[].PrefixListIds[].PrefixListId"],
        there.prefix_list,
        "InvalidPrefixListID.NotFound",
        "The prefix list ID '{value}' does not exist",
        "EC2 API error codes",
    ),
)
_TRUST = (
    *_quota("AssumeRolePolicyDocument", 2_048, "ACLSizePerRole"),
    *_quota("PolicyDocument", 2_048, "ACLSizePerRole"),
)
_MANAGED = _quota("PolicyDocument", 6_144, "PolicySize")
_TEMPLATE = tuple(
    replace(rule, path=f"LaunchTemplateData.{rule.path}")
    for rule in launches.user_data_rules("InvalidUserData.Malformed")
)
RULES: Mapping[str, tuple[RefusalRule, ...]] = {
    "batch:CreateComputeEnvironment": rows(
        ["computeResources.subnets[]"],
        there.subnet,
        "ClientException",
        "The subnet ID '{value}' does not exist",
        "EC2 API error codes",
    ),
    "batch:RegisterJobDefinition": _RESERVED_NAMES,
    "batch:SubmitJob": _RESERVED_NAMES,
    "ec2:AuthorizeSecurityGroupEgress": _GROUP_RULES,
    "ec2:AuthorizeSecurityGroupIngress": _GROUP_RULES,
    "ec2:CreateLaunchTemplate": _TEMPLATE,
    "ec2:CreateLaunchTemplateVersion": _TEMPLATE,
    "ec2:CreateSecurityGroup": (
        *rows(
            ["Description"],
            matching(f"[{re.escape(_TEXT)}a-zA-Z0-9]{{1,255}}"),
            "InvalidParameterValue",
            "Value ({value}) for parameter GroupDescription is invalid. Character sets beyond ASCII are "
            "not supported.",
            "EC2 API reference, CreateSecurityGroup",
        ),
        *rows(
            ["GroupName"],
            matching(f"(?!sg-)[{re.escape(_TEXT)}a-zA-Z0-9]{{1,255}}"),
            "InvalidParameterValue",
            "Value ({value}) for parameter GroupName is invalid. Group names may not be in the format sg-*.",
            "EC2 API reference, CreateSecurityGroup",
        ),
    ),
    "ec2:CreateVpcEndpoint": rows(
        ["ServiceName"],
        there.endpoint_service,
        "InvalidServiceName",
        "The Vpc Endpoint Service '{value}' does not exist",
        "EC2 API error codes",
    ),
    "iam:CreatePolicy": _MANAGED,
    "iam:CreatePolicyVersion": _MANAGED,
    "iam:CreateRole": _TRUST,
    "iam:PutGroupPolicy": _quota("PolicyDocument", 5_120, "PolicySize"),
    "iam:PutUserPolicy": _quota("PolicyDocument", 2_048, "PolicySize"),
    "iam:UpdateAssumeRolePolicy": _TRUST,
    "imagebuilder:CreateImageRecipe": rows(
        ["parentImage"],
        there.image_parent,
        "InvalidParameterValueException",
        "The value supplied for parameter 'parentImage' is not valid. The image {value} was not found.",
        "Image Builder API reference, CreateImageRecipe",
    ),
    "logs:CreateLogGroup": rows(
        ["kmsKeyId"],
        there.kms_key,
        "InvalidParameterException",
        "The specified KMS Key Id could not be found.",
        "CloudWatch Logs API reference, CreateLogGroup",
    ),
    "logs:PutRetentionPolicy": rows(
        ["retentionInDays"],
        one_of(_RETENTION_DAYS),
        "InvalidParameterException",
        "1 validation error detected: Value '{value}' at 'retentionInDays' failed to satisfy constraint: "
        f"Member must satisfy enum value set: {list(_RETENTION_DAYS)}",
        "CloudWatch Logs API reference, PutRetentionPolicy",
    ),
    "pcs:CreateCluster": _slurm("cluster", _CLUSTERS.split()),
    "pcs:CreateComputeNodeGroup": _slurm("compute node group", _NODE_GROUPS.split()),
    "pcs:CreateQueue": _slurm("queue", _QUEUES.split()),
    "pcs:UpdateCluster": _slurm("cluster", _CLUSTERS.split()),
    "pcs:UpdateComputeNodeGroup": _slurm("compute node group", _NODE_GROUPS.split()),
    "pcs:UpdateQueue": _slurm("queue", _QUEUES.split()),
}


def check(call: Call) -> None:
    """Raise ApiError if AWS would refuse this call."""
    name, parameters = f"{call.service}:{call.operation}", call.parameters
    if parameters is None:
        return
    refuse((*RULES.get(name, ()), *reserved.RULES.get(name, ())), parameters, call.region)
    for requests in (reserved.REQUESTS, REQUESTS):
        if name in requests:
            requests[name](parameters, call.region)


def _run(parameters: Parameters, region: str) -> None:
    template: Mapping[str, Any] = {}
    if named := parameters.get("LaunchTemplate"):
        template = launches.template_data(named, region) or {}
    launches.refuse_launch(launches.merged(parameters, template), region)


def _trust(parameters: Parameters, _region: str) -> None:
    """Check a trust policy's principals. Source of the words: hashicorp/terraform-provider-aws."""
    document = parameters.get("AssumeRolePolicyDocument") or parameters.get("PolicyDocument")
    if found := principals.unknown(principals.statements(document)):
        kind, text = found
        raise ApiError("MalformedPolicyDocument", f'Invalid principal in policy: "{kind}":"{text}"')


def _key(parameters: Parameters, _region: str) -> None:
    """Check a key policy. Source of the words: AWS KMS API reference, PutKeyPolicy."""
    policy = parameters.get("Policy")
    if policy is None:
        return
    code = "MalformedPolicyDocumentException"
    stated = principals.statements(policy, code)
    if principals.unknown(stated):
        raise ApiError(code, "Policy contains a statement with one or more invalid principals.")
    if not parameters.get("BypassPolicyLockoutSafetyCheck") and not any(map(_keeps_key, stated)):
        raise ApiError(code, "The new key policy will not allow you to update the key policy in the future.")


def _keeps_key(statement: Mapping[str, Any]) -> bool:
    """Return True if the statement lets somebody change the key's policy."""
    actions = principals.named(statement.get("Action"))
    return "NotAction" in statement or (statement.get("Effect") == "Allow" and any(map(_covers, actions)))


def _covers(action: str) -> bool:
    pattern = re.escape(action.lower()).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(pattern, "kms:putkeypolicy") is not None


def _inline(parameters: Parameters, _region: str) -> None:
    """Check the size of a role's inline policies together. Source: IAM and AWS STS quotas."""
    name = parameters["RoleName"]
    role = next((role for role in moto_backend("iam").roles.values() if role.name == name), None)
    texts = dict(role.policies) if role is not None else {}
    texts[parameters["PolicyName"]] = parameters["PolicyDocument"]
    if not within(_MOST_INLINE)("".join(map(str, texts.values())), ""):
        words = f"Maximum policy size of {_MOST_INLINE} bytes exceeded for role {name}"
        raise ApiError("LimitExceeded", words, status=409)


def _document(parameters: Parameters, _region: str) -> None:
    """Check a document's schema. Source: SSM user guide, "Document schema versions and features"."""
    try:
        version = json.loads(parameters["Content"]).get("schemaVersion")
    except (ValueError, AttributeError):
        return  # YAML, or unreadable
    if version not in ("0.3", "1.0", "1.2", "2.0", "2.2"):
        raise ApiError(
            "InvalidDocumentSchemaVersion", f"Document schema version, {version}, is not supported."
        )


def _scaling(parameters: Parameters, region: str) -> None:
    """Check the launch template as Auto Scaling does, by a dry run. Source of the words: many users."""
    mixed = (parameters.get("MixedInstancesPolicy") or {}).get("LaunchTemplate") or {}
    named = parameters.get("LaunchTemplate") or mixed.get("LaunchTemplateSpecification")
    refuse(_SCALING, parameters, region)
    for subnet in map(str.strip, str(parameters.get("VPCZoneIdentifier") or "").split(",")):
        if subnet and not there.subnet(subnet, region):
            raise ApiError("ValidationError", f"The subnet ID '{subnet}' does not exist")
    data = launches.template_data(named, region) if named else None
    if data is None:
        return
    kinds = [override.get("InstanceType") for override in mixed.get("Overrides") or ()]
    for kind in kinds or [data.get("InstanceType")]:
        try:
            launches.refuse_launch({**data, "InstanceType": kind}, region)
        except ApiError as error:
            words = f"You must use a valid fully-formed launch template. {error.message}"
            raise ApiError("ValidationError", words) from error


_SCALING = rows(
    ["PlacementGroup"],
    there.placement_group,
    "ValidationError",
    "The Placement Group '{value}' is unknown.",
    "EC2 API error codes",
)
REQUESTS: Mapping[str, Callable[[Parameters, str], None]] = {
    "autoscaling:CreateAutoScalingGroup": _scaling,
    "autoscaling:UpdateAutoScalingGroup": _scaling,
    "ec2:CreateVolume": volumes.refuse,
    "ec2:RunInstances": _run,
    "iam:CreateRole": _trust,
    "iam:PutRolePolicy": _inline,
    "iam:UpdateAssumeRolePolicy": _trust,
    "kms:CreateKey": _key,
    "kms:PutKeyPolicy": _key,
    "ssm:CreateDocument": _document,
}
