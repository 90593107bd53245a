"""Every resource type that the yard emulates, and the module of its provider, imported on use.

To add a type: its row in the PROVIDERS of its module, and a line here; a test holds the two lists equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from slipway.yard.cloudformation.resources import recorded_types
from slipway.yard.cloudformation.resources.provider import Fidelity, Provider
from slipway.yard.cloudformation.template.blueprint import Blueprint
from slipway.yard.errors import ApiError

PACKAGE = "slipway.yard"
CUSTOM, CUSTOM_RESOURCE = "Custom::", "AWS::CloudFormation::CustomResource"
LAMBDA = ":lambda:"  # in the ARN of a function

# Cheap to list: `slipway yard status` prints these without importing one provider.
BEHAVIOURAL, MOTO, RECORDED = Fidelity.BEHAVIOURAL, Fidelity.MOTO, Fidelity.RECORDED
TYPES: Mapping[str, tuple[str, Fidelity]] = {
    "AWS::EC2::VPC": ("services.ec2.network", MOTO),
    "AWS::EC2::Subnet": ("services.ec2.network", MOTO),
    "AWS::EC2::VPCEndpoint": ("services.ec2.network", MOTO),
    "AWS::EC2::FlowLog": ("services.ec2.network", MOTO),
    "AWS::EC2::RouteTable": ("services.ec2.routing", MOTO),
    "AWS::EC2::Route": ("services.ec2.routing", MOTO),
    "AWS::EC2::SubnetRouteTableAssociation": ("services.ec2.routing", MOTO),
    "AWS::EC2::InternetGateway": ("services.ec2.routing", MOTO),
    "AWS::EC2::VPCGatewayAttachment": ("services.ec2.routing", MOTO),
    "AWS::EC2::EIP": ("services.ec2.routing", MOTO),
    "AWS::EC2::NatGateway": ("services.ec2.routing", MOTO),
    "AWS::EC2::SecurityGroup": ("services.ec2.security", MOTO),
    "AWS::EC2::SecurityGroupIngress": ("services.ec2.security", MOTO),
    "AWS::EC2::SecurityGroupEgress": ("services.ec2.security", MOTO),
    "AWS::EC2::LaunchTemplate": ("services.ec2.compute", MOTO),
    "AWS::EC2::PlacementGroup": ("services.ec2.compute", MOTO),
    "AWS::EC2::Instance": ("services.ec2.compute", MOTO),
    "AWS::AutoScaling::AutoScalingGroup": ("services.autoscaling.resources", BEHAVIOURAL),
    "AWS::AutoScaling::LaunchConfiguration": ("services.autoscaling.resources", MOTO),
    "AWS::AutoScaling::ScheduledAction": ("services.autoscaling.resources", MOTO),
    "AWS::AutoScaling::ScalingPolicy": ("services.autoscaling.resources", MOTO),
    "AWS::AutoScaling::LifecycleHook": ("services.autoscaling.resources", MOTO),
    "AWS::IAM::Role": ("services.iam.resources", MOTO),
    "AWS::IAM::Policy": ("services.iam.resources", MOTO),
    "AWS::IAM::ManagedPolicy": ("services.iam.resources", MOTO),
    "AWS::IAM::InstanceProfile": ("services.iam.resources", MOTO),
    "AWS::IAM::ServiceLinkedRole": ("services.iam.resources", MOTO),
    "AWS::S3::Bucket": ("services.s3.resources", MOTO),
    "AWS::S3::BucketPolicy": ("services.s3.resources", MOTO),
    "AWS::KMS::Key": ("services.kms.resources", MOTO),
    "AWS::KMS::Alias": ("services.kms.resources", MOTO),
    "AWS::ECR::Repository": ("services.ecr.resources", MOTO),
    "AWS::CodeBuild::Project": ("services.codebuild.resources", MOTO),
    "AWS::EFS::FileSystem": ("services.file_systems.resources", MOTO),
    "AWS::EFS::MountTarget": ("services.file_systems.resources", MOTO),
    "AWS::EFS::AccessPoint": ("services.file_systems.resources", MOTO),
    "AWS::FSx::FileSystem": ("services.file_systems.resources", MOTO),
    "AWS::FSx::DataRepositoryAssociation": ("services.file_systems.resources", RECORDED),
    "AWS::Logs::LogGroup": ("services.logs.resources", MOTO),
    "AWS::Logs::LogStream": ("services.logs.resources", MOTO),
    "AWS::Logs::MetricFilter": ("services.logs.resources", MOTO),
    "AWS::Logs::ResourcePolicy": ("services.logs.resources", MOTO),
    "AWS::CloudWatch::Alarm": ("services.cloudwatch.resources", MOTO),
    "AWS::CloudWatch::CompositeAlarm": ("services.cloudwatch.resources", RECORDED),
    "AWS::CloudWatch::Dashboard": ("services.cloudwatch.resources", MOTO),
    "AWS::SNS::Topic": ("services.sns.resources", MOTO),
    "AWS::SNS::Subscription": ("services.sns.resources", MOTO),
    "AWS::SNS::TopicPolicy": ("services.sns.resources", MOTO),
    "AWS::Budgets::Budget": ("services.budgets.resources", MOTO),
    "AWS::Events::EventBus": ("services.events.resources", MOTO),
    "AWS::Events::Rule": ("services.events.resources", MOTO),
    "AWS::SSM::Parameter": ("services.ssm.resources", MOTO),
    "AWS::SSM::Document": ("services.ssm.resources", MOTO),
    "AWS::SecretsManager::Secret": ("services.secrets_manager.resources", MOTO),
    "AWS::SecretsManager::ResourcePolicy": ("services.secrets_manager.resources", MOTO),
    "AWS::Batch::ComputeEnvironment": ("services.batch.resources", BEHAVIOURAL),
    "AWS::Batch::JobQueue": ("services.batch.resources", BEHAVIOURAL),
    "AWS::Batch::JobDefinition": ("services.batch.resources", BEHAVIOURAL),
    "AWS::Batch::SchedulingPolicy": ("services.batch.resources", MOTO),
    "AWS::PCS::Cluster": ("services.pcs.resources", BEHAVIOURAL),
    "AWS::PCS::ComputeNodeGroup": ("services.pcs.resources", BEHAVIOURAL),
    "AWS::PCS::Queue": ("services.pcs.resources", BEHAVIOURAL),
    "AWS::ImageBuilder::Component": ("services.imagebuilder.resources", BEHAVIOURAL),
    "AWS::ImageBuilder::ImageRecipe": ("services.imagebuilder.resources", BEHAVIOURAL),
    "AWS::ImageBuilder::InfrastructureConfiguration": ("services.imagebuilder.resources", BEHAVIOURAL),
    "AWS::ImageBuilder::DistributionConfiguration": ("services.imagebuilder.resources", MOTO),
    "AWS::ImageBuilder::ImagePipeline": ("services.imagebuilder.resources", BEHAVIOURAL),
    "AWS::ImageBuilder::LifecyclePolicy": ("services.imagebuilder.resources", RECORDED),
    "AWS::EC2::VPCCidrBlock": ("services.ec2.network", MOTO),
    "AWS::EC2::KeyPair": ("services.ec2.compute", MOTO),
    "AWS::EC2::NetworkInterface": ("services.ec2.compute", MOTO),
    "AWS::IAM::RolePolicy": ("services.iam.resources", MOTO),
    "AWS::Lambda::Function": ("services.functions.resources", MOTO),
    "AWS::Lambda::Permission": ("services.functions.resources", MOTO),
    "AWS::Lambda::LayerVersion": ("services.functions.resources", MOTO),
    "AWS::CloudFormation::Stack": ("cloudformation.resources.nested", BEHAVIOURAL),
    "AWS::CloudFormation::CustomResource": ("services.functions.custom_resources", BEHAVIOURAL),
    "Custom::AWSCDKOpenIdConnectProvider": ("cloudformation.resources.custom.open_id", BEHAVIOURAL),
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
    "AWS::CDK::Metadata": ("cloudformation.resources.nested", RECORDED),
    "AWS::CloudFormation::WaitConditionHandle": ("cloudformation.resources.nested", RECORDED),
}


def provider(kind: str) -> Provider:
    """The provider of a resource type; what the yard does not emulate is refused before anything is made."""
    if kind in recorded_types.names():
        recorded: Provider = import_module("slipway.yard.cloudformation.resources.recorded").provider(kind)
        return recorded
    if kind not in TYPES and kind.startswith(CUSTOM):
        own: Provider = _of_functions().provider(kind)
        return own
    if kind not in TYPES:
        raise ApiError("ValidationError", f"Template format error: {_refusal(kind)}")
    module, _ = TYPES[kind]
    found: Provider = import_module(f"{PACKAGE}.{module}").PROVIDERS[kind]
    return found


def refuse_functions(blueprint: Blueprint) -> None:
    """Raise ApiError that names the custom resources of functions which the yard cannot run."""
    _of_functions().refuse_functions(blueprint)


def _of_functions() -> ModuleType:
    """Return the module of custom resources that a template's own function makes."""
    return import_module(f"{PACKAGE}.{TYPES[CUSTOM_RESOURCE][0]}")


def no_function(logical_id: str, token: str) -> str:
    """Say that this resource is not made by a function."""
    return (
        f"the yard makes custom resources with functions alone: the ServiceToken of {logical_id}"
        f" has to be the ARN of one, and is '{token}'"
    )


def fidelities() -> Mapping[str, Fidelity]:
    """Return the fidelity of each type."""
    return {
        **dict.fromkeys(recorded_types.names(), RECORDED),
        **{kind: one for kind, (_, one) in TYPES.items()},
    }


def _refusal(kind: str) -> str:
    service = "::".join(kind.split("::")[:2]) + "::"
    alike = ", ".join(sorted(name for name in TYPES if name.startswith(service)))
    known = f"of {service}* it emulates {alike}" if alike else f"it emulates nothing of {service}*"
    return f"the yard does not emulate {kind}; {known}; `slipway yard status` lists every type"
