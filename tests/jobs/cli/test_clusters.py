"""`slipway cluster list` and `targets` say what is deployed, what it costs, and why machines do not start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from slipway.infra.declare.declared import declared_cluster
from slipway.infra.declare.types import Market
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.clusters.bill import bill
from slipway.jobs.platforms.platform import machine_warnings
from slipway.jobs.words.names import CLUSTER_TAG
from slipway.jobs.words.targets import SlurmTarget, Target, parameter_name
from slipway.yard.endpoint import control
from tests.jobs.conftest import Slipway
from tests.jobs.deployed import record_target
from tests.jobs.words.test_targets import MPI_TARGET, SLURM_TARGET, TARGET
from tests.waiting import until
from tests.yard.accounts import own_image
from tests.yard.cloudformation.stacks import Stacks
from tests.yard.conftest import RunningYard
from tests.yard.services.pcs.pcs_site import PcsSite

TEMPLATE = {
    "Network": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.20.0.0/16"}},
    "Logs": {"Type": "AWS::Logs::LogGroup"},
    "Bucket": {"Type": "AWS::S3::Bucket"},
}
DL1 = replace(declared_cluster("dl1"), max_nodes=4)
REFUSAL = Unanswered(action="ec2:DescribeInstances", code="UnauthorizedOperation", message="no")


def start_nodes(yard: RunningYard, cluster: str, count: int) -> list[str]:
    ec2 = yard.client("ec2")
    image = own_image(ec2)
    tags = [{"ResourceType": "instance", "Tags": [{"Key": CLUSTER_TAG, "Value": cluster}]}]
    started = ec2.run_instances(
        ImageId=image, InstanceType="dl1.24xlarge", MinCount=count, MaxCount=count, TagSpecifications=tags
    )
    return [instance["InstanceId"] for instance in started["Instances"]]


def row(slipway: Slipway) -> Any:
    return slipway.json("cluster", "list", "dl1", "--json")


@pytest.mark.usefixtures("yard_shell")
def test_a_cluster_that_is_not_deployed_costs_nothing_now_and_shows_every_setting_of_its_kind(
    slipway: Slipway,
) -> None:
    found = row(slipway)
    assert (found["state"], found["running_nodes"], found["usd_per_hour_now"]) == ("not deployed", 0, 0)
    assert found["usd_per_hour_full"] == pytest.approx(16 * 13.10904, abs=1e-4)
    names = ("kind", "market", "image", "machine_image", "build_type")
    assert [found[name] for name in names] == ["batch", "on-demand", "gaudi", "gaudi-ecs", "c6i.16xlarge"]
    assert not {"scratch", "warm_pool_minutes"} & found.keys()
    out = slipway.printed("cluster", "list")
    assert "us-east-1" in out
    assert "2026-07-20" in out


def test_stacks_resources_and_running_nodes_are_counted(yard_shell: RunningYard, slipway: Slipway) -> None:
    for name in ("dl1-network", "dl1-of-somebody-else"):
        Stacks(yard_shell).create(name, TEMPLATE)
    first, _ = start_nodes(yard_shell, "dl1", 2)
    start_nodes(yard_shell, "other", 1)
    found = row(slipway)
    assert found["stacks"] == {"dl1-network": "CREATE_COMPLETE"}
    assert found["resources"] == {"AWS::EC2::VPC": 1, "AWS::Logs::LogGroup": 1, "AWS::S3::Bucket": 1}
    assert found["running_nodes"] == 2
    assert found["usd_per_hour_now"] == pytest.approx(2 * 13.10904, abs=1e-4)
    assert found["not_counted"] == ["S3 storage (1)", "log storage (1)", "EBS volumes of running nodes"]
    assert found["usd_per_month_idle"] == 0
    yard_shell.client("ec2").terminate_instances(InstanceIds=[first])
    assert row(slipway)["running_nodes"] == 1


def test_without_an_answer_state_and_cost_are_unknown_and_the_reason_is_told(
    yard_shell: RunningYard, slipway: Slipway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    code, out, err = slipway("cluster", "list", "--json")
    assert code == 0
    for found in json.loads(out):
        assert (found["state"], found["running_nodes"], found["usd_per_hour_now"]) == (None, None, None)
    assert "cloudformation:DescribeStacks gave no answer: EndpointConnectionError" in err


def test_an_unknown_cluster_or_target_is_refused_with_those_that_are_there(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    cluster = "error: no cluster 'dl2' is declared\nhint: did you mean dl1?\n"
    assert slipway("cluster", "list", "dl2") == (1, "", cluster)
    assert slipway("cluster", "targets", "--json") == (0, "[]\n", "")
    assert slipway("cluster", "targets") == (0, "", "targets: none\n")
    record_target(yard_shell, TARGET)
    target = "error: no target is called 'dl2'\nhint: deployed are dl1\n"
    assert slipway("cluster", "targets", "dl2") == (1, "", target)


def test_what_is_not_known_is_unknown_and_never_nothing() -> None:
    unpriced = replace(DL1, instance_type="p5e.48xlarge")
    assert bill(unpriced, {}, 2).usd_per_hour_now is None
    assert bill(unpriced, {}, 2).usd_per_hour_full is None
    assert bill(unpriced, {}, 0).usd_per_hour_now == 0
    found = bill(DL1, REFUSAL, REFUSAL)
    assert found.not_counted == ("whatever else is deployed",)
    assert (found.usd_per_month_idle, found.usd_per_hour_now) == (None, None)


def test_what_stands_around_the_nodes_costs_the_same_as_its_estimate_says() -> None:
    resources = {
        "Nat": {"Type": "AWS::EC2::NatGateway"},
        "S3": {"Type": "AWS::EC2::VPCEndpoint", "Properties": {"VpcEndpointType": "Gateway"}},
        "Sts": {"Type": "AWS::EC2::VPCEndpoint", "Properties": {"VpcEndpointType": "Interface"}},
        "Bucket": {"Type": "AWS::S3::Bucket"},
    }
    found = bill(DL1, {"dl1-network": {"Resources": resources}}, 0)
    assert found.usd_per_month_idle == pytest.approx(730 * (0.045 + 0.01))
    assert found.not_counted == ("S3 storage (1)",)
    assert bill(replace(DL1, market=Market.CAPACITY_BLOCK), {}, 0).not_counted == (
        "the capacity-block, billed even when idle",
    )


# `slipway cluster targets` lists infra's records; a foreign record is reported and hides none of them.


def test_every_deployed_target_is_listed(yard_shell: RunningYard, slipway: Slipway) -> None:
    names = {f"c{number}" for number in range(12)}  # more than a page of SSM
    for name in names:
        record_target(yard_shell, replace(TARGET, name=name))
    listed = slipway.json("cluster", "targets", "--json")
    assert {target["name"] for target in listed} == names
    assert listed[0]["queue_arn"] == TARGET.queue_arn


def test_machines_and_batch_each_show_what_they_have_and_nothing_unknown(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    record_target(yard_shell, MPI_TARGET)
    record_target(yard_shell, TARGET)
    listed = slipway.printed("cluster", "targets")
    c6i, dl1 = (slipway.printed("cluster", "targets", name) for name in ("c6i", "dl1"))
    assert MPI_TARGET.machine_image in listed
    assert MPI_TARGET.run_document in c6i
    assert TARGET.queue_arn in dl1
    assert TARGET.repository_uri in dl1
    assert "unknown" not in listed + c6i + dl1


def test_a_damaged_record_is_told_and_the_others_are_listed(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    record_target(yard_shell, TARGET)
    for name, text in (("other", '{"schema": 0}'), ("later", '{"schema": 99}')):
        yard_shell.client("ssm").put_parameter(Name=parameter_name(name), Value=text, Type="String")
    code, out, err = slipway("cluster", "targets", "--json")
    assert code == 1
    assert [target["name"] for target in json.loads(out)] == ["dl1"]
    assert "error: the SSM parameter /slipway/targets/other has schema 0" in err
    assert "hint: deploy the cluster again" in err
    assert "error: the SSM parameter /slipway/targets/later has schema 99, but this Slipway reads 1" in err
    assert "hint: a newer Slipway wrote it" in err


# Every command that misses a machine says in AWS's words why AWS did not start it.
ONE: Mapping[str, Any] = {"scalingConfiguration": {"minInstanceCount": 1, "maxInstanceCount": 1}}
SAID = (
    "no login node of 'trn1' is running: AWS says VcpuLimitExceeded: You have requested more vCPU capacity "
    "than your current vCPU limit of 0"
)
FIX = "slipway cluster quota trn1 --request"


@pytest.fixture
def target(yard_shell: RunningYard) -> SlurmTarget:
    """A Slurm cluster of a fresh account, which starts no login node."""
    control(yard_shell, "POST", "/reset")
    site = PcsSite(yard_shell)
    cluster = site.cluster()["id"]
    login = site.node_group(cluster, "login", **ONE)["id"]
    workers = site.node_group(cluster)["id"]
    until(lambda: site.errors(cluster, login), lambda: "PCS never says why it starts no login node")
    made = replace(SLURM_TARGET, scheduler_cluster=cluster, login_group=login, node_group=workers)
    record_target(yard_shell, made)
    return made


def test_targets_and_status_say_why_no_login_node_runs(target: SlurmTarget, slipway: Slipway) -> None:
    said = slipway.told("cluster", "targets", "trn1")
    assert f"warning: {SAID}" in said
    assert FIX in said
    said = slipway.told("status", "--on", "trn1", code=1)
    assert f"error: {SAID}" in said
    assert f"hint: {FIX}" in said


@pytest.mark.usefixtures("yard_shell")
@pytest.mark.parametrize("silent", [TARGET, MPI_TARGET, SLURM_TARGET], ids=lambda target: target.kind)
def test_what_aws_does_not_answer_about_machines_is_said_and_not_taken_for_all_is_well(
    silent: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    (line,) = machine_warnings(silent)
    assert line.startswith("whether its machines start is not known: ")
    assert "gave no answer: EndpointConnectionError" in line


def test_preflight_says_it_and_counts_the_login_node_beside_other_clusters(
    target: SlurmTarget, slipway: Slipway
) -> None:
    code, out, _ = slipway("preflight", "trn1", "--json")
    rows = {row["check"]: row for row in json.loads(out)}
    assert code == 1
    assert rows["machines that start"]["outcome"] == "failed"
    assert rows["machines that start"]["found"].startswith(SAID)
    assert rows["machines that start"]["fix"].startswith(FIX)
    assert "1 login node × 2 vCPUs = 2 vCPUs and 256 of c6i, 258 in all" in rows["vCPU quota"]["found"]


def test_a_list_of_targets_asks_no_cluster_why(target: SlurmTarget, slipway: Slipway) -> None:
    assert slipway("cluster", "targets")[2] == ""
