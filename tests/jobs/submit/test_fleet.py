"""A command reads of thousands of ended jobs only their names, and in full only those that it shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from slipway.jobs.clusters import destroying
from slipway.jobs.platforms import on_clusters
from slipway.jobs.platforms.batch import runs as batch_runs
from slipway.jobs.platforms.mpi import main_node
from slipway.jobs.platforms.mpi import platform as mpi_platform
from slipway.jobs.platforms.mpi import runs as mpi_runs
from slipway.jobs.submit import find
from slipway.jobs.submit.find import find_awaited, find_newest, find_unfinished, list_unfinished
from slipway.jobs.words.run import Run
from slipway.jobs.words.targets import SlurmTarget, Target
from tests.jobs.submit.test_find import NOON
from tests.jobs.words.test_targets import MPI_TARGET, SLURM_TARGET, TARGET

MANY, LEFT, PAGE = 2000, 3, 100


class Service:
    """Answers as AWS Batch, Systems Manager, S3 and EC2 do for this many jobs, and counts calls."""

    def __init__(self, target: Target) -> None:
        self.target, self.asked, self.ended = target, Counter[str](), set(range(MANY - LEFT))
        self.meta = type("Meta", (), {"service_model": type("Model", (), {"signing_name": "x"})})

    def get_paginator(self, operation: str) -> Service:
        self.operation = operation
        return self

    def paginate(self, **_: Any) -> Iterator[Mapping[str, Any]]:
        key = {"list_jobs": "jobSummaryList", "list_commands": "Commands"}[self.operation]
        for start in range(0, MANY, PAGE):
            self.asked[self.operation] += 1
            yield {key: [self._job(number) for number in range(start, start + PAGE)]}

    def describe_jobs(self, jobs: list[str]) -> Mapping[str, Any]:
        self.asked["read"] += len(jobs)
        return {"jobs": [self._job(int(each)) for each in jobs]}

    def describe_job_queues(self, **_: Any) -> Mapping[str, Any]:
        return {"jobQueues": [{}]}

    def list_commands(self, CommandId: str) -> Mapping[str, Any]:  # noqa: N803  # as boto3 has it
        return {"Commands": [self._job(int(CommandId))]}

    def get_command_invocation(self, CommandId: str, **_: Any) -> Mapping[str, Any]:  # noqa: N803
        self.asked["read"] += 1
        return {"Status": self._job(int(CommandId))["Status"]}

    def get_object(self, **_: Any) -> Any:
        from botocore.exceptions import ClientError

        raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")

    def describe_instances(self, **_: Any) -> Mapping[str, Any]:
        return {"Reservations": []}

    def terminate_job(self, jobId: str, **_: Any) -> None:  # noqa: N803
        self.ended.add(int(jobId))

    def cancel_command(self, CommandId: str) -> None:  # noqa: N803
        self.ended.add(int(CommandId))

    def send_command(self, **_: Any) -> None:
        """Nothing runs."""

    def _job(self, number: int) -> dict[str, Any]:
        """Return a job as both services describe it, with the fields of each."""
        has_ended, moment = number in self.ended, NOON.timestamp() + number
        return {
            "jobId": str(number),
            "jobName": f"job-{number}",
            "createdAt": int(moment * 1000),
            "status": "SUCCEEDED" if has_ended else "RUNNABLE",
            "dependsOn": [{"jobId": "7"}],
            "CommandId": str(number),
            "Comment": f"job-{number}",
            "InstanceIds": ["i-1"],
            "Status": "Success" if has_ended else "InProgress",
            "DocumentName": MPI_TARGET.run_document,
            "RequestedDateTime": NOON.fromtimestamp(moment, NOON.tzinfo),
        }


@pytest.fixture(params=[TARGET, MPI_TARGET], ids=["batch", "mpi"])
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Service:
    found = Service(request.param)
    for module in (batch_runs, mpi_runs, main_node, on_clusters):
        monkeypatch.setattr(module, "reader", lambda *_: found)
    for module in (batch_runs, mpi_platform):
        monkeypatch.setattr(module.aws, "client", lambda *_: found)
    return found


def test_a_list_of_what_has_not_ended_reads_nothing_that_has(service: Service) -> None:
    runs = list_unfinished([service.target])
    assert [run.name for run in runs] == ["job-1999", "job-1998", "job-1997"]
    assert service.asked["read"] == LEFT
    others = find_awaited(runs, [service.target])
    waits = service.target is TARGET
    assert [other.id for other in others[LEFT:]] == (["7"] if waits else [])
    assert service.asked["read"] == LEFT + waits, "what all of them wait for is read once"


def test_of_many_jobs_the_newest_alone_is_read(service: Service) -> None:
    assert find_newest("job", [service.target], lambda _: None).run.name == "job-1999"
    assert service.asked["read"] == 1


def test_of_many_jobs_the_only_one_that_has_not_ended_is_found_without_reading_the_others(
    service: Service,
) -> None:
    service.ended |= {1997, 1999}
    assert find_unfinished("job", [service.target]).run.name == "job-1998"
    assert service.asked["read"] == 2


def test_before_a_cluster_goes_its_jobs_are_listed_once_and_not_again_for_each(service: Service) -> None:
    ended = destroying.cancel_all(service.target, lambda _: None)
    lists = service.asked["list_jobs"] + service.asked["list_commands"]
    assert (len(ended), lists) == (LEFT, 2 * MANY // PAGE), "once before, and once after"


def test_what_a_job_waits_for_is_looked_up_on_its_own_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each Slurm cluster counts its jobs from 1."""
    one, other = (replace(SLURM_TARGET, name=name) for name in ("trn1", "gpu"))
    asked: list[tuple[str, ...]] = []

    def found(run: Run, target: SlurmTarget) -> list[Run]:
        asked.append((target.name, *run.depends_on))
        return []

    monkeypatch.setattr(find, "waiting_of", lambda _: SimpleNamespace(find_dependencies_of=found))
    unsaid: dict[str, Any] = dict.fromkeys(Run.__dataclass_fields__)
    first, second = (
        Run(
            **{
                **unsaid,
                "id": str(number),
                "target": target.name,
                "region": target.region,
                "depends_on": waits,
            }
        )
        for number, target, waits in ((1, one, ()), (2, other, ("1",)))
    )
    find_awaited([first, second], [one, other])
    assert asked == [("gpu", "1")]
