"""Templates are read in either notation, evaluated as AWS does, and refused in AWS's words."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from slipway.yard.cloudformation.template import blueprint, parameters, template
from slipway.yard.cloudformation.template.blueprint import Blueprint, StackIdentity
from slipway.yard.cloudformation.template.scope import Pending, fail
from slipway.yard.errors import ApiError
from tests.yard.cloudformation.conftest import FakeLookups
from tests.yard.test_bounded_yaml import LAUGHS

PLACE = StackIdentity(region="eu-west-1", account="123456789012", stack_name="net", stack_id="arn:net")
TOPIC = {"Type": "AWS::SNS::Topic"}
SERVERLESS = "AWS::Serverless-2016-10-31"


def draw(body: Mapping[str, Any] | str, **given: str) -> Blueprint:
    lookups = FakeLookups(parameters={"/ami": "ami-0123", "/zones": "a,b"})
    loaded = template.load(body if isinstance(body, str) else json.dumps(body))
    values = parameters.resolve(loaded, given, {}, lookups)
    exports = {"vpc": "vpc-1"}
    return blueprint.draw(
        loaded,
        values,
        PLACE,
        lookups,
        lambda name: exports.get(name) or fail(f"No export named {name} found"),
    )


def value(expression: Any, *, transform: bool = False, **sections: Any) -> Any:
    body = {
        "Resources": {"T": {**TOPIC, "Properties": {"DisplayName": expression}}, "Other": TOPIC},
        **sections,
    }
    if transform:
        body["Transform"] = "AWS::LanguageExtensions"
    return draw(body).resources["T"].properties["DisplayName"]


def refusal(body: Any, **given: str) -> str:
    with pytest.raises(ApiError) as caught:
        draw(body, **given)
    assert caught.value.code == "ValidationError"
    return caught.value.message


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"Fn::Join": ["-", ["a", {"Ref": "AWS::Region"}, 3]]}, "a-eu-west-1-3"),
        ({"Fn::Sub": "${AWS::StackName}/${!Kept}/${AWS::AccountId}"}, "net/${Kept}/123456789012"),
        ({"Fn::Sub": ["${A}-${AWS::Partition}", {"A": {"Ref": "AWS::URLSuffix"}}]}, "amazonaws.com-aws"),
        ({"Fn::Select": ["1", {"Fn::Split": [",", "x,y,z"]}]}, "y"),
        ({"Fn::Select": [0, {"Fn::GetAZs": ""}]}, "eu-west-1a"),
        ({"Fn::Select": [2, {"Fn::GetAZs": {"Ref": "AWS::Region"}}]}, "eu-west-1c"),
        ({"Fn::Base64": "héllo"}, base64.b64encode("héllo".encode()).decode()),
        ({"Fn::ImportValue": {"Fn::Sub": "vpc"}}, "vpc-1"),
        ({"Fn::GetStackOutput": {"StackName": "net", "OutputName": "Vpc", "Region": "eu-west-1"}}, "vpc-9"),
        ({"Fn::FindInMap": ["M", {"Ref": "AWS::Region"}, "k"]}, "mapped"),
        ({"Fn::If": ["Yes", "then", {"Ref": "AWS::NoValue"}]}, "then"),
        ({"Fn::If": ["No", "then", {"Fn::If": ["Nested", "deep", "x"]}]}, "deep"),
        ({"Fn::Cidr": ["10.0.0.0/24", 3, 5]}, ["10.0.0.0/27", "10.0.0.32/27", "10.0.0.64/27"]),
        ({"Fn::Cidr": ["fd00::/56", 2, 64]}, ["fd00::/64", "fd00:0:0:1::/64"]),
        ({"Statement": [{"Condition": {"Bool": {"aws:x": "false"}}}]},) * 2,
    ],
)
def test_an_intrinsic_function_gives_what_aws_gives(expression: Any, expected: Any) -> None:
    sections: dict[str, Any] = {
        "Mappings": {"M": {"eu-west-1": {"k": "mapped"}}},
        "Conditions": {
            "Yes": {"Fn::Equals": [{"Ref": "AWS::Region"}, "eu-west-1"]},
            "No": {"Fn::Not": [{"Condition": "Yes"}]},
            "Nested": {
                "Fn::And": [{"Condition": "Yes"}, {"Fn::Or": [{"Condition": "No"}, {"Condition": "Yes"}]}]
            },
        },
    }
    assert value(expression, **sections) == expected


def test_the_language_extensions_work_only_where_the_template_asks_for_them() -> None:
    assert value({"Fn::ToJsonString": {"a": [1]}}, transform=True) == '{"a":[1]}'
    assert value({"Fn::Length": [1, 2, 3]}, transform=True) == 3
    drawn = draw({"Resources": {"T": {**TOPIC, "Properties": {"DisplayName": {"Ref": "AWS::NoValue"}}}}})
    assert drawn.resources["T"].properties == {}
    with pytest.raises(ApiError, match="needs Transform: AWS::LanguageExtensions"):
        value({"Fn::Length": [1]})


def test_yaml_short_forms_mean_the_same_as_their_long_forms() -> None:
    text = """
