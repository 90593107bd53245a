"""Fixtures: a cluster of MPI hosts in a yard, with documents that answer as a node would."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.session import get_session
from botocore.stub import Stubber

from slipway.jobs.cloud import aws
from slipway.jobs.platforms.mpi import main_node
from slipway.jobs.platforms.mpi.nodes import find_members
from slipway.jobs.words.mpi import READY_KEY, Answer, Readiness, encode_readiness
from slipway.jobs.words.targets import MpiTarget, encode_target, parameter_name
from slipway.yard.gateway.faults import unscript
from tests.jobs.conftest import forget_clients, slipway
from tests.jobs.words.test_targets import MPI_TARGET
from tests.yard.conftest import REGION, point_at
from tests.yard.machines.hosts.conftest import Site, Vpc, new_site, tier

__all__ = ["slipway", "tier"]

WELL = ["echo '[run] 2 hosts, 2 ranks each: a, b' >&2", "echo '[0] hello'; echo '[3] there'"]


@pytest.fixture
def ssm(monkeypatch: pytest.MonkeyPatch) -> Stubber:
    """Answers of Systems Manager that the yard does not give, as botocore's model of it has them."""
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    client = get_session().create_client("ssm", region_name=REGION, **keys)
    monkeypatch.setattr(main_node, "reader", lambda *_: client)
    stub = Stubber(client)
    stub.activate()
    return stub


@pytest.fixture(scope="module")
def site(tier: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    yield from new_site(tmp_path_factory.mktemp("mpi-hosts"), {})


@pytest.fixture(scope="module")
def vpc(site: Site) -> Vpc:
    found = site.vpc()
    assert len(found.start("c6i", found.security_group("c6i"), 2)) == 2
    return found


@pytest.fixture
def target(
    site: Site, vpc: Vpc, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[MpiTarget]:
    """Deploy new documents for each test, so that no test sees another's jobs."""
    point_at(site.yard, monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    forget_clients()
    yield deploy(site, vpc, f"t{abs(hash(request.node.name)) % 10**9}", getattr(request, "param", WELL))
    unscript(site.yard)
    forget_clients()


def deploy(site: Site, vpc: Vpc, unique: str, lines: list[str]) -> MpiTarget:
    group = vpc.groups[0]
    target = replace(
        MPI_TARGET,
        name=group,
        node_group=group,
        run_document=f"{unique}-run",
        stop_document=f"{unique}-stop",
        log_group=f"/slipway/{unique}",
        bucket=f"slipway-{unique}",
    )
    site.client("s3").create_bucket(Bucket=target.bucket)
    texts = {name: {"type": "String", "default": ""} for name in ("RequestKey", "TimeoutSeconds")}
    create_document(site, target.run_document, texts, lines)
    create_document(site, target.stop_document, {"Job": {"type": "String"}}, ["echo stopped '{{ Job }}'"])
    site.client("ssm").put_parameter(
        Name=parameter_name(group), Value=encode_target(target), Type="String", Overwrite=True
    )
    say_ready(target, answered=True)
    return target


def create_document(site: Site, name: str, parameters: Mapping[str, Any], lines: list[str]) -> None:
    step = {"action": "aws:runShellScript", "name": "run", "inputs": {"runCommand": ["#!/bin/bash", *lines]}}
    content = {"schemaVersion": "2.2", "description": "x", "parameters": parameters, "mainSteps": [step]}
    site.client("ssm").create_document(Name=name, Content=json.dumps(content), DocumentType="Command")


def say_ready(target: MpiTarget, *, answered: bool, lasts: bool = False) -> None:
    """Act as the main node."""
    members = find_members(target.name, target.region)
    answers = tuple(
        Answer(
            name=each.name,
            instance_id=each.instance_id,
            answered=answered or not at,
            why="no torch",
            lasts=lasts and bool(at),
        )
        for at, each in enumerate(members)
    )
    body = encode_readiness(Readiness(nodes=answers, ready=answered, at=1))
    aws.client("s3", REGION).put_object(Bucket=target.bucket, Key=READY_KEY, Body=body)


def commands(target: MpiTarget, document: str) -> list[dict[str, Any]]:
    filters = [{"key": "DocumentName", "value": document}]
    return list(aws.reader("ssm", REGION).list_commands(Filters=filters)["Commands"])
