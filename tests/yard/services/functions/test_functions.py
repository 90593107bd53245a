"""Functions run with the right answers, errors, permissions and logs."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from typing import Any

import pytest

from tests.waiting import until
from tests.yard.asking import make_role, refusal, send
from tests.yard.cloudformation.stacks import CAPABILITIES, Stacks, typed
from tests.yard.conftest import RunningYard

BY_LAMBDA = {"Service": "lambda.amazonaws.com"}
MAY_LOG = {
    "Effect": "Allow",
    "Action": ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"],
    "Resource": "*",
}
EVERY_WAY = """
import os, boto3

def handler(event, context):
    print("asked to", event["do"])
    return globals()[event["do"]](event, context)

def add(event, context):
    return {"sum": sum(event["numbers"]), "name": context.function_name, "setting": os.environ["SETTING"]}

def fail(event, context):
    raise ValueError("there is no such number")

def buckets(event, context):
    return [bucket["Name"] for bucket in boto3.client("s3").list_buckets()["Buckets"]]

def vpcs(event, context):
    return boto3.client("ec2").describe_vpcs()["Vpcs"]

def sleep(event, context):
    import time
    time.sleep(60)

def leave(event, context):
    os._exit(3)
"""


def zipped(code: str, name: str = "index.py") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, code)
    return packed.getvalue()


class Functions:
    """Make a function that may list buckets and write its log, and nothing else."""

    def __init__(self, yard: RunningYard) -> None:
        self.yard = yard
        self.client: Any = yard.client("lambda")
        lists = {"Effect": "Allow", "Action": "s3:ListAllMyBuckets", "Resource": "*"}
        self.role = make_role(yard, "function", BY_LAMBDA, MAY_LOG, lists)

    def make(self, name: str = "adder", **changes: Any) -> None:
        given = {
            "Runtime": "python3.12",
            "Handler": "index.handler",
            "Role": self.role,
            "Code": {"ZipFile": zipped(EVERY_WAY)},
            "Environment": {"Variables": {"SETTING": "kept"}},
            "Timeout": 30,
        }
        self.client.create_function(FunctionName=name, **{**given, **changes})

    def ask(self, do: str, **more: Any) -> tuple[Any, str]:
        """Return the answer, and the kind of error."""
        payload = json.dumps({"do": do, **more})
        answer = self.client.invoke(FunctionName="adder", Payload=payload)
        return json.loads(answer["Payload"].read()), answer.get("FunctionError", "")


@pytest.fixture
def functions(yard: RunningYard) -> Functions:
    made = Functions(yard)
    made.make()
    return made


def test_a_function_needs_no_leave_to_make_a_log_group_that_its_template_made(functions: Functions) -> None:
    writes = {"Effect": "Allow", "Action": ["logs:CreateLogStream", "logs:PutLogEvents"], "Resource": "*"}
    logs = functions.yard.client("logs")
    logs.create_log_group(logGroupName="/aws/lambda/quiet")
    functions.make("quiet", Role=make_role(functions.yard, "quiet", BY_LAMBDA, writes))
    event = json.dumps({"do": "add", "numbers": [1]})
    functions.client.invoke(FunctionName="quiet", Payload=event)
    assert logs.filter_log_events(logGroupName="/aws/lambda/quiet")["events"]


def test_a_function_answers_with_what_its_handler_returns_and_logs_what_it_prints(
    functions: Functions,
) -> None:
    event = json.dumps({"do": "add", "numbers": [1, 2]})
    answer = functions.client.invoke(FunctionName="adder", Payload=event, LogType="Tail")
    said = json.loads(answer["Payload"].read())
    assert (answer["StatusCode"], said) == (200, {"sum": 3, "name": "adder", "setting": "kept"})
    assert "asked to add" in base64.b64decode(answer["LogResult"]).decode()
    logs = functions.yard.client("logs").filter_log_events(logGroupName="/aws/lambda/adder")["events"]
    assert [event["message"].split()[0] for event in logs] == ["START", "asked", "END"]


def test_a_handler_that_raises_or_ends_its_process_is_an_error_of_the_function(functions: Functions) -> None:
    said, error = functions.ask("fail")
    assert (said["errorType"], said["errorMessage"]) == ("ValueError", "there is no such number")
    assert error == "Unhandled"
    assert "no such number" in "".join(said["stackTrace"])
    said, error = functions.ask("leave")
    assert (said["errorType"], error) == ("Runtime.ExitError", "Unhandled")
    assert said["errorMessage"].endswith("exit status 3")
    functions.client.update_function_configuration(FunctionName="adder", Timeout=1)
    said, error = functions.ask("sleep")
    assert (said["errorType"], error) == ("Sandbox.Timedout", "Unhandled")
    assert said["errorMessage"].endswith("Task timed out after 1.00 seconds")


def test_a_function_has_the_rights_of_its_role_and_no_others(functions: Functions) -> None:
    functions.yard.client("s3").create_bucket(Bucket="seen")
    assert functions.ask("buckets") == (["seen"], "")
    said, error = functions.ask("vpcs")
    assert (said["errorType"], error) == ("ClientError", "Unhandled")
    assert (
        "assumed-role/function/adder is not authorized to perform: ec2:DescribeVpcs" in said["errorMessage"]
    )


def test_code_comes_from_s3_and_an_event_is_handled_later(functions: Functions) -> None:
    s3 = functions.yard.client("s3")
    s3.create_bucket(Bucket="code")
    writes = "import boto3\ndef run(event, context):\n    boto3.client('s3').put_object(**event)\n"
    s3.put_object(Bucket="code", Key="app.zip", Body=zipped(writes, "tools/app.py"))
    anything = make_role(
        functions.yard, "writer", BY_LAMBDA, {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    )
    stored = {"S3Bucket": "code", "S3Key": "app.zip"}
    functions.make("writer", Code=stored, Handler="tools/app.run", Role=anything)
    event = json.dumps({"Bucket": "code", "Key": "written", "Body": "later"})
    answer = functions.client.invoke(FunctionName="writer", InvocationType="Event", Payload=event)
    assert (answer["StatusCode"], answer["Payload"].read()) == (202, b"")
    s3.get_waiter("object_exists").wait(
        Bucket="code", Key="written", WaiterConfig={"Delay": 1, "MaxAttempts": 120}
    )
    assert s3.get_object(Bucket="code", Key="written")["Body"].read() == b"later"


def test_what_cannot_be_run_is_refused_by_name(functions: Functions) -> None:
    invoke = functions.client.invoke
    functions.make("page", Runtime="nodejs22.x")
    said = refusal(invoke, FunctionName="page")
    assert (said["Code"], said["status"]) == ("NotImplemented", 501)
    assert "(page): it runs functions of Python, and this one's runtime is nodejs22.x" in said["Message"]
    assert refusal(invoke, FunctionName="none")["Code"] == "ResourceNotFoundException"
    bad = refusal(invoke, FunctionName="adder", Payload=b"{")
    assert bad["Code"] == "InvalidRequestContentException"
    other = make_role(functions.yard, "machines", {"Service": "ec2.amazonaws.com"})
    functions.client.update_function_configuration(FunctionName="adder", Role=other)
    said = refusal(invoke, FunctionName="adder")
    assert said["Code"] == "AccessDeniedException"


# Custom resources of a template's own function: the requests it gets, and the effect of its answers.
TRUSTED = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
LOGS = "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
# It names its resource after the property Name, and fails or stays silent if Do says so.
CODE = """
import json
import cfnresponse

