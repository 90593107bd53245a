"""The instances of a job's nodes: they are launched, billed and ended, and one that never joins stays."""

from __future__ import annotations

from typing import Any

from slipway.yard.endpoint import control
from slipway.yard.gateway.faults import Fault, FaultKind, script
from tests.yard.asking import refusal
from tests.yard.services.batch.conftest import FOREVER, Cluster

UNDETERMINED = "UNDETERMINED - Batch job is blocked, root cause is undetermined."
DL = "L-6E869C2A"
# No agent registers: such a fault is none of an API's, so it is scripted where the agents would call.
SILENT = Fault(service="ecs", operation="RegisterContainerInstance", kind=FaultKind.SERVER_ERROR, times=None)


def running(cluster: Cluster) -> list[dict[str, Any]]:
    billed = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    answer = cluster.yard.client("ec2").describe_instances(Filters=billed)
    return [instance for found in answer["Reservations"] for instance in found["Instances"]]


def waits_undetermined(cluster: Cluster, job: str) -> None:
    cluster.until(lambda: cluster.describe(job).get("statusReason") == UNDETERMINED)
    assert cluster.describe(job)["status"] == "RUNNABLE"


def test_a_job_has_an_instance_for_each_node_until_it_ends(cluster: Cluster) -> None:
    job = cluster.submit(FOREVER, nodes=2)
    cluster.says(job, "ready")
    assert [each["InstanceType"] for each in running(cluster)] == ["dl1.24xlarge"] * 2
    cluster.batch.terminate_job(jobId=job, reason="enough")
    cluster.ended(job)
    assert running(cluster) == []


def test_the_reason_of_a_lost_host_names_an_instance_that_ec2_knows(cluster: Cluster) -> None:
    job = cluster.submit(FOREVER, nodes=2, retryStrategy={"attempts": 1})
    cluster.says(job, "ready")
    known = {each["InstanceId"] for each in running(cluster)}
    cluster.kill_node(job, 0)
    said = cluster.ended(job)["statusReason"]
    assert any(f"(instance {instance})" in said for instance in known), said


def test_an_instance_whose_agent_never_registers_stays_and_bills_and_nothing_ends_the_wait(
    cluster: Cluster,
) -> None:
    script(cluster.yard, SILENT)
    job = cluster.submit("pass", nodes=2)
    waits_undetermined(cluster, job)
    assert len(running(cluster)) == 2
    (queue,) = cluster.batch.describe_job_queues(jobQueues=["queue"])["jobQueues"]
    assert queue["jobStateTimeLimitActions"], "the queue has limits, and none of them strikes"
    waits_undetermined(cluster, job)
    cluster.batch.cancel_job(jobId=job, reason="somebody looked")
    assert cluster.ended(job)["status"] == "FAILED"
    assert running(cluster) == []


def test_no_time_limit_can_be_set_for_an_undetermined_reason(cluster: Cluster) -> None:
    action = {"reason": "UNDETERMINED", "state": "RUNNABLE", "maxTimeSeconds": 600, "action": "CANCEL"}
    refused = refusal(cluster.batch.update_job_queue, jobQueue="queue", jobStateTimeLimitActions=[action])
    assert refused["Code"] == "ClientException"


def test_a_job_above_the_quota_waits_without_a_word_of_the_quota_and_starts_when_it_is_raised(
    cluster: Cluster,
) -> None:
    control(cluster.yard, "POST", "/grant-quota", {"code": DL, "vcpus": 96})
    job = cluster.submit("pass", nodes=2)
    waits_undetermined(cluster, job)
    assert running(cluster) == []
    control(cluster.yard, "POST", "/grant-quota", {"code": DL, "vcpus": 192})
    assert cluster.ended(job)["status"] == "SUCCEEDED"
