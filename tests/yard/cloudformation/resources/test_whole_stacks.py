"""Whole templates are made, changed and deleted, and nothing is left in any service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from tests.yard.cloudformation.stacks import Stacks
from tests.yard.conftest import RunningYard

ROOT = Path(__file__).parents[4]
CLUSTER = Path(__file__).with_name("cluster.yaml")
BOOTSTRAP = ROOT / "node_modules/aws-cdk/lib/api/bootstrap/bootstrap-template.yaml"

# Calls that show our stacks' resources: service, operation, and the list in its answer.
# A VPC's default network ACL is left out, because moto never deletes it.
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


def inventory(yard: RunningYard) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for service, operation, listed in LISTINGS:
        answer = getattr(yard.client(service), operation)(**ARGUMENTS.get((service, operation), {}))
        items = [json.dumps(item, default=str, sort_keys=True) for item in answer[listed]]
        found[f"{service} {listed}"] = sorted(items)
    found["iam policies"] = [
        policy["Arn"] for policy in yard.client("iam").list_policies(Scope="Local")["Policies"]
    ]
    kms = yard.client("kms")
    states = {
        key["KeyId"]: kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"]["KeyState"]
        for key in kms.list_keys()["Keys"]
    }
    found["usable keys"] = [key for key, state in states.items() if state != "PendingDeletion"]
    return found


def given(**parameters: str) -> list[dict[str, str]]:
    return [{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()]


def test_the_bootstrap_stack_comes_changes_and_goes(yard: RunningYard) -> None:
    before, stacks = inventory(yard), Stacks(yard)
    template = BOOTSTRAP.read_text(encoding="utf-8")
    made = stacks.create("trial", template)
    version = yard.client("ssm").get_parameter(Name="/cdk-bootstrap/hnb659fds/version")
    assert int(version["Parameter"]["Value"]) >= 20
    stacks.update("trial", template, Parameters=given(TrustedAccounts="210987654321"))
    role = yard.client("iam").get_role(RoleName=made["LookupRole"])["Role"]
    assert "210987654321" in json.dumps(role["AssumeRolePolicyDocument"])
    stacks.delete("trial")
    yard.client("s3").delete_bucket(Bucket=made["StagingBucket"])  # its template keeps it
    assert inventory(yard) == before


def test_a_cluster_comes_changes_in_place_and_goes_without_a_trace(yard: RunningYard) -> None:
    before, stacks = inventory(yard), Stacks(yard)
    template = CLUSTER.read_text(encoding="utf-8")
    ids = stacks.create("trial", template)
    changes = given(MaxvCpus="384", RetentionInDays="30", BudgetUsd="6000", UserData="second")
    assert stacks.update("trial", template, Parameters=changes) == ids
    (group,) = yard.client("logs").describe_log_groups(logGroupNamePrefix="/slipway/trial")["logGroups"]
    assert group["retentionInDays"] == 30
    found = yard.client("ec2").describe_launch_templates(LaunchTemplateIds=[ids["Template"]])
    assert found["LaunchTemplates"][0]["LatestVersionNumber"] == 2
    budgets = yard.client("budgets")
    budget = budgets.describe_budget(AccountId=ACCOUNT, BudgetName=ids["Budget"])["Budget"]
    assert float(budget["BudgetLimit"]["Amount"]) == 6000
    stacks.delete("trial")
    assert inventory(yard) == before
