"""A job can wait for others of its cluster, named as users name them, and never waits in vain."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway.jobs.submit.preparing import prepare
from slipway.jobs.submit.submission import submit
from slipway.jobs.words.job import DoesNotFit, Job
from slipway.jobs.words.targets import BatchTarget
from tests.jobs.conftest import Slipway
from tests.jobs.deployed import deploy_target, job_names, record_target
from tests.jobs.words.test_targets import MPI_TARGET
from tests.yard.conftest import RunningYard
from tests.yard.services.batch.conftest import Cluster

pytestmark = pytest.mark.usefixtures("target")

DATA = Job(name="data", recipe="prepare_bert", nodes=1, settings={"input": "text", "vocabulary": "v"})
TRAIN = ("submit", "bert_pretrain", "--on", "dl1", "--nodes", "2", "--set", "size=tiny")


def end(yard: RunningYard, job_id: str) -> None:
    yard.client("batch").terminate_job(jobId=job_id, reason="enough")


def decided(slipway: Slipway, *names: str) -> Any:
    options = [word for name in names for word in ("--depends-on", name)]
    return slipway.json(*TRAIN, *options, "--dry-run")["request"]["submit"]["dependsOn"]


def test_a_dry_run_shows_the_ids_of_the_jobs_however_they_were_named(slipway: Slipway) -> None:
    first, second = submit(DATA, "dl1"), submit(DATA, "dl1", again=True)
    by_name = decided(slipway, first.prepared.name, second.job_id)
    assert by_name == [{"jobId": first.job_id}, {"jobId": second.job_id}]
    assert decided(slipway, first.job_id, first.prepared.name) == [{"jobId": first.job_id}]


def test_status_and_explain_say_what_a_job_waits_for(yard_shell: RunningYard, slipway: Slipway) -> None:
    data = submit(DATA, "dl1")
    code, out, _ = slipway(*TRAIN, "--depends-on", "data", "--json")
    train = json.loads(out)
    assert (code, train["waits_for"]) == (0, [data.job_id])
    waits_for = f"{data.prepared.name} ({status_of(yard_shell, data.job_id)})"
    told = slipway.json("explain", train["name"], "--json")
    assert told["sentence"] == f"{train['name']} waits for {waits_for} to succeed first"
    assert waits_for in slipway("status", train["name"])[1]
    listed = {load["name"]: load["waits_for"] for load in slipway.json("status", "--json")}
    assert listed == {data.prepared.name: None, train["name"]: [waits_for]}


def status_of(yard: RunningYard, job_id: str) -> str:
    (found,) = yard.client("batch").describe_jobs(jobs=[job_id])["jobs"]
    return str(found["status"])


def test_a_job_fails_with_the_one_it_waits_for_and_explain_names_it(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    data = submit(DATA, "dl1")
    train = slipway.json(*TRAIN, "--depends-on", "data", "--json")
    end(yard_shell, data.job_id)
    Cluster(yard=yard_shell, batch=yard_shell.client("batch")).ended(train["id"])
    told = slipway.json("explain", train["name"], "--json")
    assert told["sentence"] == (
        f"{train['name']} failed before it started: it depends on {data.prepared.name}, which failed"
    )
    assert told["fix"] == f"slipway explain {data.prepared.name}"


def test_the_same_job_waiting_for_another_is_the_one_that_exists(slipway: Slipway) -> None:
    submit(DATA, "dl1")
    first = slipway.json(*TRAIN, "--json")
    code, out, err = slipway(*TRAIN, "--depends-on", "data", "--json")
    assert (code, json.loads(out)["id"]) == (0, first["id"])
    assert "its dependencies were set back then: slipway explain" in err


def test_one_more_of_a_job_waits_for_the_same(yard_shell: RunningYard) -> None:
    data = submit(DATA, "dl1")
    train = Job(name="bert", recipe="bert_pretrain", nodes=2, settings={"size": "tiny"}, depends_on=("data",))
    submit(train, "dl1")
    again = submit(train, "dl1", again=True)
    (found,) = yard_shell.client("batch").describe_jobs(jobs=[again.job_id])["jobs"]
    assert found["dependsOn"] == [{"jobId": data.job_id}]


def test_a_job_that_is_not_there_or_failed_already_is_refused_in_a_line(
    yard_shell: RunningYard, target: BatchTarget, slipway: Slipway
) -> None:
    """BI-052."""
    err = slipway.refused(*TRAIN, "--depends-on", "nothing", code=2)
    assert err.startswith("error: --depends-on: there is no job 'nothing'")
    data = submit(DATA, "dl1")
    end(yard_shell, data.job_id)
    code, out, err = slipway(*TRAIN, "--depends-on", data.job_id)
    name = data.prepared.name
    assert (code, out) == (2, "")
    assert err == (
        f"error: --depends-on: {name} failed: enough\nhint: slipway explain {name}; then submit it again\n"
    )
    assert job_names(yard_shell, target) == [name]


def test_a_job_of_another_cluster_is_refused_with_where_it_is(yard_shell: RunningYard) -> None:
    deploy_target(yard_shell, "other")
    data = submit(DATA, "other")
    train = Job(name="bert", recipe="bert_pretrain", nodes=2, depends_on=(data.prepared.name,))
    with pytest.raises(DoesNotFit, match="is a job of 'other', but one on 'dl1' cannot wait for it"):
        prepare(train, "dl1")


def test_a_job_of_another_platform_is_refused_with_where_it_is(yard_shell: RunningYard) -> None:
    record_target(yard_shell, MPI_TARGET)
    data = submit(DATA, "dl1")
    train = Job(name="bert", recipe="bert_pretrain", nodes=2, depends_on=(data.prepared.name,))
    with pytest.raises(DoesNotFit, match="is a job of 'dl1', but one on 'c6i' cannot wait for it"):
        prepare(train, "c6i")


def test_a_setting_that_names_a_job_gives_its_whole_name() -> None:
    data = submit(DATA, "dl1")
    (whole, settings) = (data.prepared.name, {"size": "tiny", "phase": "2"})
    for named in ("data", data.job_id, whole):
        job = Job(name="second", recipe="bert_pretrain", nodes=2, settings={**settings, "start_from": named})
        assert prepare(job, "dl1").job.settings["start_from"] == whole
    ended = Job(
        name="second", recipe="bert_pretrain", nodes=2, settings={**settings, "start_from": "a-0123456789ab"}
    )
    assert prepare(ended, "dl1").job.settings["start_from"] == "a-0123456789ab"
    with pytest.raises(DoesNotFit, match="start_from: no job's name or id is 'dta'"):
        prepare(
            Job(name="t", recipe="bert_pretrain", nodes=2, settings={**settings, "start_from": "dta"}), "dl1"
        )
