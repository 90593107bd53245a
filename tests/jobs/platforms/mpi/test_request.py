"""A request to an MPI cluster is one object and one command, decided before any call."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from slipway.containers.runtime.contract.launchers import read_position
from slipway.containers.runtime.contract.settings import SPOT, Settings
from slipway.jobs.platforms.mpi.request import STATES, build_request
from slipway.jobs.platforms.sending import refuse_malformed
from slipway.jobs.words.job import CommandRequest, DoesNotFit, Job
from slipway.jobs.words.mpi import LONGEST_SECONDS, REPLACED_SECONDS, MpiJob, decode
from slipway.jobs.words.run import JobState, translate
from tests.jobs.words.test_targets import MPI_TARGET

JOB = Job(name="glue", recipe="prepare_bert", nodes=4, settings={"task": "mrpc"})
CODE = "c" * 64
MODULE = "containers.x"


def request_for(job: Job = JOB, **changes: Any) -> CommandRequest:
    target = replace(MPI_TARGET, **changes)
    return build_request(job, target, module=MODULE, code=CODE)


def job_of(request: CommandRequest) -> MpiJob:
    return decode(request.put["Body"], where="here")


def test_the_command_names_the_request_and_nothing_else_that_a_shell_could_read() -> None:
    request = request_for()
    parameters = request.send_command["Parameters"]
    assert parameters["RequestKey"] == [request.put["Key"]]
    assert re.fullmatch(r"jobs/[A-Za-z0-9_-]{1,128}/request\.json", request.put["Key"])
    assert set(parameters) == {"RequestKey", "TimeoutSeconds"}
    assert request.send_command["DocumentName"] == MPI_TARGET.run_document
    output = {"CloudWatchLogGroupName": "/slipway/c6i", "CloudWatchOutputEnabled": True}
    assert request.send_command["CloudWatchOutputConfig"] == output
    refuse_malformed("ssm", "SendCommand", request.send_command)


def test_the_same_job_has_the_same_name_and_other_code_or_another_repeat_another() -> None:
    assert request_for().name == request_for().name == request_for().send_command["Comment"]
    others = {request_for(replace(JOB, repeat=1)).name, request_for(replace(JOB, nodes=2)).name}
    other_code = build_request(JOB, MPI_TARGET, module=MODULE, code="d" * 64)
    assert len({*others, other_code.name, request_for().name}) == 4


def test_the_main_node_is_told_all_that_is_known_here_and_counts_the_ranks_itself() -> None:
    job = job_of(request_for())
    assert job.arguments == ("--set", "task=mrpc")
    assert job.environment["SLIPWAY_NODES"] == "4"
    assert job.environment["SLIPWAY_CHECKPOINTS"] == f"/mnt/shared/checkpoints/{job.name}"
    assert "SLIPWAY_PROCESSES_PER_NODE" not in job.environment
    assert (job.processes_per_node, job.code, job.mpi) == (None, CODE, "open-mpi")
    assert job_of(request_for(replace(JOB, processes_per_node=2))).processes_per_node == 2


def test_a_node_with_accelerators_gets_a_rank_for_each_and_what_these_want_to_be_told() -> None:
    job = job_of(request_for(instance_type="dl1.24xlarge", efa_interfaces=4))
    assert job.processes_per_node == 8
    told = {"SLIPWAY_ACCELERATOR": "habana", "SLIPWAY_ACCELERATORS": "8", "SLIPWAY_EFA_INTERFACES": "4"}
    direct = {"RDMAV_FORK_SAFE": "1", "FI_EFA_USE_DEVICE_RDMA": "1"}
    assert {**told, **direct, "SLIPWAY_HUGE_PAGES": "15000"}.items() <= job.environment.items()
    without = job_of(request_for(instance_type="dl1.24xlarge", efa_interfaces=0))
    assert not direct.keys() & without.environment.keys()


def test_ranks_on_spot_machines_listen_for_the_notice_and_others_ask_nobody() -> None:
    job = job_of(request_for(is_spot=True))
    place = read_position({})
    assert Settings.of(job.environment, place, job.module, []).market == SPOT
    assert "SLIPWAY_MARKET" not in job_of(request_for()).environment


def test_systems_manager_ends_the_command_after_the_job_has_ended_itself() -> None:
    request = request_for(replace(JOB, timeout_seconds=600, attempts=2))
    assert int(request.send_command["Parameters"]["TimeoutSeconds"][0]) > 2 * 600 + REPLACED_SECONDS
    longest = request_for(job_timeout_seconds=LONGEST_SECONDS)
    assert longest.send_command["Parameters"]["TimeoutSeconds"] == [str(LONGEST_SECONDS)]


def test_a_job_that_waits_has_as_long_as_a_command_can_and_the_name_that_it_would_have_alone() -> None:
    """Systems Manager counts the wait as part of the command, and ends every command after two days."""
    brief = replace(JOB, timeout_seconds=600)
    waiting = build_request(brief, MPI_TARGET, module=MODULE, code=CODE, waits_for=("c-1",))
    assert (job_of(waiting).waits_for, job_of(request_for(brief)).waits_for) == (("c-1",), ())
    assert waiting.send_command["Parameters"]["TimeoutSeconds"] == [str(LONGEST_SECONDS)]
    assert waiting.name == request_for(brief).name


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (replace(JOB, nodes=5), "asks for 5 nodes but cluster 'c6i' has 4"),
        (replace(JOB, timeout_seconds=25 * 3600), "may take 86400"),
        (replace(JOB, attempts=3), "Systems Manager ends a command"),
    ],
)
def test_what_the_cluster_cannot_run_is_refused_before_anything_is_sent(job: Job, said: str) -> None:
    with pytest.raises(DoesNotFit) as refusal:
        request_for(job)
    assert said in refusal.value.message
    assert refusal.value.hint


def test_every_word_of_systems_manager_has_a_state_and_a_new_one_is_unknown() -> None:
    documented = {"Pending", "InProgress", "Delayed", "Success", "Cancelled", "TimedOut", "Failed"}
    assert set(STATES) == documented | {"Cancelling"}
    assert translate(STATES, "Hibernating") is JobState.UNKNOWN
