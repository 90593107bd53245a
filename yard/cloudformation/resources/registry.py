"""Every resource type that the yard emulates, and the module of its provider, imported on use.

To add a type: its row in the PROVIDERS of its module, and a line here; a test holds the two lists equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from slipway.yard.cloudformation.resources.provider import Fidelity, Provider
from slipway.yard.errors import ApiError

PACKAGE = "slipway.yard.cloudformation.resources"

# Cheap to list: `slipway yard status` prints these without importing one provider.
MOTO, RECORDED = Fidelity.MOTO, Fidelity.RECORDED
TYPES: Mapping[str, tuple[str, Fidelity]] = {
    "AWS::EC2::VPC": ("ec2_network", MOTO),
    "AWS::EC2::Subnet": ("ec2_network", MOTO),
    "AWS::EC2::VPCEndpoint": ("ec2_network", MOTO),
    "AWS::EC2::FlowLog": ("ec2_network", MOTO),
    "AWS::EC2::RouteTable": ("ec2_routing", MOTO),
    "AWS::EC2::Route": ("ec2_routing", MOTO),
    "AWS::EC2::SubnetRouteTableAssociation": ("ec2_routing", MOTO),
    "AWS::EC2::InternetGateway": ("ec2_routing", MOTO),
    "AWS::EC2::VPCGatewayAttachment": ("ec2_routing", MOTO),
    "AWS::EC2::EIP": ("ec2_routing", MOTO),
    "AWS::EC2::NatGateway": ("ec2_routing", MOTO),
    "AWS::EC2::SecurityGroup": ("ec2_security", MOTO),
    "AWS::EC2::SecurityGroupIngress": ("ec2_security", MOTO),
    "AWS::EC2::SecurityGroupEgress": ("ec2_security", MOTO),
    "AWS::EC2::LaunchTemplate": ("ec2_compute", MOTO),
    "AWS::EC2::PlacementGroup": ("ec2_compute", MOTO),
    "AWS::EC2::Instance": ("ec2_compute", MOTO),
    "AWS::AutoScaling::AutoScalingGroup": ("autoscaling", MOTO),
    "AWS::AutoScaling::ScheduledAction": ("autoscaling", MOTO),
    "AWS::AutoScaling::ScalingPolicy": ("autoscaling", MOTO),
    "AWS::AutoScaling::LifecycleHook": ("autoscaling", MOTO),
    "AWS::IAM::Role": ("iam", MOTO),
    "AWS::IAM::Policy": ("iam", MOTO),
    "AWS::IAM::ManagedPolicy": ("iam", MOTO),
    "AWS::IAM::InstanceProfile": ("iam", MOTO),
    "AWS::IAM::ServiceLinkedRole": ("iam", MOTO),
    "AWS::S3::Bucket": ("s3", MOTO),
    "AWS::S3::BucketPolicy": ("s3_policy", RECORDED),
    "AWS::KMS::Key": ("kms", MOTO),
    "AWS::KMS::Alias": ("kms", MOTO),
    "AWS::ECR::Repository": ("ecr", MOTO),
    "AWS::CodeBuild::Project": ("codebuild", MOTO),
    "AWS::EFS::FileSystem": ("storage", MOTO),
    "AWS::EFS::MountTarget": ("storage", MOTO),
    "AWS::EFS::AccessPoint": ("storage", MOTO),
    "AWS::FSx::FileSystem": ("storage", MOTO),
    "AWS::FSx::DataRepositoryAssociation": ("storage", RECORDED),
    "AWS::Logs::LogGroup": ("logs", MOTO),
    "AWS::Logs::LogStream": ("logs", MOTO),
    "AWS::Logs::MetricFilter": ("logs", MOTO),
    "AWS::Logs::ResourcePolicy": ("logs", MOTO),
    "AWS::CloudWatch::Alarm": ("cloudwatch", MOTO),
    "AWS::CloudWatch::CompositeAlarm": ("cloudwatch", RECORDED),
    "AWS::CloudWatch::Dashboard": ("cloudwatch", MOTO),
    "AWS::SNS::Topic": ("sns", MOTO),
    "AWS::SNS::Subscription": ("sns", MOTO),
    "AWS::SNS::TopicPolicy": ("sns", MOTO),
    "AWS::Budgets::Budget": ("budgets", MOTO),
    "AWS::Events::Rule": ("events", MOTO),
    "AWS::SSM::Parameter": ("ssm", MOTO),
    "AWS::SSM::Document": ("ssm", MOTO),
    "AWS::SecretsManager::Secret": ("secrets_manager", MOTO),
    "AWS::SecretsManager::ResourcePolicy": ("secrets_manager", MOTO),
    "AWS::Batch::ComputeEnvironment": ("batch", MOTO),
    "AWS::Batch::JobQueue": ("batch", MOTO),
    "AWS::Batch::JobDefinition": ("batch", MOTO),
    "AWS::Batch::SchedulingPolicy": ("batch", MOTO),
    "AWS::PCS::Cluster": ("pcs", MOTO),
    "AWS::PCS::ComputeNodeGroup": ("pcs", MOTO),
    "AWS::PCS::Queue": ("pcs", MOTO),
    "AWS::ImageBuilder::Component": ("imagebuilder", MOTO),
    "AWS::ImageBuilder::ImageRecipe": ("imagebuilder", MOTO),
    "AWS::ImageBuilder::InfrastructureConfiguration": ("imagebuilder", MOTO),
    "AWS::ImageBuilder::DistributionConfiguration": ("imagebuilder", MOTO),
    "AWS::ImageBuilder::ImagePipeline": ("imagebuilder", MOTO),
    "AWS::ImageBuilder::LifecyclePolicy": ("imagebuilder", RECORDED),
    "AWS::SageMaker::Domain": ("sagemaker", MOTO),
    "AWS::SageMaker::Cluster": ("sagemaker", MOTO),
    "AWS::SageMaker::Pipeline": ("sagemaker", MOTO),
    "AWS::SageMaker::ModelPackageGroup": ("sagemaker", RECORDED),
    "AWS::CDK::Metadata": ("built_in", RECORDED),
    "AWS::CloudFormation::WaitConditionHandle": ("built_in", RECORDED),
}


def provider(kind: str) -> Provider:
    """The provider of a resource type; what the yard does not emulate is refused before anything is made."""
    if kind not in TYPES:
        raise ApiError("ValidationError", f"Template format error: {_refusal(kind)}")
    module, _ = TYPES[kind]
    found: Provider = import_module(f"{PACKAGE}.{module}").PROVIDERS[kind]
    return found


def fidelities() -> Mapping[str, Fidelity]:
    """How far to trust each type."""
    return {kind: fidelity for kind, (_, fidelity) in TYPES.items()}


def _refusal(kind: str) -> str:
    if kind.startswith("Custom::") or kind == "AWS::CloudFormation::CustomResource":
        return (
            f"the yard runs no Lambda functions, so it cannot make the custom resource {kind}; leave it out"
        )
    service = "::".join(kind.split("::")[:2]) + "::"
    alike = ", ".join(sorted(name for name in TYPES if name.startswith(service)))
    known = f"of {service}* it emulates {alike}" if alike else f"it emulates nothing of {service}*"
    return f"the yard does not emulate {kind}; {known}; `slipway yard status` lists every type"
