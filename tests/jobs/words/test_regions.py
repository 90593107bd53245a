"""A region that AWS does not have is refused as it was typed, before anything is asked of anybody."""

from __future__ import annotations

import pytest
from botocore.session import get_session

from slipway.jobs.words.names import REGIONS, UnknownRegion, checked_region
from tests.jobs.conftest import Slipway
from tests.yard.asking import refusal
from tests.yard.conftest import RunningYard

# BI-015
UNKNOWN = [
    "xx-fake-9",
    "US-EAST-1",
    " us-east-1",
    "us-east-1 ",
    "us-east-1\n",
    "us-east-1a",
    "useast1",
    "*",
    "é",
]


def test_the_regions_are_those_that_botocore_knows() -> None:
    session = get_session()
    known = {
        region
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("ec2", partition_name=partition)
    }
    assert known == set(REGIONS)


@pytest.mark.parametrize("region", UNKNOWN)
def test_a_region_is_neither_corrected_nor_guessed(region: str) -> None:
    with pytest.raises(UnknownRegion, match="AWS has no region"):
        checked_region(region)


@pytest.mark.parametrize("region", UNKNOWN)
@pytest.mark.parametrize(
    "command", [("submit", "bert_pretrain", "--on", "dl1", "--nodes", "1"), ("cluster", "targets")]
)
def test_an_unknown_region_is_the_user_s_mistake_in_every_command(
    slipway: Slipway, yard_shell: RunningYard, region: str, command: tuple[str, ...]
) -> None:
    code, _, err = slipway(*command, "--region", region)
    assert code == 2
    assert err.startswith(f"error: AWS has no region {region!r}")
    assert "yard" not in err


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_an_unknown_region_of_the_environment_is_refused_too(
    slipway: Slipway, yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv(variable, "US-EAST-1")
    code, _, err = slipway("status")
    assert (code, "AWS has no region 'US-EAST-1'" in err, "did you mean us-east-1?" in err) == (2, True, True)


def test_the_yard_tells_another_tool_of_the_region_and_not_of_a_fault_of_its_own(yard: RunningYard) -> None:
    for service, operation in (("ecs", "list_clusters"), ("batch", "describe_job_queues")):
        refused = refusal(getattr(yard.client(service, "xx-fake-9"), operation))
        assert (refused["status"], refused["Code"]) == (403, "InvalidSignatureException")
        assert "AWS has no region 'xx-fake-9'" in refused["Message"]
