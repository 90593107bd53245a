"""A job that the account's quota or its capacity block has no room for is refused with what to do."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.submit import submission
from slipway.jobs.submit.preparing import prepare
from slipway.jobs.submit.submission import (
    PastTheBlock,
    SmallQuota,
    refuse_past_block,
    refuse_small_quota,
    submit_prepared,
)
from slipway.jobs.words.job import Job
from slipway.jobs.words.targets import BatchTarget, Target
from slipway.yard.endpoint import control
from slipway.yard.gateway.faults import Fault, FaultKind, script
from tests.jobs.deployed import job_names
from tests.jobs.words.test_targets import MPI_TARGET, SAGEMAKER_TARGET, SLURM_TARGET, TARGET
from tests.yard.conftest import RunningYard

DL = "L-6E869C2A"
JOB = Job(name="bert", recipe="bert_pretrain", nodes=2, settings={"size": "tiny"})


def allow(yard: RunningYard, vcpus: int) -> None:
    control(yard, "POST", "/grant-quota", {"code": DL, "vcpus": vcpus})


@pytest.mark.parametrize("vcpus", [0, 95, 2 * 96 - 1])
def test_a_job_that_no_quota_lets_start_is_not_submitted(
    target: BatchTarget, yard_shell: RunningYard, vcpus: int
) -> None:
    allow(yard_shell, vcpus)
    with pytest.raises(SmallQuota) as caught:
        submit_prepared(prepare(JOB, "dl1"))
    assert "bert needs 2 × 96 = 192 vCPUs of dl1.24xlarge" in caught.value.message
    assert f"'Running On-Demand DL instances' of this account is {vcpus} in us-east-1" in caught.value.message
    assert caught.value.hint.startswith("slipway quota dl1 --request")
    assert job_names(yard_shell, target) == []


def test_a_job_that_just_fits_is_submitted(target: BatchTarget, yard_shell: RunningYard) -> None:
    allow(yard_shell, 2 * 96)
    assert submit_prepared(prepare(JOB, "dl1")).job_id


@pytest.mark.parametrize("other", [MPI_TARGET, SLURM_TARGET])
def test_every_kind_with_machines_of_ec2_is_judged(yard_shell: RunningYard, other: Target) -> None:
    control(yard_shell, "POST", "/reset")
    with pytest.raises(SmallQuota, match=f"of {other.instance_type}, but the quota"):
        refuse_small_quota(JOB, other)


def test_machines_of_sagemaker_count_against_quotas_of_its_own(yard_shell: RunningYard) -> None:
    control(yard_shell, "POST", "/reset")
    refuse_small_quota(JOB, SAGEMAKER_TARGET)


@pytest.mark.parametrize("question", ["ask_quota", "ask_all"])
def test_who_may_not_ask_is_not_kept_from_submitting(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    allow(yard_shell, 0)
    denied = Unanswered(action="some:Action", code="AccessDeniedException", message="no")
    monkeypatch.setattr(submission, question, lambda *_, **__: denied)
    refuse_small_quota(JOB, TARGET)


def test_a_type_that_no_quota_counts_is_not_judged(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(yard_shell, 0)
    monkeypatch.setattr(submission, "ask_quota", lambda *_: None)
    refuse_small_quota(JOB, TARGET)


def test_a_capacity_block_counts_against_no_quota(yard_shell: RunningYard) -> None:
    control(yard_shell, "POST", "/reset")
    block = {"State": "scheduled", "ReservationType": "capacity-block", "InstanceType": "dl1.24xlarge"}
    said = {"CapacityReservations": [block]}
    fault = Fault(
        service="ec2",
        operation="DescribeCapacityReservations",
        kind=FaultKind.RESPOND,
        body=(said,),
        times=None,
    )
    script(yard_shell, fault)
    refuse_small_quota(JOB, TARGET)


@pytest.mark.parametrize(
    ("hours", "asked", "hint"),
    [
        (24, None, "--timeout-hours 23.4"),
        (24, 23.0, None),
        (24, 23.6, "--timeout-hours 23.4"),
        (0.4, None, "declare dl1 with another reservation_id, and deploy it again"),
        (72, None, None),
    ],
)
def test_a_job_ends_before_ec2_takes_the_nodes_of_its_capacity_block(
    yard_shell: RunningYard, hours: float, asked: float | None, hint: str | None
) -> None:
    block = {
        "CapacityReservationId": "cr-0123456789abcdef0",
        "ReservationType": "capacity-block",
        "InstanceType": "p5.48xlarge",
        "State": "active",
        "AvailabilityZone": "us-east-1a",
        "TotalInstanceCount": 2,
        "EndDate": (datetime.now(UTC) + timedelta(hours=hours)).isoformat(),
    }
    said = {"CapacityReservations": [block]}
    respond = FaultKind.RESPOND
    script(
        yard_shell,
        Fault(
            service="ec2", operation="DescribeCapacityReservations", kind=respond, body=(said,), times=None
        ),
    )
    job = replace(JOB, timeout_seconds=None if asked is None else int(asked * 3600))
    target = replace(TARGET, capacity_block="cr-0123456789abcdef0")
    if hint is None:
        refuse_past_block(job, target)
        return
    with pytest.raises(
        PastTheBlock, match="but EC2 ends the nodes of cr-0123456789abcdef0 from 20"
    ) as caught:
        refuse_past_block(job, target)
    assert caught.value.hint == hint


def test_other_nodes_are_asked_for_no_end(yard_shell: RunningYard) -> None:
    refuse_past_block(JOB, TARGET)
