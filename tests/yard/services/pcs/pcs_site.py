"""A small account with all that AWS PCS needs: a VPC, a role, a launch template, an AMI."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

from tests.yard.accounts import own_image
from tests.yard.asking import make_role
from tests.yard.conftest import RunningYard

ROLE = "AWSPCS-nodes"
NODE = ("pcs:RegisterComputeNodeGroupInstance", "ssm:UpdateInstanceInformation", "ssmmessages:*")
SCRIPT = "#!/bin/bash\necho the script of user data ran before slurmd >/run/trial\n"
MIME = (
    'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="X"\n\n'
    '--X\nContent-Type: text/x-shellscript; charset="utf-8"\n\n{}\n--X--\n'
)
NEURON = {
    "gresCustomSettings": [{"Name": "neuron", "File": "/dev/neuron[0-15]"}],
    "slurmCustomSettings": [{"parameterName": "Gres", "parameterValue": "neuron:16"}],
}


@dataclass(slots=True)
class PcsSite:
    yard: RunningYard
    image: str = ""  # "": an unknown AMI
    vpc: str = ""
    subnet: str = ""
    group: str = ""
    template: str = ""
    profile: str = ""
    pcs: Any = field(init=False)

    def __post_init__(self) -> None:
        self.pcs = self.yard.client("pcs")
        ec2 = self.yard.client("ec2")
        self.vpc = ec2.create_vpc(CidrBlock="10.90.0.0/16")["Vpc"]["VpcId"]
        self.subnet = ec2.create_subnet(VpcId=self.vpc, CidrBlock="10.90.0.0/24")["Subnet"]["SubnetId"]
        self.group = ec2.create_security_group(GroupName="slurm", Description="slurm", VpcId=self.vpc)[
            "GroupId"
        ]
        own = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": self.group}]}]
        ec2.authorize_security_group_ingress(GroupId=self.group, IpPermissions=own)
        self.template = self.launch_template("nodes", MIME.format(SCRIPT))
        self.profile = self.instance_profile(ROLE)

    def launch_template(self, name: str, user_data: str) -> str:
        ec2 = self.yard.client("ec2")
        data = {
            "ImageId": self.image or own_image(ec2),
            "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [self.group]}],
            "UserData": base64.b64encode(user_data.encode()).decode(),
        }
        made = ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
        return str(made["LaunchTemplate"]["LaunchTemplateId"])

    def instance_profile(self, role: str, actions: tuple[str, ...] = NODE) -> str:
        iam, allowed = self.yard.client("iam"), {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
        make_role(self.yard, role, {"Service": "ec2.amazonaws.com"}, allowed)
        made = iam.create_instance_profile(InstanceProfileName=role)["InstanceProfile"]
        iam.add_role_to_instance_profile(InstanceProfileName=role, RoleName=role)
        return str(made["Arn"])

    def cluster(self, name: str = "trn", **more: Any) -> dict[str, Any]:
        asked = {
            "scheduler": {"type": "SLURM", "version": "25.11"},
            "size": "SMALL",
            "networking": {"subnetIds": [self.subnet], "securityGroupIds": [self.group]},
            **more,
        }
        made: dict[str, Any] = self.pcs.create_cluster(clusterName=name, **asked)["cluster"]
        return made

    def node_group(self, cluster: str, name: str = "workers", **more: Any) -> dict[str, Any]:
        asked = {
            "subnetIds": [self.subnet],
            "customLaunchTemplate": {"id": self.template, "version": "1"},
            "iamInstanceProfileArn": self.profile,
            "scalingConfiguration": {"minInstanceCount": 0, "maxInstanceCount": 4},
            "instanceConfigs": [{"instanceType": "trn1.32xlarge"}],
            **more,
        }
        made: dict[str, Any] = self.pcs.create_compute_node_group(
            clusterIdentifier=cluster, computeNodeGroupName=name, **asked
        )["computeNodeGroup"]
        return made

    def errors(self, cluster: str, group: str) -> list[dict[str, str]]:
        """Return PCS's messages about a node group's launches."""
        which = {"clusterIdentifier": cluster, "computeNodeGroupIdentifier": group}
        found: list[dict[str, str]] = self.pcs.get_compute_node_group(**which)["computeNodeGroup"][
            "errorInfo"
        ]
        return found

    def queue(self, cluster: str, group: str, name: str = "train", **more: Any) -> dict[str, Any]:
        made: dict[str, Any] = self.pcs.create_queue(
            clusterIdentifier=cluster,
            queueName=name,
            computeNodeGroupConfigurations=[{"computeNodeGroupId": group}],
            **more,
        )["queue"]
        return made
