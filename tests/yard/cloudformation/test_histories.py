"""After any sequence of templates and failures, a stack and the cloud agree about what exists."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipway.yard.errors import ApiError
from tests.yard.cloudformation.conftest import REGION, Cfn, topic

NAMES = ("A", "B", "C", "D", "E")
VALUES = ("one", "two", None)


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Draw some topics; each may refer to earlier ones, in any order."""
    order = draw(st.permutations(list(NAMES)))[: draw(st.integers(1, len(NAMES)))]
    body: dict[str, Any] = {}
    for place, name in enumerate(order):
        before = order[:place]
        display: Any = draw(st.sampled_from(VALUES))
        if before and draw(st.sampled_from([True, False])):
            target = draw(st.sampled_from(before))
            reference = draw(st.sampled_from([{"Ref": target}, {"Fn::GetAtt": [target, "TopicName"]}]))
            display = {"Fn::Join": ["-", [reference, "x"]]}
        body[name] = topic(display, draw(st.sampled_from(VALUES)))
    return body


# What fails in one step, and how often. Deletions fail in another test: a cleanup leaves what cannot be
# deleted, as AWS does, and then stack and cloud may disagree.
FAILURES = st.dictionaries(
    st.tuples(st.sampled_from(["create", "update"]), st.sampled_from(NAMES)), st.just(1), max_size=3
)
STEPS = st.lists(st.tuples(bodies(), FAILURES), min_size=1, max_size=6)
RELAXED = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])


def state(cfn: Cfn) -> dict[str, tuple[str, dict[str, Any]]]:
    """List what exists: physical id, logical id and properties."""
    return {key: (live.logical_id, live.properties) for key, live in cfn.cloud.live.items()}


def held(cfn: Cfn) -> dict[str, str]:
    stack = cfn.engine.find(REGION, "s")
    return {} if stack is None else {one.resource.physical_id: name for name, one in stack.records.items()}


def shown(cfn: Cfn) -> dict[str, str]:
    """List what the stack says exists."""
    listed = cfn("DescribeStackResources", StackName="s")["StackResources"]
    there = [one for one in listed if not one["ResourceStatus"].startswith(("DELETE_C", "CREATE_F"))]
    return {one["PhysicalResourceId"]: one["LogicalResourceId"] for one in there}


def apply(cfn: Cfn, body: dict[str, Any], failures: dict[tuple[str, str], int]) -> str:
    """Create, update or start over, as the stack's state allows; return the status afterwards."""
    cfn.cloud.failures = {}
    stack = cfn.engine.find(REGION, "s")
    if stack is not None and stack.status in ("ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_FAILED"):
        cfn.delete("s")
        stack = None
    cfn.cloud.failures = dict(failures)
    if stack is None:
        return cfn.create("s", body)
    try:
        return cfn.update("s", body)
    except ApiError as error:
        if error.message != "No updates are to be performed.":
            raise
        return stack.status


@RELAXED
@given(STEPS)
def test_what_exists_is_always_what_the_stack_holds(
    steps: list[tuple[dict[str, Any], dict[tuple[str, str], int]]],
) -> None:
    cfn = Cfn()
    for body, failures in steps:
        before = state(cfn)
        status = apply(cfn, body, failures)
        if status == "UPDATE_ROLLBACK_FAILED":
            cfn.cloud.failures = {}
            cfn("ContinueUpdateRollback", StackName="s")
            status = cfn.settled("s")
        assert {key: name for key, (name, _) in state(cfn).items()} == held(cfn) == shown(cfn)
        if status == "UPDATE_ROLLBACK_COMPLETE":
            assert state(cfn) == before
        if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            assert sorted(cfn.cloud.names()) == sorted(body)
    cfn.cloud.failures = {}
    if cfn.engine.find(REGION, "s") is not None:
        assert cfn.delete("s") == "DELETE_COMPLETE"
    assert state(cfn) == {}


@RELAXED
@given(bodies(), st.lists(st.sampled_from(NAMES), max_size=3))
def test_a_deletion_that_fails_can_be_repeated_until_nothing_is_left(
    body: dict[str, Any], stubborn: list[str]
) -> None:
    cfn = Cfn()
    cfn.create("s", body)
    cfn.cloud.failures = {("delete", name): 1 for name in stubborn}
    status = cfn.delete("s")
    while status == "DELETE_FAILED":
        assert {key: name for key, (name, _) in state(cfn).items()} == held(cfn)
        status = cfn.delete("s")
    assert (status, state(cfn)) == ("DELETE_COMPLETE", {})
    deleted = [name for verb, name in cfn.cloud.calls if verb == "delete" and name not in stubborn]
    assert len(deleted) == len(set(deleted))
