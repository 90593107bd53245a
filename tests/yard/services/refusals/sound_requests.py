"""A small account, and one sound request of each kind in it; refused_requests.csv changes them.

A further kind is an entry of `sound`, and of DONE_TWICE where something else must be there first.
"""

from __future__ import annotations

import base64
import copy
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from tests.yard.asking import BY_ACCOUNT, EVERYTHING
from tests.yard.conftest import RunningYard
from tests.yard.services.pcs.pcs_site import MIME, PcsSite

ZONE = "us-east-1a"
EC2 = {"Service": "ec2.amazonaws.com"}
TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": EC2, "Action": "sts:AssumeRole"}],
}
ALLOWED = {"Version": "2012-10-17", "Statement": [EVERYTHING]}
KEY_POLICY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": BY_ACCOUNT, "Action": "kms:*", "Resource": "*"}],
}
USER_DATA = base64.b64encode(MIME.format("#!/bin/sh").encode()).decode()
# Requests that begin with a launch template: their `template` is its data.
OF_TEMPLATES = {"scaling", "environment", "node_group"}
Request = dict[str, Any]


@dataclass(slots=True)
class World:
    """What sound requests name."""

    yard: RunningYard
    numbers: Any = field(default_factory=itertools.count)
    names: dict[str, str] = field(default_factory=dict)  # what {name} stands for in the table

    def __post_init__(self) -> None:
        ec2 = self.client("ec2")
        image = ec2.register_image(
            Name="x86",
            Architecture="x86_64",
            RootDeviceName="/dev/xvda",
            BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 30}}],
        )["ImageId"]
        arm = ec2.register_image(Name="arm", Architecture="arm64")["ImageId"]
        site = PcsSite(self.yard, image=image)
        other = ec2.create_vpc(CidrBlock="10.91.0.0/16")["Vpc"]["VpcId"]
        elsewhere = ec2.create_security_group(GroupName="elsewhere", Description="elsewhere", VpcId=other)
        place = ec2.create_subnet(VpcId=site.vpc, CidrBlock="10.90.1.0/24", AvailabilityZone=ZONE)
        far = ec2.create_subnet(VpcId=site.vpc, CidrBlock="10.90.2.0/24", AvailabilityZone="us-east-1e")
        ec2.create_key_pair(KeyName="mine")
        ec2.create_placement_group(GroupName="near", Strategy="cluster")
        self.client("iam").create_role(RoleName="nodes", AssumeRolePolicyDocument=json.dumps(TRUST))
        self.client("logs").create_log_group(logGroupName="jobs")
        volume = ec2.create_volume(AvailabilityZone=ZONE, Size=40)["VolumeId"]
        cluster, batch = site.cluster(), self.client("batch")
        self.names |= {
            "vpc": site.vpc, "subnet": place["Subnet"]["SubnetId"], "group": site.group, "image": image,
            "arm": arm, "far": far["Subnet"]["SubnetId"], "foreign_group": elsewhere["GroupId"],
            "profile": site.profile, "cluster": cluster["id"],
            "node_group": site.node_group(cluster["id"])["id"],
            "snapshot": ec2.create_snapshot(VolumeId=volume)["SnapshotId"],
            "key": self.client("kms").create_key()["KeyMetadata"]["KeyId"],
        }  # fmt: skip
        batch.register_job_definition(**self.sound("definition")[1])
        environment = self.send("environment", self.sound("environment")[1])
        order = [{"order": 1, "computeEnvironment": environment["computeEnvironmentArn"]}]
        batch.create_job_queue(jobQueueName="queue", priority=1, computeEnvironmentOrder=order)

    def client(self, service: str) -> Any:
        return self.yard.client(service)

    def sound(self, kind: str) -> tuple[str, Request]:
        """Return the call and its parameters, with names of their own."""
        number = next(self.numbers)
        return _requests(self.names, f"n{number}")[kind]

    def changed(self, kind: str, changes: Mapping[str, Any]) -> Request:
        """Return the sound request with the values at these paths; None takes one away."""
        request = copy.deepcopy(self.sound(kind)[1])
        for path, value in changes.items():
            _put(request, path.split("."), self._filled(value))
        return request

    def send(self, kind: str, request: Request) -> dict[str, Any]:
        """Send it; a document is sent as text, and a compute environment answers what became of it."""
        service, operation = _requests(self.names, "")[kind][0].split(":")
        given = {
            name: json.dumps(value) if name.endswith(("Document", "Policy", "Content")) else value
            for name, value in request.items()
            if name != "template"
        }
        if kind in OF_TEMPLATES:
            _name_template(given, self._template(request["template"]))
        answer: dict[str, Any] = getattr(self.client(service), operation)(**given)
        if kind == "environment":
            named = [answer["computeEnvironmentArn"]]
            (answer,) = self.client("batch").describe_compute_environments(computeEnvironments=named)[
                "computeEnvironments"
            ]
        return answer

    def _template(self, data: Mapping[str, Any]) -> str:
        name = f"template-{next(self.numbers)}"
        made = self.client("ec2").create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
        return str(made["LaunchTemplate"]["LaunchTemplateId"])

    def _filled(self, value: Any) -> Any:
        """Put in the ids of the account; `20 times x` is so many letters, and `20 times =` base64."""
        if isinstance(value, dict):
            return {name: self._filled(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        if not isinstance(value, str):
            return value
        count, _, letter = value.partition(" times ")
        if letter:
            text = letter * int(count)
            return base64.b64encode(text[1:].encode()).decode() if letter == "=" else text
        return value.format(**self.names) if value.startswith("{") else value


def _name_template(given: Request, template: str) -> None:
    if "computeResources" in given:
        given["computeResources"]["launchTemplate"] = {"launchTemplateId": template, "version": "$Latest"}
    elif "clusterIdentifier" in given:
        given["customLaunchTemplate"] = {"id": template, "version": "1"}
    else:
        given["LaunchTemplate"] = {"LaunchTemplateId": template, "Version": "$Latest"}


def _put(into: Any, path: list[str], value: Any) -> None:
    name: Any = int(path[0]) if isinstance(into, list) else path[0]
    if len(path) > 1:
        _put(into[name], path[1:], value)
    elif value is None:
        del into[name]
    else:
        into[name] = value


def _requests(names: Mapping[str, str], new: str) -> dict[str, tuple[str, Request]]:
    launch = {"ImageId": names.get("image"), "InstanceType": "c6i.xlarge", "KeyName": "mine"}
    disk = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 50, "VolumeType": "gp3"}}
    network = {"SubnetId": names.get("subnet"), "SecurityGroupIds": [names.get("group")]}
    cards = [
        {
            "NetworkCardIndex": card,
            "DeviceIndex": 1 if card else 0,
            "InterfaceType": "efa",
            "SubnetId": names.get("subnet"),
            "Groups": [names.get("group")],
        }
        for card in range(4)
    ]
    container = {
        "image": "busybox",
        "command": ["true"],
        "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "512"}],
    }
    template = {
        **launch,
        "BlockDeviceMappings": [disk],
        "UserData": USER_DATA,
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [names.get("group")]}],
    }
    one = {"MinCount": 1, "MaxCount": 1, "UserData": "#!/bin/sh"}
    slurm = {"slurmCustomSettings": [{"parameterName": "{}", "parameterValue": "1"}]}

    def settings(name: str) -> dict[str, Any]:
        return json.loads(json.dumps(slurm).replace("{}", name))

    rule = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22}
    return {
        "run": (
            "ec2:run_instances",
            {
                **one, **launch, **network, "BlockDeviceMappings": [disk],
                "Placement": {"GroupName": "near", "AvailabilityZone": ZONE},
                "IamInstanceProfile": {"Arn": names.get("profile")},
            },
        ),
        "efa": (
            "ec2:run_instances",
            {**one, **launch, "InstanceType": "p4d.24xlarge", "NetworkInterfaces": cards},
        ),
        "template": (
            "ec2:create_launch_template",
            {"LaunchTemplateName": new, "LaunchTemplateData": template},
        ),
        "volume": (
            "ec2:create_volume",
            {"AvailabilityZone": ZONE, "Size": 100, "VolumeType": "gp3", "Iops": 4000, "Throughput": 500},
        ),
        "scaling": (
            "autoscaling:create_auto_scaling_group",
            {
                "AutoScalingGroupName": new, "MinSize": 0, "MaxSize": 2, "PlacementGroup": "near",
                "VPCZoneIdentifier": names.get("subnet"), "template": template,
            },
        ),
        "environment": (
            "batch:create_compute_environment",
            {
                "computeEnvironmentName": f"{new}-environment",
                "type": "MANAGED",
                "computeResources": {
                    "type": "EC2", "minvCpus": 0, "maxvCpus": 8, "instanceTypes": ["c6i.xlarge"],
                    "subnets": [names.get("subnet")], "instanceRole": names.get("profile"),
                    "ec2Configuration": [
                        {"imageType": "ECS_AL2023", "imageIdOverride": names.get("image")}
                    ],
                },
                "template": template,
            },
        ),
        "definition": (
            "batch:register_job_definition",
            {
                "jobDefinitionName": "job", "type": "container",
                "containerProperties": {**container, "environment": [{"name": "RANKS", "value": "1"}]},
            },
        ),
        "nodes": (
            "batch:register_job_definition",
            {
                "jobDefinitionName": "nodes", "type": "multinode",
                "nodeProperties": {
                    "numNodes": 2, "mainNode": 0,
                    "nodeRangeProperties": [
                        {
                            "targetNodes": "0:",
                            "container": {**container, "environment": [{"name": "RANKS", "value": "1"}]},
                        }
                    ],
                },
            },
        ),
        "job": (
            "batch:submit_job",
            {
                "jobName": "job", "jobQueue": "queue", "jobDefinition": "job",
                "containerOverrides": {"environment": [{"name": "RANKS", "value": "2"}]},
            },
        ),
        "cluster": (
            "pcs:create_cluster",
            {
                "clusterName": f"{new}-slurm", "size": "SMALL",
                "scheduler": {"type": "SLURM", "version": "25.05"},
                "networking": {"subnetIds": [names.get("subnet")], "securityGroupIds": [names.get("group")]},
                "slurmConfiguration": settings("JobRequeue"),
            },
        ),
        "node_group": (
            "pcs:create_compute_node_group",
            {
                "clusterIdentifier": names.get("cluster"), "computeNodeGroupName": f"{new}-nodes",
                "subnetIds": [names.get("subnet")], "iamInstanceProfileArn": names.get("profile"),
                "scalingConfiguration": {"minInstanceCount": 0, "maxInstanceCount": 1},
                "instanceConfigs": [{"instanceType": "c6i.xlarge"}], "template": template,
                "slurmConfiguration": settings("Weight"),
            },
        ),
        "queue": (
            "pcs:create_queue",
            {
                "clusterIdentifier": names.get("cluster"), "queueName": f"{new}-queue",
                "computeNodeGroupConfigurations": [{"computeNodeGroupId": names.get("node_group")}],
                "slurmConfiguration": settings("MaxTime"),
            },
        ),
        "security_group": (
            "ec2:create_security_group",
            {"GroupName": f"{new}-group", "Description": "nodes", "VpcId": names.get("vpc")},
        ),
        "ingress": (
            "ec2:authorize_security_group_ingress",
            {
                "GroupId": names.get("group"),
                "IpPermissions": [
                    {**rule, "IpRanges": [{"CidrIp": "10.0.0.0/8", "Description": "from nodes"}]}
                ],
            },
        ),
        "egress": (
            "ec2:authorize_security_group_egress",
            {
                "GroupId": names.get("group"),
                "IpPermissions": [{**rule, "PrefixListIds": [{"PrefixListId": "pl-63a5400a"}]}],
            },
        ),
        "endpoint": (
            "ec2:create_vpc_endpoint",
            {"VpcId": names.get("vpc"), "ServiceName": "com.amazonaws.us-east-1.s3"},
        ),
        "retention": ("logs:put_retention_policy", {"logGroupName": "jobs", "retentionInDays": 30}),
        "log_group": ("logs:create_log_group", {"logGroupName": f"{new}-log", "kmsKeyId": names.get("key")}),
        "role": ("iam:create_role", {"RoleName": f"{new}-role", "AssumeRolePolicyDocument": TRUST}),
        "trust": ("iam:update_assume_role_policy", {"RoleName": "nodes", "PolicyDocument": TRUST}),
        "policy": ("iam:create_policy", {"PolicyName": f"{new}-policy", "PolicyDocument": ALLOWED}),
        "inline": (
            "iam:put_role_policy",
            {"RoleName": "nodes", "PolicyName": "own", "PolicyDocument": ALLOWED},
        ),
        "kms_key": ("kms:create_key", {"Policy": KEY_POLICY}),
        "bucket": ("s3:create_bucket", {"Bucket": f"slipway-{new}-{ACCOUNT}"}),
        "recipe": (
            "imagebuilder:create_image_recipe",
            {
                "name": f"{new}-recipe", "semanticVersion": "1.0.0", "parentImage": names.get("image"),
                "components": [
                    {"componentArn": "arn:aws:imagebuilder:us-east-1:aws:component/update-linux/x.x.x"}
                ],
            },
        ),
        "document": (
            "ssm:create_document",
            {
                "Name": f"{new}-document", "DocumentType": "Command",
                "Content": {
                    "schemaVersion": "2.2", "description": "none",
                    "mainSteps": [
                        {"action": "aws:runShellScript", "name": "a", "inputs": {"runCommand": ["true"]}}
                    ],
                },
            },
        ),
    }  # fmt: skip
