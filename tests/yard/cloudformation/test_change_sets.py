"""A change set says what would change, including tags, and drift what was changed by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from slipway.yard.cloudformation.engine.changes import NO_CHANGES
from slipway.yard.cloudformation.engine.records import with_stack_tags
from slipway.yard.cloudformation.resources import registry
from slipway.yard.cloudformation.resources.api import ApiResource
from slipway.yard.cloudformation.template import schemas
from tests.yard.cloudformation.conftest import Cfn, text, topic


def propose(cfn: Cfn, body: Mapping[str, Any], kind: str = "UPDATE", **given: Any) -> dict[str, Any]:
    names = {"StackName": "s", "ChangeSetName": "c"}
    cfn("CreateChangeSet", **names, ChangeSetType=kind, TemplateBody=text(body), **given)
    return cfn("DescribeChangeSet", **names, IncludePropertyValues=True)


def by_name(described: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    changes = [one["ResourceChange"] for one in described["Changes"]]
    return {change["LogicalResourceId"]: change for change in changes}


def test_a_change_set_creates_a_stack_when_it_is_executed_and_not_before(cfn: Cfn) -> None:
    described = propose(cfn, {"A": topic()}, kind="CREATE")
    assert (described["Status"], described["ExecutionStatus"]) == ("CREATE_COMPLETE", "AVAILABLE")
    assert cfn.describe("s")["StackStatus"] == "REVIEW_IN_PROGRESS"
    assert cfn.cloud.calls == []
    assert [change["Action"] for change in by_name(described).values()] == ["Add"]
    cfn("ExecuteChangeSet", StackName="s", ChangeSetName=described["ChangeSetId"])
    assert cfn.settled("s") == "CREATE_COMPLETE"
    assert cfn.describe("s")["ChangeSetId"] == described["ChangeSetId"]


def test_nothing_to_change_is_a_failed_change_set_in_awss_own_words(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one")})
    described = propose(cfn, {"A": topic("one")})
    assert (described["Status"], described["StatusReason"]) == ("FAILED", NO_CHANGES)
    assert NO_CHANGES == (
        "The submitted information didn't contain changes."
        " Submit different information to create a change set."
    )
    assert "InvalidChangeSetStatus" in cfn.refusal("ExecuteChangeSet", StackName="s", ChangeSetName="c")


def test_a_change_in_place_is_told_from_a_replacement(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one"), "B": topic(name="x"), "C": topic({"Ref": "B"}), "D": topic()})
    described = propose(cfn, {"A": topic("two"), "B": topic(name="y"), "C": topic({"Ref": "B"})})
    changes = by_name(described)
    assert {name: change.get("Replacement") for name, change in changes.items()} == {
        "A": "False",
        "B": "True",
        "C": "False",
        "D": None,
    }
    assert changes["B"]["PolicyAction"] == "ReplaceAndDelete"
    assert (changes["D"]["Action"], changes["D"]["PolicyAction"]) == ("Remove", "Delete")
    (detail,) = changes["A"]["Details"]
    assert detail["Target"] == {
        "Attribute": "Properties",
        "Name": "DisplayName",
        "RequiresRecreation": "Never",
        "Path": "/Properties/DisplayName",
        "BeforeValue": "one",
        "AfterValue": "two",
        "AttributeChangeType": "Modify",
    }
    (detail,) = changes["C"]["Details"]
    assert (detail["Evaluation"], detail["ChangeSource"], detail["CausingEntity"]) == (
        "Dynamic",
        "ResourceReference",
        "B",
    )
    assert changes["A"]["BeforeContext"] == '{"Properties": {"DisplayName": "one"}}'


def test_nested_properties_that_cannot_change_replace_their_resource_or_may(cfn: Cfn) -> None:
    def instance(kind: str) -> dict[str, Any]:
        return {"I": {"Type": "AWS::EC2::Instance", "Properties": {"InstanceType": kind, "ImageId": "ami-1"}}}

    def environment(cpus: int, role: str) -> dict[str, Any]:
        compute = {"Type": "SPOT", "MaxvCpus": cpus, "Subnets": ["s"], "SpotIamFleetRole": role}
        properties = {"Type": "MANAGED", "ComputeResources": compute}
        return {"E": {"Type": "AWS::Batch::ComputeEnvironment", "Properties": properties}}

    cfn.create("s", environment(1, "one"))
    assert by_name(propose(cfn, environment(2, "one")))["E"]["Replacement"] == "False"
    cfn("DeleteChangeSet", StackName="s", ChangeSetName="c")
    assert by_name(propose(cfn, environment(1, "two")))["E"]["Replacement"] == "True"
    cfn.create("t", instance("t3.micro"))
    names = {"StackName": "t", "ChangeSetName": "c"}
    cfn("CreateChangeSet", **names, TemplateBody=text(instance("t3.small")))
    assert by_name(cfn("DescribeChangeSet", **names))["I"]["Replacement"] == "Conditional"


def test_metadata_alone_is_a_change_that_touches_no_resource(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one")})
    described = propose(cfn, {"A": topic("one", Metadata={"aws:cdk:path": "x"})})
    assert by_name(described)["A"]["Scope"] == ["Metadata"]
    cfn("ExecuteChangeSet", StackName="s", ChangeSetName="c")
    assert cfn.settled("s") == "UPDATE_COMPLETE"
    assert ("update", "A") not in cfn.cloud.calls


def test_outputs_and_tags_alone_are_changes(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic()})
    described = propose(cfn, {"Resources": {"A": topic()}, "Outputs": {"O": {"Value": "v"}}})
    assert (described["Status"], described["Changes"]) == ("CREATE_COMPLETE", [])
    cfn("ExecuteChangeSet", StackName="s", ChangeSetName="c")
    cfn.settled("s")
    assert cfn.outputs("s") == {"O": "v"}
    body = {"Resources": {"A": topic()}, "Outputs": {"O": {"Value": "v"}}}
    cfn("DeleteChangeSet", StackName="s", ChangeSetName="c")
    assert propose(cfn, body, Tags=[{"Key": "k", "Value": "v"}])["Status"] == "CREATE_COMPLETE"


def test_wrong_properties_fail_the_change_set_and_its_events_say_why(cfn: Cfn) -> None:
    """The CDK prints these events."""
    wrong = {"Type": "AWS::S3::BucketPolicy", "Properties": {"Bucket": "b", "Policy": {}}}
    described = propose(cfn, {"A": topic(), "P": wrong}, kind="CREATE")
    assert described["Status"] == "FAILED"
    assert "AWS::EarlyValidation::PropertyValidation" in described["StatusReason"]
    events = cfn("DescribeEvents", ChangeSetName=described["ChangeSetId"], Filters={"FailedEvents": True})
    found = [(one["ValidationPath"], one["ValidationStatusReason"]) for one in events["OperationEvents"]]
    assert found == [
        ("/Resources/P/Properties", "Extraneous key [Policy] is not permitted"),
        ("/Resources/P/Properties", "Required key [PolicyDocument] not found"),
    ]
    assert cfn.cloud.calls == []


def test_a_change_set_can_be_deleted_by_name_and_so_can_one_that_is_not_there(cfn: Cfn) -> None:
    propose(cfn, {"A": topic()}, kind="CREATE")
    cfn("DeleteChangeSet", StackName="s", ChangeSetName="c")
    cfn("DeleteChangeSet", StackName="s", ChangeSetName="c")
    assert cfn("ListChangeSets", StackName="s")["Summaries"] == []
    refused = cfn.refusal("DescribeChangeSet", StackName="s", ChangeSetName="c")
    assert refused == "ChangeSetNotFound: ChangeSet [c] does not exist"
    assert cfn.delete("s") == "DELETE_COMPLETE"


def test_what_the_yard_cannot_do_with_a_change_set_it_refuses(cfn: Cfn) -> None:
    names = {"StackName": "s", "ChangeSetName": "c", "TemplateBody": text({"A": topic()})}
    assert "ChangeSetType is IMPORT" in cfn.refusal("CreateChangeSet", **names, ChangeSetType="IMPORT")
    cfn.create("s", {"A": topic()})
    assert "revert drift" in cfn.refusal("CreateChangeSet", **names, DeploymentMode="REVERT_DRIFT")
    exists = "Stack [s] already exists and cannot be created again with the changeSet [c]."
    assert exists in cfn.refusal("CreateChangeSet", **names, ChangeSetType="CREATE")


def test_executing_one_change_set_discards_the_others(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one")})
    propose(cfn, {"A": topic("two")})
    cfn("CreateChangeSet", StackName="s", ChangeSetName="other", TemplateBody=text({"A": topic("three")}))
    cfn("ExecuteChangeSet", StackName="s", ChangeSetName="c")
    cfn.settled("s")
    assert cfn.cloud.of("A") == {"DisplayName": "two"}
    assert "ChangeSetNotFound" in cfn.refusal("ExecuteChangeSet", StackName="s", ChangeSetName="other")


# Drift names what was changed outside a stack, and says what it could not check.
POLICY = {"Type": "AWS::SNS::TopicPolicy", "Properties": {"PolicyDocument": {}, "Topics": [{"Ref": "A"}]}}


def drifts(cfn: Cfn) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    started = cfn("DetectStackDrift", StackName="s")
    status = cfn("DescribeStackDriftDetectionStatus", **started)
    found = cfn("DescribeStackResourceDrifts", StackName="s")["StackResourceDrifts"]
    return status, {one["LogicalResourceId"]: one for one in found}


def test_what_was_changed_deleted_left_to_the_service_and_not_checked_is_told_apart(cfn: Cfn) -> None:
    tags = [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"LifecycleConfiguration": {"Rules": []}}}
    bodies = {"A": topic("one"), "B": topic("b"), "T": topic(), "P": POLICY, "S": bucket}
    bodies["T"]["Properties"] = {"Tags": tags}
    cfn.create("s", bodies)
    status, found = drifts(cfn)
    assert (status["StackDriftStatus"], status["DetectionStatus"]) == ("IN_SYNC", "DETECTION_COMPLETE")
    told = {name: each["StackResourceDriftStatus"] for name, each in found.items()}
    assert told == {**dict.fromkeys("ABTS", "IN_SYNC"), "P": "NOT_CHECKED"}
    cfn.cloud.of("A")["DisplayName"] = "elsewhere"
    cfn.cloud.of("T")["Tags"] = [*reversed(tags), {"Key": "aws:service", "Value": "x"}]
    cfn.cloud.of("S")["LifecycleConfiguration"]["TransitionDefaultMinimumObjectSize"] = "128K"
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
    told = {name: found[name]["StackResourceDriftStatus"] for name in "BTS"}
    assert told == {"B": "DELETED", "T": "IN_SYNC", "S": "IN_SYNC"}
    cfn.cloud.of("S")["LifecycleConfiguration"]["Rules"].append({"Status": "Enabled"})
    assert drifts(cfn)[1]["S"]["StackResourceDriftStatus"] == "MODIFIED"
    one = cfn("DetectStackResourceDrift", StackName="s", LogicalResourceId="A")["StackResourceDrift"]
    assert one["StackResourceDriftStatus"] == "MODIFIED"


# A stack's tags reach its resources, and changing only them is a change.
ML = [{"Key": "team", "Value": "ml"}]
OWN = [{"Key": "team", "Value": "own"}]


def test_a_change_set_of_tags_alone_says_and_makes_its_changes_and_a_template_s_own_tags_win(
    cfn: Cfn,
) -> None:
    tagged = topic("one")
    tagged["Properties"]["Tags"] = OWN
    cfn.create("s", {"A": topic("one"), "B": tagged})
    change = by_name(propose(cfn, {"A": topic("one"), "B": tagged}, Tags=ML))["A"]
    assert (change["LogicalResourceId"], change["Replacement"], change["Scope"]) == ("A", "False", ["Tags"])
    cfn("ExecuteChangeSet", StackName="s", ChangeSetName="c")
    assert cfn.settled("s") == "UPDATE_COMPLETE"
    assert (cfn.cloud.of("A")["Tags"], cfn.cloud.of("B")["Tags"]) == (ML, OWN)
    cfn("DeleteChangeSet", StackName="s", ChangeSetName="c")
    change = by_name(propose(cfn, {"A": topic("two"), "B": tagged}, Tags=ML))["A"]
    before, after = (json.loads(change[f"{when}Context"])["Properties"] for when in ("Before", "After"))
    assert (before["Tags"], after["Tags"]) == (ML, ML), "what it shows of a change keeps them"


def test_tags_that_a_failed_update_set_are_taken_back(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one")})
    cfn.cloud.fail("create", "B")
    cfn.update("s", {"A": topic("one"), "B": topic("two", DependsOn="A")}, Tags=ML)
    assert "Tags" not in cfn.cloud.of("A")


@pytest.mark.parametrize(
    ("kind", "name", "tags"),
    [
        ("AWS::SSM::Parameter", "Tags", {"team": "ml"}),
        ("AWS::EFS::FileSystem", "FileSystemTags", ML),
        ("AWS::AutoScaling::AutoScalingGroup", "Tags", [{**ML[0], "PropagateAtLaunch": True}]),
        ("AWS::FSx::FileSystem", "Tags", ML),
    ],
)
def test_tags_stand_where_and_as_the_type_writes_them(kind: str, name: str, tags: object) -> None:
    assert with_stack_tags(kind, {}, {"team": "ml"}) == {name: tags}
    assert with_stack_tags("AWS::EC2::Route", {}, {"team": "ml"}) == {}, "it carries none"


def test_every_type_that_follows_its_stacks_tags_takes_others_in_place() -> None:
    fixed = []
    for kind in registry.TYPES:
        holder, maker = schemas.tag_property(kind), registry.provider(kind)
        if holder is None or not holder.is_updatable or not isinstance(maker, ApiResource):
            continue
        if not any(holder.name in setting.properties for setting in maker.settings):
            fixed.append(kind)
    assert not fixed
