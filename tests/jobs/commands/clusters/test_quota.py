"""`slipway quota` against a fresh account: what is needed, what is allowed, and one request."""

from __future__ import annotations

import json
from typing import Any

import pytest

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
    assert {code: (each["needed_vcpus"], each["allowed_vcpus"]) for code, each in found.items()} == {
        DL: (16 * 96, 0),
        STANDARD: (64, 5),
    }
    assert found[STANDARD]["purpose"] == "baking its AMI"


def test_what_lacks_is_requested_once_and_waited_for(
    capsys: pytest.CaptureFixture[str], yard_shell: RunningYard
) -> None:
    asked = quotas(capsys, "-c", "dl1.max_nodes=2", "--request")
    assert asked[DL]["requested_vcpus"] == 2 * 96
    granted = quotas(capsys, "-c", "dl1.max_nodes=2", "--request", "--wait")
    assert {code: each["allowed_vcpus"] for code, each in granted.items()} == {DL: 192, STANDARD: 64}
    history = yard_shell.client("service-quotas").list_requested_service_quota_change_history()
    assert sorted(quota["QuotaCode"] for quota in history["RequestedQuotas"]) == [STANDARD, DL]
