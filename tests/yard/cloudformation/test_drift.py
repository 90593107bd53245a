"""Drift names what was changed behind a stack's back, and says what it could not look at."""

from __future__ import annotations

from typing import Any

from tests.yard.cloudformation.conftest import Cfn
from tests.yard.cloudformation.templates import topic

POLICY = {"Type": "AWS::SNS::TopicPolicy", "Properties": {"PolicyDocument": {}, "Topics": [{"Ref": "A"}]}}


def drifts(cfn: Cfn) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    started = cfn("DetectStackDrift", StackName="s")
    status = cfn("DescribeStackDriftDetectionStatus", **started)
    found = cfn("DescribeStackResourceDrifts", StackName="s")["StackResourceDrifts"]
    return status, {one["LogicalResourceId"]: one for one in found}


def test_an_untouched_stack_is_in_sync_and_names_what_was_not_checked(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one"), "P": POLICY})
    status, found = drifts(cfn)
    assert (status["StackDriftStatus"], status["DetectionStatus"]) == ("IN_SYNC", "DETECTION_COMPLETE")
    assert found["A"]["StackResourceDriftStatus"] == "IN_SYNC"
    assert found["P"]["StackResourceDriftStatus"] == "NOT_CHECKED"


def test_a_changed_and_a_deleted_resource_are_told_apart(cfn: Cfn) -> None:
    tags = [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    bodies = {"A": topic("one"), "B": topic("b"), "T": topic()}
    bodies["T"]["Properties"] = {"Tags": tags}
    cfn.create("s", bodies)
    cfn.cloud.of("A")["DisplayName"] = "elsewhere"
    cfn.cloud.of("T")["Tags"] = [*reversed(tags), {"Key": "aws:service", "Value": "x"}]
    del cfn.cloud.live[cfn.resources("s")["B"]]
    status, found = drifts(cfn)
    assert (status["StackDriftStatus"], status["DriftedStackResourceCount"]) == ("DRIFTED", 2)
    assert found["A"]["PropertyDifferences"] == [
        {
            "PropertyPath": "/DisplayName",
            "ExpectedValue": "one",
            "ActualValue": "elsewhere",
            "DifferenceType": "NOT_EQUAL",
        }
    ]
    assert found["B"]["StackResourceDriftStatus"] == "DELETED"
    assert found["T"]["StackResourceDriftStatus"] == "IN_SYNC"
    one = cfn("DetectStackResourceDrift", StackName="s", LogicalResourceId="A")["StackResourceDrift"]
    assert one["StackResourceDriftStatus"] == "MODIFIED"


def test_what_the_template_leaves_to_the_service_is_no_drift(cfn: Cfn) -> None:
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"LifecycleConfiguration": {"Rules": []}}}
    cfn.create("s", {"B": bucket})
    cfn.cloud.of("B")["LifecycleConfiguration"]["TransitionDefaultMinimumObjectSize"] = (
        "all_storage_classes_128K"
    )
    assert drifts(cfn)[1]["B"]["StackResourceDriftStatus"] == "IN_SYNC"
    cfn.cloud.of("B")["LifecycleConfiguration"]["Rules"].append({"Status": "Enabled"})
    assert drifts(cfn)[1]["B"]["StackResourceDriftStatus"] == "MODIFIED"
