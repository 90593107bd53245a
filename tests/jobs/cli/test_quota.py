"""`slipway cluster quota` shows a fresh account what is needed and allowed, and sends one request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slipway.infra.declare.declared import declared_cluster
from slipway.jobs.clusters import quotas as needed_quotas
from slipway.jobs.clusters.neighbours import Neighbour, Neighbourhood, RunningMachines
from slipway.jobs.clusters.quotas import NeededQuota, find_quotas, request_increase
from slipway.jobs.words.names import CLUSTER_TAG
from slipway.yard.endpoint import control
from slipway.yard.gateway.faults import Fault, FaultKind, script
from tests.jobs.conftest import Slipway
from tests.jobs.deployed import record_target
from tests.jobs.words.test_targets import MPI_TARGET
from tests.yard.accounts import own_image, raise_quotas
from tests.yard.conftest import RunningYard

DL, STANDARD = "L-6E869C2A", "L-1216C47A"
LONGEST = "L-33A961FD"
NONE_RUNS = RunningMachines(counted={})
ALONE = Neighbourhood(clusters=(), running=NONE_RUNS)
# What the other declared clusters need: dl1-mpi; the nodes of c6i and the login node of trn1.
OTHER_DL, OTHER_STANDARD = 16 * 96, 4 * 64 + 2


@pytest.fixture(autouse=True)
def fresh_account(yard_shell: RunningYard) -> None:
    control(yard_shell, "POST", "/reset")


def quotas(slipway: Slipway, *options: str) -> dict[str, dict[str, Any]]:
    return {quota["code"]: quota for quota in slipway.json("cluster", "quota", "dl1", "--json", *options)}


def test_the_nodes_and_the_bake_of_their_ami_are_held_against_the_account(
    slipway: Slipway,
) -> None:
    found = quotas(slipway)
    assert {code: (each["needed"], each["allowed"]) for code, each in found.items()} == {
        DL: (16 * 96 + OTHER_DL, 0),
        STANDARD: (64 + OTHER_STANDARD, 5),
    }
    assert found[STANDARD]["purpose"] == "baking its AMI"
    assert found[STANDARD]["counted"] == "64 of dl1, 256 of c6i, 2 of trn1"


def test_what_lacks_is_requested_once_and_waited_for(slipway: Slipway, yard_shell: RunningYard) -> None:
    asked = quotas(slipway, "-c", "dl1.max_nodes=2", "--request")
    assert asked[DL]["requested"] == 2 * 96 + OTHER_DL
    granted = quotas(slipway, "-c", "dl1.max_nodes=2", "--request", "--wait")
    assert {code: each["allowed"] for code, each in granted.items()} == {
        DL: 2 * 96 + OTHER_DL,
        STANDARD: 64 + OTHER_STANDARD,
    }
    history = yard_shell.client("service-quotas").list_requested_service_quota_change_history()
    assert sorted(quota["QuotaCode"] for quota in history["RequestedQuotas"]) == [STANDARD, DL]


def test_a_quota_that_was_granted_since_the_look_is_not_requested_again(
    slipway: Slipway,
) -> None:
    before = find_quotas(declared_cluster("dl1", ["dl1.max_nodes=2"]))
    assert not any(quota.suffices for quota in before)
    quotas(slipway, "-c", "dl1.max_nodes=2", "--request", "--wait")
    assert all(request_increase(quota).suffices for quota in before)


@pytest.mark.parametrize(("market", "code"), [("on-demand", "L-09B4A649"), ("spot", "L-09D56C4F")])
def test_sagemaker_has_quotas_of_its_own_which_are_requested_of_it(
    slipway: Slipway, market: str, code: str
) -> None:
    asked = ("cluster", "quota", "sagemaker", "-c", f"sagemaker.market={market}", "--json")
    before = {quota["code"]: quota for quota in slipway.json(*asked)}
    assert (before[code]["needed"], before[code]["allowed"], before[code]["unit"]) == (2, 0, "instances")
    assert (before[LONGEST]["allowed"], before[LONGEST]["unit"]) == (432_000, "seconds")
    after = {quota["code"]: quota["allowed"] for quota in slipway.json(*asked, "--request", "--wait")}
    assert after == {code: 2, LONGEST: 432_000}


def test_without_credentials_it_says_where_to_get_some(
    slipway: Slipway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "hint: " in slipway.told("cluster", "quota", "sagemaker", code=1)


def test_a_quota_that_service_quotas_does_not_list_is_no_number(slipway: Slipway) -> None:
    unlisted = ("-c", "sagemaker.instance_type=ml.p5.48xlarge")
    said = slipway.told("cluster", "quota", "sagemaker", *unlisted, code=1)
    assert "lists none for a job of sagemaker, such as 'ml.p5.48xlarge for training job usage'" in said


def test_a_request_that_is_granted_while_it_is_looked_at_is_no_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The quota's value is read first, then its requests: in between it was approved."""
    needed = NeededQuota(
        purpose="",
        service="ec2",
        code=DL,
        name="DL",
        region="",
        needed=96,
        counted="",
        allowed=0,
        requested=None,
        unit="",
    )
    looks = iter([[needed], [replace(needed, allowed=96)], [needed], [needed]])
    monkeypatch.setattr(needed_quotas, "find_quotas", lambda _, hood: next(looks))
    cluster = declared_cluster("dl1")
    assert needed_quotas.wait_for_quotas(cluster, ALONE, pause=lambda _: None)[0].allowed == 96
    with pytest.raises(needed_quotas.NoQuota, match="no request is open"):
        needed_quotas.wait_for_quotas(cluster, ALONE, pause=lambda _: None)


