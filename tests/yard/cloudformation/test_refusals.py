"""What is refused before anything is made, and in which words."""

from __future__ import annotations

import threading

import pytest

from tests.yard.cloudformation.conftest import Cfn, text
from tests.yard.cloudformation.templates import topic


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


@pytest.mark.parametrize(
    ("resource_type", "message"),
    [
        ("AWS::Batch::JobQeue", "Template format error: Unrecognized resource types: [AWS::Batch::JobQeue]"),
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


def test_identity_resources_need_the_callers_consent(cfn: Cfn) -> None:
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}, "RoleName": "r"}}
    refused = cfn.refusal("CreateStack", StackName="s", TemplateBody=text({"R": role}))
    assert refused == "InsufficientCapabilitiesException: Requires capabilities : [CAPABILITY_NAMED_IAM]"
    assert cfn.create("s", {"R": role}, Capabilities=["CAPABILITY_NAMED_IAM"]) == "CREATE_COMPLETE"


def test_consent_to_names_is_consent_to_identity_resources_too(cfn: Cfn) -> None:
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}, "RoleName": "r"}}
    refused = cfn.refusal(
        "CreateStack", StackName="s", TemplateBody=text({"R": role}), Capabilities=["CAPABILITY_IAM"]
    )
    assert refused.endswith("Requires capabilities : [CAPABILITY_NAMED_IAM]")
    nameless = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}}}
    body = text({"R": nameless})
    assert "[CAPABILITY_IAM]" in cfn.refusal("CreateStack", StackName="s", TemplateBody=body)
    assert cfn.create("s", {"R": nameless}, Capabilities=["CAPABILITY_NAMED_IAM"]) == "CREATE_COMPLETE"


def test_a_template_longer_than_aws_takes_is_refused(cfn: Cfn) -> None:
    body = text({"A": topic("x" * 60_000)})
    assert "length less than or equal to 51200" in cfn.refusal(
        "CreateStack", StackName="s", TemplateBody=body
    )
    url = "http://127.0.0.1:5566/bucket/t.json"
    cfn.lookups.objects = {("bucket", "t.json"): b"{}" + b" " * 1_000_000}
    refused = cfn.refusal("CreateStack", StackName="s", TemplateURL=url)
    assert "Template may not exceed 1000000 bytes in size." in refused
