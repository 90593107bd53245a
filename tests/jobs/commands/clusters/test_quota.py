"""`slipway quota` against a fresh account: what is needed, what is allowed, and one request."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from slipway.jobs.clusters import quotas as needed_quotas
from slipway.jobs.clusters.declared import declared_cluster
from slipway.jobs.clusters.preflight.training_limits import TrainingLimits, TrainingQuota
from slipway.jobs.commands.cli import run
from slipway.yard.endpoint import control
from tests.yard.conftest import RunningYard

DL, STANDARD = "L-6E869C2A", "L-1216C47A"


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


class Answers:
    """Stands in for Service Quotas: the yard has none of SageMaker."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def request_service_quota_increase(self, **sent: Any) -> dict[str, Any]:
        self.sent.append(sent)
        return {"RequestedQuota": {"DesiredValue": sent["DesiredValue"]}}


def test_sagemaker_has_quotas_of_its_own_which_are_requested_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def limit(name: str, value: float) -> TrainingQuota:
        return TrainingQuota(code=name[-5:], name=name, value=value)

    limits = TrainingLimits(
        instances=limit("ml.p4d.24xlarge for training job usage", 0),
        warm_pool=None,
        longest_job=limit("Longest run time for a training job", 432_000),
        log=None,
    )
    service = Answers()
    monkeypatch.setattr(needed_quotas, "ask_training", lambda _: limits)
    monkeypatch.setattr(needed_quotas, "_open_request", lambda *_: None)
    monkeypatch.setattr(needed_quotas, "aws", SimpleNamespace(client=lambda *_: service))
    found = needed_quotas.find_quotas(declared_cluster("sagemaker"))
    assert [(each.service, each.needed, each.allowed, each.unit) for each in found] == [
        ("sagemaker", 2, 0, "instances"),
        ("sagemaker", 24 * 3600, 432_000, "seconds"),
    ]
    assert [needed_quotas.request_increase(each).requested for each in found] == [2.0, None]
    assert [each["ServiceCode"] for each in service.sent] == ["sagemaker"]


def test_a_quota_of_sagemaker_that_the_yard_has_not_is_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["quota", "sagemaker"]) == 1
    assert "ListServiceQuotas gave no answer: NotImplemented" in capsys.readouterr().err
