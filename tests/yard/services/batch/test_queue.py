"""The queue runs jobs in the right order, and says why others wait."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway.jobs.words.catalogue.instances import instance_type
from slipway.yard.gateway.faults import Fault, FaultKind, script, unscript
from slipway.yard.services.batch import capacity
from tests.waiting import until
from tests.yard.asking import refusal
from tests.yard.services.batch.conftest import FOREVER, Cluster

ALL = [{"name": "AFTER_CREATED_AT", "values": ["0"]}]


def waits_with(cluster: Cluster, job: str, reason: str) -> None:
    until(lambda: cluster.describe(job).get("statusReason", "").startswith(reason))
    assert cluster.describe(job)["status"] == "RUNNABLE"


def test_a_job_larger_than_the_environment_waits_and_is_cancelled_by_the_queues_limit(
    cluster: Cluster,
) -> None:
    job = cluster.submit("pass", nodes=5)
    reason = "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE"
    waits_with(cluster, job, reason)
    found = cluster.ended(job)
    assert found["statusReason"] == f"Canceled by JobStateTimeLimit action due to reason: {reason}"
    assert found["attempts"] == []


@pytest.mark.parametrize(
    ("kind", "registered", "too_much"),
    [("c6i.xlarge", 7_679, 7_864), ("r5d.xlarge", 31_400, 31_900), ("trn1.32xlarge", 507_821, 507_822)],
)
def test_a_node_has_the_memory_that_its_agent_registers_and_not_all_of_its_type(
    kind: str, registered: int, too_much: int
) -> None:
    assert capacity.fits(instance_type(kind), vcpus=4, memory_mib=registered)
    assert not capacity.fits(instance_type(kind), vcpus=4, memory_mib=too_much)


def test_a_node_that_asks_for_more_than_an_instance_gives_waits_with_the_reason(cluster: Cluster) -> None:
    whole = {"VCPU": 96, "MEMORY": instance_type("dl1.24xlarge").memory_mib}
    asked = [{"type": kind, "value": str(value)} for kind, value in whole.items()]
    for name, container in (("whole", {"resourceRequirements": asked}), ("huge", {"vcpus": 97})):
        job = cluster.submit("pass", definition=cluster.define(name, container=container))
        waits_with(cluster, job, "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT")
        cluster.batch.terminate_job(jobId=job, reason="seen")


def test_a_job_of_a_disabled_environment_waits_until_it_is_enabled(cluster: Cluster) -> None:
    cluster.batch.update_compute_environment(computeEnvironment="pool", state="DISABLED")
    job = cluster.submit("pass")
    waits_with(cluster, job, "ACTION_REQUIRED - CE(s) associated with the job queue are invalid")
    cluster.batch.update_compute_environment(computeEnvironment="pool", state="ENABLED")
    assert cluster.ended(job)["status"] == "SUCCEEDED"


def test_jobs_run_in_order_and_nobody_overtakes(cluster: Cluster) -> None:
    first = cluster.submit(FOREVER, nodes=3)
    cluster.says(first, "ready")
    large, small = cluster.submit("pass", nodes=2), cluster.submit("pass", nodes=1)
    until(lambda: cluster.describe(small)["status"] == "RUNNABLE")
    assert cluster.describe(large)["status"] == "RUNNABLE"
    cluster.batch.terminate_job(jobId=first, reason="make room")
    assert [cluster.ended(job)["status"] for job in (large, small)] == ["SUCCEEDED", "SUCCEEDED"]


def test_without_capacity_a_job_waits_until_there_is_some(cluster: Cluster) -> None:
    always = Fault(service="ec2", operation="RunInstances", kind=FaultKind.INSUFFICIENT_CAPACITY, times=None)
    script(cluster.yard, always)
    job = cluster.submit("pass")
    waits_with(cluster, job, "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Service cannot fulfill")
    assert "[dl1.24xlarge]" in cluster.describe(job)["statusReason"]
    unscript(cluster.yard)
    assert cluster.ended(job)["status"] == "SUCCEEDED"


def test_a_waiting_job_can_be_cancelled_and_a_running_one_cannot(cluster: Cluster) -> None:
    running = cluster.submit(FOREVER, nodes=4)
    cluster.says(running, "ready")
    waiting = cluster.submit("pass")
    for job in (waiting, running):
        cluster.batch.cancel_job(jobId=job, reason="not now")
    found = cluster.ended(waiting)
    assert (found["status"], found["statusReason"], found["isCancelled"]) == ("FAILED", "not now", True)
    assert cluster.describe(running)["status"] == "RUNNING"


def test_a_job_is_cancelled_or_terminated_for_a_reason_even_after_its_end(cluster: Cluster) -> None:
    job = cluster.submit("pass", nodes=1)
    cluster.ended(job)
    for call in (cluster.batch.cancel_job, cluster.batch.terminate_job):
        assert refusal(call, jobId=job, reason="")["Message"] == "reason must not be empty"
        call(jobId=job, reason="too late")
    assert cluster.describe(job)["status"] == "SUCCEEDED"


def test_a_job_waits_for_those_it_depends_on_and_fails_with_them(cluster: Cluster) -> None:
    first = cluster.submit(FOREVER)
    second = cluster.submit("pass", dependsOn=[{"jobId": first}])
    third = cluster.submit("pass", dependsOn=[{"jobId": second}])
    cluster.says(first, "ready")
    assert {cluster.describe(job)["status"] for job in (second, third)} == {"PENDING"}
    cluster.batch.terminate_job(jobId=first, reason="enough")
    assert [cluster.ended(job)["statusReason"] for job in (second, third)] == ["Dependent Job failed"] * 2
    fine = cluster.submit("pass")
    assert cluster.ended(cluster.submit("pass", dependsOn=[{"jobId": fine}]))["status"] == "SUCCEEDED"


def test_an_array_runs_each_child_with_its_index(cluster: Cluster) -> None:
    cluster.define_single()
    look = "import os, json\nprint(json.dumps(dict(os.environ)))\n"
    look += "exit(os.environ['AWS_BATCH_JOB_ARRAY_INDEX'] == '2')"
    job = cluster.submit_single(look, arrayProperties={"size": 3})
    found = cluster.ended(job)
    assert found["status"] == "FAILED"
    counts = found["arrayProperties"]["statusSummary"]
    assert (counts["SUCCEEDED"], counts["FAILED"]) == (2, 1)
    child = json.loads(cluster.lines(f"{job}:1", None)[0])
    assert (child["AWS_BATCH_JOB_ARRAY_INDEX"], child["AWS_BATCH_JOB_ARRAY_SIZE"]) == ("1", "3")
    assert child["AWS_BATCH_JOB_ID"] == f"{job}:1"
    listed = cluster.batch.list_jobs(arrayJobId=job, jobStatus="SUCCEEDED")["jobSummaryList"]
    assert {each["arrayProperties"]["index"] for each in listed} == {0, 1}


def names(answer: Any) -> list[str]:
    return [each["jobName"] for each in answer["jobSummaryList"]]


def test_jobs_are_listed_by_name_state_and_page(cluster: Cluster) -> None:
    ids = [cluster.submit("pass", nodes=1, jobName=name) for name in ("bert-1", "bert-2", "gpt-1")]
    for job in ids:
        cluster.ended(job)
    by_name = [{"name": "JOB_NAME", "values": ["BERT-*"]}]
    assert names(cluster.batch.list_jobs(jobQueue="queue", filters=by_name)) == ["bert-2", "bert-1"]
    assert names(cluster.batch.list_jobs(jobQueue="queue")) == []
    assert len(names(cluster.batch.list_jobs(jobQueue="queue", jobStatus="SUCCEEDED"))) == 3
    pages = cluster.batch.get_paginator("list_jobs").paginate(
        jobQueue="queue", filters=ALL, PaginationConfig={"PageSize": 2}
    )
    assert [names(page) for page in pages] == [["gpt-1", "bert-2"], ["bert-1"]]
    job = cluster.submit("pass")
    cluster.ended(job)
    listed = cluster.batch.list_jobs(multiNodeJobId=job, jobStatus="SUCCEEDED")["jobSummaryList"]
    assert [each["nodeProperties"] for each in listed] == [
        {"nodeIndex": 0, "isMainNode": True},
        {"nodeIndex": 1, "isMainNode": False},
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"jobDefinition": "absent"}, "does not exist"),
        ({"jobQueue": "absent"}, "not found"),
        ({"dependsOn": [{"jobId": "absent"}]}, "does not exist"),
        ({"containerOverrides": {"command": ["a"]}}, "containerOverrides"),
        ({"arrayProperties": {"size": 2}}, "array"),
        ({"nodeOverrides": {"numNodes": 1}, "jobDefinition": "closed"}, "has no upper end"),
    ],
)
def test_what_batch_refuses_is_refused(cluster: Cluster, change: dict[str, Any], words: str) -> None:
    groups = [{"targetNodes": "0:1", "container": {"image": "a", "vcpus": 1, "memory": 8}}]
    cluster.define("closed", nodeProperties={"numNodes": 2, "mainNode": 0, "nodeRangeProperties": groups})
    given = {"jobName": "trial", "jobQueue": "queue", "jobDefinition": "train", **change}
    said = refusal(cluster.batch.submit_job, **given)
    assert said["Code"] == "ClientException"
    assert words in said["Message"]


def test_jobs_of_a_deleted_queue_end_and_are_not_forgotten(cluster: Cluster) -> None:
    job = cluster.submit(FOREVER)
    cluster.says(job, "ready")
    refused = refusal(cluster.batch.delete_job_queue, jobQueue="queue")
    assert (refused["Code"], "queue is ENABLED: disable it first" in refused["Message"]) == (
        "ClientException",
        True,
    )
    cluster.batch.update_job_queue(jobQueue="queue", state="DISABLED")
    said = refusal(cluster.submit, code="pass")
    assert (said["Code"], "disabled" in said["Message"]) == ("ClientException", True)
    cluster.batch.delete_job_queue(jobQueue="queue")
    ended = cluster.ended(job)
    assert (ended["status"], ended["statusReason"]) == ("FAILED", "The job queue was deleted")
