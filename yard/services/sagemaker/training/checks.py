"""Refuses training jobs that SageMaker refuses before anything starts. To add a refusal: a line of _CHECKS.

Sources: the API reference of CreateTrainingJob and its shapes; messages are AWS's where they are known.
gateway/validation.py checks what botocore's model says of single values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from slipway.yard.errors import ApiError, not_emulated
from slipway.yard.machines.isolation.tiers import best_tier
from slipway.yard.moto_backends import moto_backend
from slipway.yard.permissions import roles
from slipway.yard.services.sagemaker.training import plan, records
from slipway.yard.services.service_quotas import quotas
from slipway.yard.services.service_quotas.quotas import LONGEST_JOB

SERVICE = "sagemaker.amazonaws.com"

Parameters = Mapping[str, Any]

# Parameters that no training job supports here. Debugger's are refused to every new customer since 30 July
# 2026, in words that are not known (SageMaker AI Developer Guide, "Debugger availability change").
_NOT_HERE = (
    "RemoteDebugConfig",
    "SessionChainingConfig",
    "ServerlessJobConfig",
    "DebugHookConfig",
    "DebugRuleConfigurations",
    "ProfilerConfig",
    "ProfilerRuleConfigurations",
)
_NO_PROFILER = {"DisableProfiler": True}  # how SageMaker's SDK says that there is none
_NO_DEBUGGER = (
    "SageMaker's Debugger is closed to new customers; SageMaker's SDK asks for it without "
    "debugger_hook_config=False and disable_profiler=True"
)


def refuse(parameters: Parameters, region: str) -> None:
    """Raise AWS's error for a request that it refuses."""
    for check in _CHECKS:
        check(parameters, region)


def invalid(message: str) -> ApiError:
    return ApiError("ValidationException", message)


def _what_the_yard_lacks(parameters: Parameters, _region: str) -> None:
    tier = best_tier()
    if not tier.isolated:
        reason = f"this machine cannot give each instance its own /opt/ml ({tier.words})"
        raise not_emulated("sagemaker", "CreateTrainingJob", reason=reason)
    asked = [name for name in _NOT_HERE if parameters.get(name) not in (None, [], {}, _NO_PROFILER)]
    asked += [
        name for name in ("InstanceGroups", "TrainingPlanArn") if parameters["ResourceConfig"].get(name)
    ]
    modes = [parameters["AlgorithmSpecification"]["TrainingInputMode"]]
    modes += [channel.get("InputMode", "") for channel in parameters.get("InputDataConfig") or ()]
    asked += ["TrainingInputMode Pipe"] if "Pipe" in modes else []
    asked += ["AlgorithmName"] if parameters["AlgorithmSpecification"].get("AlgorithmName") else []
    if asked:
        why = _NO_DEBUGGER if any(name.startswith(("Debug", "Profiler")) for name in asked) else ""
        raise not_emulated("sagemaker", "CreateTrainingJob", ", ".join(asked), reason=why)


def _incomplete_resources(parameters: Parameters, _region: str) -> None:
    from moto.ec2.models import instance_types

    resources = parameters["ResourceConfig"]
    if not resources.get("InstanceType") or not resources.get("InstanceCount"):
        raise invalid("Both InstanceType and InstanceCount must be given in ResourceConfig.")
    known = instance_types.INSTANCE_TYPES.get(resources["InstanceType"].removeprefix("ml."), {})
    if resources.get("VolumeKmsKeyId") and known.get("InstanceStorageSupported"):
        raise invalid(
            f"VolumeKmsKeyId cannot be given for {resources['InstanceType']}: the instance has local "
            "storage, which its hardware encrypts."
        )


def _spot_and_times(parameters: Parameters, _region: str) -> None:
    stopping = parameters.get("StoppingCondition") or {}
    longest, wait = stopping.get("MaxRuntimeInSeconds", 86400), stopping.get("MaxWaitTimeInSeconds")
    is_spot = bool(parameters.get("EnableManagedSpotTraining"))
    if is_spot and (wait is None or wait < longest):
        raise invalid(
            "Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal to "
            "MaxRuntimeInSeconds"
        )
    if not is_spot and wait is not None:
        raise invalid("MaxWaitTimeInSeconds is for managed spot training; set EnableManagedSpotTraining too.")
    if is_spot and parameters["ResourceConfig"].get("KeepAlivePeriodInSeconds"):
        raise invalid("KeepAlivePeriodInSeconds cannot be given with EnableManagedSpotTraining.")


