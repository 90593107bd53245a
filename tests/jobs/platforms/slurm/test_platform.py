"""A job works from `submit` to `explain` through a login node's own program, on a real Slurm."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import zlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from slipway.jobs.cloud import aws, objects
from slipway.jobs.platforms import on_clusters
from slipway.jobs.platforms.journal import Entry
from slipway.jobs.platforms.platform import platform_of
from slipway.jobs.platforms.slurm import explain as slurm_explain
from slipway.jobs.platforms.slurm import login_node, platform, runs
from slipway.jobs.platforms.slurm.explain import explain
from slipway.jobs.platforms.slurm.login_node import LoginNodeRefused, NoLoginNode, NoScheduler
from slipway.jobs.platforms.slurm.node import users
from slipway.jobs.platforms.slurm.node.attempts import AttemptNote, begin_note, ended_attempts, write_note
from slipway.jobs.platforms.slurm.node.main import main
from slipway.jobs.submit import submission
from slipway.jobs.words.job import Job
from slipway.jobs.words.recipes import find_recipe
from slipway.jobs.words.run import JobState
from slipway.jobs.words.slurm import (
    COMPILE,
    GROUP_TAG,
    MOST_CHARACTERS,
    PYTHON,
    RUN,
    DamagedAnswer,
    SlurmAnswer,
    SlurmAttempt,
    SlurmNode,
    SlurmRecord,
    decode_answer,
    encode_answer,
)
from tests.jobs.platforms.slurm.conftest import Cluster
from tests.jobs.words.test_targets import SLURM_TARGET

LOGIN = "i-0123456789abcdef0"
RECORD = SlurmRecord(
    id="7",
    name="neox-0123456789ab",
    phase=RUN,
    state="PENDING",
    reason="Resources",
    nodes=4,
    hosts="",
    exit_code=None,
    exit_signal=None,
    restarts=0,
    submitted=100,
    started=None,
    ended=None,
    depends_on="",
)


class Sdk:
    """Stands in for EC2, Systems Manager and S3; a command runs the login node's program here."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.said: dict[str, Mapping[str, str]] = {}
        self.streams: dict[str, list[str]] = {}
        self.errors: list[Mapping[str, str]] = []  # of the scheduler, as PCS tells them
        self.group_errors: dict[str, list[Mapping[str, str]] | str] = {}  # of node groups, or a refusal
        self.meta = SimpleNamespace(service_model=SimpleNamespace(signing_name="aws"))
        self.instances: list[Mapping[str, Any]] = [
            {"InstanceId": LOGIN, "LaunchTime": datetime(2026, 1, 1, tzinfo=UTC)}
        ]

    def get_paginator(self, operation: str) -> SimpleNamespace:
        pages = {"describe_instances": self._instances, "describe_log_streams": self._streams}
        return SimpleNamespace(paginate=pages[operation])

    def _streams(self, **_: Any) -> list[Mapping[str, Any]]:
        return [{"logStreams": [{"logStreamName": name} for name in self.streams]}]

    def _instances(self, **given: Any) -> list[Mapping[str, Any]]:
        assert given["Filters"][0] == {"Name": f"tag:{GROUP_TAG}", "Values": [SLURM_TARGET.login_group]}
        return [{"Reservations": [{"Instances": self.instances}]}]

    def describe_instance_information(self, **_: Any) -> Mapping[str, Any]:
        return {"InstanceInformationList": [{"InstanceId": LOGIN, "PingStatus": "Online"}]}

    def get_cluster(self, **given: Any) -> Mapping[str, Any]:
        assert given == {"clusterIdentifier": SLURM_TARGET.scheduler_cluster}
        return {"cluster": {"status": "ACTIVE", "errorInfo": self.errors}}

    def get_compute_node_group(self, **given: Any) -> Mapping[str, Any]:
        assert given["clusterIdentifier"] == SLURM_TARGET.scheduler_cluster
        errors = self.group_errors.get(given["computeNodeGroupIdentifier"], [])
        if isinstance(errors, str):
            raise ClientError({"Error": {"Code": errors, "Message": "no"}}, "GetComputeNodeGroup")
        return {"computeNodeGroup": {"status": "ACTIVE", "errorInfo": errors}}

    def put_object(self, **given: Any) -> None:
        body = given["Body"]
        if isinstance(body, str):  # Slipway is not installed where it is on nodes
            body = body.replace(PYTHON, sys.executable).encode()
        self.objects[given["Key"]] = body

    def get_object(self, **given: Any) -> Mapping[str, Any]:
        if given["Key"] not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        return {"Body": io.BytesIO(self.objects[given["Key"]])}

    def get_log_events(self, **given: Any) -> Mapping[str, Any]:
        return {"events": [{"message": line} for line in self.streams[given["logStreamName"]]]}

    def head_object(self, **given: Any) -> Mapping[str, Any]:
        return {}

    def send_command(self, **given: Any) -> Mapping[str, Any]:
        parameters = {name: values[0] for name, values in given["Parameters"].items()}
        words = [parameters.get(name, "") for name in ("Action", "Request", "Digest")]
        if words[0] == "submit":
            from hashlib import sha256

            words[2] = sha256(self.objects[words[1]]).hexdigest()
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
        command = f"command-{len(self.said)}"
        status = "Success" if code == 0 else "Failed"
        self.said[command] = {
            "Status": status,
            "StandardOutputContent": out.getvalue(),
            "StandardErrorContent": err.getvalue(),
        }
        return {"Command": {"CommandId": command, "InstanceIds": given["InstanceIds"]}}

    def get_command_invocation(self, **given: Any) -> Mapping[str, str]:
        assert given["InstanceId"] == LOGIN
        return self.said[given["CommandId"]]


