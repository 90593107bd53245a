"""Resource types of EC2 Auto Scaling: groups, launch configurations, scheduled actions, policies, hooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    Name,
    call,
    changeable,
    changes,
    find,
    mirrored,
    setting,
    shaped,
)
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.recorded import is_only_recorded
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, live, prop

TARGET_GROUP = "AWS::ElasticLoadBalancingV2::TargetGroup"
# Properties that moto can update; all others are fixed when the group is made.
CHANGEABLE = (
    "AvailabilityZones DesiredCapacity HealthCheckGracePeriod HealthCheckType LaunchTemplate MaxSize "
    "MinSize NewInstancesProtectedFromScaleIn VPCZoneIdentifier"
)


def subnets(scope: ResourceScope) -> str | None:
    """Return the template's list of subnets as the API's comma-separated string."""
    return ",".join(scope.properties.get("VPCZoneIdentifier") or ()) or None


def target_groups(scope: ResourceScope) -> list[str] | None:
    """Return the target groups without recorded ones, which Elastic Load Balancing does not know."""
    given = scope.properties.get("TargetGroupARNs") or ()
    return [arn for arn in given if not is_only_recorded(TARGET_GROUP, arn)] or None


def group_tags(scope: ResourceScope) -> list[dict[str, Any]] | None:
    return [{**tag, "ResourceId": "", "ResourceType": "auto-scaling-group"} for tag in _tags(scope)] or None


def retag(scope: ResourceScope) -> None:
    """Set and remove tags; each names its group, and says if instances get it at launch."""
    _, removed = changes(scope, "Tags")
    named = {"ResourceId": scope.id, "ResourceType": "auto-scaling-group"}
    if removed:
        scope.send("delete_tags", Tags=[{**named, "Key": key} for key in removed])
    if given := _tags(scope):
        scope.send("create_or_update_tags", Tags=[{**tag, **named} for tag in given])


def read_tags(scope: ResourceScope) -> list[dict[str, Any]]:
    held = {tag["Key"]: tag for tag in scope.live["Tags"]}
    return [
        {"Key": key, "Value": held[key]["Value"], "PropagateAtLaunch": held[key]["PropagateAtLaunch"]}
        for key in (tag["Key"] for tag in _tags(scope))
        if key in held
    ]


def collect_metrics(scope: ResourceScope) -> None:
    for wanted in scope.properties.get("MetricsCollection") or ():
        scope.send("enable_metrics_collection", AutoScalingGroupName=scope.id, **wanted)


def policy_arn(scope: ResourceScope) -> Any:
    """Return the policy's ARN, which moto leaves out in its answer to the create call."""
    found = scope.send("describe_policies", PolicyNames=[own("PolicyName")(scope)])
    return found["ScalingPolicies"][0]["PolicyARN"]


def policy_name(scope: ResourceScope) -> str:
    return scope.id.rpartition(":policyName/")[2]


def own(name: str) -> Any:
    """Return the template's name, else the one that CloudFormation generates."""
    return lambda scope: scope.properties.get(name) or scope.context.default_name


def put_hook(scope: ResourceScope) -> dict[str, Any]:
    """Put a lifecycle hook; moto keeps only its timeout and result, and no instance waits for it."""
    words = ("AutoScalingGroupName", "LifecycleTransition", "HeartbeatTimeout", "DefaultResult")
    return scope.send(
        "put_lifecycle_hook",
        LifecycleHookName=scope.id or own("LifecycleHookName")(scope),
        **{word: scope.properties.get(word) for word in words},
    )


def _tags(scope: ResourceScope) -> list[dict[str, Any]]:
    return list(scope.properties.get("Tags") or ())


