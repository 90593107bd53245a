"""Throttling is AWS's: buckets by service and kind of call, and each service's own error."""

from __future__ import annotations

import pytest

from slipway.jobs.cloud.aws import is_throttled
from slipway.yard.chaos.throttling import RATES, Buckets, refusal
from slipway.yard.endpoint import control
from tests.yard.asking import refusal as refused_with
from tests.yard.conftest import RunningYard


def test_a_burst_goes_through_and_what_follows_waits_for_the_bucket_to_fill() -> None:
    clock = [0.0]
    buckets = Buckets(now=lambda: clock[0])
    submitted = [buckets.take("batch", "SubmitJob", 1) for _ in range(60)]
    assert submitted == [True] * 50 + [False] * 10
    clock[0] += 0.1  # AWS Batch takes fifty a second
    assert [buckets.take("batch", "SubmitJob", 1) for _ in range(6)] == [True] * 5 + [False]


def test_a_tenth_of_the_rate_is_a_tenth_of_the_bucket_and_never_none() -> None:
    clock = [0.0]
    buckets = Buckets(now=lambda: clock[0])
    assert sum(buckets.take("batch", "SubmitJob", 10) for _ in range(60)) == 5
    assert buckets.take("ec2", "RunInstances", 1000)
    assert not buckets.take("ec2", "RunInstances", 1000)
    clock[0] += 1000 / RATES["ec2", "RunInstances"].per_second
    assert buckets.take("ec2", "RunInstances", 1000)


def test_reads_and_changes_of_a_service_empty_buckets_of_their_own() -> None:
    buckets = Buckets(now=lambda: 0.0)
    while buckets.take("ec2", "DescribeVpcs", 1):
        pass
    assert not buckets.take("ec2", "DescribeSubnets", 1)
    assert buckets.take("ec2", "CreateVpc", 1)
    assert buckets.take("iam", "ListRoles", 1)


@pytest.mark.parametrize(
    ("service", "code", "status"),
    [
        ("autoscaling", "Throttling", 400),
        ("batch", "TooManyRequestsException", 429),
        ("cloudformation", "Throttling", 400),
        ("ec2", "RequestLimitExceeded", 503),
        ("iam", "Throttling", 400),
        ("imagebuilder", "CallRateLimitExceededException", 429),
        ("logs", "ThrottlingException", 400),
        ("s3", "SlowDown", 503),
        ("service-quotas", "TooManyRequestsException", 400),
        ("ssm", "ThrottlingException", 400),
    ],
)
def test_each_service_throttles_in_its_own_words_and_our_clients_know_them(
    service: str, code: str, status: int
) -> None:
    said = refusal(service)
    assert (said.code, said.status) == (code, status)
    assert is_throttled({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}})


def test_most_services_throttle_in_the_message_of_aws() -> None:
    assert {refusal(service).message for service in ("autoscaling", "lambda", "logs")} == {"Rate exceeded"}


def test_a_throttled_yard_refuses_the_burst_that_aws_would_refuse(yard: RunningYard) -> None:
    control(yard, "POST", "/switches", {"values": {"throttling": 1000}})
    queues = yard.client("batch").describe_job_queues
    assert queues()["jobQueues"] == []
    refused = refused_with(queues)
    assert (refused["Code"], refused["status"]) == ("TooManyRequestsException", 429)
