"""CloudFormation waits in place of the user: for throttling, internal errors and eventual consistency."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.config import Config
from botocore.session import get_session

from slipway.yard.cloudformation.resources.scope import DEADLINE_S, patiently
from slipway.yard.endpoint import ACCESS_KEY_ID, control
from slipway.yard.errors import ApiError
from tests.yard.cloudformation.resources.world import TRUST
from tests.yard.conftest import REGION, RunningYard

TEMPLATE = {
    "Resources": {
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": TRUST}},
        "Profile": {"Type": "AWS::IAM::InstanceProfile", "Properties": {"Roles": [{"Ref": "Role"}]}},
        "Network": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
        "Subnet": {
            "Type": "AWS::EC2::Subnet",
            "Properties": {"VpcId": {"Ref": "Network"}, "CidrBlock": "10.0.0.0/24"},
        },
        "Group": {
            "Type": "AWS::EC2::SecurityGroup",
            "Properties": {"GroupDescription": "nodes", "VpcId": {"Ref": "Network"}},
        },
        "Bake": {
            "Type": "AWS::ImageBuilder::InfrastructureConfiguration",
            "Properties": {"Name": "bake", "InstanceProfileName": {"Ref": "Profile"}},
        },
    }
}


def test_a_stack_of_new_roles_and_groups_is_made_while_aws_is_slow_to_know_them(yard: RunningYard) -> None:
    cloudformation = yard.client("cloudformation")
    faults = {"consistency": 0.5, "throttling": 5, "server-errors": 20}
    control(yard, "POST", "/switches", {"values": faults, "seed": 4})
    retrying = client_of_a_user(yard)
    stack = retrying.create_stack(
        StackName="late", TemplateBody=json.dumps(TEMPLATE), Capabilities=["CAPABILITY_IAM"]
    )["StackId"]
    retrying.get_waiter("stack_create_complete").wait(StackName=stack, WaiterConfig={"Delay": 1})
    struck = {row["name"]: row["struck"] for row in control(yard, "GET", "/switches")["switches"]}
    control(yard, "POST", "/switches", {"values": dict.fromkeys(faults, 0)})
    events = cloudformation.describe_stack_events(StackName=stack)["StackEvents"]
    assert [event for event in events if event["ResourceStatus"].endswith("FAILED")] == []
    assert events[0]["ResourceStatus"] == "CREATE_COMPLETE"
    assert struck["consistency"] > 0
    assert struck["server-errors"] > 0


def client_of_a_user(yard: RunningYard) -> Any:
    """Repeat a call as the CDK's own client does when AWS throttles it or fails."""
    return get_session().create_client(
        "cloudformation",
        region_name=REGION,
        endpoint_url=yard.endpoint,
        aws_access_key_id=ACCESS_KEY_ID,
        aws_secret_access_key=yard.secret,
        config=Config(retries={"mode": "standard", "total_max_attempts": 10}),
    )


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def pause(self, seconds: float) -> None:
        self.time += seconds

    def now(self) -> float:
        return self.time


def test_a_refusal_that_does_not_pass_is_told_at_once(clock: Clock) -> None:
    def refuse() -> None:
        raise ApiError("InvalidGroup.NotFound", "The security group 'sg-1' does not exist")

    with pytest.raises(ApiError, match="InvalidGroup"):
        patiently(refuse, pause=clock.pause, now=clock.now)
    assert clock.time == 0


def test_throttling_that_never_ends_is_told_after_minutes(clock: Clock) -> None:
    def refuse() -> None:
        raise ApiError("RequestLimitExceeded", "Request limit exceeded.", status=503)

    with pytest.raises(ApiError, match="RequestLimitExceeded"):
        patiently(refuse, pause=clock.pause, now=clock.now)
    assert DEADLINE_S < clock.time < DEADLINE_S + 10


@pytest.fixture
def clock() -> Clock:
    return Clock()
