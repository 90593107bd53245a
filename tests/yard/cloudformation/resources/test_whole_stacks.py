"""Whole templates through the providers alone: made, changed, and nothing of them left in any service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slipway.yard.cloudformation.resources.recorded import records
from slipway.yard.cloudformation.resources.registry import provider
from slipway.yard.cloudformation.template import intrinsics, parameters, schemas
from slipway.yard.cloudformation.template.blueprint import Blueprint, StackIdentity, draw
from slipway.yard.cloudformation.template.parameters import YardLookups
from slipway.yard.cloudformation.template.references import Reference
from slipway.yard.cloudformation.template.template import load
from slipway.yard.endpoint import ACCOUNT
from tests.yard.cloudformation.resources.world import REGION, Made, World, new_context
from tests.yard.conftest import RunningYard

PLACE = StackIdentity(
    region=REGION,
    account=ACCOUNT,
    stack_name="trial",
    stack_id=f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/trial/1",
)


@dataclass(slots=True)
class Deployed:
    made: dict[str, Made] = field(default_factory=dict)

    def deploy(self, text: str, given: Mapping[str, str] | None = None) -> None:
        """Make what is new and change in place what is there; nothing is replaced."""
        template, lookups = load(text), YardLookups(REGION)
        found = parameters.resolve(template, given or {}, {}, lookups)
        blueprint = draw(template, found, PLACE, lookups, imported=str)
        scope = blueprint.scope(lookups, self._value, str)
        for name, planned in blueprint.resources.items():
            properties = intrinsics.evaluate(dict(planned.declared.properties), scope)
            kind = planned.declared.type
            assert schemas.check(kind, properties) == ()
            self._put(name, kind, schemas.coerce(kind, properties))
        self._check_outputs(blueprint, scope)

    def delete(self) -> None:
        while self.made:
            self.made.popitem()[1].delete()

    def _put(self, name: str, kind: str, properties: Mapping[str, Any]) -> None:
        if name in self.made:
            if self.made[name].properties != properties:
                self.made[name].become(properties)
            return
        context, maker = new_context(name), provider(kind)
        self.made[name] = Made(maker, context, maker.create(context, properties), properties)

    def _value(self, reference: Reference) -> Any:
        made = self.made[reference.logical_id]
        return made.id if reference.attribute is None else made.attribute(reference.attribute)

    def _check_outputs(self, blueprint: Blueprint, scope: Any) -> None:
        for output in blueprint.template.section("Outputs").values():
            assert intrinsics.evaluate(output["Value"], scope)


# Whole templates through the providers: made, changed, and nothing of them left in any service.
ROOT = Path(__file__).parents[4]
CLUSTER = Path(__file__).with_name("cluster.yaml")
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


def test_a_cluster_comes_changes_in_place_and_goes_without_a_trace(empty: World) -> None:
    before = inventory(empty)
    stack = Deployed()
    template = CLUSTER.read_text(encoding="utf-8")
    stack.deploy(template)
    ids = {name: made.id for name, made in stack.made.items()}
    changes = {"MaxvCpus": "384", "RetentionInDays": "30", "BudgetUsd": "6000", "UserData": "second"}
    stack.deploy(template, changes)
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
