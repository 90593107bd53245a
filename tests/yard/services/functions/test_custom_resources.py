"""Custom resources that a template's own function makes: what it is told, and what comes of its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.yard.asking import refusal, send
from tests.yard.cloudformation.stacks import CAPABILITIES, Stacks
from tests.yard.conftest import RunningYard

TRUSTED = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
LOGS = "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
# It names its resource after the property Name, and fails or is silent where Do says so.
CODE = """
import json
import cfnresponse

def handler(event, context):
    asked, given = event["RequestType"], event["ResourceProperties"]
    print("told", json.dumps([asked, event.get("PhysicalResourceId"), given["Name"], given.get("Size")]))
    if given.get("Do") == "nothing":
        return
    if given.get("Do") == "fail" and asked != "Delete":
        cfnresponse.send(event, context, cfnresponse.FAILED, {}, "half-made", reason="no such subnet")
        return
    if given.get("Do") == "by https":
        import http.client, urllib.parse
        url = urllib.parse.urlparse(event["ResponseURL"])
        said = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
        body = json.dumps({**said, "Status": "SUCCESS", "PhysicalResourceId": "secure", "Data": {}})
        connection = http.client.HTTPSConnection(url.netloc)
        connection.request("PUT", url.path + "?" + url.query, body, {"content-type": ""})
        print("answered", connection.getresponse().status)
        return
    data = {"Zone": "use1-az1", "Upper": given["Name"].upper()}
    cfnresponse.send(event, context, cfnresponse.SUCCESS, data, given["Name"])
"""


def custom(**properties: Any) -> dict[str, Any]:
    token = {"Fn::GetAtt": ["Maker", "Arn"]}
    return {"Type": "Custom::Finder", "Properties": {"ServiceToken": token, **properties}}


def template(runtime: str = "python3.12", **resources: Any) -> dict[str, Any]:
    trust = {"Version": "2012-10-17", "Statement": [TRUSTED]}
    maker = {
        "Code": {"ZipFile": CODE},
        "Handler": "index.handler",
        "Runtime": runtime,
        "Role": {"Fn::GetAtt": ["Role", "Arn"]},
        "FunctionName": "maker",
        "Timeout": 30,
    }
    return {
        "Resources": {
            "Role": {
                "Type": "AWS::IAM::Role",
                "Properties": {"AssumeRolePolicyDocument": trust, "ManagedPolicyArns": [LOGS]},
            },
            "Maker": {"Type": "AWS::Lambda::Function", "Properties": maker},
            **resources,
        }
    }


@pytest.fixture
def stacks(yard: RunningYard) -> Stacks:
    return Stacks(yard)


def told(yard: RunningYard) -> list[Any]:
    """Everything that the function was asked, in order."""
    found = yard.client("logs").filter_log_events(logGroupName="/aws/lambda/maker", filterPattern='"told"')
    return [json.loads(event["message"].partition(" ")[2]) for event in found["events"]]


def test_a_function_makes_changes_replaces_and_deletes_a_custom_resource(stacks: Stacks) -> None:
    body = template(Finder=custom(Name="one", Size=3))
    body["Outputs"] = {"Upper": {"Value": {"Fn::GetAtt": ["Finder", "Upper"]}}}
    made = stacks.create("found", body)
    assert (made["Finder"], stacks.outputs("found")) == ("one", {"Upper": "ONE"})
    body["Resources"]["Finder"] = custom(Name="one", Size=4)
    assert stacks.update("found", body)["Finder"] == "one"
    body["Resources"]["Finder"] = custom(Name="two", Size=True)
    assert stacks.update("found", body)["Finder"] == "two"
    assert stacks.outputs("found") == {"Upper": "TWO"}
    stacks.delete("found")
    assert told(stacks.yard) == [
        ["Create", None, "one", "3"],
        ["Update", "one", "one", "4"],
        ["Update", "one", "two", "true"],
        ["Delete", "one", "one", "4"],
        ["Delete", "two", "two", "true"],
    ]


def test_a_function_that_fails_or_never_answers_fails_its_resource_in_awss_words(stacks: Stacks) -> None:
    with pytest.raises(AssertionError, match="is not stack_create_complete"):
        stacks.create("fails", template(Finder=custom(Name="one", Do="fail")))
    said = stacks.reasons("fails")[0]
    assert said.startswith(
        "Finder: Received response status [FAILED] from custom resource. Message returned:"
    )
    assert "no such subnet" in said
    assert told(stacks.yard) == [["Create", None, "one", None], ["Delete", "half-made", "one", None]]
    stacks.delete("fails")
    with pytest.raises(AssertionError, match="is not stack_create_complete"):
        stacks.create("silent", template(Finder=custom(Name="one", Do="nothing", ServiceTimeout=1)))
    assert "CloudFormation did not receive a response" in stacks.reasons("silent")[0]


def test_a_function_may_answer_through_its_own_https_connection(stacks: Stacks) -> None:
    body = template(Finder=custom(Name="one", Do="by https"))
    assert stacks.create("https", body)["Finder"] == "secure"


@pytest.mark.parametrize(
    ("resources", "says"),
    [
        ({"runtime": "nodejs22.x", "Finder": custom(Name="one")}, "this one's runtime is nodejs22.x"),
        (
            {"Finder": custom(Name="one", ServiceToken="arn:aws:sns:us-east-1:123456789012:asked")},
            "functions",
        ),
    ],
)
def test_what_no_function_here_can_make_is_refused_by_name(
    stacks: Stacks, resources: dict[str, Any], says: str
) -> None:
    create = stacks.cloudformation.create_stack
    body = json.dumps(template(**resources))
    said = refusal(create, StackName="no", TemplateBody=body, Capabilities=CAPABILITIES)
    assert said["Code"] == "ValidationError"
    assert "Finder" in said["Message"]
    assert says in said["Message"]


def test_nobody_answers_for_a_resource_without_its_secret(yard: RunningYard) -> None:
    status, _ = send("PUT", f"{yard.endpoint}/_yard/custom-resource-responses/guessed", b"{}")
    assert status == 403
