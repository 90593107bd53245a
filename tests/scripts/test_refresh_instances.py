"""The catalogue is compared with DescribeInstanceTypes, which moto answers from a snapshot of AWS."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from moto.server import ThreadedMotoServer

from scripts import refresh_instances
from scripts.refresh_instances import Answer, Difference, amended, ask_region, command, differences
from slipway.jobs.cloud import aws
from slipway.jobs.words.catalogue.instances import instance_type, instance_types

REGION = "us-east-1"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def aws_is_here(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> Iterator[None]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    aws.reader.cache_clear()
    yield
    aws.reader.cache_clear()


def refresh(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def answer() -> Answer:
    return ask_region(REGION, [known.name for known in instance_types()])


def test_a_type_that_aws_no_longer_describes_is_named() -> None:
    done = refresh("--json")
    [gone] = [
        row for row in json.loads(done.stdout) if (row["name"], row["fact"]) == ("dl1.24xlarge", "described")
    ]
    assert (gone["catalogue"], gone["aws"]) == ("us-east-1", "no longer described")
    assert done.exit_code == 1


def test_every_other_fact_agrees_with_the_snapshot() -> None:
    found = differences(instance_types(), [answer()])
    assert {(one.name, one.fact) for one in found} == {
        ("dl1.24xlarge", "described"),
        ("dl1.24xlarge", "regions"),
        ("p3.16xlarge", "described"),
    }


def test_nothing_is_said_to_be_gone_from_where_it_was_never_known_to_be() -> None:
    nowhere = replace(instance_type("dl1.24xlarge"), regions=())
    [unknown] = differences([nowhere], [answer()])
    assert (unknown.catalogue, unknown.aws) == ("regions unknown", "not in us-east-1")


def test_each_fact_that_differs_is_a_line_of_its_own() -> None:
    wrong = replace(instance_type("p4d.24xlarge"), vcpus=95, efa_interfaces=3)
    assert differences([wrong], [answer()]) == [
        Difference(name="p4d.24xlarge", fact="vcpus", catalogue="95", aws="96"),
        Difference(name="p4d.24xlarge", fact="efa_interfaces", catalogue="3", aws="4"),
    ]


def test_a_region_that_offers_a_type_no_more_is_a_difference_and_an_unasked_one_is_not() -> None:
    here = replace(instance_type("p4d.24xlarge"), regions=("eu-west-1", REGION))
    nowhere = replace(answer(), offered=frozenset())
    assert differences([here], [nowhere]) == [
        Difference(name="p4d.24xlarge", fact="regions", catalogue=f"eu-west-1 {REGION}", aws="eu-west-1")
    ]


def test_a_type_is_not_missed_where_the_catalogue_does_not_expect_it() -> None:
    elsewhere = replace(instance_type("dl1.24xlarge"), regions=("us-west-2",))
    assert differences([elsewhere], [answer()]) == []


def test_a_catalogue_that_agrees_ends_with_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh_instances, "instance_types", lambda: (instance_type("p4d.24xlarge"),))
    done = refresh()
    assert done.exit_code == 0
    assert "agrees with AWS in us-east-1" in done.stderr


def test_writing_changes_the_facts_that_differ_and_says_where_they_come_from() -> None:
    before = refresh_instances.CATALOGUE.read_text(encoding="utf-8")
    found = [Difference(name="p4d.24xlarge", fact="vcpus", catalogue="96", aws="97")]
    after = amended(before, found, "2026-11-21")
    rows = {row["name"]: row for row in csv.DictReader(io.StringIO(after))}
    assert rows["p4d.24xlarge"]["vcpus"] == "97"
    assert rows["p4d.24xlarge"]["facts_source"].endswith("; vcpus from ec2:DescribeInstanceTypes, 2026-11-21")
    unchanged = [line for line in before.splitlines() if not line.startswith("p4d.24xlarge,")]
    assert unchanged == [line for line in after.splitlines() if not line.startswith("p4d.24xlarge,")]


def test_write_puts_them_into_the_catalogue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    copy = tmp_path / "instances.csv"
    copy.write_text(refresh_instances.CATALOGUE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(refresh_instances, "CATALOGUE", copy)
    assert refresh("--write").exit_code == 0
    [row] = [
        row
        for row in csv.DictReader(io.StringIO(copy.read_text(encoding="utf-8")))
        if row["name"] == "dl1.24xlarge"
    ]
    assert row["regions"] == "us-west-2"


def test_an_aws_that_does_not_answer_is_trouble_and_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    done = refresh()
    assert getattr(done.exception, "exit_code", None) == 2
    assert "ec2:DescribeInstanceTypes in us-east-1 got no answer" in str(done.exception)
