"""`slipway quota` against a fresh account: what is needed, what is allowed, and one request."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from slipway.jobs.clusters import quotas as needed_quotas
from slipway.jobs.clusters.declared import declared_cluster
from slipway.jobs.clusters.quotas import NeededQuota, find_quotas, request_increase
from slipway.jobs.commands.cli import run
from slipway.yard.endpoint import control
from tests.yard.conftest import RunningYard

DL, STANDARD = "L-6E869C2A", "L-1216C47A"
LONGEST = "L-33A961FD"


@pytest.fixture(autouse=True)
def fresh_account(yard_shell: RunningYard) -> None:
    control(yard_shell, "POST", "/reset")


def quotas(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, dict[str, Any]]:
    assert run(["quota", "dl1", "--json", *options]) == 0
    return {quota["code"]: quota for quota in json.loads(capsys.readouterr().out)}


def test_the_nodes_and_the_bake_of_their_ami_are_held_against_the_account(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = quotas(capsys)
    assert {code: (each["needed"], each["allowed"]) for code, each in found.items()} == {
        DL: (16 * 96, 0),
        STANDARD: (64, 5),
    }
    assert found[STANDARD]["purpose"] == "baking its AMI"


def test_what_lacks_is_requested_once_and_waited_for(
    capsys: pytest.CaptureFixture[str], yard_shell: RunningYard
) -> None:
    asked = quotas(capsys, "-c", "dl1.max_nodes=2", "--request")
    assert asked[DL]["requested"] == 2 * 96
    granted = quotas(capsys, "-c", "dl1.max_nodes=2", "--request", "--wait")
    assert {code: each["allowed"] for code, each in granted.items()} == {DL: 192, STANDARD: 64}
    history = yard_shell.client("service-quotas").list_requested_service_quota_change_history()
    assert sorted(quota["QuotaCode"] for quota in history["RequestedQuotas"]) == [STANDARD, DL]


def test_a_quota_that_was_granted_since_the_look_is_not_requested_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = find_quotas(declared_cluster("dl1", ["dl1.max_nodes=2"]))
    assert not any(quota.suffices for quota in before)
    quotas(capsys, "-c", "dl1.max_nodes=2", "--request", "--wait")
    assert all(request_increase(quota).suffices for quota in before)


@pytest.mark.parametrize(("market", "code"), [("on-demand", "L-09B4A649"), ("spot", "L-09D56C4F")])
def test_sagemaker_has_quotas_of_its_own_which_are_requested_of_it(
    capsys: pytest.CaptureFixture[str], market: str, code: str
) -> None:
    chosen = ["-c", f"sagemaker.market={market}", "--json"]
    run(["quota", "sagemaker", *chosen])
    before = {quota["code"]: quota for quota in json.loads(capsys.readouterr().out)}
    assert (before[code]["needed"], before[code]["allowed"], before[code]["unit"]) == (2, 0, "instances")
    assert (before[LONGEST]["allowed"], before[LONGEST]["unit"]) == (432_000, "seconds")
    assert run(["quota", "sagemaker", *chosen, "--request", "--wait"]) == 0
    after = {quota["code"]: quota["allowed"] for quota in json.loads(capsys.readouterr().out)}
    assert after == {code: 2, LONGEST: 432_000}


def test_a_quota_that_service_quotas_does_not_list_is_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["quota", "sagemaker", "-c", "sagemaker.instance_type=ml.p5.48xlarge"]) == 1
    said = capsys.readouterr().err
    assert "lists none for a job of sagemaker, such as 'ml.p5.48xlarge for training job usage'" in said


def test_a_request_that_is_granted_while_it_is_looked_at_is_no_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its value is asked for first, and then whether a request is open: between the two it was approved."""
    needed = NeededQuota(
        purpose="",
        service="ec2",
        code=DL,
        name="DL",
        region="",
        needed=96,
        allowed=0,
        requested=None,
        unit="",
    )
    looks = iter([[needed], [replace(needed, allowed=96)], [needed], [needed]])
    monkeypatch.setattr(needed_quotas, "find_quotas", lambda _: next(looks))
    cluster = declared_cluster("dl1")
    assert needed_quotas.wait_for_quotas(cluster, pause=lambda _: None)[0].allowed == 96
    with pytest.raises(needed_quotas.NoQuota, match="no request is open"):
        needed_quotas.wait_for_quotas(cluster, pause=lambda _: None)
