"""Templates as people write them: names as text, short forms of every function."""

from __future__ import annotations

import json

from slipway.yard.cloudformation.template import template


def test_a_dependency_written_as_text_is_one_name() -> None:
    """Not every name that is a part of it, such as its own."""
    pipeline = {"Type": "AWS::SNS::Topic"}
    image = {"Type": "AWS::SNS::Topic", "DependsOn": "PCSImagePipeline"}
    body = {"Resources": {"PCSImagePipeline": pipeline, "PCSImage": image}}
    assert template.load(json.dumps(body)).resources["PCSImage"].depends_on == ("PCSImagePipeline",)


def test_the_functions_of_rules_have_short_forms() -> None:
    text = """
Parameters: {Zones: {Type: CommaDelimitedList, Default: "a,a"}}
Rules:
  Same:
    Assertions:
      - Assert: !EachMemberEquals [!Ref Zones, a]
      - Assert: !Contains [[a, b], a]
      - Assert: !EachMemberIn [!Ref Zones, [a, b]]
Resources: {Topic: {Type: AWS::SNS::Topic}}
"""
    rules = template.load(text).section("Rules")["Same"]["Assertions"]
    assert [next(iter(rule["Assert"])) for rule in rules] == [
        "Fn::EachMemberEquals",
        "Fn::Contains",
        "Fn::EachMemberIn",
    ]


def test_a_template_with_nothing_serverless_in_it_may_name_that_transform() -> None:
    topic = {"Type": "AWS::SNS::Topic"}
    text = json.dumps({"Resources": {"T": topic}, "Transform": ["AWS::Serverless-2016-10-31"]})
    assert set(template.load(text).resources) == {"T"}
