"""Scripted faults, as boto3 feels them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from slipway.jobs.words.errors import SlipwayError
from slipway.yard.endpoint import CONTROL_SERVICE, control
from slipway.yard.gateway.faults import Fault, FaultKind, script, scripted, unscript
from tests.yard.accounts import own_image
from tests.yard.asking import refusal, send_signed
from tests.yard.conftest import RunningYard
from tests.yard.gateway.test_pipeline import PROTOCOLS

# As each service words it; the others say ThrottlingException.
THROTTLED = {
    "batch": ("TooManyRequestsException", 429),
    "ec2": ("RequestLimitExceeded", 503),
    "s3": ("SlowDown", 503),
    "sts": ("Throttling", 400),
}


def fault(service: str, operation: str, kind: FaultKind, **more: Any) -> Fault:
    return Fault(service=service, operation=operation, kind=kind, **more)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_throttled_call_is_refused_as_often_as_asked_and_then_served(
    yard: RunningYard, protocol: str
) -> None:
    service, operation = PROTOCOLS[protocol]
    script(yard, fault(service, "*", FaultKind.THROTTLE, times=2))
    call = getattr(yard.client(service), operation)
    for _ in range(2):
        refused = refusal(call)
        assert (refused["Code"], refused["status"]) == THROTTLED.get(service, ("ThrottlingException", 400))
    assert call()["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert scripted(yard)[0]["struck"] == 2


def test_a_server_error_comes_back_as_500(yard: RunningYard) -> None:
    script(yard, fault("batch", "SubmitJob", FaultKind.SERVER_ERROR))
    refused = refusal(yard.client("batch").submit_job, jobName="a", jobQueue="q", jobDefinition="d")
    assert (refused["Code"], refused["status"]) == ("InternalFailure", 500)


def test_a_dropped_response_hides_a_call_that_was_carried_out(yard: RunningYard) -> None:
    """The trap of every retry: the first request did its work."""
    script(yard, fault("ecs", "CreateCluster", FaultKind.DROP_RESPONSE))
    with pytest.raises(ConnectionClosedError):
        yard.client("ecs").create_cluster(clusterName="made")
    assert [arn.rpartition("/")[2] for arn in yard.client("ecs").list_clusters()["clusterArns"]] == ["made"]


def test_insufficient_capacity_makes_nothing(yard: RunningYard) -> None:
    script(yard, fault("ec2", "RunInstances", FaultKind.INSUFFICIENT_CAPACITY))
    ec2 = yard.client("ec2")
    image = own_image(ec2)
    wanted = {"ImageId": image, "InstanceType": "dl1.24xlarge", "MinCount": 1, "MaxCount": 1}
    assert refusal(ec2.run_instances, **wanted)["Code"] == "InsufficientInstanceCapacity"
    assert ec2.describe_instances()["Reservations"] == []
    assert len(ec2.run_instances(**wanted)["Instances"]) == 1


def test_a_sequence_of_answers_is_served_in_order_and_then_the_service_answers(yard: RunningYard) -> None:
    states = ["RUNNABLE", "RUNNING", "SUCCEEDED"]
    answers = [
        {
            "jobs": [
                {
                    "jobId": "j",
                    "jobName": "n",
                    "jobQueue": "q",
                    "jobDefinition": "d",
                    "status": state,
                    "startedAt": 7,
                }
            ]
        }
        for state in states
    ]
    script(yard, fault("batch", "DescribeJobs", FaultKind.RESPOND, body=answers, times=2))
    batch = yard.client("batch")
    seen = [batch.describe_jobs(jobs=["j"])["jobs"][0]["status"] for _ in range(4)]
    assert seen == [*states, "SUCCEEDED"]
    assert batch.describe_jobs(jobs=["j"])["jobs"] == []


def test_a_scripted_answer_reads_as_the_services_own_in_every_protocol(yard: RunningYard) -> None:
    bodies: dict[str, tuple[str, dict[str, Any]]] = {
        "ec2": ("DescribeVpcs", {"Vpcs": [{"VpcId": "vpc-scripted", "Tags": []}]}),
        "ecs": ("ListClusters", {"clusterArns": ["scripted"]}),
        "sts": ("GetCallerIdentity", {"Account": "999999999999"}),
        "s3": ("ListBuckets", {"Buckets": [{"Name": "scripted", "CreationDate": "2026-01-01T00:00:00Z"}]}),
    }
    for service, (operation, body) in bodies.items():
        script(yard, fault(service, operation, FaultKind.RESPOND, body=[body]))
    assert yard.client("ec2").describe_vpcs()["Vpcs"][0]["VpcId"] == "vpc-scripted"
    assert yard.client("ecs").list_clusters()["clusterArns"] == ["scripted"]
    assert yard.client("sts").get_caller_identity()["Account"] == "999999999999"
    assert yard.client("s3").list_buckets()["Buckets"][0]["CreationDate"].year == 2026


def test_other_calls_go_through(yard: RunningYard) -> None:
    script(yard, fault("batch", "SubmitJob", FaultKind.SERVER_ERROR, times=None))
    assert yard.client("batch").describe_job_queues()["jobQueues"] == []


def test_an_endless_fault_strikes_until_it_is_cleared(yard: RunningYard) -> None:
    script(yard, fault("ecs", "ListClusters", FaultKind.THROTTLE, times=None))
    clusters = yard.client("ecs").list_clusters
    for _ in range(5):
        with pytest.raises(ClientError):
            clusters()
    unscript(yard)
    assert clusters()["clusterArns"] == []
    assert scripted(yard) == []


def test_rules_for_one_call_strike_one_after_the_other(yard: RunningYard) -> None:
    script(yard, fault("ecs", "ListClusters", FaultKind.THROTTLE))
    script(yard, fault("ecs", "ListClusters", FaultKind.SERVER_ERROR))
    clusters = yard.client("ecs").list_clusters
    assert [refusal(clusters)["status"], refusal(clusters)["status"]] == [400, 500]
    assert clusters()["clusterArns"] == []


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"service": "batch", "operation": "SubmitJb", "kind": "throttle"}, "SubmitJob"),
        ({"service": "bach", "operation": "SubmitJob", "kind": "throttle"}, "no service 'bach'"),
        (
            {"service": "batch", "operation": "SubmitJob", "kind": "slow"},
            "kind is 'slow'; allowed are throttle",
        ),
        ({"service": "batch", "operation": "SubmitJob", "kind": "throttle", "times": 0}, "times is 0"),
        ({"service": "batch", "operation": "SubmitJob", "kind": "respond"}, "with 0 results in body"),
        ({"service": "batch", "operation": "SubmitJob", "kind": "throttle", "when": 1}, "unknown keys"),
        ([], "a rule is an object"),
    ],
)
def test_a_rule_that_could_never_strike_is_refused(yard: RunningYard, rule: object, said: str) -> None:
    with pytest.raises(SlipwayError, match=said):
        control(yard, "POST", "/faults", rule)
    assert scripted(yard) == []


def test_the_switch_is_plain_http(yard: RunningYard) -> None:
    body = b'{"service": "ecs", "operation": "ListClusters", "kind": "throttle"}'
    assert send_signed(yard, CONTROL_SERVICE, "/_yard/faults", body, {})[0] == 200
    assert refusal(yard.client("ecs").list_clusters)["Code"] == "ThrottlingException"


def test_faults_are_scripted_on_this_machine_only(yard: RunningYard) -> None:
    with pytest.raises(SlipwayError, match="not on this machine"):
        script(
            replace(yard, endpoint="http://10.0.0.1:5566"), fault("ecs", "ListClusters", FaultKind.THROTTLE)
        )
