"""A job of an MPI cluster works from submit to cancel, by Systems Manager on real hosts of the yard.

The documents here answer as a node would; node/ tests what nodes do, and tests/end_to_end both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.cloud import aws
from slipway.jobs.clusters.machines import NoMachine, find_machines
from slipway.jobs.platforms.code_bundle import CodeChanged
from slipway.jobs.platforms.mpi import platform
from slipway.jobs.platforms.mpi.halting import halt
from slipway.jobs.platforms.mpi.nodes import find_members
from slipway.jobs.platforms.mpi.platform import Busy
from slipway.jobs.platforms.mpi.runs import unfinished_runs
from slipway.jobs.platforms.platform import StillRuns, platform_of
from slipway.jobs.submit.find import find_run, list_runs, refresh
from slipway.jobs.submit.logs import Wanted, follow_lines
from slipway.jobs.submit.preparing import prepare
from slipway.jobs.submit.rate import settings_of
from slipway.jobs.submit.submission import Submitted, submit_prepared
from slipway.jobs.words.job import Job
from slipway.jobs.words.mpi import READY_KEY, Member
from slipway.jobs.words.names import CLUSTER_TAG
from slipway.jobs.words.recipes import find_recipe
from slipway.jobs.words.run import Found, JobState
from slipway.jobs.words.targets import MpiTarget
from slipway.yard.endpoint import control
from slipway.yard.gateway.faults import Fault, FaultKind, script
from tests.jobs.platforms.mpi.conftest import commands
from tests.jobs.submit.test_submission import Clock
from tests.yard.accounts import own_image
from tests.yard.conftest import REGION
from tests.yard.machines.hosts.conftest import Site

JOB = Job(name="glue", recipe="prepare_bert", nodes=2, settings={"sample_megabytes": "1"})
LONG = ["exec sleep 300"]


def submit(target: MpiTarget, job: Job = JOB) -> Submitted:
    return submit_prepared(prepare(job, target.name), waiting=Clock().waiting())


def ended(site: Site, target: MpiTarget, job_id: str) -> Found[MpiTarget]:
    site.until(lambda: refresh(job_id, target).run.state.is_final)
    return refresh(job_id, target)


def with_document(lines: list[str]) -> Callable[[Any], Any]:
    return pytest.mark.parametrize("target", [lines], indirect=True, ids=["node"])


def test_a_job_runs_on_the_main_node_and_is_read_back_whole(site: Site, target: MpiTarget) -> None:
    submitted = submit(target, replace(JOB, settings={"phase": "2", "vocabulary": "v"}))
    found = ended(site, target, submitted.job_id)
    run = found.run
    assert settings_of(found.detail) == {"phase": "2", "vocabulary": "v"}
    assert (run.state, run.exit_code, run.recipe, run.nodes) == (JobState.SUCCEEDED, 0, "prepare_bert", 2)
    assert run.name == submitted.prepared.name
    assert run.cost.usd is not None
    assert [each.id for each in list_runs([target])] == [run.id]
    (command,) = commands(target, target.run_document)
    assert command["InstanceIds"] == [find_members(target.name, target.region)[0].instance_id]
    lines = {line.text: (line.node, line.rank) for line in follow_lines(found, Wanted(), to_end=False)}
    assert {"[0] hello": (0, 0), "[3] there": (1, 3)}.items() <= lines.items()
    of_rank = list(follow_lines(found, Wanted(rank=3), to_end=False))
    assert [line.text for line in of_rank] == ["[3] there"]


def test_the_same_job_again_here_or_from_another_laptop_is_the_one_that_exists_and_all_of_it_is_stored(
    target: MpiTarget, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, second = submit(target), submit(target)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert first.job_id == second.job_id == submit(target).job_id
    assert (first.existed, second.existed) == (False, True)
    assert find_run("glue", [target]).run.id == first.job_id
    assert len(commands(target, target.run_document)) == 1
    stored = aws.reader("s3", REGION).list_objects_v2(Bucket=target.bucket)["Contents"]
    digest = str(first.prepared.image_digest).removeprefix("sha256:")
    request = f"jobs/{first.prepared.name}/request.json"
    assert {content["Key"] for content in stored} == {f"code/{digest}.tar.gz", request, READY_KEY}


@pytest.mark.parametrize("kind", [FaultKind.DROP_RESPONSE, FaultKind.SERVER_ERROR, FaultKind.THROTTLE])
def test_a_job_is_sent_once_whatever_happens_to_the_answer(
    site: Site, target: MpiTarget, kind: FaultKind
) -> None:
    script(site.yard, Fault(service="ssm", operation="SendCommand", kind=kind))
    submitted = submit(target)
    found = [command["CommandId"] for command in commands(target, target.run_document)]
    assert found == [submitted.job_id]


@with_document(LONG)
def test_a_job_whose_main_node_dies_has_failed_and_keeps_nobody_waiting(
    site: Site, target: MpiTarget
) -> None:
    """Systems Manager still says InProgress."""
    submitted, main = lead_to_its_main_node(site, target)
    control(site.yard, "POST", "/kill-host", {"host": main.instance_id})
    found = ended(site, target, submitted.job_id)
    assert commands(target, target.run_document)[0]["Status"] == "InProgress"
    assert_lost(found, main)
    assert unfinished_runs(target) == []


@with_document(LONG)
def test_a_job_that_fails_as_its_main_node_shuts_down_has_lost_its_node(
    site: Site, target: MpiTarget, tier: str
) -> None:
    submitted, main = lead_to_its_main_node(site, target)
    site.client("ec2").terminate_instances(InstanceIds=[main.instance_id])
    assert_lost(ended(site, target, submitted.job_id), main)
    if tier == "root":  # elsewhere a host is gone at once, and its agent reports no end
        site.until(lambda: commands(target, target.run_document)[0]["Status"] == "Failed")
    assert_lost(refresh(submitted.job_id, target), main)


def lead_to_its_main_node(site: Site, target: MpiTarget) -> tuple[Submitted, Member]:
    submitted = submit(target)
    site.until(lambda: refresh(submitted.job_id, target).run.state is JobState.RUNNING)
    return submitted, find_members(target.name, target.region)[0]


def assert_lost(found: Found[Any], main: Member) -> None:
    assert (found.run.state, found.run.status) == (JobState.FAILED, "MainNodeLost")
    assert (
        f"host {main.name} ({main.instance_id}) was lost" in platform_of(found.target).explain(found).sentence
    )
    assert found.run.stopped_at is not None


def told_by(command: str) -> set[str]:
    found = aws.reader("ssm", REGION).list_command_invocations(CommandId=command)
    return {invocation["InstanceId"] for invocation in found["CommandInvocations"]}


@with_document(LONG)
def test_a_cancelled_job_ends_and_every_node_is_told_to_end_it(site: Site, target: MpiTarget) -> None:
    site.until(lambda: all_hear(site, target))  # tests before this one took nodes away
    found = refresh(submit(target).job_id, target)
    platform_of(target).cancel(found, "enough")
    run = ended(site, target, found.run.id).run
    assert (run.state, run.status) == (JobState.FAILED, "Cancelled")
    assert "cancelled" in platform_of(target).explain(refresh(run.id, target)).sentence
    (stop,) = commands(target, target.stop_document)
    nodes = {member.instance_id for member in find_members(target.name, target.region)}
    site.until(lambda: told_by(stop["CommandId"]) == nodes)
    assert stop["Parameters"] == {"Job": [run.name]}


def all_hear(site: Site, target: MpiTarget) -> bool:
    """Return True once both nodes are there and Systems Manager reaches them."""
    nodes = {member.instance_id for member in find_members(target.name, target.region)}
    known = site.client("ssm").describe_instance_information()["InstanceInformationList"]
    return len(nodes) == 2 and nodes <= {
        each["InstanceId"] for each in known if each["PingStatus"] == "Online"
    }


@with_document(LONG)
def test_a_job_is_cancelled_on_all_nodes_that_hear_it_however_often_and_whichever_does_not(
    site: Site, target: MpiTarget
) -> None:
    """A command that names a node without an agent yet would be refused for all nodes."""
    found = refresh(submit(target).job_id, target)
    nodes = len(find_members(target.name, target.region))
    deaf = start_deaf(site, target)
    try:
        assert len(find_members(target.name, target.region)) == nodes + 1
        for _ in range(2):
            platform_of(target).cancel(found, "enough")
        ended(site, target, found.run.id)
        assert [command["TargetCount"] for command in commands(target, target.stop_document)] == [
            nodes,
            nodes,
        ]
    finally:
        site.client("ec2").terminate_instances(InstanceIds=[deaf])


def start_deaf(site: Site, target: MpiTarget) -> str:
    """Make an instance with the cluster's tag but in no group, for which the yard starts no host."""
    ec2 = site.client("ec2")
    image = own_image(ec2)
    tags = [{"ResourceType": "instance", "Tags": [{"Key": CLUSTER_TAG, "Value": target.name}]}]
    ran = ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1, TagSpecifications=tags)
    return str(ran["Instances"][0]["InstanceId"])


