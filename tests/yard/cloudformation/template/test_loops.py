"""Fn::ForEach: written out where the template lists the language extensions, and refused where it is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway.yard.cloudformation.template.template import load
from slipway.yard.errors import ApiError

TOPIC = {
    "Topic${Name}": {
        "Type": "AWS::SNS::Topic",
        "Properties": {"DisplayName": {"Ref": "Name"}, "TopicName": {"Fn::Sub": "of-${Name}"}},
    }
}


def looped(loop: Any, transform: str = "AWS::LanguageExtensions", **resources: Any) -> str:
    return json.dumps({"Transform": transform, "Resources": {"Fn::ForEach::Topics": loop, **resources}})


def test_a_loop_makes_one_resource_for_each_item() -> None:
    made = load(looped(["Name", ["One", "Two"], TOPIC])).resources
    assert set(made) == {"TopicOne", "TopicTwo"}
    assert made["TopicTwo"].properties == {"DisplayName": "Two", "TopicName": {"Fn::Sub": "of-Two"}}


def test_a_loop_may_stand_in_a_loop_and_in_properties() -> None:
    subnet = {"Type": "AWS::EC2::Subnet", "Properties": {"Fn::ForEach::P": ["P", ["VpcId"], {"${P}": "v"}]}}
    inner = {"Fn::ForEach::Zones": ["Zone", ["a", "b"], {"Subnet${Tier}${Zone}": subnet}]}
    made = load(looped(["Tier", ["Public", "Private"], inner])).resources
    assert sorted(made) == ["SubnetPrivatea", "SubnetPrivateb", "SubnetPublica", "SubnetPublicb"]
    assert made["SubnetPublica"].properties == {"VpcId": "v"}


def test_an_ampersand_leaves_letters_and_digits_for_a_name() -> None:
    block = {"Block&{Cidr}": {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": "${Cidr}"}}}
    made = load(looped(["Cidr", ["10.0.0.0/16"], block])).resources
    assert made["Block1000016"].properties == {"DisplayName": "10.0.0.0/16"}


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        (["Name", {"Ref": "Names"}, TOPIC], "goes over a list of texts in the template"),
        (["Name", ["One"]], "needs a list of an identifier"),
        (["Name", ["One", "Two"], {"Topic": TOPIC["Topic${Name}"]}], "for two items"),
    ],
)
def test_a_loop_that_cannot_be_written_out_is_refused(loop: Any, said: str) -> None:
    with pytest.raises(ApiError, match=said):
        load(looped(loop))


def test_a_loop_without_the_language_extensions_is_no_resource() -> None:
    with pytest.raises(ApiError, match="Fn::ForEach::Topics is non alphanumeric"):
        load(looped(["Name", ["One"], TOPIC], transform="AWS::Serverless-2016-10-31"))