AWSTemplateFormatVersion: 2010-09-09
Mappings: {M: {123456789012: {k: "v"}}}
Conditions: {Same: !Equals [a, a]}
Resources:
  T:
    Type: AWS::SNS::Topic
    Properties:
      DisplayName: !Sub "${AWS::Region}-${Other.TopicName}"
      A: !Join ["", [!Ref Other, !GetAtt Other.TopicArn]]
      B: !If [Same, !FindInMap [M, !Ref "AWS::AccountId", k], no]
      C: !Select [1, !Split [",", "p,q"]]
  Other: {Type: AWS::SNS::Topic}
"""
    drawn = draw(text)
    assert list(drawn.resources) == ["Other", "T"]
    properties = drawn.resources["T"].properties
    assert (properties["B"], properties["C"]) == ("v", "q")
    assert isinstance(properties["DisplayName"], Pending)
    assert drawn.template.body["AWSTemplateFormatVersion"] == "2010-09-09"


def test_a_resource_is_made_after_everything_it_speaks_of() -> None:
    drawn = draw(
        {
            "Resources": {
                "A": {**TOPIC, "Properties": {"DisplayName": {"Fn::Sub": "${B.TopicName}"}}},
                "B": {**TOPIC, "Properties": {"DisplayName": {"Fn::GetAtt": "C.TopicName"}}},
                "C": {**TOPIC, "DependsOn": ["D", "Absent"]},
                "D": TOPIC,
                "Absent": {**TOPIC, "Condition": "No"},
            },
            "Conditions": {"No": {"Fn::Equals": ["a", "b"]}},
        }
    )
    assert list(drawn.resources) == ["D", "C", "B", "A"]


REF_B = {**TOPIC, "Properties": {"DisplayName": {"Ref": "B"}}}
REF_A = {**TOPIC, "Properties": {"DisplayName": {"Fn::Sub": "${A.TopicName}"}}}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{", "Template format error: JSON not well-formed. (line 1, column 2)"),
        (
            "Resources: !!python/object/apply:os.system ['true']",
            "Template format error: YAML not well-formed.",
        ),
        ("[]", "Template format error: unsupported structure."),
        ("a: &x [*x]", "Template error: YAML aliases are not allowed in CloudFormation templates"),
        (LAUGHS, "Template error: YAML aliases are not allowed in CloudFormation templates"),  # BI-129
        ("a: " + "[" * 5000, "Template format error: it is nested deeper than 100 levels."),
        ('{"a": ' + "[" * 5000, "Template format error: it is nested deeper than 100 levels."),
        ('{"a": ' + "[" * 200 + "]" * 200 + "}", "Template format error: it is nested deeper than 100"),
        ("a: " + "[" * 200 + "]" * 200, "Template format error: it is nested deeper than 100 levels."),
        ({}, "Template format error: At least one Resources member must be defined."),
        ({"Resources": {"T": TOPIC}, "Outputz": {}}, "Invalid template property or properties [Outputz]"),
        ({"Resources": {"T": {}}}, "[/Resources/T] Every Resources object must contain a Type member."),
        ({"Resources": {"a-b": TOPIC}}, "Template format error: Resource name a-b is non alphanumeric."),
        ({"Resources": {"T": {**TOPIC, "Depends": 1}}}, "Invalid template resource property 'Depends'"),
        (
            {"Resources": {"A": REF_B}},
            "Unresolved resource dependencies [B] in the Resources block of the template",
        ),
        (
            {"Resources": {"A": REF_B, "B": {**TOPIC, "Condition": "No"}}, "Conditions": {"No": False}},
            "Unresolved resource dependencies [B] in the Resources block of the template",
        ),
        (
            {"Resources": {"B": REF_A}},
            "Template error: instance of Fn::GetAtt references undefined resource A",
        ),
        ({"Resources": {"A": REF_B, "B": REF_A}}, "Circular dependency between resources: [A, B]"),
        ({"Resources": {"A": {**TOPIC, "DependsOn": "A"}}}, "Circular dependency between resources: [A]"),
        (
            {"Resources": {"T": TOPIC}, "Outputs": {"O": {"Value": {"Ref": "X"}}}},
            "Unresolved resource dependencies [X] in the Outputs block of the template",
        ),
        (
            {"Resources": {"T": {**TOPIC, "Condition": "C"}}},
            "Unresolved condition dependency C in the Resources block",
        ),
        ({"Resources": {"T": TOPIC}, "Transform": "Count"}, "runs no macros"),
        (
            {"Resources": {"T": {"Type": "AWS::Serverless::Function"}}, "Transform": SERVERLESS},
            "does not expand T",
        ),
        ({"Resources": {"T": TOPIC}, "Transform": SERVERLESS, "Globals": {}}, "does not expand Globals"),
        ({"Resources": {"T": {**TOPIC, "DeletionPolicy": "Keep"}}}, "DeletionPolicy of resource T is 'Keep'"),
    ],
)
def test_a_template_that_aws_would_refuse_is_refused_in_its_words(body: Any, message: str) -> None:
    assert message in refusal(body)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ({"Fn::FindInMap": ["M", "a", "b"]}, "Template error: Unable to get mapping for M::a::b"),
        ({"Fn::ImportValue": "absent"}, "No export named absent found"),
        ({"Fn::GetStackOutput": {"StackName": "net", "OutputName": "x"}}, "stack net has no output x"),
        ({"Fn::Select": [3, ["a"]]}, "Fn::Select cannot select nonexistent value at index 3"),
        ({"Fn::Transform": {"Name": "x"}}, "the yard runs none"),
        ({"Fn::Nope": 1}, "the yard does not know Fn::Nope"),
        ({"Fn::Join": ["", "text"]}, "Fn::Join cannot take"),
        ({"Fn::Cidr": ["10.0.0.0/30", 9, 1]}, "10.0.0.0/30 does not hold 9 blocks"),
        (
            {"Fn::Sub": ["${L}", {"L": ["a"]}]},
            "variable L in Fn::Sub expression does not resolve to a string",
        ),
    ],
)
def test_an_expression_that_cannot_be_evaluated_is_refused(expression: Any, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        value(expression, Mappings={"M": {}})
    assert message in caught.value.message


def declare(**declaration: Any) -> dict[str, Any]:
    resource = {**TOPIC, "Properties": {"DisplayName": {"Ref": "P"}}}
    return {"Parameters": {"P": declaration}, "Resources": {"T": resource}}


@pytest.mark.parametrize(
    ("declaration", "given", "expected"),
    [
        ({"Type": "String", "Default": "d"}, None, "d"),
        ({"Type": "Number", "MinValue": 1}, "4", "4"),
        ({"Type": "CommaDelimitedList"}, "a, b", ["a", "b"]),
        ({"Type": "List<Number>"}, "1,2", ["1", "2"]),
        ({"Type": "List<AWS::EC2::Subnet::Id>"}, "subnet-1a,subnet-2b", ["subnet-1a", "subnet-2b"]),
        ({"Type": "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>"}, "/ami", "ami-0123"),
        ({"Type": "AWS::SSM::Parameter::Value<List<String>>"}, "/zones", ["a", "b"]),
    ],
)
def test_a_parameter_has_the_value_that_ref_gives(declaration: Any, given: str | None, expected: Any) -> None:
    drawn = draw(declare(**declaration), **({} if given is None else {"P": given}))
    assert drawn.resources["T"].properties["DisplayName"] == expected


@pytest.mark.parametrize(
    ("declaration", "given", "message"),
    [
        ({"Type": "String"}, None, "Parameters: [P] must have values"),
        ({"Type": "String", "AllowedValues": ["a", "b"]}, "c", "Parameter 'P' must be one of AllowedValues"),
        ({"Type": "String", "AllowedPattern": "[a-z]+"}, "A", "Parameter 'P' must match pattern [a-z]+"),
        ({"Type": "String", "MinLength": "3"}, "ab", "Parameter 'P' must contain at least 3 characters"),
        ({"Type": "Number", "MaxValue": 3}, "4", "Parameter 'P' must be a number not greater than 3"),
        ({"Type": "Number"}, "four", "parameter value four for parameter name P is no Number"),
        ({"Type": "AWS::EC2::VPC::Id"}, "sg-1", "is no AWS::EC2::VPC::Id"),
        ({"Type": "Text"}, "x", "Template format error: Unrecognized parameter type: Text"),
        (
            {"Type": "AWS::SSM::Parameter::Value<String>"},
            "/absent",
            "Unable to fetch parameters [/absent] from parameter store for this account.",
        ),
        (
            {"Type": "String", "AllowedPattern": "x", "ConstraintDescription": "an x"},
            "y",
            "Parameter P failed to satisfy constraint: an x",
        ),
    ],
)
def test_a_parameter_outside_its_constraints_is_refused(
    declaration: Any, given: str | None, message: str
) -> None:
    assert message in refusal(declare(**declaration), **({} if given is None else {"P": given}))


def test_a_hidden_parameter_is_never_shown_and_one_that_is_not_declared_refused() -> None:
    assert refusal({"Resources": {"T": TOPIC}}, Q="1") == "Parameters: [Q] do not exist in the template"
    loaded = template.load(json.dumps(declare(Type="String", NoEcho=True)))
    (parameter,) = parameters.resolve(loaded, {"P": "secret"}, {}, FakeLookups()).values()
    assert parameter.describe() == {"ParameterKey": "P", "ParameterValue": "****"}


BOOTSTRAP_RULE = {
    "CheckBootstrapVersion": {
        "Assertions": [
            {
                "Assert": {"Fn::Not": [{"Fn::Contains": [["1", "2", "3"], {"Ref": "P"}]}]},
                "AssertDescription": "CDK bootstrap stack version 6 required.",
            }
        ]
    }
}


def test_the_cdk_rule_on_its_bootstrap_version_is_held() -> None:
    body = {**declare(Type="String"), "Rules": BOOTSTRAP_RULE}
    assert "T" in draw(body, P="30").resources
    assert "CDK bootstrap stack version 6 required." in refusal(body, P="3")
