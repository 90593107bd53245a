"""Our cluster in a user's own app uses the app's VPC and bucket, and our gates check only our part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from slipway.infra import Egress, add_cluster
from slipway.infra.declare.types import Cluster
from slipway.infra.verify.gates import lint_findings, rule_findings, synthesis_findings
from tests.infra.own_app import ENVIRONMENT, GUEST, REGION, ZONE, own_bucket, own_stack, own_vpc
from tests.infra.synthesis import (
    CLUSTER,
    SAGEMAKER_CLUSTER,
    SLURM_CLUSTER,
    of_type,
    only,
    synthesize,
)


def templates(folder: Path) -> dict[str, Mapping[str, Any]]:
    return {
        path.name.removesuffix(".template.json"): json.loads(path.read_text(encoding="utf-8"))
        for path in folder.rglob("*.template.json")
    }


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An app with a stack that our gates would refuse, and a cluster in its VPC."""
    folder = tmp_path_factory.mktemp("assembly")
    app = cdk.App(outdir=str(folder))
    stack = own_stack(app)
    s3.CfnBucket(stack, "Careless")
    bucket = own_bucket(stack, encryption=s3.BucketEncryption.KMS)
    add_cluster(app, GUEST, vpc=own_vpc(stack), bucket=bucket)
    app.synth()
    return folder


def test_nodes_go_to_the_private_subnet_of_the_vpc_in_the_clusters_zone(assembly: Path) -> None:
    made = templates(assembly)
    private = next(
        name
        for name, subnet in of_type(made["own"], "AWS::EC2::Subnet").items()
        if subnet["AvailabilityZone"] == ZONE and not subnet["MapPublicIpOnLaunch"]
    )
    (subnet,) = only(made["guest"], "AWS::AutoScaling::AutoScalingGroup")["VPCZoneIdentifier"]
    assert private in subnet["Fn::ImportValue"]
    assert not [name for name, made_by in made.items() if name != "own" and of_type(made_by, "AWS::EC2::VPC")]


def test_jobs_may_use_the_bucket_and_the_key_that_its_owner_encrypts_it_with(assembly: Path) -> None:
    made = templates(assembly)
    assert not of_type(made["guest-storage"], "AWS::S3::Bucket")
    (key,) = of_type(made["own"], "AWS::KMS::Key")
    policies = of_type(made["guest"], "AWS::IAM::ManagedPolicy").values()
    used = [
        statement["Resource"]
        for policy in policies
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Sid"] == "UseKey"
    ]
    assert len(used) == 2  # of machines and of jobs
    assert all(key in str(resources) for resources in used)


def test_the_gates_look_at_the_cluster_and_not_at_the_rest_of_the_app(assembly: Path) -> None:
    assert list(synthesis_findings(assembly)) == []
    assert list(rule_findings(assembly)) == []
    assert list(lint_findings(assembly)) == []


def test_what_one_adds_to_a_role_of_the_cluster_is_held_to_cdk_nag(tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path))
    added = add_cluster(app, GUEST)
    statement = iam.PolicyStatement(actions=["s3:GetObject"], resources=["*"])
    added.job_role.add_to_principal_policy(statement)
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    assert any("IAM5[Resource::*]" in line for line in synthesis_findings(tmp_path))


def test_what_one_changes_in_the_cluster_is_held_to_our_rules(tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path))
    added = add_cluster(app, GUEST)
    template = added.stacks[-1].node.find_child("NodeTemplate").node.find_child("Resource")
    assert isinstance(template, cdk.CfnResource)
    template.add_property_override("LaunchTemplateData.KeyName", "mine")
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    assert any("[node-no-key-pair]" in line for line in synthesis_findings(tmp_path))


def test_without_a_vpc_the_cluster_is_the_one_that_clusters_py_would_make(tmp_path: Path) -> None:
    """An app that `cdk init` did not write has other CDK flags, which change nothing here."""
    app = cdk.App(outdir=str(tmp_path))
    add_cluster(app, GUEST)
    app.synth()
    made, alone = templates(tmp_path), synthesize(GUEST)
    for name, expected in (("guest", alone.compute), ("guest-storage", alone.storage)):
        assert without_metadata(made[name]) == without_metadata(expected)


def without_metadata(template: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        name: resource
        for name, resource in template["Resources"].items()
        if resource["Type"] != "AWS::CDK::Metadata"
    }


def test_in_a_stage_the_stacks_keep_the_names_by_which_commands_find_them(tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path))
    stage = cdk.Stage(app, "Prod", env=ENVIRONMENT)
    added = add_cluster(stage, GUEST, vpc=own_vpc(own_stack(stage)))
    assert {stack.stack_name for stack in added.stacks} == {
        "guest",
        "guest-network",
        "guest-storage",
        "guest-observability",
    }
    app.synth()
    assert list(rule_findings(tmp_path)) == []
    assert len(list(tmp_path.rglob("*.template.json"))) == 5


@pytest.mark.parametrize("cluster", [CLUSTER, SLURM_CLUSTER, SAGEMAKER_CLUSTER], ids=lambda each: each.name)
def test_every_kind_can_be_added_with_parts_to_go_on_with(cluster: Cluster, tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path))
    stack = own_stack(app, env=cdk.Environment(region=REGION, account="123456789012"))
    vpc = own_vpc(stack, restrict_default_security_group=False)
    added = add_cluster(app, replace(cluster, egress=Egress.NAT), vpc=vpc, bucket=own_bucket(stack))
    cdk.CfnOutput(stack, "Bucket", value=added.bucket.bucket_name)
    cdk.CfnOutput(added.stacks[-1], "Role", value=added.job_role.role_arn)
    cdk.CfnOutput(added.stacks[-1], "Group", value=added.security_group_id)
    app.synth()
    assert added.target_parameter == f"/slipway/targets/{cluster.name}"
    assert added.cluster.account == "123456789012"
    assert "AWS::EC2::VPC" not in str([templates(tmp_path)[each.stack_name] for each in added.stacks])


def test_the_context_overrides_a_setting_as_for_a_declared_cluster(tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path), context={"guest.max_nodes": "3", "other.max_nodes": "9"})
    assert add_cluster(app, GUEST).cluster.max_nodes == 3


def test_a_vpc_that_is_still_to_be_looked_up_passes_so_that_the_cdk_can_do_so(tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path))
    stack = own_stack(app, env=cdk.Environment(region=REGION, account="123456789012"))
    add_cluster(app, GUEST, vpc=ec2.Vpc.from_lookup(stack, "Vpc", vpc_name="theirs"))
    app.synth()
    (asked,) = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))["missing"]
    assert asked["provider"] == "vpc-provider"


def test_nodes_may_reach_the_interface_endpoints_of_the_owner(tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path))
    stack = own_stack(app)
    vpc = own_vpc(stack)
    group = ec2.SecurityGroup(stack, "Endpoints", vpc=vpc)
    add_cluster(app, replace(GUEST, egress=Egress.ENDPOINTS), vpc=vpc, endpoints=group)
    app.synth()
    rules = of_type(templates(tmp_path)["guest"], "AWS::EC2::SecurityGroupEgress").values()
    (to_endpoints,) = [rule for rule in rules if "endpoints" in rule["Description"]]
    assert "Endpoints" in str(to_endpoints["DestinationSecurityGroupId"])
