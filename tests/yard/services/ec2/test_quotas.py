"""Quotas are a fresh account's until a raise is requested, and launches above them are refused."""

from __future__ import annotations

import pytest

from slipway.yard.endpoint import control
from tests.waiting import until
from tests.yard.asking import refusal
from tests.yard.conftest import RunningYard
from tests.yard.services.ec2.test_api import activities, group, instances

STANDARD, DL, TRN = "L-1216C47A", "L-6E869C2A", "L-2C3B7624"


def quota(yard: RunningYard, code: str, region: str = "us-east-1") -> float:
    found = yard.client("service-quotas", region).get_service_quota(ServiceCode="ec2", QuotaCode=code)
    return float(found["Quota"]["Value"])


def run(yard: RunningYard, instance_type: str, count: int = 1) -> list[str]:
    answer = yard.client("ec2").run_instances(
        ImageId="ami-12345678", InstanceType=instance_type, MinCount=count, MaxCount=count
    )
    return [instance["InstanceId"] for instance in answer["Instances"]]


@pytest.mark.parametrize(("code", "vcpus"), [(STANDARD, 5), (DL, 0), (TRN, 0)])
def test_a_new_yard_has_the_quotas_of_a_fresh_account(fresh_yard: RunningYard, code: str, vcpus: int) -> None:
    assert quota(fresh_yard, code) == vcpus


@pytest.mark.parametrize(("instance_type", "allowed"), [("dl1.24xlarge", 0), ("c6i.16xlarge", 5)])
def test_ec2_refuses_a_launch_above_the_quota(
    fresh_yard: RunningYard, instance_type: str, allowed: int
) -> None:
    ec2 = fresh_yard.client("ec2")
    asked = {"ImageId": "ami-12345678", "InstanceType": instance_type, "MinCount": 1, "MaxCount": 1}
    refused = refusal(ec2.run_instances, **asked)
    assert refused["Code"] == "VcpuLimitExceeded"
    assert f"your current vCPU limit of {allowed} allows" in refused["Message"]
    assert ec2.describe_instances()["Reservations"] == []


def test_what_runs_counts_and_what_ended_does_not(fresh_yard: RunningYard) -> None:
    first, _ = run(fresh_yard, "t3.micro", 2)
    ec2 = fresh_yard.client("ec2")
    asked = {"ImageId": "ami-12345678", "InstanceType": "t3.micro", "MinCount": 1, "MaxCount": 1}
    assert refusal(ec2.run_instances, **asked)["Code"] == "VcpuLimitExceeded"
    ec2.terminate_instances(InstanceIds=[first])
    assert run(fresh_yard, "t3.micro")


def test_a_request_is_pending_and_then_raises_the_quota_of_its_region_alone(fresh_yard: RunningYard) -> None:
    quotas = fresh_yard.client("service-quotas")
    asked = {"ServiceCode": "ec2", "QuotaCode": DL}
    made = quotas.request_service_quota_increase(**asked, DesiredValue=192)["RequestedQuota"]
    assert (made["Status"], made["DesiredValue"]) == ("PENDING", 192)
    again = refusal(quotas.request_service_quota_increase, **asked, DesiredValue=384)
    assert again["Code"] == "ResourceAlreadyExistsException"
    until(lambda: quota(fresh_yard, DL) >= 192, lambda: "the request is never approved")
    (seen,) = quotas.list_requested_service_quota_change_history_by_quota(**asked)["RequestedQuotas"]
    assert (seen["Id"], seen["Status"]) == (made["Id"], "APPROVED")
    assert quota(fresh_yard, DL, "us-west-2") == 0
    assert len(run(fresh_yard, "dl1.24xlarge", 2)) == 2
    assert refusal(quotas.request_service_quota_increase, **asked, DesiredValue=96)["Code"] == (
        "IllegalArgumentException"
    )


def test_a_group_starts_what_the_quota_allows_and_says_why_it_lacks_the_rest(fresh_yard: RunningYard) -> None:
    group(fresh_yard, "t3.micro", 4)
    assert len(instances(fresh_yard)) == 2
    newest = activities(fresh_yard)[0]
    assert newest["StatusCode"] == "Failed"
    assert "your current vCPU limit of 5 allows" in newest["StatusMessage"]
    assert newest["StatusMessage"].endswith("Launching EC2 instance failed.")


def test_a_quota_is_granted_by_the_yard_s_owner_at_once(fresh_yard: RunningYard) -> None:
    control(fresh_yard, "POST", "/grant-quota", {"code": DL, "vcpus": 96})
    assert [quota(fresh_yard, DL, region) for region in ("us-east-1", "us-west-2")] == [96, 96]
    control(fresh_yard, "POST", "/reset")
    assert quota(fresh_yard, DL) == 0
