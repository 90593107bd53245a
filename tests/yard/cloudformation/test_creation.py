"""Creating and deleting stacks gives resources, outputs and events; a failed creation leaves nothing."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from slipway.yard.errors import ApiError
from tests.infra.synthesis import templates_of
from tests.yard.cloudformation.conftest import Cfn, text, topic

# Deletion removes dependents first and keeps retained resources; a failed deletion can be tried again.


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


def test_a_stack_that_is_being_created_is_deleted_and_what_never_ends_is_cancelled(cfn: Cfn) -> None:
    cfn.cloud.stuck = {"B"}
    body = {"A": topic(), "B": topic(REF), "C": topic({"Ref": "B"})}
    stack_id = cfn("CreateStack", StackName="s", TemplateBody=text(body))["StackId"]
    cfn.cloud.await_stuck()
    assert cfn.delete("s") == "DELETE_COMPLETE"
    assert cfn.cloud.live == {}
    assert [event for event in cfn.events(stack_id) if event[0] in ("s", "B", "C")] == [
        ("s", "CREATE_IN_PROGRESS"),
        ("B", "CREATE_IN_PROGRESS"),
        ("s", "DELETE_IN_PROGRESS"),
        ("B", "CREATE_FAILED"),
        ("s", "DELETE_COMPLETE"),
    ]
    assert "Resource creation cancelled" in cfn.reasons(stack_id)


def test_what_was_made_while_its_stack_was_deleted_is_deleted_as_well(cfn: Cfn) -> None:
    cfn.cloud.gate = threading.Event()
    stack_id = cfn("CreateStack", StackName="s", TemplateBody=text({"A": topic()}))["StackId"]
    cfn("DeleteStack", StackName="s")
    assert cfn.describe(stack_id)["StackStatus"] == "DELETE_IN_PROGRESS"
    cfn.cloud.gate.set()
    assert cfn.settled(stack_id) == "DELETE_COMPLETE"
    assert cfn.cloud.live == {}
    assert ("s", "CREATE_COMPLETE") not in cfn.events(stack_id)


def test_a_stack_whose_rollback_failed_is_deleted_with_all_it_made(cfn: Cfn) -> None:
    """The old resource, its replacement, and what the update added."""

    def fail_on_the_way_back(verb: str, name: str) -> None:
        if (verb, name) == ("create", "New"):
            cfn.cloud.fail("create", "New")
            cfn.cloud.fail("update", "B")

    cfn.create("s", {"A": topic(name="one"), "B": topic({"Ref": "A"}), "C": topic()})
    cfn.cloud.hook = fail_on_the_way_back
    after = {"A": topic(name="two"), "B": topic({"Ref": "A"}), "C": topic(), "New": topic({"Ref": "B"})}
    assert cfn.update("s", after) == "UPDATE_ROLLBACK_FAILED"
    assert cfn.cloud.names() == ["A", "A", "B", "C"]
    cfn.cloud.fail("delete", "C")
    assert cfn.delete("s") == "DELETE_FAILED"
    assert cfn.cloud.names() == ["C"]
    assert cfn.delete("s") == "DELETE_COMPLETE"
    assert cfn.cloud.live == {}
    assert len([name for verb, name in cfn.cloud.calls if (verb, name) == ("delete", "A")]) == 2


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


@pytest.mark.parametrize(
    ("how", "policy", "state", "left"),
    [
        ({"DisableRollback": True}, "Delete", "CREATE_FAILED", ["A"]),
        ({"OnFailure": "DO_NOTHING"}, "Delete", "CREATE_FAILED", ["A"]),
        ({"OnFailure": "DELETE"}, "Delete", "DELETE_COMPLETE", []),
        ({}, "Retain", "ROLLBACK_COMPLETE", ["A"]),
        ({}, "RetainExceptOnCreate", "ROLLBACK_COMPLETE", []),
    ],
)
def test_a_failed_create_keeps_what_its_rollback_and_policies_say(
    cfn: Cfn, how: dict[str, Any], policy: str, state: str, left: list[str]
) -> None:
    cfn.cloud.fail("create", "B")
    body = text({"A": topic(DeletionPolicy=policy), "B": topic(REF)})
    stack_id = cfn("CreateStack", StackName="s", TemplateBody=body, **how)["StackId"]
    assert (cfn.settled(stack_id), cfn.cloud.names()) == (state, left)


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


STORING = ("AWS::ECR::Repository", "AWS::EFS::FileSystem", "AWS::KMS::Key", "AWS::S3::Bucket")


def test_a_cluster_whose_storage_fails_to_be_made_leaves_no_bill_and_is_deployed_again(cfn: Cfn) -> None:
    """F54. What was stored afterwards stays when the stack goes."""
    all_of_it = templates_of().storage["Resources"].items()
    stored = {name: each for name, each in all_of_it if each["Type"] in STORING}
    storage = {**stored, "Last": topic(DependsOn=list(stored))}
    cfn.cloud.fail("create", "Last")
    assert cfn.create("s", storage) == "ROLLBACK_COMPLETE"
    assert {live.type for live in cfn.cloud.live.values()} == {"AWS::S3::Bucket"}  # for logs, and empty
    cfn.delete("s")
    assert cfn.create("s", storage) == "CREATE_COMPLETE"
    cfn.delete("s")
    assert {live.type for live in cfn.cloud.live.values()} == set(STORING)


def test_a_bug_in_a_provider_fails_its_resource_and_not_the_stack_for_ever(cfn: Cfn) -> None:
    def break_down(verb: str, name: str) -> None:
        raise KeyError("ServiceRole")

    cfn.cloud.hook = break_down
    assert cfn.create("s", {"A": topic()}) == "ROLLBACK_COMPLETE"
    assert any("KeyError: 'ServiceRole'" in reason for reason in cfn.reasons("s"))


def test_a_repeated_request_with_the_same_token_changes_nothing_and_a_protected_stack_stays(cfn: Cfn) -> None:
    given = {"StackName": "s", "TemplateBody": text({"A": topic()}), "ClientRequestToken": "t"}
    first = cfn("CreateStack", **given, EnableTerminationProtection=True)
    assert cfn("CreateStack", **given, EnableTerminationProtection=True) == first
    cfn.settled("s")
    assert cfn.cloud.names() == ["A"]
    assert "TerminationProtection is enabled" in cfn.refusal("DeleteStack", StackName="s")
    cfn("UpdateTerminationProtection", StackName="s", EnableTerminationProtection=False)
    assert cfn.delete("s") == "DELETE_COMPLETE"


def test_values_are_resolved_in_the_types_of_their_schema_when_a_resource_is_made(cfn: Cfn) -> None:
    cfn.lookups.parameters["/name"] = "found"
    cfn.lookups.secrets["arn:aws:secretsmanager:eu-west-1:1:secret:s-1"] = '{"user": "me"}'
    secret = "{{resolve:secretsmanager:arn:aws:secretsmanager:eu-west-1:1:secret:s-1:SecretString:user}}"
    days = {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": {"Ref": "Days"}}}
    resources = {"A": topic("x-{{resolve:ssm:/name}}"), "B": topic(secret), "G": days}
    cfn.create("s", {"Parameters": {"Days": {"Type": "Number", "Default": 30}}, "Resources": resources})
    assert cfn.cloud.of("A") == {"DisplayName": "x-found"}
    assert cfn.cloud.of("B") == {"DisplayName": "me"}
    assert cfn.cloud.of("G") == {"RetentionInDays": 30}
    assert cfn.create("t", {"A": topic("{{resolve:ssm:/absent}}")}) == "ROLLBACK_COMPLETE"
    wrong = {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": REF}}
    assert cfn.create("u", {"A": topic(), "G": wrong}) == "ROLLBACK_COMPLETE"
    assert ("G", "CREATE_FAILED") in cfn.events("u")


def test_a_rollback_that_cannot_remove_everything_says_what_is_left(cfn: Cfn) -> None:
    cfn.cloud.fail("create", "C")
    cfn.cloud.fail("delete", "B")
    assert cfn.create("s", {"A": topic(), "B": topic(REF), "C": topic({"Ref": "B"})}) == "ROLLBACK_FAILED"
    assert cfn.reason("s") == "The following resource(s) failed to delete: [B, A]. "
    assert cfn.cloud.names() == ["A", "B"]
    assert cfn.delete("s") == "DELETE_COMPLETE"
    assert cfn.cloud.live == {}


def test_a_name_that_is_taken_is_named(cfn: Cfn) -> None:
    def refuse(verb: str, name: str) -> None:
        raise ApiError("ParameterAlreadyExists", "The parameter already exists.")

    cfn.cloud.hook = refuse
    properties = {"Name": "/taken", "Type": "String", "Value": "v"}
    cfn.create("s", {"P": {"Type": "AWS::SSM::Parameter", "Properties": properties}})
    wanted = "Resource of type 'AWS::SSM::Parameter' with identifier '/taken' already exists."
    assert any(wanted in reason and "AlreadyExists)" in reason for reason in cfn.reasons("s"))


def test_an_operation_that_breaks_in_the_yard_itself_still_ends(cfn: Cfn) -> None:
    def broken(name: str) -> str:
        raise RuntimeError("no such thing")

    cfn.lookups.parameter = broken  # type: ignore[method-assign]  # stands for a bug of the yard
    assert cfn.create("s", {"A": topic(), "B": topic("{{resolve:ssm:/x}}")}) == "CREATE_FAILED"
    assert "Internal failure of the yard: RuntimeError('no such thing')" in cfn.reason("s")
    assert cfn.delete("s") == "DELETE_COMPLETE"
    assert cfn.cloud.live == {}