def handler(event, context):
    asked, given = event["RequestType"], event["ResourceProperties"]
    print("told", json.dumps([asked, event.get("PhysicalResourceId"), given["Name"], given.get("Size")]))
    if given.get("Do") == "nothing" or (given.get("Do") == "nothing at first" and asked == "Create"):
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


def told(yard: RunningYard) -> list[Any]:
    """Return all requests to the function, in order; none before it writes its first line."""
    logs, group = yard.client("logs"), "/aws/lambda/maker"
    if not logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
        return []
    found = logs.filter_log_events(logGroupName=group, filterPattern='"told"')
    return [json.loads(event["message"].partition(" ")[2]) for event in found["events"]]


def test_a_function_makes_changes_replaces_and_deletes_a_custom_resource(stacks: Stacks) -> None:
    body = template(Finder=custom(Name="one", Size=3))
    body["Outputs"] = {"Upper": {"Value": {"Fn::GetAtt": ["Finder", "Upper"]}}}
    made = stacks.create("found", body)
    assert (made["Finder"], stacks.outputs("found")) == ("one", {"Upper": "ONE"})
    https = template(Finder=custom(Name="one", Do="by https"))
    https["Resources"]["Maker"]["Properties"]["FunctionName"] = "other"
    assert stacks.create("https", https)["Finder"] == "secure", "it may answer by a connection of its own"
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


def test_a_nested_stack_whose_function_never_answers_is_deleted_with_its_parent_while_it_is_created(
    stacks: Stacks,
) -> None:
    child = json.dumps(template(Finder=custom(Name="one", Do="nothing at first")))
    s3 = stacks.yard.client("s3")
    s3.create_bucket(Bucket="templates")
    s3.put_object(Bucket="templates", Key="child.json", Body=child.encode())
    url = "https://templates.s3.us-east-1.amazonaws.com/child.json"
    parent = json.dumps({"Resources": {"Child": typed("AWS::CloudFormation::Stack", TemplateURL=url)}})
    ask = stacks.cloudformation.create_stack  # it answers after seconds, so the stack is not made at once
    ask(StackName="hangs", TemplateBody=parent, Capabilities=CAPABILITIES)
    until(lambda: told(stacks.yard) == [["Create", None, "one", None]])
    stacks.delete("hangs")
    asked, named, *_ = told(stacks.yard)[-1]
    assert (asked, "-Finder-" in named) == ("Delete", True)
    assert stacks.cloudformation.describe_stacks()["Stacks"] == []


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