@pytest.fixture
def sdk(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Sdk:
    found = Sdk()
    for module in (aws, login_node, objects, on_clusters, slurm_explain):
        for name in ("client", "sender", "reader"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, lambda service, region=None: found)
    monkeypatch.setattr(users, "_job_user", lambda: None)
    facts = cluster.root / "etc/slipway/node.json"
    facts.parent.mkdir(parents=True)
    facts.write_text(json.dumps({"bucket": "b", "region": "us-east-1"}))
    return found


def test_a_job_is_submitted_listed_explained_and_cancelled(cluster: Cluster, sdk: Sdk) -> None:
    recipe, target = find_recipe("smoke"), cluster.target
    cluster.slurm.ask("scontrol", "update", "partitionname=trn1", "state=down")
    try:
        job = Job(name="smoke", recipe="smoke", nodes=2, settings={"largest_mib": "1"})
        prepared = platform.prepare(job, recipe, target, ())
        (cluster.root / f"shared/slipway/code/{prepared.request.digest}").mkdir(parents=True)
        job_id = platform.send(prepared, LOGIN)
        assert platform.send(prepared, LOGIN) == job_id
        assert platform.find_job_id(prepared.name, target) == job_id
        found = platform.refresh(job_id, target)
        assert found is not None
        assert (found.run.state, found.run.recipe, found.run.nodes) == (JobState.WAITING, "smoke", 2)
        assert found.detail["RecipeArguments"] == ["--set", "largest_mib=1"]
        told = platform.explain(found)
        assert told.sentence == f"{prepared.name} waits: the queue is down"
        way = platform.way_into(found.run, target)
        assert way.instances == [LOGIN]
        assert f"sudo -iu slipway srun --jobid={job_id} --overlap --pty bash -l" in way.note
        platform.cancel(found, "not needed")
    finally:
        cluster.slurm.ask("scontrol", "update", "partitionname=trn1", "state=up")
    (run,) = [run for run in platform.list_runs(target) if run.name == prepared.name]
    assert (run.state, run.status, run.exit_code) == (
        JobState.FAILED,
        "CANCELLED",
        None,
    ) or run.exit_code == 0
    assert all(row["answered"] for row in platform.node_rows(target))


def test_a_job_is_not_taken_for_another_that_has_its_number_since_the_cluster_was_made_again(
    cluster: Cluster, sdk: Sdk
) -> None:
    job_id, request = cluster.submit(Job(name="smoke", recipe="smoke", nodes=1))
    assert platform.find_job_id(request.name, cluster.target) == job_id
    noted = dict.fromkeys(Entry.__dataclass_fields__)
    entry = Entry(**{**noted, "name": "neox-0123456789ab", "job_id": job_id, "written_at": 0})  # type: ignore[arg-type]  # only these are read
    assert submission._remembered(entry, platform_of(cluster.target), cluster.target) is None


def test_what_an_earlier_cluster_left_on_kept_files_is_not_counted_as_the_job_with_its_number(
    tmp_path: Path,
) -> None:
    old, own = "neox-ffffffffffff", RECORD.name
    for name, began in ((old, 10), (own, 100)):
        note = AttemptNote(
            job=RECORD.id,
            phase=RUN,
            number=1,
            restarts=0,
            nodes=4,
            hosts="n1",
            started=began,
            ended=began + 20,
            exit_code=85,
            resumes=True,
        )
        write_note(tmp_path / name, begin_note(tmp_path / name, note))
    attempts = tuple(each for name in (old, own) for each in ended_attempts(tmp_path / name))
    record = replace(RECORD, state="COMPLETED", started=200, ended=230, exit_code=0)
    answer = decode_answer(encode_answer(SlurmAnswer(jobs=(record,), attempts=attempts)))
    run = runs.read_run(record, answer, None, SLURM_TARGET)
    assert (len(run.attempts), run.hours) == (1, round((20 + 30) / 3600, 4))
    said = json.loads(encode_answer(replace(answer, attempts=attempts[1:])))
    del said["attempts"][0]["name"]  # as an AMI of an older Slipway writes it
    assert len(runs.read_run(record, decode_answer(json.dumps(said)), None, SLURM_TARGET).attempts) == 1


def test_without_a_scheduler_or_a_login_node_nothing_is_submitted(cluster: Cluster, sdk: Sdk) -> None:
    smoke = (Job(name="smoke", recipe="smoke", nodes=1), find_recipe("smoke"), cluster.target, ())
    prepared = platform.prepare(*smoke)
    platform.refuse_unready(prepared)
    sdk.errors = [{"code": "NoSlurmInTheYard", "message": "only root can start a controller"}]
    said = "the scheduler of 'trn1' has failed: only root can start a controller"
    with pytest.raises(NoScheduler, match=said):
        platform.refuse_unready(prepared)
    sdk.instances = []
    prepared = platform.prepare(*smoke)
    (warning,) = prepared.warnings
    assert warning.startswith("no login node of 'trn1' is running")
    assert warning.endswith("; submitting refuses")
    with pytest.raises(NoLoginNode, match="no login node of 'trn1' is running"):
        platform.make_ready(prepared, lambda _: None)


def test_a_login_node_that_is_replaced_and_a_controller_that_restarts_go_by(
    sdk: Sdk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that runs for days asks again."""
    dead = {"Status": "Failed", "StandardErrorContent": "error: Slurm's controller does not answer"}
    monkeypatch.setattr(sdk, "get_command_invocation", lambda **_: dead)
    with pytest.raises(LoginNodeRefused) as refused:
        login_node.read_answer(SLURM_TARGET)
    assert aws.why_later(refused.value) == f"login node {LOGIN}: Slurm's controller does not answer"
    sdk.instances = []
    with pytest.raises(NoLoginNode) as missing:
        login_node.read_answer(SLURM_TARGET)
    assert aws.why_later(missing.value)


def test_what_the_login_node_refuses_is_said_in_its_words(sdk: Sdk) -> None:
    sdk.said["c"] = {"Status": "Failed", "StandardErrorContent": "noise\nerror: it is so\nhint: do this\n"}
    with pytest.raises(LoginNodeRefused) as caught:
        login_node.await_output(SLURM_TARGET, {"Command": {"CommandId": "c", "InstanceIds": [LOGIN]}})
    assert (caught.value.message, caught.value.hint) == (f"login node {LOGIN}: it is so", "do this")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "waits: it waits for nodes, which other jobs have or PCS is starting"),
        ({"reason": "JobHeldAdmin"}, "waits: Slurm holds it: most often a node's prolog failed"),
        ({"reason": "ReqNodeNotAvail, UnavailableNodes:n1"}, "waits: nodes that it needs are down, drained"),
        ({"reason": "DependencyNeverSatisfied"}, "waits: a job that it waits for has failed"),
        ({"reason": "SomethingNew"}, "waits: Slurm says SomethingNew"),
        ({"state": "HIBERNATING"}, "is in a state that Slipway does not know: HIBERNATING"),
        ({"state": "FAILED", "exit_code": 85}, "failed: it asked for another attempt (exit code 85)"),
        ({"state": "TIMEOUT", "exit_code": 0}, "failed: its time was over before its ranks had saved"),
        ({"state": "RUNNING", "started": 110}, "runs on 4 nodes"),
    ],
)
def test_a_job_is_explained_by_slurms_reason(changes: dict[str, Any], sentence: str, sdk: Sdk) -> None:
    record = SlurmRecord(**{**_fields(RECORD), **changes})
    found = runs._found(record, SlurmAnswer(jobs=(record,)), SLURM_TARGET, ())
    assert explain(found).sentence.startswith(f"{RECORD.name} {sentence}")


def test_a_job_waits_for_its_graphs_and_says_where_they_are(sdk: Sdk) -> None:
    compiled = SlurmRecord(**{**_fields(RECORD), "id": "6", "phase": COMPILE, "state": "RUNNING"})
    waiting = SlurmRecord(**{**_fields(RECORD), "reason": "Dependency"})
    answer = SlurmAnswer(
        jobs=(compiled, waiting),
        nodes=(
            SlurmNode(name="n1", state="IDLE+DRAIN", reason="x"),
            SlurmNode(name="n2", state="IDLE+POWERED_DOWN", reason="slipway: no EFA"),
        ),
    )
    told = explain(runs._found(waiting, answer, SLURM_TARGET, ()))
    assert told.sentence == f"{RECORD.name} waits for its graphs: compile job 6 is RUNNING"
    assert "node n1 is IDLE+DRAIN: x" in told.evidence
    assert "node n2 is IDLE+POWERED_DOWN: slipway: no EFA" in told.evidence
    failed = SlurmRecord(**{**_fields(compiled), "state": "FAILED", "exit_code": 1})
    told = explain(runs._found(waiting, SlurmAnswer(jobs=(failed, waiting)), SLURM_TARGET, ()))
    assert "will not start: compile job 6 ended as FAILED" in told.sentence


def test_a_failed_job_shows_the_last_error_of_its_newest_attempt(sdk: Sdk) -> None:
    sdk.streams = {
        f"{RECORD.name}/7-run-2": ["[3] error: no such file: x.bin", "[node 0] error: rank 3 ended"],
        f"{RECORD.name}/7-run-1": ["[0] error: an older one"],
        f"{RECORD.name}/6-compile-1": ["error: of a compile job"],
    }
    record = SlurmRecord(**{**_fields(RECORD), "state": "FAILED", "exit_code": 2})
    told = explain(runs._found(record, SlurmAnswer(jobs=(record,)), SLURM_TARGET, ()))
    assert told.sentence.endswith("failed: the program refused what it was given (exit code 2)")
    assert "the log: [3] error: no such file: x.bin" in told.evidence


def test_of_ten_thousand_jobs_the_newest_that_fit_are_told_and_how_many_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = tuple(
        SlurmRecord(**{**_fields(RECORD), "id": str(n), "name": f"n-{n * 7919}"}) for n in range(10_000)
    )
    nodes = tuple(SlurmNode(name=f"n-{n}", state="IDLE", reason="") for n in range(1_000))
    sizes: list[int] = []
    compress = zlib.compress

    def counted(data: bytes, level: int) -> bytes:
        sizes.append(len(data))
        return compress(data, level)

    monkeypatch.setattr(zlib, "compress", counted)
    text = encode_answer(SlurmAnswer(jobs=many, nodes=nodes))
    assert len(text) <= MOST_CHARACTERS
    assert len(sizes) <= 16
    assert sum(sizes) < 5 * sizes[0]
    read = decode_answer(f"Welcome to the login node\n{text}\n")
    assert read.nodes == nodes
    assert read.jobs == many[read.left_out :]
    assert read.jobs[-1].id == "9999"
    one_more = encode_answer(SlurmAnswer(jobs=many[read.left_out - 1 :], nodes=nodes))
    assert decode_answer(one_more).left_out == 1
    notes = tuple(sha256(b"%d" % n).hexdigest() for n in range(2_000))
    assert decode_answer(encode_answer(SlurmAnswer(notes=notes))).notes == notes, "too long without a job"


def test_attempts_of_jobs_that_did_not_fit_are_left_out_with_them() -> None:
    """Systems Manager would cut the answer, and no command could read any of it."""
    digits = [int(sha256(b"%d" % n).hexdigest(), 16) % 10**9 for n in range(6_000)]
    many = tuple(SlurmRecord(**{**_fields(RECORD), "id": str(n)}) for n in range(2_000))
    attempts = tuple(
        SlurmAttempt(job=str(n // 3), number=1 + n % 3, started=each, ended=each, exit_code=85)
        for n, each in enumerate(digits)
    )
    text = encode_answer(SlurmAnswer(jobs=many, attempts=attempts))
    assert len(text) <= MOST_CHARACTERS
    read = decode_answer(text)
    assert 0 < read.left_out < len(many)
    assert read.jobs == many[read.left_out :]
    assert read.attempts == attempts[3 * read.left_out :]


@pytest.mark.parametrize("text", ["", "Killed", '{"packed": "!"}', '{"jobs": [{"id": 7}]}', '{"jobs": 3}'])
def test_an_answer_that_is_none_is_said_in_one_line(text: str) -> None:
    with pytest.raises(DamagedAnswer, match="what the login node said"):
        decode_answer(text)


def _fields(record: SlurmRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in SlurmRecord.__dataclass_fields__}
