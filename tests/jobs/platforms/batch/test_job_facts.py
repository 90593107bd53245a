"""Facts about a job come from every service of AWS that knows and answers."""

from __future__ import annotations

from typing import Any

from slipway.jobs.platforms.batch.platform import missing_machines
from slipway.jobs.platforms.batch.runs import gather, read_run
from slipway.jobs.words.run import Found
from slipway.jobs.words.targets import BatchTarget
from slipway.yard.gateway.faults import Fault, FaultKind, script
from tests.yard.conftest import RunningYard


def found(target: BatchTarget, **changes: Any) -> Found[BatchTarget]:
    detail = {
        "jobId": "0a1b",
        "jobName": "bert",
        "status": "RUNNABLE",
        "createdAt": 2000,
        "nodeProperties": {"numNodes": 2},
        **changes,
    }
    return Found(run=read_run(detail, target), target=target, detail=detail)


def respond(yard: RunningYard, service: str, operation: str, *body: dict[str, Any]) -> None:
    fault = Fault(service=service, operation=operation, kind=FaultKind.RESPOND, body=body, times=1000)
    script(yard, fault)


def test_the_queue_and_its_environments_are_looked_at(yard_shell: RunningYard, target: BatchTarget) -> None:
    facts = gather(found(target))
    assert facts.queue_state == "ENABLED"
    assert [(environment.name, environment.status) for environment in facts.environments] == [
        ("dl1", "VALID")
    ]
    assert facts.unanswered == ()


def test_jobs_that_came_before_and_wait_too_are_counted(yard_shell: RunningYard, target: BatchTarget) -> None:
    names = ("1", "2", "3", "4", "0a1b")
    respond(yard_shell, "batch", "ListJobs", {"jobSummaryList": [{"jobId": id_} for id_ in names]})
    waiting = {"status": "RUNNABLE", "jobName": "x"}
    others = [
        {"jobId": "1", **waiting, "createdAt": 1000},
        {"jobId": "2", **waiting, "createdAt": 3000},
        {"jobId": "3", **waiting},
        {
            "jobId": "4",
            "jobName": "x",
            "status": "RUNNING",
            "createdAt": 1,
            "nodeProperties": {"numNodes": 8},
        },
    ]
    respond(yard_shell, "batch", "DescribeJobs", {"jobs": others})
    facts = gather(found(target))
    assert (facts.ahead, facts.busy_nodes) == (1, 8)


def test_a_failed_scaling_activity_of_the_cluster_is_found(
    yard_shell: RunningYard, target: BatchTarget
) -> None:
    groups = [{"AutoScalingGroupName": "another-asg-1"}, {"AutoScalingGroupName": "AWSBatch-dl1-asg-2"}]
    template = {"MinSize": 0, "MaxSize": 1, "DesiredCapacity": 0, "DefaultCooldown": 0}
    rest = {"AvailabilityZones": [], "HealthCheckType": "EC2", "CreatedTime": "2026-11-21T12:00:00Z"}
    full = [{**group, **template, **rest} for group in groups]
    respond(yard_shell, "autoscaling", "DescribeAutoScalingGroups", {"AutoScalingGroups": full})
    activity = {
        "ActivityId": "1",
        "AutoScalingGroupName": "x",
        "Cause": "y",
        "StartTime": "2026-11-21T12:00:00Z",
    }
    activities = [
        {**activity, "StatusCode": "Successful"},
        {**activity, "StatusCode": "Failed", "StatusMessage": "no capacity"},
    ]
    respond(yard_shell, "autoscaling", "DescribeScalingActivities", {"Activities": activities})
    assert gather(found(target)).scaling_failure == "no capacity"


def test_the_words_and_the_exit_code_of_nodes_and_attempts_are_found(
    yard_shell: RunningYard, target: BatchTarget
) -> None:
    node = {
        "jobId": "0a1b#0",
        "jobName": "bert",
        "status": "FAILED",
        "container": {"exitCode": 137, "reason": "OutOfMemoryError: Container killed due to memory usage"},
    }
    respond(yard_shell, "batch", "DescribeJobs", {"jobs": [node]})
    attempt = {"container": {}, "statusReason": "Essential container in task exited"}
    strategy = {"attempts": 3, "evaluateOnExit": []}
    facts = gather(found(target, status="FAILED", attempts=[attempt], retryStrategy=strategy))
    assert (facts.exit_code, facts.allowed_attempts) == (137, 3)
    assert facts.said == (
        "Essential container in task exited",
        "OutOfMemoryError: Container killed due to memory usage",
    )


def test_the_last_error_that_the_main_node_logged_is_found(
    yard_shell: RunningYard, target: BatchTarget
) -> None:
    node = {"jobId": "0a1b#0", "jobName": "bert", "status": "FAILED", "container": {"logStreamName": "job/0"}}
    respond(yard_shell, "batch", "DescribeJobs", {"jobs": [node]})
    messages = ["[0] loss 1.0", "[0] error: the loss is NaN", "[node 0] error: rank 0 ended with 2"]
    events = [{"timestamp": 1, "message": message} for message in messages]
    respond(yard_shell, "logs", "GetLogEvents", {"events": events})
    assert gather(found(target, status="FAILED")).last_error == "[0] error: the loss is NaN"
    assert gather(found(target)).last_error is None


def test_a_dependency_that_has_not_succeeded_is_named(yard_shell: RunningYard, target: BatchTarget) -> None:
    other = {"jobId": "9f", "jobName": "data", "status": "RUNNING"}
    respond(yard_shell, "batch", "DescribeJobs", {"jobs": [other]})
    (awaited,) = gather(found(target, dependsOn=[{"jobId": "9f"}])).depends_on
    assert (awaited.name, awaited.status) == ("data", "RUNNING")


def test_what_is_not_answered_is_named_and_hides_nothing_else(
    yard_shell: RunningYard, target: BatchTarget
) -> None:
    fault = Fault(
        service="autoscaling", operation="DescribeAutoScalingGroups", kind=FaultKind.SERVER_ERROR, times=None
    )
    script(yard_shell, fault)
    facts = gather(found(target))
    assert facts.unanswered == ("autoscaling:DescribeAutoScalingGroups",)
    assert facts.queue_state == "ENABLED"


def test_an_environment_that_starts_no_machines_is_missed_machines(
    yard_shell: RunningYard, target: BatchTarget
) -> None:
    assert missing_machines(target) == []
    invalid = {"computeEnvironmentName": "dl1", "state": "ENABLED", "status": "INVALID"}
    said = {**invalid, "statusReason": "CLIENT_ERROR - no such role"}
    respond(yard_shell, "batch", "DescribeComputeEnvironments", {"computeEnvironments": [said]})
    what = "compute environment dl1 is ENABLED and INVALID: CLIENT_ERROR - no such role"
    assert missing_machines(target) == [(what, "fix what AWS reports, and deploy again")]


def test_a_queue_that_an_interrupted_destroy_left_closed_is_missed_machines(
    yard_shell: RunningYard, target: BatchTarget
) -> None:
    respond(yard_shell, "batch", "DescribeJobQueues", {"jobQueues": [{"state": "DISABLED"}]})
    fix = "slipway cluster destroy dl1, if that was interrupted; or enable the queue"
    assert missing_machines(target) == [("its queue is DISABLED and takes no jobs", fix)]
