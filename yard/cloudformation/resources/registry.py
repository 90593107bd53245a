"""Lists every resource type that the yard emulates, and the module of its provider, imported on use.

To add a type: its row in the PROVIDERS of its module, and a line here; a test holds the two lists equal.
How closely a type resembles AWS's is said here alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from importlib.resources import files
from types import ModuleType

from slipway.yard.cloudformation.resources.provider import Fidelity, Provider
from slipway.yard.cloudformation.template.blueprint import Blueprint
from slipway.yard.errors import validation_error

PACKAGE = "slipway.yard"
CUSTOM, CUSTOM_RESOURCE = "Custom::", "AWS::CloudFormation::CustomResource"
LAMBDA = ":lambda:"  # in the ARN of a function

# (module, fidelity, service, types). Listing them is cheap: `slipway yard status` imports no provider.
BEHAVIOURAL, MOTO, RECORDED = Fidelity.BEHAVIOURAL, Fidelity.MOTO, Fidelity.RECORDED
_ROWS: tuple[tuple[str, Fidelity, str, str], ...] = (
    ("services.ec2.network", MOTO, "EC2", "VPC Subnet VPCEndpoint FlowLog VPCCidrBlock"),
    (
        "services.ec2.routing",
        MOTO,
        "EC2",
        "RouteTable Route SubnetRouteTableAssociation InternetGateway VPCGatewayAttachment EIP NatGateway",
    ),
    ("services.ec2.security", MOTO, "EC2", "SecurityGroup SecurityGroupIngress SecurityGroupEgress"),
    ("services.ec2.compute", MOTO, "EC2", "LaunchTemplate PlacementGroup Instance KeyPair NetworkInterface"),
    ("services.autoscaling.resources", BEHAVIOURAL, "AutoScaling", "AutoScalingGroup"),
    (
        "services.autoscaling.resources",
        MOTO,
        "AutoScaling",
        "LaunchConfiguration ScheduledAction ScalingPolicy LifecycleHook",
    ),
    (
        "services.iam.resources",
        MOTO,
        "IAM",
        "Role Policy ManagedPolicy InstanceProfile ServiceLinkedRole RolePolicy",
    ),
    ("services.s3.resources", MOTO, "S3", "Bucket BucketPolicy"),
    ("services.keys_and_secrets", MOTO, "KMS", "Key Alias"),
    ("services.codebuild.resources", MOTO, "ECR", "Repository"),
    ("services.codebuild.resources", MOTO, "CodeBuild", "Project"),
    ("services.file_systems.resources", MOTO, "EFS", "FileSystem MountTarget AccessPoint"),
    ("services.file_systems.resources", MOTO, "FSx", "FileSystem"),
    ("services.file_systems.resources", RECORDED, "FSx", "DataRepositoryAssociation"),
    ("services.cloudwatch.resources", MOTO, "Logs", "LogGroup LogStream MetricFilter ResourcePolicy"),
    ("services.cloudwatch.resources", MOTO, "CloudWatch", "Alarm Dashboard"),
    ("services.cloudwatch.resources", RECORDED, "CloudWatch", "CompositeAlarm"),
    ("services.sns.resources", MOTO, "SNS", "Topic Subscription TopicPolicy"),
    ("services.sns.resources", MOTO, "Budgets", "Budget"),
    ("services.cloudwatch.resources", MOTO, "Events", "EventBus Rule"),
    ("services.ssm.resources", MOTO, "SSM", "Parameter Document"),
    ("services.keys_and_secrets", MOTO, "SecretsManager", "Secret ResourcePolicy"),
    ("services.batch.resources", BEHAVIOURAL, "Batch", "ComputeEnvironment JobQueue JobDefinition"),
    ("services.batch.resources", MOTO, "Batch", "SchedulingPolicy"),
    ("services.pcs.resources", BEHAVIOURAL, "PCS", "Cluster ComputeNodeGroup Queue"),
    (  # what a bake carries out in full; of a distribution configuration it refuses some parts
        "services.imagebuilder.resources",
        BEHAVIOURAL,
        "ImageBuilder",
        "Component ImageRecipe InfrastructureConfiguration ImagePipeline",
    ),
    ("services.imagebuilder.resources", MOTO, "ImageBuilder", "DistributionConfiguration"),
    ("services.imagebuilder.resources", RECORDED, "ImageBuilder", "LifecyclePolicy"),
    ("services.functions.resources", MOTO, "Lambda", "Function Permission LayerVersion"),
    ("cloudformation.resources.nested", BEHAVIOURAL, "CloudFormation", "Stack"),
    ("cloudformation.resources.nested", RECORDED, "CDK", "Metadata"),
    ("cloudformation.resources.nested", RECORDED, "CloudFormation", "WaitConditionHandle"),
    ("services.functions.custom_resources", BEHAVIOURAL, "CloudFormation", "CustomResource"),
)
TYPES: Mapping[str, tuple[str, Fidelity]] = {
    **{
        f"AWS::{service}::{name}": (module, fidelity)
        for module, fidelity, service, names in _ROWS
        for name in names.split()
    },
    "Custom::AWSCDKOpenIdConnectProvider": ("cloudformation.resources.custom.well_known", BEHAVIOURAL),
    "Custom::PclusterCluster": ("cloudformation.resources.custom.parallel_cluster", RECORDED),
    **dict.fromkeys(
        (
            "Custom::CDKBucketDeployment",
            "Custom::LogRetention",
            "Custom::S3AutoDeleteObjects",
            "Custom::S3BucketNotifications",
            "Custom::VpcRestrictDefaultSG",
        ),
        ("cloudformation.resources.custom.well_known", BEHAVIOURAL),
    ),
}


@lru_cache(maxsize=1)
def recorded_types() -> frozenset[str]:
    """Read the types that the yard only records: one service per line, `Service: Name Name …`."""
    text = files("slipway.yard.cloudformation.resources").joinpath("recorded_types.txt").read_text("utf-8")
    rows = (row.partition(":") for row in text.replace("\n    ", " ").splitlines())
    return frozenset(f"AWS::{service}::{name}" for service, _, names in rows for name in names.split())


def provider(kind: str) -> Provider:
    """Return the provider of a resource type; raise ValidationError if the yard does not emulate it."""
    if kind in recorded_types():
        recorded: Provider = import_module("slipway.yard.cloudformation.resources.recorded").provider(kind)
        return recorded
    if kind not in TYPES and kind.startswith(CUSTOM):
        custom: Provider = _of_functions().provider(kind)
        return custom
    if kind not in TYPES:
        service = "::".join(kind.split("::")[:2]) + "::"
        alike = ", ".join(sorted(name for name in TYPES if name.startswith(service)))
        known = f"of {service}* it emulates {alike}" if alike else f"it emulates nothing of {service}*"
        raise validation_error(
            f"Template format error: the yard does not emulate {kind}; {known};"
            " `slipway yard status` lists every type"
        )
    module, _ = TYPES[kind]
    found: Provider = import_module(f"{PACKAGE}.{module}").PROVIDERS[kind]
    return found


def refuse_functions(blueprint: Blueprint) -> None:
    """Raise ApiError if the yard cannot run the function of a custom resource."""
    _of_functions().refuse_functions(blueprint)


def _of_functions() -> ModuleType:
    """Return the module for custom resources that are made by a function of the template."""
    return import_module(f"{PACKAGE}.{TYPES[CUSTOM_RESOURCE][0]}")


def no_function(logical_id: str, token: str) -> str:
    """Return the message that the resource's ServiceToken is not a function."""
    return (
        f"the yard makes custom resources with functions alone: the ServiceToken of {logical_id}"
        f" has to be the ARN of one, and is '{token}'"
    )


@lru_cache(maxsize=1)
def fidelities() -> Mapping[str, Fidelity]:
    """Return the fidelity of each type."""
    return {
        **dict.fromkeys(recorded_types(), RECORDED),
        **{kind: one for kind, (_, one) in TYPES.items()},
    }
