"""Properties that the schemas call conditionally create-only: whether a change of one replaces the resource.

To add one: its path as the schema writes it, and the rule of "Update requires" on CloudFormation's page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slipway.yard.cloudformation.resources.provider import Properties

Rule = Callable[[Properties, Properties], bool]  # old and new properties → replaced


def replaces(kind: str, path: str, old: Properties, new: Properties) -> bool:
    """Return True if the change takes a new resource; a property without a rule here always does."""
    rules = RULES.get(kind, {})
    rule = rules.get(path) or rules.get("*")
    return rule(old, new) if rule else True


def batch_environment(_old: Properties, new: Properties) -> bool:
    """ReplaceComputeEnvironment is true unless the template says otherwise."""
    return bool(new.get("ReplaceComputeEnvironment", True))


def vpc_tenancy(_old: Properties, new: Properties) -> bool:
    """Return False only for dedicated to default, the one change of tenancy made in place."""
    return bool(new.get("InstanceTenancy", "default") != "default")


def document(_old: Properties, new: Properties) -> bool:
    """UpdateMethod is Replace unless the template asks for new versions."""
    return bool(new.get("UpdateMethod", "Replace") != "NewVersion")


# An instance on an EBS root volume is stopped and changed; ours are all such.
IN_PLACE_ON_EBS = ("InstanceType", "EbsOptimized", "UserData", "KernelId", "RamdiskId", "SecurityGroupIds")

RULES: Mapping[str, Mapping[str, Rule]] = {
    # The group stays and its instances, too; only an UpdatePolicy, which the yard does not follow, says else.
    "AWS::AutoScaling::AutoScalingGroup": {"*": lambda _old, _new: False},
    "AWS::Batch::ComputeEnvironment": {"*": batch_environment},
    "AWS::EC2::VPC": {"InstanceTenancy": vpc_tenancy},
    "AWS::EC2::Instance": {name: lambda _old, _new: False for name in IN_PLACE_ON_EBS},
    "AWS::SSM::Document": {"*": document},
}
