"""Read-only calls return what AWS's do, and bad requests are refused before anything is made."""

from __future__ import annotations

import json
import threading

import pytest

from slipway.yard.cloudformation.template import sources
from slipway.yard.errors import ApiError
from tests.yard.cloudformation.conftest import Cfn, text, topic


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("http://127.0.0.1:5566/bucket/a/b.json", ("bucket", "a/b.json", None)),
        ("http://localhost:5566/bucket/b.json", ("bucket", "b.json", None)),
        ("http://bucket.localhost:5566/a/b.json", ("bucket", "a/b.json", None)),
        ("https://s3.eu-west-1.amazonaws.com/bucket/b.json", ("bucket", "b.json", None)),
        ("https://my.bucket.s3.eu-west-1.amazonaws.com/a/b.json", ("my.bucket", "a/b.json", None)),
        ("https://bucket.s3.amazonaws.com/b%20c.json?versionId=v1", ("bucket", "b c.json", "v1")),
        ("s3://bucket/a.json", ("bucket", "a.json", None)),
    ],
)
def test_a_template_url_is_read_in_either_style(url: str, where: tuple[str, str, str | None]) -> None:
    assert sources.locate(url) == where


@pytest.mark.parametrize("url", ["https://example.com/a.json", "http://127.0.0.1:1/bucket", "nonsense"])
def test_a_url_outside_s3_is_never_fetched(url: str) -> None:
    with pytest.raises(ApiError, match="TemplateURL must be a supported URL"):
        sources.locate(url)


def test_a_stored_template_is_deployed(cfn: Cfn) -> None:
    cfn.lookups.objects = {("bucket", "t.json"): text({"A": topic()}).encode()}
    cfn("CreateStack", StackName="s", TemplateURL="http://127.0.0.1:5566/bucket/t.json")
    assert cfn.settled("s") == "CREATE_COMPLETE"
    refused = cfn.refusal("CreateStack", StackName="t", TemplateURL="http://127.0.0.1:5566/bucket/u.json")
    assert "S3 error: The specified key does not exist" in refused


def test_a_stack_that_is_not_there_is_refused_in_the_words_that_the_cdk_expects(cfn: Cfn) -> None:
    refused = cfn.refusal("DescribeStacks", StackName="s")
    assert refused == "ValidationError: Stack with id s does not exist"
    assert cfn.refusal("DescribeStackEvents", StackName="s") == "ValidationError: Stack [s] does not exist"
    assert cfn("DeleteStack", StackName="s") == {}


def test_a_deleted_stack_is_found_by_its_id_only(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic()})
    stack_id = cfn.describe("s")["StackId"]
    cfn.delete("s")
    assert cfn.describe(stack_id)["StackStatus"] == "DELETE_COMPLETE"
    assert "does not exist" in cfn.refusal("DescribeStacks", StackName="s")
    listed = cfn("ListStacks", StackStatusFilter=["DELETE_COMPLETE"])["StackSummaries"]
    assert [one["StackId"] for one in listed] == [stack_id]


def test_long_lists_come_in_pages(cfn: Cfn) -> None:
    cfn.create("s", {f"T{number}": topic() for number in range(60)})
    first = cfn("DescribeStackEvents", StackName="s")
    second = cfn("DescribeStackEvents", StackName="s", NextToken=first["NextToken"])
    events = [*first["StackEvents"], *second["StackEvents"]]
    assert len(events) == 2 + 3 * 60
    assert len({one["EventId"] for one in events}) == len(events)
    assert "NextToken" not in second


def test_hidden_parameters_stay_hidden_and_ssm_values_are_shown(cfn: Cfn) -> None:
    cfn.lookups.parameters["/p"] = "found"
    body = {
        "Parameters": {
            "Hidden": {"Type": "String", "NoEcho": True},
            "Stored": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/p"},
        },
        "Resources": {"A": topic({"Ref": "Stored"})},
    }
    cfn.create("s", body, Parameters=[{"ParameterKey": "Hidden", "ParameterValue": "secret"}])
    assert cfn.describe("s")["Parameters"] == [
        {"ParameterKey": "Hidden", "ParameterValue": "****"},
        {"ParameterKey": "Stored", "ParameterValue": "/p", "ResolvedValue": "found"},
    ]
    changed = {**body, "Resources": {"A": topic({"Fn::Sub": "${Stored}${Hidden}"})}}
    kept = [{"ParameterKey": "Hidden", "UsePreviousValue": True}]
    assert cfn.update("s", changed, Parameters=kept) == "UPDATE_COMPLETE"
    assert cfn.cloud.of("A") == {"DisplayName": "foundsecret"}


def test_a_template_is_given_back_as_it_came(cfn: Cfn) -> None:
    body = json.dumps({"Resources": {"A": topic()}}, indent=7)
    cfn("CreateStack", StackName="s", TemplateBody=body)
    cfn.settled("s")
    for stage in ("Original", "Processed"):
        assert cfn("GetTemplate", StackName="s", TemplateStage=stage)["TemplateBody"] == body


