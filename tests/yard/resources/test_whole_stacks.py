"""Whole templates through the providers: made, changed, and nothing of them left in any service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.yard.endpoint import ACCOUNT
from jobs.yard.resources.recorded import records
from tests.yard.conftest import RunningYard
from tests.yard.resources.deploy import Deployed
from tests.yard.resources.world import World

ROOT = Path(__file__).parents[3]
BOOTSTRAP = ROOT / "node_modules/aws-cdk/lib/api/bootstrap/bootstrap-template.yaml"

# Where a stack of ours shows: service, operation, and the part of its answer that lists what there is.
# Not here: the default network ACL of a VPC, which moto never takes away.
LISTINGS = (
    ("batch", "describe_compute_environments", "computeEnvironments"),
    ("batch", "describe_job_queues", "jobQueues"),
    ("budgets", "describe_budgets", "Budgets"),
    ("cloudwatch", "describe_alarms", "MetricAlarms"),
    ("cloudwatch", "list_dashboards", "DashboardEntries"),
    ("ec2", "describe_addresses", "Addresses"),
    ("ec2", "describe_flow_logs", "FlowLogs"),
    ("ec2", "describe_internet_gateways", "InternetGateways"),
    ("ec2", "describe_launch_templates", "LaunchTemplates"),
    ("ec2", "describe_network_interfaces", "NetworkInterfaces"),
    ("ec2", "describe_placement_groups", "PlacementGroups"),
    ("ec2", "describe_route_tables", "RouteTables"),
    ("ec2", "describe_security_groups", "SecurityGroups"),
    ("ec2", "describe_subnets", "Subnets"),
    ("ec2", "describe_vpcs", "Vpcs"),
    ("ecr", "describe_repositories", "repositories"),
    ("efs", "describe_access_points", "AccessPoints"),
    ("efs", "describe_file_systems", "FileSystems"),
    ("events", "list_rules", "Rules"),
    ("fsx", "describe_file_systems", "FileSystems"),
    ("iam", "list_instance_profiles", "InstanceProfiles"),
    ("iam", "list_roles", "Roles"),
    ("kms", "list_aliases", "Aliases"),
    ("logs", "describe_log_groups", "logGroups"),
    ("s3", "list_buckets", "Buckets"),
    ("sns", "list_subscriptions", "Subscriptions"),
    ("sns", "list_topics", "Topics"),
    ("ssm", "describe_parameters", "Parameters"),
)
ARGUMENTS: dict[tuple[str, str], dict[str, Any]] = {
    ("budgets", "describe_budgets"): {"AccountId": ACCOUNT},
}


def text(item: object) -> str:
    return json.dumps(item, default=str, sort_keys=True)


def inventory(world: World) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for service, operation, listed in LISTINGS:
        arguments = ARGUMENTS.get((service, operation), {})
        answer = getattr(world.client(service), operation)(**arguments)
        found[f"{service} {listed}"] = sorted(
            json.dumps(item, default=str, sort_keys=True) for item in answer[listed]
        )
    policies = world.client("iam").list_policies(Scope="Local")["Policies"]
    keys = [key["KeyId"] for key in world.client("kms").list_keys()["Keys"]]
    states = {key: world.client("kms").describe_key(KeyId=key)["KeyMetadata"]["KeyState"] for key in keys}
    found["iam policies"] = [policy["Arn"] for policy in policies]
    found["usable keys"] = [key for key, state in states.items() if state != "PendingDeletion"]
    found["records"] = [record.physical_id for record in records()]
    return found


@pytest.fixture
def empty(yard: RunningYard, world: World) -> World:
    """An account with nothing of ours in it."""
    return world


def test_the_bootstrap_stack_comes_changes_and_goes(empty: World) -> None:
    before = inventory(empty)
    template = BOOTSTRAP.read_text(encoding="utf-8")
    stack = Deployed()
    stack.deploy(template)
    version = empty.client("ssm").get_parameter(Name="/cdk-bootstrap/hnb659fds/version")
    assert int(version["Parameter"]["Value"]) >= 20
    upload = {"Bucket": stack.made["StagingBucket"].id, "Key": "asset"}
    asset = empty.client("s3").put_object(**upload, Body=b"x")
    empty.client("s3").delete_object(**upload, VersionId=asset["VersionId"])
    stack.deploy(template, {"TrustedAccounts": "210987654321"})
    role = empty.client("iam").get_role(RoleName=stack.made["LookupRole"].id)["Role"]
    assert "210987654321" in text(role["AssumeRolePolicyDocument"])
    stack.delete()
    assert inventory(empty) == before


def cluster(*, max_nodes: int, retention_days: int, budget_usd: int, user_data: str) -> str:
    """What our stacks are made of, in one template."""
    vpc, group, key = {"Ref": "Vpc"}, {"Ref": "Nodes"}, {"Fn::GetAtt": ["Key", "Arn"]}
    subnet = {"Ref": "Subnet"}
    service_role = {
        "AssumeRolePolicyDocument": {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
            ],
        }
    }
    every = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "kms:*", "Resource": "*"}]}
    resources: dict[str, tuple[str, dict[str, Any]]] = {
        "Key": ("AWS::KMS::Key", {"KeyPolicy": every, "EnableKeyRotation": True}),
        "Vpc": ("AWS::EC2::VPC", {"CidrBlock": "10.20.0.0/16", "EnableDnsHostnames": True}),
        "Subnet": (
            "AWS::EC2::Subnet",
            {
                "VpcId": vpc,
                "CidrBlock": "10.20.0.0/20",
                "AvailabilityZone": {"Fn::Select": [0, {"Fn::GetAZs": ""}]},
            },
        ),
        "Public": ("AWS::EC2::Subnet", {"VpcId": vpc, "CidrBlock": "10.20.16.0/24"}),
        "Gateway": ("AWS::EC2::InternetGateway", {}),
        "Attachment": (
            "AWS::EC2::VPCGatewayAttachment",
            {"VpcId": vpc, "InternetGatewayId": {"Ref": "Gateway"}},
        ),
        "Address": ("AWS::EC2::EIP", {"Domain": "vpc"}),
        "Nat": (
            "AWS::EC2::NatGateway",
            {"SubnetId": {"Ref": "Public"}, "AllocationId": {"Fn::GetAtt": ["Address", "AllocationId"]}},
        ),
        "Routes": ("AWS::EC2::RouteTable", {"VpcId": vpc}),
        "Association": (
            "AWS::EC2::SubnetRouteTableAssociation",
            {"SubnetId": subnet, "RouteTableId": {"Ref": "Routes"}},
        ),
        "Out": (
            "AWS::EC2::Route",
            {
                "RouteTableId": {"Ref": "Routes"},
                "DestinationCidrBlock": "0.0.0.0/0",
                "NatGatewayId": {"Ref": "Nat"},
            },
        ),
        "S3": (
            "AWS::EC2::VPCEndpoint",
            {
                "VpcId": vpc,
                "VpcEndpointType": "Gateway",
                "RouteTableIds": [{"Ref": "Routes"}],
                "ServiceName": {"Fn::Sub": "com.amazonaws.${AWS::Region}.s3"},
            },
        ),
        "Ecr": (
            "AWS::EC2::VPCEndpoint",
            {
                "VpcId": vpc,
                "VpcEndpointType": "Interface",
                "SubnetIds": [subnet],
                "SecurityGroupIds": [group],
                "ServiceName": {"Fn::Sub": "com.amazonaws.${AWS::Region}.ecr.api"},
            },
        ),
        "Nodes": ("AWS::EC2::SecurityGroup", {"GroupDescription": "nodes", "VpcId": vpc}),
        "In": (
            "AWS::EC2::SecurityGroupIngress",
            {"GroupId": group, "IpProtocol": "-1", "SourceSecurityGroupId": group},
        ),
        "OutEfa": (
            "AWS::EC2::SecurityGroupEgress",
            {"GroupId": group, "IpProtocol": "-1", "DestinationSecurityGroupId": group},
        ),
        "Logs": (
            "AWS::Logs::LogGroup",
            {"LogGroupName": "/slipway/trial", "RetentionInDays": retention_days, "KmsKeyId": key},
        ),
        "Flow": (
            "AWS::EC2::FlowLog",
            {
                "ResourceId": vpc,
                "ResourceType": "VPC",
                "TrafficType": "ALL",
                "LogGroupName": {"Ref": "Logs"},
                "DeliverLogsPermissionArn": {"Fn::GetAtt": ["Role", "Arn"]},
            },
        ),
        "Role": ("AWS::IAM::Role", service_role),
        "Profile": ("AWS::IAM::InstanceProfile", {"Roles": [{"Ref": "Role"}]}),
        "Placement": ("AWS::EC2::PlacementGroup", {"Strategy": "cluster"}),
        "Template": (
            "AWS::EC2::LaunchTemplate",
            {"LaunchTemplateData": {"UserData": {"Fn::Base64": user_data}, "InstanceType": "dl1.24xlarge"}},
        ),
        "Environment": (
            "AWS::Batch::ComputeEnvironment",
            {
                "Type": "MANAGED",
                "ReplaceComputeEnvironment": False,
                "ComputeResources": {
                    "Type": "EC2",
                    "MinvCpus": 0,
                    "MaxvCpus": max_nodes * 96,
                    "InstanceTypes": ["dl1.24xlarge"],
                    "InstanceRole": {"Fn::GetAtt": ["Profile", "Arn"]},
                    "Subnets": [subnet],
                    "SecurityGroupIds": [group],
                    "PlacementGroup": {"Ref": "Placement"},
                    "LaunchTemplate": {
                        "LaunchTemplateId": {"Ref": "Template"},
                        "Version": {"Fn::GetAtt": ["Template", "LatestVersionNumber"]},
                    },
                },
            },
        ),
        "Queue": (
            "AWS::Batch::JobQueue",
            {
                "Priority": 1,
                "ComputeEnvironmentOrder": [{"ComputeEnvironment": {"Ref": "Environment"}, "Order": 1}],
            },
        ),
        "Files": ("AWS::EFS::FileSystem", {"Encrypted": True, "KmsKeyId": key}),
        "Mount": (
            "AWS::EFS::MountTarget",
            {"FileSystemId": {"Ref": "Files"}, "SubnetId": subnet, "SecurityGroups": [group]},
        ),
        "Lustre": (
            "AWS::FSx::FileSystem",
            {
                "FileSystemType": "LUSTRE",
                "StorageCapacity": 1200,
                "SubnetIds": [subnet],
                "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125},
            },
        ),
        "Topic": (
            "AWS::SNS::Topic",
            {"Subscription": [{"Protocol": "email", "Endpoint": "you@example.com"}], "KmsMasterKeyId": key},
        ),
        "Alarm": (
            "AWS::CloudWatch::Alarm",
            {
                "AlarmActions": [{"Ref": "Topic"}],
                "ComparisonOperator": "GreaterThanThreshold",
                "EvaluationPeriods": 1,
                "MetricName": "Runnable",
                "Namespace": "Slipway",
                "Period": 300,
                "Statistic": "Maximum",
                "Threshold": 0,
            },
        ),
        "Budget": (
            "AWS::Budgets::Budget",
            {
                "Budget": {
                    "BudgetType": "COST",
                    "TimeUnit": "MONTHLY",
                    "BudgetLimit": {"Amount": budget_usd, "Unit": "USD"},
                }
            },
        ),
    }
    declared = {
        name: {"Type": kind, "Properties": properties} for name, (kind, properties) in resources.items()
    }
    outputs = {"Queue": {"Value": {"Ref": "Queue"}}, "Dns": {"Value": {"Fn::GetAtt": ["Lustre", "DNSName"]}}}
    return json.dumps({"Resources": declared, "Outputs": outputs})


def test_a_cluster_comes_changes_in_place_and_goes_without_a_trace(empty: World) -> None:
    before = inventory(empty)
    stack = Deployed()
    stack.deploy(cluster(max_nodes=16, retention_days=365, budget_usd=5000, user_data="first"))
    ids = {name: made.id for name, made in stack.made.items()}
    stack.deploy(cluster(max_nodes=4, retention_days=30, budget_usd=6000, user_data="second"))
    assert {name: made.id for name, made in stack.made.items()} == ids
    (group,) = empty.client("logs").describe_log_groups(logGroupNamePrefix="/slipway/trial")["logGroups"]
    assert group["retentionInDays"] == 30
    assert stack.made["Template"].attribute("LatestVersionNumber") == "2"
    budget = empty.client("budgets").describe_budget(AccountId="123456789012", BudgetName=ids["Budget"])[
        "Budget"
    ]
    assert float(budget["BudgetLimit"]["Amount"]) == 6000
    stack.delete()
    assert inventory(empty) == before
