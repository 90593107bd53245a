"""A job whose nodes never join is cancelled with the reason, which no time limit of its queue would do."""

from __future__ import annotations

import json
from typing import Any

from tests.infra.synthesis import OTHER, Properties, as_text, of_type, only, templates_of


def rule() -> Properties:
    return only(templates_of().compute, "AWS::Events::Rule")


def steps(**changes: Any) -> dict[str, dict[str, Any]]:
    content = only(templates_of(**changes).compute, "AWS::SSM::Document")["Content"]
    return {step["name"]: step for step in content["mainSteps"]}


def roles() -> dict[str, list[dict[str, Any]]]:
    policies = of_type(templates_of().compute, "AWS::IAM::ManagedPolicy")
    return {
        name: each["PolicyDocument"]["Statement"]
        for name, each in policies.items()
        if name.startswith("Stuck")
    }


def test_the_runbook_starts_for_jobs_of_this_queue_whose_reason_has_no_time_limit() -> None:
    pattern = rule()["EventPattern"]
    (queue,) = of_type(templates_of().compute, "AWS::Batch::JobQueue")
    assert pattern["detail-type"] == ["Batch Job Queue Blocked"]
    assert pattern["detail"]["jobQueue"] == [{"Fn::GetAtt": [queue, "JobQueueArn"]}]
    assert pattern["detail"]["statusReason"] == [{"prefix": "UNDETERMINED"}]
    limits = only(templates_of().compute, "AWS::Batch::JobQueue")["JobStateTimeLimitActions"]
    assert not any(limit["Reason"].startswith("UNDETERMINED") for limit in limits)


def test_the_rule_tells_the_runbook_which_job() -> None:
    (target,) = rule()["Targets"]
    document = only(templates_of().compute, "AWS::SSM::Document")
    assert as_text(target["Arn"]).endswith(f":automation-definition/{document['Name']}:$DEFAULT")
    transformer = target["InputTransformer"]
    assert transformer["InputPathsMap"] == {"job": "$.detail.jobId"}
    told = json.loads(transformer["InputTemplate"].replace("<job>", '"x"'))
    assert told.keys() <= document["Content"]["parameters"].keys()


def test_a_job_has_as_long_to_start_as_with_any_other_reason() -> None:
    content = only(templates_of(**OTHER).compute, "AWS::SSM::Document")["Content"]
    assert content["parameters"]["Wait"]["default"] == "PT1200S"
    (limit, *_) = only(templates_of(**OTHER).compute, "AWS::Batch::JobQueue")["JobStateTimeLimitActions"]
    assert limit["MaxTimeSeconds"] == 1200


def test_a_job_that_runs_or_waits_for_another_reason_by_then_is_left_alone() -> None:
    for name, then in (("IsWaiting", "Ask"), ("IsStuck", "Cancel")):
        step = steps()[name]
        assert [choice["NextStep"] for choice in step["inputs"]["Choices"]] == [then]
        assert step["isEnd"] is True
    assert steps()["IsWaiting"]["inputs"]["Choices"][0]["StringEquals"] == "RUNNABLE"
    assert steps()["IsStuck"]["inputs"]["Choices"][0]["StartsWith"] == "UNDETERMINED"


def test_the_rule_may_start_its_runbook_and_no_other() -> None:
    """AWS checks the permission on the document and on the execution; the target names the definition."""
    (may,) = [each for name, each in roles().items() if name.startswith("StuckRule")]
    start = next(each for each in may if each["Action"] == "ssm:StartAutomationExecution")
    definition, execution, document = sorted(map(as_text, start["Resource"]))
    (target,) = rule()["Targets"]
    assert definition == as_text(target["Arn"])
    name = only(templates_of().compute, "AWS::SSM::Document")["Name"]
    assert document.endswith(f":document/{name}")
    assert execution.endswith(":automation-execution/*")


def test_the_runbook_may_cancel_jobs_of_its_cluster_and_no_others() -> None:
    (may,) = [each for name, each in roles().items() if name.startswith("StuckRunbook")]
    cancel = next(each for each in may if each["Action"] == "batch:TerminateJob")
    assert cancel["Condition"] == {"StringEquals": {"aws:ResourceTag/slipway:target": "dl1"}}
    assert {each["Action"] for each in may} == {"batch:DescribeJobs", "batch:TerminateJob"}


def test_whoever_is_told_of_a_stuck_job_is_told_that_it_will_be_cancelled() -> None:
    (target,) = only(templates_of().observability, "AWS::Events::Rule")["Targets"]
    assert "It is cancelled if that lasts" in target["InputTransformer"]["InputTemplate"]
