"""Templates are read as people write them: names as text, short forms of every function."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway.yard.cloudformation.template import template
from slipway.yard.cloudformation.template.template import load
from slipway.yard.errors import ApiError
from tests.yard.cloudformation.template.test_template import TOPIC, draw, refusal, value


def test_the_functions_of_rules_have_short_forms_and_a_dependency_as_text_is_one_name() -> None:
    text = """
Parameters: {Zones: {Type: CommaDelimitedList, Default: "a,a"}}
Transform: [AWS::Serverless-2016-10-31] # and nothing serverless in it
Rules:
  Same:
    Assertions:
      - Assert: !EachMemberEquals [!Ref Zones, a]
      - Assert: !Contains [[a, b], a]
      - Assert: !EachMemberIn [!Ref Zones, [a, b]]
Resources:
  PCSImagePipeline: {Type: AWS::SNS::Topic}
  PCSImage: {Type: AWS::SNS::Topic, DependsOn: PCSImagePipeline}
"""
    loaded = template.load(text)
    functions = [next(iter(rule["Assert"])) for rule in loaded.section("Rules")["Same"]["Assertions"]]
    assert functions == ["Fn::EachMemberEquals", "Fn::Contains", "Fn::EachMemberIn"]
    assert loaded.resources["PCSImage"].depends_on == ("PCSImagePipeline",), "and not its own"


# Functions that a template evaluates before anything is made: deletion policies, defaults of mappings.


@pytest.mark.parametrize(("keep", "policy"), [("yes", "Retain"), ("no", "Delete")])
def test_a_parameter_may_decide_what_becomes_of_a_resource(keep: str, policy: str) -> None:
    """cfn-lint's authors at AWS: it works without the language extensions as well."""
    chosen = {"Fn::If": ["Keeps", "Retain", "Delete"]}
    body = {
        "Parameters": {"Keep": {"Type": "String"}, "Policy": {"Type": "String", "Default": "Snapshot"}},
        "Conditions": {"Keeps": {"Fn::Equals": [{"Ref": "Keep"}, "yes"]}},
        "Resources": {"T": {**TOPIC, "DeletionPolicy": chosen, "UpdateReplacePolicy": {"Ref": "Policy"}}},
    }
    declared = draw(body, Keep=keep).resources["T"].declared
    assert (declared.deletion_policy, declared.update_replace_policy) == (policy, "Snapshot")
    assert "DeletionPolicy of resource T is 'Keep'" in refusal(
        {"Resources": {"T": {**TOPIC, "DeletionPolicy": {"Fn::Sub": "Keep"}}}}
    )
    assert "Unresolved resource dependencies" in refusal(
        {"Resources": {"T": {**TOPIC, "DeletionPolicy": {"Ref": "Nobody"}}}}
    )


def test_a_mapping_falls_back_on_its_default() -> None:
    given = {"Fn::FindInMap": ["Sizes", {"Ref": "AWS::Region"}, "big", {"DefaultValue": "c7i"}]}
    assert value(given, Mappings={"Sizes": {"us-east-1": {"big": "c6i"}}}) == "c7i"
    assert value(given, Mappings={"Sizes": {"eu-west-1": {"big": "c6i"}}}) == "c6i"


# Fn::ForEach is expanded if the template lists the language extensions, and otherwise refused.
LOOPED = {
    "Topic${Name}": {
        "Type": "AWS::SNS::Topic",
        "Properties": {"DisplayName": {"Ref": "Name"}, "TopicName": {"Fn::Sub": "of-${Name}"}},
    }
}


def looped(loop: Any, transform: str = "AWS::LanguageExtensions", **resources: Any) -> str:
    return json.dumps({"Transform": transform, "Resources": {"Fn::ForEach::Topics": loop, **resources}})


def test_a_loop_makes_one_resource_for_each_item_where_the_language_extensions_are() -> None:
    made = load(looped(["Name", ["One", "Two"], LOOPED])).resources
    assert set(made) == {"TopicOne", "TopicTwo"}
    assert made["TopicTwo"].properties == {"DisplayName": "Two", "TopicName": {"Fn::Sub": "of-Two"}}
    block = {"Block&{Cidr}": {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": "${Cidr}"}}}
    made = load(looped(["Cidr", ["10.0.0.0/16"], block])).resources
    assert made["Block1000016"].properties == {"DisplayName": "10.0.0.0/16"}, "letters and digits are left"
    with pytest.raises(ApiError, match="Fn::ForEach::Topics is non alphanumeric"):
        load(looped(["Name", ["One"], LOOPED], transform="AWS::Serverless-2016-10-31"))


def test_a_loop_may_stand_in_a_loop_and_in_properties() -> None:
    subnet = {"Type": "AWS::EC2::Subnet", "Properties": {"Fn::ForEach::P": ["P", ["VpcId"], {"${P}": "v"}]}}
    inner = {"Fn::ForEach::Zones": ["Zone", ["a", "b"], {"Subnet${Tier}${Zone}": subnet}]}
    made = load(looped(["Tier", ["Public", "Private"], inner])).resources
    assert sorted(made) == ["SubnetPrivatea", "SubnetPrivateb", "SubnetPublica", "SubnetPublicb"]
    assert made["SubnetPublica"].properties == {"VpcId": "v"}


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        (["Name", {"Ref": "Names"}, LOOPED], "must have a list of strings as its collection"),
        (["Name", ["One"]], "needs a list of an identifier"),
        (["Name", ["One", "Two"], {"Topic": LOOPED["Topic${Name}"]}], "for two items"),
    ],
)
def test_a_loop_that_cannot_be_written_out_is_refused(loop: Any, said: str) -> None:
    with pytest.raises(ApiError, match=said):
        load(looped(loop))
