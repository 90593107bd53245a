"""What a user was promised of a stack: created, changed, undone and deleted as CloudFormation does it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.yard.cloudformation.conftest import Cfn, text
from tests.yard.cloudformation.templates import topic

REF = {"Ref": "A"}


def test_a_created_stack_holds_its_resources_and_shows_its_outputs(cfn: Cfn) -> None:
    body = {
        "Resources": {"B": topic(display=REF), "A": topic(display="a")},
        "Outputs": {
            "Id": {"Value": REF},
            "Arn": {"Value": {"Fn::GetAtt": ["A", "TopicArn"]}, "Description": "where"},
        },
    }
    assert cfn.create("s", body) == "CREATE_COMPLETE"
    assert cfn.cloud.of("B") == {"DisplayName": "topic-1"}
    assert cfn.outputs("s") == {"Id": "topic-1", "Arn": "arn:aws:fake:::topic-1"}
    assert cfn.resources("s") == {"A": "topic-1", "B": "topic-2"}


def test_events_tell_the_whole_story_in_order(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic()}, ClientRequestToken="token")
    assert cfn.events("s") == [
        ("s", "CREATE_IN_PROGRESS"),
        ("A", "CREATE_IN_PROGRESS"),
        ("A", "CREATE_IN_PROGRESS"),
        ("A", "CREATE_COMPLETE"),
        ("s", "CREATE_COMPLETE"),
    ]
    found = cfn("DescribeStackEvents", StackName="s")["StackEvents"]
    assert {one["ClientRequestToken"] for one in found} == {"token"}
    assert len({one["EventId"] for one in found}) == len(found)
    assert found[1]["PhysicalResourceId"] == "topic-1"
    times = [one["Timestamp"].isoformat(timespec="milliseconds") for one in found]
    assert times == sorted(set(times), reverse=True)


def test_a_failed_create_removes_everything_and_names_what_failed(cfn: Cfn) -> None:
    cfn.cloud.fail("create", "B")
    assert cfn.create("s", {"A": topic(), "B": topic(display=REF)}) == "ROLLBACK_COMPLETE"
    assert cfn.cloud.live == {}
    assert ("B", "CREATE_FAILED") in cfn.events("s")
    found = cfn("DescribeStackEvents", StackName="s")["StackEvents"]
    (failed,) = [one for one in found if one["ResourceStatus"] == "CREATE_FAILED"]
    assert 'Resource handler returned message: "no create of B today"' in failed["ResourceStatusReason"]
    assert "HandlerErrorCode: InvalidRequest" in failed["ResourceStatusReason"]
    (rolling,) = [one for one in found if one["ResourceStatus"] == "ROLLBACK_IN_PROGRESS"]
    assert rolling["ResourceStatusReason"] == "The following resource(s) failed to create: [B]. "
    assert rolling["OperationId"] != failed["OperationId"]


def test_a_stack_whose_creation_was_rolled_back_can_only_be_deleted(cfn: Cfn) -> None:
    cfn.cloud.fail("create", "A")
    cfn.create("s", {"A": topic()})
    wanted = "is in ROLLBACK_COMPLETE state and can not be updated."
    body = text({"A": topic()})
    assert wanted in cfn.refusal("UpdateStack", StackName="s", TemplateBody=body)
    assert wanted in cfn.refusal("CreateChangeSet", StackName="s", ChangeSetName="c", TemplateBody=body)
    assert cfn.delete("s") == "DELETE_COMPLETE"
    assert cfn.create("s", {"A": topic()}) == "CREATE_COMPLETE"


@pytest.mark.parametrize("how", [{"DisableRollback": True}, {"OnFailure": "DO_NOTHING"}])
def test_without_rollback_a_failed_create_keeps_what_was_made(cfn: Cfn, how: dict[str, Any]) -> None:
    cfn.cloud.fail("create", "B")
    assert cfn.create("s", {"A": topic(), "B": topic(display=REF)}, **how) == "CREATE_FAILED"
    assert cfn.cloud.names() == ["A"]


def test_a_create_that_fails_without_rollback_can_be_taken_further_or_back(cfn: Cfn) -> None:
    body = {"A": topic(), "B": topic(display=REF), "Gone": topic()}
    cfn.cloud.fail("create", "B", times=2)
    cfn.create("s", body, DisableRollback=True)
    refused = cfn.refusal("UpdateStack", StackName="s", TemplateBody=text(body))
    assert "use the disable-rollback parameter with update-stack API" in refused
    del body["Gone"]
    assert cfn.update("s", body, DisableRollback=True) == "UPDATE_FAILED"
    assert cfn.update("s", body, DisableRollback=True) == "UPDATE_COMPLETE"
    assert cfn.cloud.names() == ["A", "B"]

    cfn.cloud.fail("create", "B")
    cfn.create("t", body, DisableRollback=True)
    cfn("RollbackStack", StackName="t")
    assert cfn.settled("t") == "ROLLBACK_COMPLETE"
    assert cfn.cloud.names() == ["A", "B"]


def test_on_failure_delete_leaves_no_stack_behind(cfn: Cfn) -> None:
    cfn.cloud.fail("create", "B")
    cfn("CreateStack", StackName="s", TemplateBody=text({"A": topic(), "B": topic(REF)}), OnFailure="DELETE")
    (stack,) = cfn.engine.stacks("eu-west-1")
    assert cfn.settled(stack.stack_id) == "DELETE_COMPLETE"
    assert cfn.cloud.live == {}


def test_an_update_changes_in_place_what_can_be_changed(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one"), "Same": topic("same")})
    before = cfn.resources("s")
    assert cfn.update("s", {"A": topic("two"), "Same": topic("same")}) == "UPDATE_COMPLETE"
    assert cfn.resources("s") == before
    assert cfn.cloud.of("A") == {"DisplayName": "two"}
    assert ("update", "Same") not in cfn.cloud.calls


def test_an_update_replaces_what_cannot_change_and_tells_its_dependents(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic(name="one"), "B": topic(display=REF)})
    assert cfn.update("s", {"A": topic(name="two"), "B": topic(display=REF)}) == "UPDATE_COMPLETE"
    assert cfn.cloud.of("B") == {"DisplayName": "topic-3"}
    assert sorted(cfn.cloud.live) == ["topic-2", "topic-3"]
    events = cfn.events("s")
    assert events.index(("s", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")) < events.index(("A", "DELETE_COMPLETE"))


def test_an_update_removes_what_is_no_longer_declared_dependents_first(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic(), "B": topic(REF), "C": topic({"Ref": "B"}), "Kept": topic()})
    assert cfn.update("s", {"Kept": topic()}) == "UPDATE_COMPLETE"
    assert cfn.cloud.names() == ["Kept"]
    assert [name for verb, name in cfn.cloud.calls if verb == "delete"] == ["C", "B", "A"]
    assert list(cfn.resources("s")) == ["Kept"]


def test_a_failed_update_leaves_the_stack_as_it_was(cfn: Cfn) -> None:
    before = {"A": topic("one"), "B": topic(name="x"), "C": topic({"Ref": "B"}), "Old": topic("old")}
    cfn.create("s", before)
    cloud_before = {key: live.properties for key, live in cfn.cloud.live.items()}
    cfn.cloud.fail("create", "New")
    after = {"A": topic("two"), "B": topic(name="y"), "C": topic({"Ref": "B"}), "Also": topic("also")}
    after["New"] = topic({"Fn::Join": ["", [{"Ref": name} for name in after]]})
    assert cfn.update("s", after) == "UPDATE_ROLLBACK_COMPLETE"
    assert {key: live.properties for key, live in cfn.cloud.live.items()} == cloud_before
    assert cfn("GetTemplate", StackName="s")["TemplateBody"] == text(before)
    assert cfn.resources("s").keys() == before.keys()
    assert cfn.update("s", {**before, "A": topic("three")}) == "UPDATE_COMPLETE"


def test_a_failed_update_restores_in_place_changes(cfn: Cfn) -> None:
    """Of the resource that failed half-way, too."""
    cfn.create("s", {"A": topic("one"), "B": topic(display="b1", DependsOn="A")})
    cfn.cloud.fail("update", "B")
    assert cfn.update("s", {"A": topic("two"), "B": topic(display="b2", DependsOn="A")}) == (
        "UPDATE_ROLLBACK_COMPLETE"
    )
    assert (cfn.cloud.of("A"), cfn.cloud.of("B")) == ({"DisplayName": "one"}, {"DisplayName": "b1"})


def test_a_rollback_that_fails_can_be_continued(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one"), "B": topic("b")})
    cfn.cloud.fail("create", "C")
    after = {"A": topic("two"), "B": topic("bb"), "C": topic(display=REF, DependsOn="B")}

    def fail_on_the_way_back(verb: str, name: str) -> None:
        if (verb, name) == ("create", "C"):
            cfn.cloud.fail("update", "A")

    cfn.cloud.hook = fail_on_the_way_back
    assert cfn.update("s", after) == "UPDATE_ROLLBACK_FAILED"
    assert cfn.reason("s") == "The following resource(s) failed to update: [A]. "
    assert cfn.cloud.of("B") == {"DisplayName": "b"}
    cfn("ContinueUpdateRollback", StackName="s")
    assert cfn.settled("s") == "UPDATE_ROLLBACK_COMPLETE"
    assert cfn.cloud.of("A") == {"DisplayName": "one"}


def test_without_rollback_a_failed_update_keeps_its_changes_until_rolled_back(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one")})
    cfn.cloud.fail("create", "B")
    after = {"A": topic("two"), "B": topic(display=REF)}
    assert cfn.update("s", after, DisableRollback=True) == "UPDATE_FAILED"
    assert cfn.cloud.of("A") == {"DisplayName": "two"}
    cfn("RollbackStack", StackName="s")
    assert cfn.settled("s") == "UPDATE_ROLLBACK_COMPLETE"
    assert cfn.cloud.of("A") == {"DisplayName": "one"}


def test_without_rollback_nothing_is_replaced(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic(name="one")})
    assert cfn.update("s", {"A": topic(name="two")}, DisableRollback=True) == "UPDATE_FAILED"
    assert cfn.cloud.of("A") == {"TopicName": "one"}


def test_a_custom_named_resource_is_not_replaced_under_its_own_name(cfn: Cfn) -> None:
    def repository(encryption: str) -> dict[str, Any]:
        properties = {"RepositoryName": "repo", "EncryptionConfiguration": {"EncryptionType": encryption}}
        return {"R": {"Type": "AWS::ECR::Repository", "Properties": properties}}

    cfn.create("s", repository("AES256"))
    assert cfn.update("s", repository("KMS")) == "UPDATE_ROLLBACK_COMPLETE"
    assert any("Rename repo and update the stack again." in reason for reason in cfn.reasons("s"))
    assert len(cfn.cloud.live) == 1


def test_a_refused_deletion_names_what_stayed_and_can_be_retried(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic(), "B": topic(REF), "C": topic()})
    cfn.cloud.fail("delete", "B")
    assert cfn.delete("s") == "DELETE_FAILED"
    assert cfn.reason("s") == "The following resource(s) failed to delete: [B]. "
    assert cfn.cloud.names() == ["A", "B"]
    assert cfn.delete("s") == "DELETE_COMPLETE"
    assert cfn.cloud.live == {}


def test_a_failed_deletion_can_go_on_without_the_resource_that_would_not_go(cfn: Cfn) -> None:
    stack = {"A": topic(), "B": topic(REF)}
    cfn.create("s", stack)
    cfn.cloud.fail("delete", "B", times=9)
    assert "Specify which resources to retain only when" in cfn.refusal(
        "DeleteStack", StackName="s", RetainResources=["B"]
    )
    cfn.delete("s")
    assert cfn.delete("s", RetainResources=["B"]) == "DELETE_COMPLETE"
    assert cfn.cloud.names() == ["B"]
    cfn.create("t", stack)
    cfn.cloud.fail("delete", "B", times=9)
    assert cfn.delete("t", DeletionMode="FORCE_DELETE_STACK") == "DELETE_COMPLETE"


@pytest.mark.parametrize("policy", ["Retain", "RetainExceptOnCreate"])
def test_retained_resources_outlive_their_stack(cfn: Cfn, policy: str) -> None:
    cfn.create("s", {"A": topic(DeletionPolicy=policy), "B": topic(DeletionPolicy=policy)})
    cfn.update("s", {"A": topic(DeletionPolicy=policy)})
    stack_id = cfn.describe("s")["StackId"]
    assert cfn.delete("s") == "DELETE_COMPLETE"
    assert cfn.cloud.names() == ["A", "B"]
    assert ("A", "DELETE_SKIPPED") in cfn.events(stack_id)


@pytest.mark.parametrize(("policy", "left"), [("Retain", ["A"]), ("RetainExceptOnCreate", [])])
def test_a_rolled_back_create_keeps_only_what_is_retained_always(
    cfn: Cfn, policy: str, left: list[str]
) -> None:
    cfn.cloud.fail("create", "B")
    cfn.create("s", {"A": topic(DeletionPolicy=policy), "B": topic(REF)})
    assert cfn.cloud.names() == left


def test_update_replace_policy_retain_keeps_the_replaced_resource(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic(name="one", UpdateReplacePolicy="Retain")})
    cfn.update("s", {"A": topic(name="two", UpdateReplacePolicy="Retain")})
    assert sorted(cfn.cloud.live) == ["topic-1", "topic-2"]


def test_a_stack_in_progress_takes_no_second_operation(cfn: Cfn) -> None:
    cfn.cloud.gate = threading.Event()
    body = text({"A": topic()})
    cfn("CreateStack", StackName="s", TemplateBody=body)
    assert "Stack [s] already exists" in cfn.refusal("CreateStack", StackName="s", TemplateBody=body)
    assert "is in CREATE_IN_PROGRESS state and can not be updated." in cfn.refusal(
        "UpdateStack", StackName="s", TemplateBody=body
    )
    assert "cannot be deleted while in status CREATE_IN_PROGRESS" in cfn.refusal("DeleteStack", StackName="s")
    cfn.cloud.gate.set()
    assert cfn.settled("s") == "CREATE_COMPLETE"


def test_a_cancelled_update_is_rolled_back(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one")})
    cfn.cloud.gate = threading.Event()
    after = {"A": topic("two"), "B": topic(REF), "C": topic({"Ref": "B"})}
    cfn("UpdateStack", StackName="s", TemplateBody=text(after))
    cfn("CancelUpdateStack", StackName="s")
    cfn.cloud.gate.set()
    assert cfn.settled("s") == "UPDATE_ROLLBACK_COMPLETE"
    assert cfn.cloud.of("A") == {"DisplayName": "one"}
    assert cfn.cloud.names() == ["A"]


def test_a_protected_stack_is_not_deleted(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic()}, EnableTerminationProtection=True)
    assert "TerminationProtection is enabled" in cfn.refusal("DeleteStack", StackName="s")
    cfn("UpdateTerminationProtection", StackName="s", EnableTerminationProtection=False)
    assert cfn.delete("s") == "DELETE_COMPLETE"


def test_a_bug_in_a_provider_fails_its_resource_and_not_the_stack_for_ever(cfn: Cfn) -> None:
    def break_down(verb: str, name: str) -> None:
        raise KeyError("ServiceRole")

    cfn.cloud.hook = break_down
    assert cfn.create("s", {"A": topic()}) == "ROLLBACK_COMPLETE"
    assert any("KeyError: 'ServiceRole'" in reason for reason in cfn.reasons("s"))


def test_a_repeated_request_with_the_same_token_changes_nothing(cfn: Cfn) -> None:
    body = text({"A": topic()})
    first = cfn("CreateStack", StackName="s", TemplateBody=body, ClientRequestToken="t")
    assert cfn("CreateStack", StackName="s", TemplateBody=body, ClientRequestToken="t") == first
    cfn.settled("s")
    assert cfn.cloud.names() == ["A"]


def test_an_update_without_changes_is_refused(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one")})
    refused = cfn.refusal("UpdateStack", StackName="s", TemplateBody=text({"A": topic("one")}))
    assert refused == "ValidationError: No updates are to be performed."


def test_wrong_properties_are_refused_before_anything_is_made(cfn: Cfn) -> None:
    body = text({"A": topic(), "B": {"Type": "AWS::SNS::Topic", "Properties": {"Displayname": "x"}}})
    refused = cfn.refusal("CreateStack", StackName="s", TemplateBody=body)
    assert "Properties validation failed for resource B" in refused
    assert "#: Extraneous key [Displayname] is not permitted" in refused
    assert cfn.cloud.calls == []
    assert cfn("DescribeStacks")["Stacks"] == []
    cfn.create("s", {"A": topic()})
    refused = cfn.refusal("UpdateStack", StackName="s", TemplateBody=body)
    assert "Properties validation failed for resource B" in refused
    assert cfn.describe("s")["StackStatus"] == "CREATE_COMPLETE"


def test_a_property_that_turns_out_wrong_fails_its_resource(cfn: Cfn) -> None:
    group = {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": REF}}
    assert cfn.create("s", {"A": topic(), "G": group}) == "ROLLBACK_COMPLETE"
    assert cfn.cloud.live == {}
    assert ("G", "CREATE_FAILED") in cfn.events("s")


@pytest.mark.parametrize(
    ("resource_type", "message"),
    [
        ("AWS::Batch::JobQeue", "Template format error: Unrecognized resource types: [AWS::Batch::JobQeue]"),
        ("Custom::Thing", "Custom::Thing is a custom resource, whose Lambda the yard does not run"),
        ("AWS::CloudFormation::Stack", "AWS::CloudFormation::Stack is a nested stack"),
    ],
)
def test_a_type_that_cannot_be_made_is_refused_by_name(cfn: Cfn, resource_type: str, message: str) -> None:
    body = text({"A": topic(), "B": {"Type": resource_type}})
    assert message in cfn.refusal("CreateStack", StackName="s", TemplateBody=body)
    assert cfn.cloud.calls == []


def test_every_type_that_the_yard_does_not_make_is_named_at_once(cfn: Cfn) -> None:
    cfn.cloud.unknown_types = ("AWS::S3::Bucket", "AWS::SQS::Queue")
    body = text({"A": topic(), "B": {"Type": "AWS::S3::Bucket"}, "Q": {"Type": "AWS::SQS::Queue"}})
    refused = cfn.refusal("CreateStack", StackName="s", TemplateBody=body)
    assert refused == "ValidationError: no AWS::S3::Bucket here\nno AWS::SQS::Queue here"


def test_an_attribute_that_a_type_does_not_have_is_refused(cfn: Cfn) -> None:
    body = text({"A": topic(), "B": topic({"Fn::GetAtt": ["A", "Colour"]})})
    refused = cfn.refusal("CreateStack", StackName="s", TemplateBody=body)
    assert "resource A does not support attribute type Colour in Fn::GetAtt" in refused


def test_the_type_of_a_resource_cannot_change(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic()})
    body = text({"A": {"Type": "AWS::S3::Bucket"}})
    assert "Update of resource type is not permitted." in cfn.refusal(
        "UpdateStack", StackName="s", TemplateBody=body
    )


def test_identity_resources_need_the_callers_consent(cfn: Cfn) -> None:
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}, "RoleName": "r"}}
    refused = cfn.refusal("CreateStack", StackName="s", TemplateBody=text({"R": role}))
    assert refused == "InsufficientCapabilitiesException: Requires capabilities : [CAPABILITY_NAMED_IAM]"
    assert cfn.create("s", {"R": role}, Capabilities=["CAPABILITY_NAMED_IAM"]) == "CREATE_COMPLETE"


def test_dynamic_references_are_resolved_when_a_resource_is_made(cfn: Cfn) -> None:
    cfn.lookups.parameters["/name"] = "found"
    cfn.lookups.secrets["arn:aws:secretsmanager:eu-west-1:1:secret:s-1"] = '{"user": "me"}'
    secret = "{{resolve:secretsmanager:arn:aws:secretsmanager:eu-west-1:1:secret:s-1:SecretString:user}}"
    cfn.create("s", {"A": topic("x-{{resolve:ssm:/name}}"), "B": topic(secret)})
    assert cfn.cloud.of("A") == {"DisplayName": "x-found"}
    assert cfn.cloud.of("B") == {"DisplayName": "me"}
    assert cfn.create("t", {"A": topic("{{resolve:ssm:/absent}}")}) == "ROLLBACK_COMPLETE"


def test_values_reach_a_resource_in_the_types_of_its_schema(cfn: Cfn) -> None:
    body = {
        "Parameters": {"Days": {"Type": "Number", "Default": 30}},
        "Resources": {
            "G": {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": {"Ref": "Days"}}}
        },
    }
    cfn.create("s", body)
    assert cfn.cloud.of("G") == {"RetentionInDays": 30}