PROVIDERS: Mapping[str, Provider] = {
    "AWS::AutoScaling::LaunchConfiguration": ApiResource(
        service="autoscaling",
        name=Name(property="LaunchConfigurationName", limit=255),
        create_call=shaped(
            "create_launch_configuration",
            InstanceMonitoring=lambda scope: (
                {"Enabled": scope.properties["InstanceMonitoring"]}
                if "InstanceMonitoring" in scope.properties
                else None
            ),
        ),
        describe=find(
            "describe_launch_configurations", "LaunchConfigurations.0", LaunchConfigurationNames=[ID]
        ),
        delete_call=call("delete_launch_configuration", LaunchConfigurationName=ID),
    ),
    "AWS::AutoScaling::AutoScalingGroup": ApiResource(
        service="autoscaling",
        name=Name(property="AutoScalingGroupName", limit=255),
        create_call=shaped(
            "create_auto_scaling_group",
            renames={"Cooldown": "DefaultCooldown"},
            TargetGroupARNs=target_groups,
            VPCZoneIdentifier=subnets,
            Tags=group_tags,
        ),
        describe=find("describe_auto_scaling_groups", "AutoScalingGroups.0", AutoScalingGroupNames=[ID]),
        attributes={"AutoScalingGroupARN": live("AutoScalingGroupARN")},
        settings=(
            changeable(
                CHANGEABLE,
                put=shaped(
                    "update_auto_scaling_group", AutoScalingGroupName=ID, VPCZoneIdentifier=subnets, Tags=None
                ),
            ),
            setting("MetricsCollection", put=collect_metrics),
            changeable("Tags", put=retag),
        ),
        delete_call=call("delete_auto_scaling_group", AutoScalingGroupName=ID, ForceDelete=True),
        reads={
            **mirrored("MinSize MaxSize DesiredCapacity HealthCheckType LaunchTemplate"),
            "Tags": read_tags,
            "VPCZoneIdentifier": lambda scope: str(scope.live.get("VPCZoneIdentifier", "")).split(","),
        },
        # Only the template keeps it: the yard sends no such notifications.
        accepts="NotificationConfigurations",
    ),
    "AWS::AutoScaling::ScheduledAction": ApiResource(
        service="autoscaling",
        name=Name(property="ScheduledActionName", limit=255),
        create_call=shaped("put_scheduled_update_group_action"),
        describe=find(
            "describe_scheduled_actions",
            "ScheduledUpdateGroupActions.0",
            AutoScalingGroupName=prop("AutoScalingGroupName"),
            ScheduledActionNames=[ID],
        ),
        attributes={"ScheduledActionName": ID},
        settings=(
            changeable(
                "DesiredCapacity EndTime MaxSize MinSize Recurrence StartTime TimeZone",
                put=shaped("put_scheduled_update_group_action", ScheduledActionName=ID),
            ),
        ),
        delete_call=shaped("delete_scheduled_action", ScheduledActionName=ID),
        reads=mirrored("DesiredCapacity MinSize MaxSize Recurrence"),
    ),
    "AWS::AutoScaling::ScalingPolicy": ApiResource(
        service="autoscaling",
        create_call=shaped("put_scaling_policy", PolicyName=own("PolicyName")),
        identity=policy_arn,
        describe=find("describe_policies", "ScalingPolicies.0", PolicyNames=[policy_name]),
        attributes={"Arn": ID, "PolicyName": policy_name},
        settings=(
            changeable(
                "AdjustmentType Cooldown EstimatedInstanceWarmup MetricAggregationType "
                "MinAdjustmentMagnitude PolicyType ScalingAdjustment StepAdjustments "
                "TargetTrackingConfiguration",
                put=shaped("put_scaling_policy", PolicyName=policy_name),
            ),
        ),
        delete_call=shaped("delete_policy", PolicyName=policy_name),
        reads=mirrored("AdjustmentType PolicyType ScalingAdjustment"),
    ),
    "AWS::AutoScaling::LifecycleHook": ApiResource(
        service="autoscaling",
        create_call=put_hook,
        identity=own("LifecycleHookName"),
        describe=find(
            "describe_lifecycle_hooks",
            "LifecycleHooks.0",
            AutoScalingGroupName=prop("AutoScalingGroupName"),
            LifecycleHookNames=[ID],
        ),
        settings=(changeable("DefaultResult HeartbeatTimeout LifecycleTransition", put=put_hook),),
        delete_call=shaped("delete_lifecycle_hook", LifecycleHookName=ID),
        reads=mirrored("DefaultResult HeartbeatTimeout LifecycleTransition"),
        accepts="AutoScalingGroupName DefaultResult HeartbeatTimeout LifecycleHookName LifecycleTransition",
    ),
}