@with_document(LONG)
def test_while_a_job_runs_another_is_refused_with_its_name_and_so_is_stopping_its_machines(
    site: Site, target: MpiTarget
) -> None:
    first = submit(target)
    with pytest.raises(Busy, match=first.prepared.name):
        submit(target, replace(JOB, name="other"))
    with pytest.raises(StillRuns, match=f"{first.prepared.name} of {target.name} has not ended"):
        halt(target, lambda _: None)
    platform_of(target).cancel(refresh(first.job_id, target), "enough")
    ended(site, target, first.job_id)


@with_document(LONG)
def test_a_person_enters_the_nodes_of_a_job_while_it_runs(site: Site, target: MpiTarget) -> None:
    sent = submit(target)
    site.until(lambda: refresh(sent.job_id, target).run.state is JobState.RUNNING)
    found = find_machines(sent.prepared.name, REGION)
    (command,) = commands(target, target.run_document)
    assert [each.instance_id for each in found.listed][:1] == command["InstanceIds"]
    assert [(each.number, each.user) for each in found.listed] == [(0, "slipway"), (1, "slipway")]
    platform_of(target).cancel(refresh(sent.job_id, target), "enough")
    ended(site, target, sent.job_id)
    with pytest.raises(NoMachine, match="is not running"):
        find_machines(sent.prepared.name, REGION)


