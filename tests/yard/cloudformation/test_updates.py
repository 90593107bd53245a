"""Updates change resources in place or replace them, and are undone if they fail, as in CloudFormation."""

from __future__ import annotations

import threading
from typing import Any

from tests.yard.cloudformation.conftest import Cfn, text, topic

REF = {"Ref": "A"}


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


def job(image: str) -> dict[str, Any]:
    properties = {"Type": "container", "ContainerProperties": {"Image": image}}
    return {"Type": "AWS::Batch::JobDefinition", "Properties": properties}


def test_a_resource_whose_id_changes_in_place_is_updated_and_restored_as_one(cfn: Cfn) -> None:
    """A job definition's id is its newest revision, which references follow, also in a rollback."""
    users = {"User": topic({"Ref": "Job"}), "Late": topic({"Fn::Sub": "${Job}-${User}"})}
    cfn.create("s", {"Job": job("one"), **users})
    assert cfn.update("s", {"Job": job("two"), **users}) == "UPDATE_COMPLETE"
    assert ("delete", "Job") not in cfn.cloud.calls
    assert cfn.cloud.of("User")["DisplayName"] == cfn.resources("s")["Job"]
    cfn.cloud.fail("update", "User")
    assert cfn.update("s", {"Job": job("three"), **users}) == "UPDATE_ROLLBACK_COMPLETE"
    assert cfn.cloud.of("Job")["ContainerProperties"] == {"Image": "two"}
    job_id, user_id = cfn.resources("s")["Job"], cfn.resources("s")["User"]
    assert cfn.cloud.of("User")["DisplayName"] == job_id
    assert cfn.cloud.of("Late")["DisplayName"] == f"{job_id}-{user_id}"
    assert cfn.cloud.names() == ["Job", "Late", "User"]


def test_a_conditional_change_replaces_where_cloudformation_says_so(cfn: Cfn) -> None:
    def environment(kind: str, **how: Any) -> dict[str, Any]:
        compute = {"Type": "EC2", "MaxvCpus": 1, "Subnets": ["s"], "InstanceTypes": [kind]}
        properties = {"Type": "MANAGED", "ComputeResources": compute, **how}
        return {"E": {"Type": "AWS::Batch::ComputeEnvironment", "Properties": properties}}

    cfn.create("s", environment("dl1.24xlarge"))
    first = cfn.resources("s")["E"]
    cfn.update("s", environment("p4d.24xlarge", ReplaceComputeEnvironment=False))
    assert cfn.resources("s")["E"] == first
    cfn.update("s", environment("p5.48xlarge", ReplaceComputeEnvironment=True))
    assert cfn.resources("s")["E"] != first


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


def test_update_replace_policy_retain_keeps_the_replaced_resource(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic(name="one", UpdateReplacePolicy="Retain")})
    cfn.update("s", {"A": topic(name="two", UpdateReplacePolicy="Retain")})
    assert sorted(cfn.cloud.live) == ["topic-1", "topic-2"]


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


def test_a_change_that_never_ends_is_left_where_its_update_is_cancelled(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one")})
    cfn.cloud.stuck = {"B"}
    cfn("UpdateStack", StackName="s", TemplateBody=text({"A": topic("two"), "B": topic()}))
    cfn.cloud.await_stuck()
    cfn("CancelUpdateStack", StackName="s")
    assert cfn.settled("s") == "UPDATE_ROLLBACK_COMPLETE"
    assert cfn.cloud.of("A") == {"DisplayName": "one"}
    assert {"User Initiated", "Resource creation cancelled"} <= set(cfn.reasons("s"))
    cfn.cloud.stuck = set()
    assert cfn.update("s", {"A": topic("two"), "B": topic()}) == "UPDATE_COMPLETE"


def test_an_update_without_changes_is_refused(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one")})
    refused = cfn.refusal("UpdateStack", StackName="s", TemplateBody=text({"A": topic("one")}))
    assert refused == "ValidationError: No updates are to be performed."


def test_the_type_of_a_resource_cannot_change(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic()})
    body = text({"A": {"Type": "AWS::S3::Bucket"}})
    assert "Update of resource type is not permitted." in cfn.refusal(
        "UpdateStack", StackName="s", TemplateBody=body
    )


POLICY = """{"Statement": [
    {"Effect": "Allow", "Action": "Update:*", "Principal": "*", "Resource": "*"},
    {"Effect": "Deny", "Action": ["Update:Replace", "Update:Delete"], "Principal": "*", "Resource": "*",
     "Condition": {"StringEquals": {"ResourceType": ["AWS::SNS::Topic"]}}}
]}"""


def test_a_stack_policy_keeps_updates_from_what_it_protects(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic(name="one"), "B": topic()}, StackPolicyBody=POLICY)
    assert cfn("GetStackPolicy", StackName="s")["StackPolicyBody"] == POLICY
    replaced = {"A": topic(name="two"), "B": topic()}
    assert cfn.update("s", {"A": topic("in place", name="one"), "B": topic()}) == "UPDATE_COMPLETE"
    assert cfn.update("s", replaced) == "UPDATE_ROLLBACK_COMPLETE"
    assert any("Action denied by stack policy" in reason for reason in cfn.reasons("s"))
    assert cfn.update("s", {"A": topic(name="one")}) == "UPDATE_ROLLBACK_COMPLETE"
    assert cfn.cloud.names() == ["A", "B"]
    once = '{"Statement": {"Effect": "Allow", "Action": "Update:*", "Principal": "*", "Resource": "*"}}'
    assert cfn.update("s", replaced, StackPolicyDuringUpdateBody=once) == "UPDATE_COMPLETE"
    assert "Invalid stack policy" in cfn.refusal("SetStackPolicy", StackName="s", StackPolicyBody="{}")


def test_a_stack_policy_that_allows_nothing_protects_everything(cfn: Cfn) -> None:
    policy = '{"Statement": {"Effect": "Deny", "Action": "Update:*", "Resource": "LogicalResourceId/Other"}}'
    cfn.create("s", {"A": topic("one")}, StackPolicyBody=policy)
    assert cfn.update("s", {"A": topic("two")}) == "UPDATE_ROLLBACK_COMPLETE"
    assert cfn.cloud.of("A") == {"DisplayName": "one"}


def test_an_update_that_failed_without_rollback_can_be_tried_again_as_it_was(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one")})
    cfn.cloud.fail("update", "A")
    assert cfn.update("s", {"A": topic("two")}, DisableRollback=True) == "UPDATE_FAILED"
    assert cfn.update("s", {"A": topic("two")}, DisableRollback=True) == "UPDATE_COMPLETE"
    assert cfn.cloud.calls[-1] == ("update", "A")


def test_what_an_update_leaves_out_stays_as_it_was(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic("one")}, Tags=[{"Key": "k", "Value": "v"}])
    cfn.update("s", {"A": topic("two")})
    assert cfn.describe("s")["Tags"] == [{"Key": "k", "Value": "v"}]
    assert cfn.update("s", {"A": topic("two")}, Tags=[]) == "UPDATE_COMPLETE"
    assert cfn.describe("s")["Tags"] == []
