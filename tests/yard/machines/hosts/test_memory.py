"""MPI jobs use this machine's memory, too: a job that does not fit waits or is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from slipway.jobs.words import mpi
from slipway.jobs.words.job import request_key
from slipway.jobs.words.targets import encode_target, parameter_name
from slipway.yard.machines.hosts.boot_ways import BOOT_VARIABLE, IMITATED
from slipway.yard.machines.memory import VARIABLE, WAITS, Need
from tests.jobs.words.test_mpi import JOB
from tests.jobs.words.test_targets import MPI_TARGET
from tests.yard.asking import refusal
from tests.yard.machines.hosts.conftest import Site, new_site

ONE_JOB = Need(nodes=1, ranks=2)
DOCUMENT = {
    "schemaVersion": "2.2",
    "parameters": {"RequestKey": {"type": "String"}},
    "mainSteps": [
        {
            "action": "aws:runShellScript",
            "name": "run",
            # The first job runs until it is cancelled.
            "inputs": {"runCommand": ["case '{{ RequestKey }}' in *first*) exec sleep infinity;; esac"]},
        }
    ],
}


class Jobs:
    """Start one host, and return commands that run jobs there."""

    def __init__(self, site: Site) -> None:
        vpc = site.vpc()
        (name,) = vpc.start("nodes", vpc.security_group("members"), 1)
        self.instance = next(str(host["instance"]) for host in vpc.hosts("nodes") if host["name"] == name)
        self.site, self.ssm, self.s3 = site, site.client("ssm"), site.client("s3")
        self.s3.create_bucket(Bucket=MPI_TARGET.bucket)
        for name in (*(f"a{number}" for number in range(12)), MPI_TARGET.name):  # more than a page of SSM
            record = encode_target(replace(MPI_TARGET, name=name, run_document=f"slipway-{name}-run"))
            self.ssm.put_parameter(Name=parameter_name(name), Value=record, Type="String")
        content = json.dumps(DOCUMENT)
        self.ssm.create_document(Name=MPI_TARGET.run_document, DocumentType="Command", Content=content)

    def send(self, name: str, processes: int) -> str:
        job = replace(JOB, name=name, nodes=1, processes_per_node=processes)
        key = request_key(name)
        self.s3.put_object(Bucket=MPI_TARGET.bucket, Key=key, Body=mpi.encode(job).encode())
        sent = self.ssm.send_command(
            DocumentName=MPI_TARGET.run_document,
            InstanceIds=[self.instance],
            Parameters={"RequestKey": [key]},
        )
        return str(sent["Command"]["CommandId"])

    def until(self, command: str, status: str, details: str) -> dict[str, Any]:
        def is_so() -> bool:
            found = self.invocation(command)
            return (found["Status"], found["StatusDetails"]) == (status, details)

        self.site.until(is_so)
        return self.invocation(command)

    def invocation(self, command: str) -> dict[str, Any]:
        return dict(self.ssm.get_command_invocation(CommandId=command, InstanceId=self.instance))


@pytest.fixture(scope="module")
def jobs(tier: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    settings = {VARIABLE: str(ONE_JOB.mib), BOOT_VARIABLE: IMITATED}
    for site in new_site(tmp_path_factory.mktemp("little"), settings):
        yield Jobs(site)


def test_a_job_that_does_not_fit_beside_another_is_delayed_with_the_reason_and_then_runs(jobs: Jobs) -> None:
    first = jobs.send("first", 2)
    jobs.until(first, "InProgress", "InProgress")
    second = jobs.send("second", 2)
    assert jobs.until(second, "Pending", "Delayed")["StandardErrorContent"] == WAITS
    jobs.ssm.cancel_command(CommandId=first)
    assert jobs.until(second, "Success", "Success")["StandardErrorContent"] == ""


def test_a_job_that_can_never_fit_is_refused_when_it_is_sent(jobs: Jobs) -> None:
    said = refusal(jobs.send, name="huge", processes=8)
    assert said["Code"] == "InvalidParameters"
    assert said["Message"].endswith("submit it with --processes-per-node 2")


def test_a_job_that_waits_can_be_cancelled(jobs: Jobs) -> None:
    first = jobs.send("first", 2)
    jobs.until(first, "InProgress", "InProgress")
    second = jobs.send("second", 2)
    jobs.until(second, "Pending", "Delayed")
    jobs.ssm.cancel_command(CommandId=second)
    jobs.until(second, "Cancelled", "Cancelled")
    jobs.ssm.cancel_command(CommandId=first)
    jobs.until(first, "Cancelled", "Cancelled")
