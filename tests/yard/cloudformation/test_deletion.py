"""Deletion: dependents first, what is retained stays, and what would not go can be tried again."""

from __future__ import annotations

import pytest

from tests.yard.cloudformation.conftest import Cfn
from tests.yard.cloudformation.templates import topic

REF = {"Ref": "A"}


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


def test_a_protected_stack_is_not_deleted(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic()}, EnableTerminationProtection=True)
    assert "TerminationProtection is enabled" in cfn.refusal("DeleteStack", StackName="s")
    cfn("UpdateTerminationProtection", StackName="s", EnableTerminationProtection=False)
    assert cfn.delete("s") == "DELETE_COMPLETE"


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
