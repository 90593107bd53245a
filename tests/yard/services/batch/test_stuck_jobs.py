"""The deployed runbook, started by the deployed rule, cancels a job that stays stuck, and no other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from slipway.jobs.words.names import TARGET_TAG
from slipway.yard.endpoint import ACCOUNT
from slipway.yard.gateway.faults import script, unscript
from tests.infra.synthesis import of_type, only, templates_of
from tests.waiting import until
from tests.yard.asking import make_role
from tests.yard.services.batch.conftest import Cluster
from tests.yard.services.batch.test_instances import SILENT, running

REASON = "UNDETERMINED"
RUNBOOK = "cancel"
SSM, EVENTS = {"Service": "ssm.amazonaws.com"}, {"Service": "events.amazonaws.com"}


RESOURCES = {
    "CancelOwnJobs": f"arn:aws:batch:us-east-1:{ACCOUNT}:job/*",
    "StartRunbook": [
        f"arn:aws:ssm:us-east-1:{ACCOUNT}:document/{RUNBOOK}",
        f"arn:aws:ssm:us-east-1:{ACCOUNT}:automation-execution/*",
    ],
}


def of_template(role: str) -> list[dict[str, Any]]:
    """Return the role's permissions in dl1's template, with these tests' names."""
    policies = of_type(templates_of().compute, "AWS::IAM::ManagedPolicy")
    (may,) = [each for name, each in policies.items() if name.startswith(role)]
    return [
        {**each, "Resource": RESOURCES.get(each["Sid"], "*")} for each in may["PolicyDocument"]["Statement"]
    ]


def deploy(cluster: Cluster, *, reason: str = REASON, rule_trusts: Mapping[str, str] = EVENTS) -> None:
    """Make the runbook and the rule of dl1's template in the cluster of these tests."""
    content = dict(only(templates_of().compute, "AWS::SSM::Document")["Content"])
    content["assumeRole"] = make_role(cluster.yard, "runbook", SSM, *of_template("StuckRunbook"))
    cluster.yard.client("ssm").create_document(
        Name=RUNBOOK, DocumentType="Automation", DocumentFormat="JSON", Content=json.dumps(content)
    )
    events, rule = cluster.yard.client("events"), only(templates_of().compute, "AWS::Events::Rule")
    queue = cluster.batch.describe_job_queues(jobQueues=["queue"])["jobQueues"][0]["jobQueueArn"]
    detail = {"jobQueue": [queue], "statusReason": [{"prefix": reason}]}
    events.put_rule(Name="stuck", EventPattern=json.dumps({**rule["EventPattern"], "detail": detail}))
    target = {
        "Id": "Runbook",
        "Arn": f"arn:aws:ssm:us-east-1:{ACCOUNT}:automation-definition/{RUNBOOK}:$DEFAULT",
        "RoleArn": make_role(cluster.yard, "rule", rule_trusts, *of_template("StuckRule")),
        "InputTransformer": rule["Targets"][0]["InputTransformer"],
    }
    events.put_targets(Rule="stuck", Targets=[target])


def executions(cluster: Cluster) -> list[dict[str, Any]]:
    found = cluster.yard.client("ssm").describe_automation_executions()
    return list(found["AutomationExecutionMetadataList"])


def stuck(cluster: Cluster) -> str:
    """Submit a job whose nodes are launched and never join."""
    script(cluster.yard, SILENT)
    job = cluster.submit("pass", tags={TARGET_TAG: "dl1"})
    until(lambda: cluster.describe(job).get("statusReason", "").startswith(REASON))
    unscript(cluster.yard)
    return job


def test_a_job_that_stays_stuck_is_cancelled_and_says_why(cluster: Cluster) -> None:
    deploy(cluster)
    job = stuck(cluster)
    assert len(running(cluster)) == 2
    found = cluster.ended(job)
    assert found["statusReason"].startswith(f"{REASON} for 60 minutes: the nodes of the job did not join")
    assert found["attempts"] == []
    assert running(cluster) == []
    until(lambda: executions(cluster)[0]["AutomationExecutionStatus"] == "Success")


def test_a_job_that_waits_for_another_reason_is_not_looked_at(cluster: Cluster) -> None:
    deploy(cluster, reason="CAPACITY")
    job = stuck(cluster)
    assert executions(cluster) == []
    assert cluster.describe(job)["status"] == "RUNNABLE"


def test_a_job_that_runs_by_then_is_left_alone(cluster: Cluster) -> None:
    deploy(cluster)
    job = cluster.submit("import signal\nsignal.pause()")
    until(lambda: cluster.describe(job)["status"] == "RUNNING")
    told = {"Job": [job], "Wait": ["PT1S"]}
    ssm = cluster.yard.client("ssm")
    started = ssm.start_automation_execution(DocumentName=RUNBOOK, Parameters=told)["AutomationExecutionId"]

    def execution() -> dict[str, Any]:
        shown = ssm.get_automation_execution(AutomationExecutionId=started)["AutomationExecution"]
        return dict(shown)

    until(lambda: execution()["AutomationExecutionStatus"] == "Success")
    assert [step["StepName"] for step in execution()["StepExecutions"]] == ["Wait", "Look", "IsWaiting"]
    assert cluster.describe(job)["status"] == "RUNNING"
    cluster.batch.terminate_job(jobId=job, reason="done")


def test_a_rule_whose_role_does_not_trust_events_starts_nothing(cluster: Cluster) -> None:
    deploy(cluster, rule_trusts={"Service": "ec2.amazonaws.com"})
    stuck(cluster)
    assert executions(cluster) == []
    metrics = cluster.yard.client("cloudwatch").list_metrics(MetricName="FailedInvocations")
    assert len(metrics["Metrics"]) == 1


@pytest.mark.parametrize(
    "given", [{"Job": ["; rm -rf /"]}, {"Wait": ["PT1S"]}, {"Job": ["x" * 36, "y"], "No": ["z"]}]
)
def test_a_runbook_takes_only_what_it_declares(cluster: Cluster, given: dict[str, list[str]]) -> None:
    deploy(cluster)
    ssm = cluster.yard.client("ssm")
    with pytest.raises(ssm.exceptions.InvalidAutomationExecutionParametersException):
        ssm.start_automation_execution(DocumentName=RUNBOOK, Parameters=given)
