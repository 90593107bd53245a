"""Nested stacks: made, changed, rolled back and deleted with their parent, which sees their outputs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.yard.cloudformation.stacks import Stacks
from tests.yard.conftest import RunningYard

BUCKET = "templates"
URL = f"https://{BUCKET}.s3.us-east-1.amazonaws.com/child.json"
REFUSED = {"Type": "AWS::Logs::LogStream", "Properties": {"LogGroupName": "not-there"}}


def child(**topic: Any) -> dict[str, Any]:
    return {
        "Parameters": {"Name": {"Type": "String"}},
        "Resources": {
            "Topic": {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": {"Ref": "Name"}, **topic}}
        },
        "Outputs": {"Arn": {"Value": {"Ref": "Topic"}}},
    }


def parent(name: str = "one", **resources: Any) -> dict[str, Any]:
    nested = {"TemplateURL": URL, "Parameters": {"Name": name}}
    return {
        "Resources": {"Child": {"Type": "AWS::CloudFormation::Stack", "Properties": nested}, **resources},
        "Outputs": {"Arn": {"Value": {"Fn::GetAtt": ["Child", "Outputs.Arn"]}}},
    }


@pytest.fixture
def stacks(yard: RunningYard) -> Stacks:
    yard.client("s3").create_bucket(Bucket=BUCKET)
    upload(yard, child())
    return Stacks(yard)


def upload(yard: RunningYard, body: dict[str, Any]) -> None:
    yard.client("s3").put_object(Bucket=BUCKET, Key="child.json", Body=json.dumps(body).encode())


def display_name(stacks: Stacks, arn: str) -> str:
    found = stacks.yard.client("sns").get_topic_attributes(TopicArn=arn)["Attributes"]
    return str(found["DisplayName"])


def test_a_parent_sees_the_outputs_of_its_child_and_takes_it_along(stacks: Stacks) -> None:
    made = stacks.create("parent", parent())
    arn = stacks.outputs("parent")["Arn"]
    assert display_name(stacks, arn) == "one"
    (shown,) = stacks.cloudformation.describe_stacks(StackName=made["Child"])["Stacks"]
    assert shown["StackName"].startswith("parent-Child-")
    assert shown["ParentId"] == shown["RootId"]
    assert ":stack/parent/" in shown["ParentId"]
    stacks.delete("parent")
    assert stacks.yard.client("sns").list_topics()["Topics"] == []
    assert stacks.cloudformation.describe_stacks()["Stacks"] == []


def test_an_update_reaches_the_child_and_so_does_another_template_at_the_same_address(stacks: Stacks) -> None:
    stacks.create("parent", parent(), Tags=[{"Key": "team", "Value": "ml"}])
    stacks.update("parent", parent("two"))
    arn = stacks.outputs("parent")["Arn"]
    assert display_name(stacks, arn) == "two"
    tags = stacks.yard.client("sns").list_tags_for_resource(ResourceArn=arn)["Tags"]
    assert tags == [{"Key": "team", "Value": "ml"}]
    upload(stacks.yard, child(TopicName="named"))
    stacks.update("parent", parent("two", Another={"Type": "AWS::SNS::Topic"}))
    assert stacks.outputs("parent")["Arn"].endswith(":named")


def test_a_child_goes_back_with_its_parent(stacks: Stacks) -> None:
    stacks.create("parent", parent())
    with pytest.raises(AssertionError, match="Refused"):
        stacks.update("parent", parent("two", Refused={**REFUSED, "DependsOn": "Child"}))
    (shown,) = stacks.cloudformation.describe_stacks(StackName="parent")["Stacks"]
    assert shown["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert display_name(stacks, stacks.outputs("parent")["Arn"]) == "one"


def test_what_fails_in_a_child_is_said_of_its_parent_and_nothing_is_left(stacks: Stacks) -> None:
    broken = child()
    broken["Resources"]["Refused"] = REFUSED
    upload(stacks.yard, broken)
    with pytest.raises(AssertionError, match=r"Embedded stack .* was not successfully created: Refused"):
        stacks.create("parent", parent())
    assert [one["StackName"] for one in stacks.cloudformation.describe_stacks()["Stacks"]] == ["parent"]
    assert stacks.yard.client("sns").list_topics()["Topics"] == []


def test_a_template_that_is_not_in_the_yard_is_named(stacks: Stacks) -> None:
    body = parent()
    body["Resources"]["Child"]["Properties"]["TemplateURL"] = "https://elsewhere.s3.amazonaws.com/a.yaml"
    with pytest.raises(AssertionError, match=r"upload the template there as s3://elsewhere/a\.yaml"):
        stacks.create("parent", body)