def _unknown_role(parameters: Parameters, _region: str) -> None:
    role = parameters["RoleArn"]
    try:
        roles.assume(role, SERVICE, "check")
    except ApiError as error:
        raise invalid(
            f"Could not assume role {role}. Please ensure that the role exists and allows principal "
            f"'{SERVICE}' to assume the role."
        ) from error


def _unknown_image(parameters: Parameters, region: str) -> None:
    image = parameters["AlgorithmSpecification"].get("TrainingImage")
    if not image:
        raise invalid("AlgorithmSpecification must have a TrainingImage or an AlgorithmName.")
    plan.refuse_unknown(image, region)


def _unknown_networks(parameters: Parameters, region: str) -> None:
    given, ec2 = parameters.get("VpcConfig") or {}, moto_backend("ec2", region)
    zones, groups = list(ec2.subnets.values()), list(ec2.groups.values())
    for subnet in given.get("Subnets", ()):
        if not any(subnet in zone for zone in zones):
            raise invalid(f"The subnet ID '{subnet}' does not exist")
    for group in given.get("SecurityGroupIds", ()):
        if not any(group in known for known in groups):
            raise invalid(f"The security group '{group}' does not exist")


def _unreachable_buckets(parameters: Parameters, region: str) -> None:
    named = [("OutputDataConfig", parameters["OutputDataConfig"]["S3OutputPath"])]
    if checkpoints := parameters.get("CheckpointConfig"):
        named.append(("CheckpointConfig", checkpoints["S3Uri"]))
    for channel in parameters.get("InputDataConfig") or ():
        if source := (channel.get("DataSource") or {}).get("S3DataSource"):
            named.append((f"channel '{channel['ChannelName']}'", source["S3Uri"]))
    for what, uri in named:
        bucket = urlsplit(uri).netloc
        found: Any = moto_backend("s3").buckets.get(bucket)
        if not found or found.region_name != region:
            raise invalid(
                f"No S3 bucket {bucket} for {what} '{uri}' in this region. Please ensure that the bucket "
                f'exists in the selected region ({region}), and that the role "{parameters["RoleArn"]}" '
                "may use it."
            )


def _above_the_quota(parameters: Parameters, region: str) -> None:
    resources, is_spot = parameters["ResourceConfig"], bool(parameters.get("EnableManagedSpotTraining"))
    kind, asked = resources["InstanceType"], resources["InstanceCount"]
    name = f"{kind} for {'spot ' if is_spot else ''}training job usage"
    _refuse_above(name, region, records.instances_in_use(kind, region, is_spot=is_spot), asked, "Instances")
    seconds = (parameters.get("StoppingCondition") or {}).get("MaxRuntimeInSeconds", 0)
    _refuse_above(LONGEST_JOB, region, 0, seconds, "Seconds")


def _refuse_above(name: str, region: str, used: int, asked: int, unit: str) -> None:
    allowed = quotas.of_training(name, region)
    if allowed is not None and used + asked > allowed:
        raise ApiError(
            "ResourceLimitExceeded",
            f"The account-level service limit '{name}' is {allowed:.0f} {unit}, with current utilization of "
            f"{used} {unit} and a request delta of {asked} {unit}. Please use AWS Service Quotas to request "
            "an increase for this quota. If AWS Service Quotas is not available, contact AWS support to "
            "request an increase for this quota.",
        )


def _doubled_channels(parameters: Parameters, _region: str) -> None:
    names = [channel["ChannelName"] for channel in parameters.get("InputDataConfig") or ()]
    for name in names:
        if names.count(name) > 1:
            raise invalid(f"Channel name '{name}' is given {names.count(name)} times; each must be unique.")


_CHECKS: tuple[Callable[[Parameters, str], None], ...] = (
    _incomplete_resources,
    _what_the_yard_lacks,
    _spot_and_times,
    _unknown_role,
    _unknown_image,
    _unknown_networks,
    _doubled_channels,
    _unreachable_buckets,
    _above_the_quota,
)
