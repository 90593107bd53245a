"""The yard refuses what AWS refuses, in AWS's words, and accepts the valid request next to it."""

from __future__ import annotations

import ast
import base64
import csv
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError

from tests.yard.conftest import RunningYard
from tests.yard.services.pcs.pcs_site import MIME, PcsSite

# A small account with the valid requests of sound_requests.yaml; refused_requests.csv changes them.
ZONE = "us-east-1a"
USER_DATA = base64.b64encode(MIME.format("#!/bin/sh").encode()).decode()
Request = dict[str, Any]
SOUND: Mapping[str, Request] = yaml.safe_load(
    Path(__file__).with_name("sound_requests.yaml").read_text("utf-8")
)


@dataclass(slots=True)
class World:
    """Hold what valid requests refer to."""

    yard: RunningYard
    numbers: Any = field(default_factory=itertools.count)
    names: dict[str, str] = field(default_factory=dict)  # the values of {name} in the table

    def __post_init__(self) -> None:
        ec2 = self.client("ec2")
        image = ec2.register_image(
            Name="x86",
            Architecture="x86_64",
            RootDeviceName="/dev/xvda",
            BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 30}}],
        )["ImageId"]
        arm = ec2.register_image(Name="arm", Architecture="arm64")["ImageId"]
        site = PcsSite(self.yard, image=image)
        other = ec2.create_vpc(CidrBlock="10.91.0.0/16")["Vpc"]["VpcId"]
        elsewhere = ec2.create_security_group(GroupName="elsewhere", Description="elsewhere", VpcId=other)
        place = ec2.create_subnet(VpcId=site.vpc, CidrBlock="10.90.1.0/24", AvailabilityZone=ZONE)
        far = ec2.create_subnet(VpcId=site.vpc, CidrBlock="10.90.2.0/24", AvailabilityZone="us-east-1e")
        ec2.create_key_pair(KeyName="mine")
        ec2.create_placement_group(GroupName="near", Strategy="cluster")
        self.send("role", {**self.sound("role"), "RoleName": "nodes"})
        trusted = {**self.sound("role"), "RoleName": "training"}
        trusted["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] = {
            "Service": "sagemaker.amazonaws.com"
        }
        self.send("role", trusted)
        self.client("s3").create_bucket(Bucket="of-nodes")
        self.client("logs").create_log_group(logGroupName="jobs")
        volume = ec2.create_volume(AvailabilityZone=ZONE, Size=40)["VolumeId"]
        cluster, batch = site.cluster(), self.client("batch")
        self.names |= {
            "vpc": site.vpc, "subnet": place["Subnet"]["SubnetId"], "group": site.group, "image": image,
            "arm": arm, "far": far["Subnet"]["SubnetId"], "foreign_group": elsewhere["GroupId"],
            "profile": site.profile, "cluster": cluster["id"],
            "node_group": site.node_group(cluster["id"])["id"],
            "snapshot": ec2.create_snapshot(VolumeId=volume)["SnapshotId"],
            "topic": self.client("sns").create_topic(Name="nodes")["TopicArn"],
            "key": self.client("kms").create_key()["KeyMetadata"]["KeyId"], "user_data": USER_DATA,
        }  # fmt: skip
        batch.register_job_definition(**self.sound("definition"))
        environment = self.send("environment", self.sound("environment"))
        order = [{"order": 1, "computeEnvironment": environment["computeEnvironmentArn"]}]
        batch.create_job_queue(jobQueueName="queue", priority=1, computeEnvironmentOrder=order)

    def client(self, service: str) -> Any:
        return self.yard.client(service)

    def sound(self, kind: str) -> Request:
        """Return the valid request, with a new name."""
        self.names["new"] = f"new{next(self.numbers)}"
        filled: Request = self._filled(SOUND[kind]["request"])
        return filled

    def changed(self, kind: str, changes: Mapping[str, Any]) -> Request:
        """Return the valid request with the values at these paths; None removes one."""
        request = self.sound(kind)
        for path, value in changes.items():
            _put(request, path.split("."), self._filled(value))
        return request

    def send(self, kind: str, request: Request) -> dict[str, Any]:
        """Send the request, a document as text; for a compute environment, return its final state."""
        service, operation = SOUND[kind]["call"].split(":")
        given = {
            name: json.dumps(value) if name.endswith(("Document", "Policy", "Content")) else value
            for name, value in request.items()
            if name != "template"
        }
        if "template" in request:
            made = self.client("ec2").create_launch_template(
                LaunchTemplateName=f"template-{next(self.numbers)}", LaunchTemplateData=request["template"]
            )
            _name_template(given, str(made["LaunchTemplate"]["LaunchTemplateId"]))
        answer: dict[str, Any] = getattr(self.client(service), operation)(**given)
        if kind == "environment":
            named = [answer["computeEnvironmentArn"]]
            (answer,) = self.client("batch").describe_compute_environments(computeEnvironments=named)[
                "computeEnvironments"
            ]
        return answer

    def _filled(self, value: Any) -> Any:
        """Insert the account's ids; `20 times x` means that many letters, and `20 times =` base64."""
        if isinstance(value, dict):
            return {name: self._filled(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        if not isinstance(value, str):
            return value
        count, _, letter = value.partition(" times ")
        if letter:
            text = letter * int(count)
            return base64.b64encode(text[1:].encode()).decode() if letter == "=" else text
        return value.format(**self.names) if value.startswith("{") else value


def _name_template(given: Request, template: str) -> None:
    if "computeResources" in given:
        given["computeResources"]["launchTemplate"] = {"launchTemplateId": template, "version": "$Latest"}
    elif "clusterIdentifier" in given:
        given["customLaunchTemplate"] = {"id": template, "version": "1"}
    else:
        given["LaunchTemplate"] = {"LaunchTemplateId": template, "Version": "$Latest"}


def _put(into: Any, path: list[str], value: Any) -> None:
    name: Any = int(path[0]) if isinstance(into, list) else path[0]
    if len(path) > 1:
        _put(into[name], path[1:], value)
    elif value is None:
        del into[name]
    else:
        into[name] = value


ROWS = list(csv.DictReader(Path(__file__).with_name("refused_requests.csv").read_text("utf-8").splitlines()))


@pytest.fixture(scope="module")
def world(shared_yard: RunningYard) -> World:
    return World(shared_yard)


@pytest.mark.parametrize("kind", SOUND)
def test_a_sound_request_of_each_kind_is_taken(world: World, kind: str) -> None:
    answer = world.send(kind, world.sound(kind))
    assert answer.get("status") != "INVALID", answer.get("statusReason")


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['kind']}: {row['changes']}" for row in ROWS])
def test_a_request_that_aws_refuses_is_refused_in_its_words(world: World, row: dict[str, str]) -> None:
    request = world.changed(row["kind"], ast.literal_eval(row["changes"]))
    try:
        answer = world.send(row["kind"], request)
    except ClientError as refused:
        error = refused.response["Error"]
        assert (error["Code"], row["said"] in error["Message"]) == (row["code"], True), error
        # The service's API model gives an error its HTTP status; most have 400, or none.
        model = world.client(SOUND[row["kind"]]["call"].split(":")[0]).meta.service_model
        shapes = (shape for shape in model.error_shapes if shape.error_code == row["code"])
        modelled = next((each.metadata.get("error", {}).get("httpStatusCode", 400) for each in shapes), 400)
        status = refused.response["ResponseMetadata"]["HTTPStatusCode"]
        assert status == modelled
    else:  # a compute environment that no node survives
        assert answer.get("status") == row["code"], f"{row['kind']} is taken with {row['changes']}"
        assert row["said"] in answer["statusReason"]


def test_an_instance_whose_key_is_lost_is_taken_and_ends(world: World) -> None:
    lost = {"VolumeSize": 50, "Encrypted": True, "KmsKeyId": "alias/lost"}
    (instance,) = world.send("run", world.changed("run", {"BlockDeviceMappings.0.Ebs": lost}))["Instances"]
    seen = world.client("ec2").describe_instances(InstanceIds=[instance["InstanceId"]])
    (found,) = seen["Reservations"][0]["Instances"]
    assert found["State"]["Name"] == "terminated"
    assert found["StateReason"]["Code"] == "Client.InvalidKMSKey.InvalidState"


def test_the_table_holds_two_hundred_requests_each_with_its_source() -> None:
    assert len(ROWS) >= 199
    assert all(row["source"] and row["said"] for row in ROWS)