@with_document(LONG)
def test_a_job_that_waits_for_another_costs_nothing_and_says_for_which(site: Site, target: MpiTarget) -> None:
    data = submit(target, replace(JOB, name="data"))
    train = submit(target, replace(JOB, name="train", depends_on=("data",)))
    tune = submit(target, replace(JOB, name="tune", depends_on=("train",)))
    site.until(lambda: refresh(train.job_id, target).run.status == "WaitsForOthers")
    found = refresh(train.job_id, target)
    assert (found.run.state, found.run.started_at, found.run.cost.usd) == (JobState.WAITING, None, 0.0)
    assert found.run.depends_on == (data.job_id,)
    name, first = train.prepared.name, data.prepared.name
    told = platform_of(target).explain(found).sentence
    assert told == f"{name} waits for {first} (InProgress) to succeed first"
    last = platform_of(target).explain(refresh(tune.job_id, target)).sentence
    assert last == f"{tune.prepared.name} waits for {name} (WaitsForOthers) to succeed first"
    with pytest.raises(Busy, match=f"runs {name}") as refusal:
        submit(target, replace(JOB, name="beside", depends_on=("data",)))
    assert f"--depends-on {tune.prepared.name}" in str(refusal.value.hint)
    submit(target, replace(JOB, name="fourth", depends_on=("tune",)))
    with pytest.raises(Busy, match=r"4 jobs run or wait on cluster .*; at most 4 can"):
        submit(target, replace(JOB, name="fifth", depends_on=("fourth",)))
    for run in unfinished_runs(target):
        platform_of(target).cancel(refresh(run.id, target), "enough")
        ended(site, target, run.id)


AFTER_ANOTHER = [
    "case '{{ RequestKey }}' in jobs/data-*) exit 7;; esac",
    "echo '[run] error: train-1 depends on data-1, which failed (Failed)' >&2; exit 2",
]


@with_document(AFTER_ANOTHER)
def test_a_job_that_fails_with_the_one_it_waits_for_never_started_and_explain_names_that(
    site: Site, target: MpiTarget
) -> None:
    """The other one fails after this one was sent; otherwise the platform would not take both."""
    data = submit(target, replace(JOB, name="data"))
    train = replace(JOB, name="train")
    prepared: Any = platform.prepare(train, find_recipe(train.recipe), target, (data.job_id,))
    ended(site, target, data.job_id)
    found = ended(site, target, submit_prepared(prepared, waiting=Clock().waiting()).job_id)
    assert (found.run.started_at, found.run.exit_code, found.run.cost.usd) == (None, None, 0.0)
    told = platform_of(target).explain(found)
    name, other = prepared.name, data.prepared.name
    assert told.sentence == f"{name} failed before it started: it depends on {other}, which failed"
    assert told.fix == f"slipway explain {other}"


def test_code_that_changes_after_the_job_was_decided_is_not_run_under_its_name(
    target: MpiTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepare(JOB, target.name)
    (tmp_path / "new.py").write_text("")
    monkeypatch.setattr(platform, "own_containers", lambda: tmp_path)
    with pytest.raises(CodeChanged):
        submit_prepared(prepared, waiting=Clock().waiting())
    assert commands(target, target.run_document) == []
