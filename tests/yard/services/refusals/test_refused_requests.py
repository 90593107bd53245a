"""What AWS refuses the yard refuses in AWS's words, and the sound request beside it is taken."""

from __future__ import annotations

import ast
import csv
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.yard.conftest import RunningYard
from tests.yard.services.refusals.sound_requests import SOUND, World

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
