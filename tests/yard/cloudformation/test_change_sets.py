"""A change set says what would happen; executing it does exactly that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.engine.changes import NO_CHANGES
from tests.yard.cloudformation.conftest import Cfn, text
from tests.yard.cloudformation.templates import topic


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


def test_a_property_that_may_need_a_new_resource_is_conditional(cfn: Cfn) -> None:
    def instance(kind: str) -> dict[str, Any]:
        return {"I": {"Type": "AWS::EC2::Instance", "Properties": {"InstanceType": kind, "ImageId": "ami-1"}}}

    cfn.create("s", instance("t3.micro"))
    assert by_name(propose(cfn, instance("t3.small")))["I"]["Replacement"] == "Conditional"


def test_nested_properties_that_cannot_change_replace_their_resource(cfn: Cfn) -> None:
    def environment(cpus: int, role: str) -> dict[str, Any]:
        compute = {"Type": "SPOT", "MaxvCpus": cpus, "Subnets": ["s"], "SpotIamFleetRole": role}
        properties = {"Type": "MANAGED", "ComputeResources": compute}
        return {"E": {"Type": "AWS::Batch::ComputeEnvironment", "Properties": properties}}

    cfn.create("s", environment(1, "one"))
    assert by_name(propose(cfn, environment(2, "one")))["E"]["Replacement"] == "False"
    cfn("DeleteChangeSet", StackName="s", ChangeSetName="c")
    assert by_name(propose(cfn, environment(1, "two")))["E"]["Replacement"] == "True"


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


def test_a_change_set_to_create_a_stack_that_exists_is_refused(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic()})
    refused = cfn.refusal(
        "CreateChangeSet",
        StackName="s",
        ChangeSetName="c",
        ChangeSetType="CREATE",
        TemplateBody=text({"A": topic()}),
    )
    assert "Stack [s] already exists and cannot be created again with the changeSet [c]." in refused


def test_what_the_yard_cannot_do_with_a_change_set_it_refuses(cfn: Cfn) -> None:
    names = {"StackName": "s", "ChangeSetName": "c", "TemplateBody": text({"A": topic()})}
    assert "ChangeSetType is IMPORT" in cfn.refusal("CreateChangeSet", **names, ChangeSetType="IMPORT")
    cfn.create("s", {"A": topic()})
    assert "revert drift" in cfn.refusal("CreateChangeSet", **names, DeploymentMode="REVERT_DRIFT")


def test_executing_one_change_set_discards_the_others(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one")})
    propose(cfn, {"A": topic("two")})
    cfn("CreateChangeSet", StackName="s", ChangeSetName="other", TemplateBody=text({"A": topic("three")}))
    cfn("ExecuteChangeSet", StackName="s", ChangeSetName="c")
    cfn.settled("s")
    assert cfn.cloud.of("A") == {"DisplayName": "two"}
    assert "ChangeSetNotFound" in cfn.refusal("ExecuteChangeSet", StackName="s", ChangeSetName="other")