def test_a_summary_lists_what_a_template_needs(cfn: Cfn) -> None:
    body = {
        "Description": "d",
        "Parameters": {"P": {"Type": "Number", "Default": 1, "AllowedValues": [1, 2]}},
        "Resources": {"R": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}}}},
    }
    summary = cfn("GetTemplateSummary", TemplateBody=json.dumps(body))
    assert summary["Capabilities"] == ["CAPABILITY_IAM"]
    assert summary["ResourceTypes"] == ["AWS::IAM::Role"]
    assert summary["Parameters"] == [
        {
            "ParameterKey": "P",
            "DefaultValue": "1",
            "NoEcho": False,
            "ParameterType": "Number",
            "ParameterConstraints": {"AllowedValues": ["1", "2"]},
        }
    ]
    assert cfn("ValidateTemplate", TemplateBody=json.dumps(body))["Description"] == "d"
    assert "Unresolved resource dependencies" in cfn.refusal(
        "ValidateTemplate", TemplateBody=text({"A": topic({"Ref": "Nobody"})})
    )


def test_a_resource_shows_its_metadata_and_its_stack(cfn: Cfn) -> None:
    cfn.create("s", {"A": topic(Metadata={"k": "v"})})
    detail = cfn("DescribeStackResource", StackName="s", LogicalResourceId="A")["StackResourceDetail"]
    assert (detail["PhysicalResourceId"], detail["Metadata"]) == ("topic-1", '{"k": "v"}')
    (found,) = cfn("DescribeStackResources", PhysicalResourceId="topic-1")["StackResources"]
    assert (found["StackName"], found["ResourceStatus"]) == ("s", "CREATE_COMPLETE")
    assert "Resource B does not exist for stack s" in cfn.refusal(
        "DescribeStackResource", StackName="s", LogicalResourceId="B"
    )


# Requests that are refused before anything is made, with AWS's words.


def test_a_stack_in_progress_takes_no_second_operation(cfn: Cfn) -> None:
    cfn.cloud.gate = threading.Event()
    body = text({"A": topic()})
    cfn("CreateStack", StackName="s", TemplateBody=body)
    assert "Stack [s] already exists" in cfn.refusal("CreateStack", StackName="s", TemplateBody=body)
    assert "is in CREATE_IN_PROGRESS state and can not be updated." in cfn.refusal(
        "UpdateStack", StackName="s", TemplateBody=body
    )
    cfn.cloud.gate.set()
    assert cfn.settled("s") == "CREATE_COMPLETE"
    cfn.cloud.gate = threading.Event()
    cfn("UpdateStack", StackName="s", TemplateBody=text({"A": topic(), "B": topic()}))
    assert "cannot be deleted while in status UPDATE_IN_PROGRESS" in cfn.refusal("DeleteStack", StackName="s")
    cfn.cloud.gate.set()
    assert cfn.settled("s") == "UPDATE_COMPLETE"


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


def test_types_calls_and_attributes_that_are_not_there_are_named_before_anything_is_made(cfn: Cfn) -> None:
    def refused(body: object) -> str:
        return cfn.refusal("CreateStack", StackName="s", TemplateBody=text({"A": topic(), "B": body}))

    unknown = "Template format error: Unrecognized resource types: [AWS::Batch::JobQeue]"
    assert unknown in refused({"Type": "AWS::Batch::JobQeue"})
    colour = "resource A does not support attribute type Colour in Fn::GetAtt"
    assert colour in refused(topic({"Fn::GetAtt": ["A", "Colour"]}))
    missing = cfn.refusal("DescribeType", TypeName="AWS::S3::Bucket")
    assert missing.startswith("InvalidAction: The yard's CloudFormation has no DescribeType")
    cfn.cloud.unknown_types = ("AWS::S3::Bucket", "AWS::SQS::Queue")
    body = text({"A": topic(), "B": {"Type": "AWS::S3::Bucket"}, "Q": {"Type": "AWS::SQS::Queue"}})
    several = cfn.refusal("CreateStack", StackName="s", TemplateBody=body)
    assert several == "ValidationError: no AWS::S3::Bucket here\nno AWS::SQS::Queue here"
    assert cfn.cloud.calls == []


def test_identity_resources_need_the_callers_consent_and_names_need_one_that_is_for_both(cfn: Cfn) -> None:
    nameless = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}}}
    role = {**nameless, "Properties": {"AssumeRolePolicyDocument": {}, "RoleName": "r"}}
    for body, given, wanted in (
        (role, [], "CAPABILITY_NAMED_IAM"),
        (role, ["CAPABILITY_IAM"], "CAPABILITY_NAMED_IAM"),
        (nameless, [], "CAPABILITY_IAM"),
    ):
        asked = {"StackName": "s", "TemplateBody": text({"R": body}), "Capabilities": given}
        refused = f"InsufficientCapabilitiesException: Requires capabilities : [{wanted}]"
        assert cfn.refusal("CreateStack", **asked) == refused
    assert cfn.create("s", {"R": role}, Capabilities=["CAPABILITY_NAMED_IAM"]) == "CREATE_COMPLETE"
    assert cfn.create("t", {"R": nameless}, Capabilities=["CAPABILITY_NAMED_IAM"]) == "CREATE_COMPLETE"


def test_a_template_longer_than_aws_takes_is_refused(cfn: Cfn) -> None:
    body = text({"A": topic("x" * 60_000)})
    assert "length less than or equal to 51200" in cfn.refusal(
        "CreateStack", StackName="s", TemplateBody=body
    )
    url = "http://127.0.0.1:5566/bucket/t.json"
    cfn.lookups.objects = {("bucket", "t.json"): b"{}" + b" " * 1_000_000}
    refused = cfn.refusal("CreateStack", StackName="s", TemplateURL=url)
    assert "Template may not exceed 1000000 bytes in size." in refused