def test_waiting_for_days_outlasts_an_hour_without_a_network(
    slipway: Slipway, yard_shell: RunningYard
) -> None:
    raise_quotas(yard_shell)
    fault = Fault(
        service="service-quotas", operation="ListServiceQuotas", kind=FaultKind.SERVER_ERROR, times=9
    )
    script(yard_shell, fault)
    waited: list[float] = []
    cluster = declared_cluster("dl1")
    assert needed_quotas.wait_for_quotas(cluster, ALONE, pause=waited.append)
    assert waited


def standard(slipway: Slipway, cluster: str) -> dict[str, Any]:
    asked = slipway.json("cluster", "quota", cluster, "--json")
    (found,) = [each for each in asked if each["code"] == STANDARD]
    return found  # type: ignore[no-any-return]  # JSON


def test_a_login_node_is_counted_beside_the_nodes_of_other_clusters(
    slipway: Slipway,
) -> None:
    found = standard(slipway, "trn1")
    assert found["purpose"] == "the login node of trn1"
    assert (found["needed"], found["counted"]) == (2 + 256, "2 of trn1, 256 of c6i")


def test_what_another_project_deployed_and_what_runs_besides_is_counted(
    slipway: Slipway, yard_shell: RunningYard
) -> None:
    theirs = replace(MPI_TARGET, name="theirs", instance_type="c6i.16xlarge", max_nodes=3)
    record_target(yard_shell, theirs)
    control(yard_shell, "POST", "/grant-quota", {"code": STANDARD, "vcpus": 6})
    ec2 = yard_shell.client("ec2")
    for name, value in (("Name", "mine"), (CLUSTER_TAG, "c6i"), ("CreatedBy", "EC2 Image Builder")):
        tags = [{"ResourceType": "instance", "Tags": [{"Key": name, "Value": value}]}]
        one = {"InstanceType": "t3.nano", "MinCount": 1, "MaxCount": 1, "TagSpecifications": tags}
        ec2.run_instances(ImageId=own_image(ec2), **one)
    assert standard(slipway, "trn1")["counted"] == (
        "2 of trn1, 256 of c6i, 192 of theirs, 2 of other machines that run"
    )


def test_instances_of_sagemaker_are_summed_over_clusters_of_one_type_and_market(
    yard_shell: RunningYard,
) -> None:
    cluster = declared_cluster("sagemaker")
    alike = Neighbour(
        name="other", kind="sagemaker", instance_type=cluster.instance_type, max_nodes=3, market="on-demand"
    )
    others = (
        alike,
        replace(alike, name="spot", market="spot"),
        replace(alike, name="small", instance_type="ml.m5.large"),
        replace(alike, name="theirs", kind="mpi"),
    )
    found = find_quotas(cluster, Neighbourhood(clusters=others, running=NONE_RUNS))
    assert [(quota.needed, quota.counted) for quota in found] == [
        (2 + 3, "2 of sagemaker, 3 of other"),
        (found[1].needed, f"{found[1].needed} of sagemaker"),
    ]
