"""A small account for trying resource types: what a type needs is made before it and deleted after it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.yard.cloudformation.resources.provider import Context, Properties, Provider, Resource
from slipway.yard.cloudformation.resources.registry import provider
from slipway.yard.endpoint import ACCOUNT, own_client

REGION = "us-east-1"
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"},
    ],
}


def new_context(logical_id: str, region: str = REGION) -> Context:
    suffix = secrets.token_hex(6).upper()
    return Context(
        region=region,
        account=ACCOUNT,
        stack_name="trial",
        stack_id=f"arn:aws:cloudformation:{region}:{ACCOUNT}:stack/trial/{suffix}",
        logical_id=logical_id,
        default_name=f"trial-{logical_id}-{suffix}",
    )


def allow(action: str, resource: str = "*") -> dict[str, Any]:
    return {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": action, "Resource": resource}],
    }


@dataclass(slots=True)
class Made:
    """Hold a resource and its properties."""

    provider: Provider
    context: Context
    resource: Resource
    properties: Properties

    @property
    def id(self) -> str:
        return self.resource.physical_id

    def attribute(self, name: str) -> Any:
        return self.resource.attributes[name]

    def update(self, **changes: Any) -> None:
        """Change properties; None removes one."""
        self.become(
            {name: value for name, value in {**self.properties, **changes}.items() if value is not None}
        )

    def become(self, new: Properties) -> None:
        self.resource = self.provider.update(self.context, self.resource, self.properties, new)
        self.properties = new

    def read(self) -> Mapping[str, Any] | None:
        return self.provider.read(self.context, self.resource, self.properties)

    def delete(self) -> None:
        self.provider.delete(self.context, self.resource, self.properties)


@dataclass(slots=True)
class World:
    region: str = REGION
    made: list[Made] = field(default_factory=list)
    shared: dict[str, Made] = field(default_factory=dict)
    objects: list[tuple[str, str]] = field(default_factory=list)  # S3 objects, which keep buckets

    def client(self, service: str) -> Any:
        return own_client(service, self.region)

    def make(self, kind: str, /, **properties: Any) -> Made:
        context = new_context(kind.rpartition("::")[2], self.region)
        maker = provider(kind)
        made = Made(maker, context, maker.create(context, properties), properties)
        self.made.append(made)
        return made

    def delete(self) -> None:
        for bucket, key in self.objects:
            self.client("s3").delete_object(Bucket=bucket, Key=key)
        while self.made:
            self.made.pop().delete()

    # Resources that other types need, made when first used.

    def vpc(self) -> str:
        return self._once("AWS::EC2::VPC", CidrBlock="10.20.0.0/16").id

    def subnet(self) -> str:
        return self._once(
            "AWS::EC2::Subnet", VpcId=self.vpc(), CidrBlock="10.20.1.0/24", AvailabilityZone=f"{self.region}a"
        ).id

    def security_group(self) -> str:
        return self._once("AWS::EC2::SecurityGroup", GroupDescription="trial", VpcId=self.vpc()).id

    def route_table(self) -> str:
        return self._once("AWS::EC2::RouteTable", VpcId=self.vpc()).id

    def internet_gateway(self) -> str:
        gateway = self._once("AWS::EC2::InternetGateway").id
        self._once("AWS::EC2::VPCGatewayAttachment", VpcId=self.vpc(), InternetGatewayId=gateway)
        return gateway

    def role(self) -> Made:
        return self._once("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST)

    def instance_profile(self) -> Made:
        return self._once("AWS::IAM::InstanceProfile", Roles=[self.role().id])

    def pcs_profile(self) -> str:
        """Return the ARN of an instance profile whose role has a name that AWS PCS accepts."""
        if "pcs profile" not in self.shared:
            role = self.make("AWS::IAM::Role", RoleName="AWSPCS-trial", AssumeRolePolicyDocument=TRUST)
            self.shared["pcs profile"] = self.make("AWS::IAM::InstanceProfile", Roles=[role.id])
        return str(self.shared["pcs profile"].attribute("Arn"))

    def key(self) -> Made:
        return self._once("AWS::KMS::Key", KeyPolicy=allow("kms:*"))

    def bucket(self) -> str:
        return self._once("AWS::S3::Bucket").id

    def topic(self) -> str:
        return self._once("AWS::SNS::Topic").id

    def log_group(self) -> str:
        return self._once("AWS::Logs::LogGroup").id

    def file_system(self) -> str:
        return self._once("AWS::EFS::FileSystem", Encrypted=True).id

    def lustre(self) -> str:
        return self._once(
            "AWS::FSx::FileSystem", FileSystemType="LUSTRE", SubnetIds=[self.subnet()], StorageCapacity=1200
        ).id

    def launch_template(self) -> Made:
        return self._once(
            "AWS::EC2::LaunchTemplate",
            LaunchTemplateData={"InstanceType": "dl1.24xlarge", "ImageId": "ami-12c6146b"},
        )

    def scaling_group(self) -> str:
        template = {"LaunchTemplateId": self.launch_template().id, "Version": "1"}
        return self._once(
            "AWS::AutoScaling::AutoScalingGroup",
            MinSize="0",
            MaxSize="4",
            VPCZoneIdentifier=[self.subnet()],
            LaunchTemplate=template,
        ).id

    def compute_environment(self) -> str:
        return self._once(
            "AWS::Batch::ComputeEnvironment", Type="MANAGED", ComputeResources=self.compute_resources()
        ).id

    def compute_resources(self) -> dict[str, Any]:
        template = self.launch_template()
        return {
            "Type": "EC2",
            "AllocationStrategy": "BEST_FIT_PROGRESSIVE",
            "MinvCpus": 0,
            "MaxvCpus": 96,
            "InstanceTypes": ["dl1.24xlarge"],
            "InstanceRole": self.instance_profile().attribute("Arn"),
            "Subnets": [self.subnet()],
            "SecurityGroupIds": [self.security_group()],
            "LaunchTemplate": {
                "LaunchTemplateId": template.id,
                "Version": template.attribute("LatestVersionNumber"),
            },
        }

    def _once(self, kind: str, /, **properties: Any) -> Made:
        if kind not in self.shared:
            self.shared[kind] = self.make(kind, **properties)
        return self.shared[kind]
