"""A Slurm job's request gives sbatch and the script the right settings, and wrong jobs are refused."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.jobs.platforms.slurm.request import BatchWork, batch_script, build_request
from slipway.jobs.words.job import CommandRequest, DamagedRequest, DoesNotFit, InvalidJob, Job
from slipway.jobs.words.slurm import COMPILE, RUN, SlurmJob, comment, decode, read_comment
from tests.jobs.words.test_targets import SLURM_TARGET

CODE = "c" * 64
NEOX = Job(name="neox", recipe="gpt_neox", nodes=4, settings={"tensor": "8", "pipeline": "4"})
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=40)


def request_of(job: Job = NEOX, **changes: object) -> CommandRequest:
    target = replace(SLURM_TARGET, **changes)  # type: ignore[arg-type]  # of a test's own fields
    return build_request(job, target, module="neox.train", code=CODE)


def job_of(request: CommandRequest) -> SlurmJob:
    return decode(request.put["Body"], where="it")


def test_a_job_on_neuron_is_two_batches_of_which_the_first_compiles_and_each_starts_a_rank_a_core() -> None:
    job = job_of(request_of())
    assert [batch.phase for batch in job.batches] == [COMPILE, RUN]
    for batch in job.batches:
        assert f"--comment={comment(job.name, batch.phase)}" in batch.options
        assert read_comment(comment(job.name, batch.phase)) == (job.name, batch.phase)
    script = job.batches[-1].script
    assert "--ranks-per-node 32" in script
    assert "export SLIPWAY_ACCELERATORS=16\n" in script
    assert "export SLIPWAY_PROCESSES_PER_NODE=32\n" in script
    assert [batch.phase for batch in job_of(request_of(replace(NEOX, recipe="smoke"))).batches] == [RUN]


def test_slurm_is_told_all_that_the_road_promises() -> None:
    options = job_of(request_of(replace(NEOX, timeout_seconds=7200))).batches[-1].options
    for promised in (
        *("--nodes=4", "--partition=trn1", "--exclusive", "--mem=0", "--requeue", "--open-mode=append"),
        *("--time=120", "--signal=B:USR1@300", "--ntasks-per-node=1", "--export=NIL", "--wait-all-nodes=1"),
    ):
        assert promised in options


def test_an_array_is_one_batch_of_so_many_jobs_and_its_ceiling_counts_them_all() -> None:
    tokens = Job(name="tokens", recipe="prepare_tokens", nodes=1, array="0-15%4")
    job = job_of(request_of(tokens))
    (batch,) = job.batches
    assert "--array=0-15%4" in batch.options
    assert (job.elements, tokens.elements, job_of(request_of()).elements) == (16, 16, 1)


def test_the_login_node_gets_the_digest_of_the_very_bytes() -> None:
    request = request_of()
    parameters = request.send_command["Parameters"]
    assert parameters["Action"] == ["submit"]
    assert parameters["Request"] == [f"jobs/{request.name}/request.json"]
    assert parameters["Digest"] == [sha256(request.put["Body"].encode()).hexdigest()]


@given(value=TEXT, setting=TEXT, name=st.from_regex(r"[A-Z_]{1,20}", fullmatch=True))
def test_a_shell_reads_back_every_text_that_a_script_was_given(value: str, setting: str, name: str) -> None:
    work = BatchWork(
        name="n",
        phase=RUN,
        queue="q",
        nodes=1,
        array=None,
        timeout_seconds=600,
        attempts=1,
        ranks_per_node=1,
        folder="/shared/jobs/n",
        code="/code",
        module="m",
        recipe="r",
        settings=[f"key={setting}"],
        environment={f"X{name}": value},
    )
    lines = batch_script(work).splitlines() if "\u2028" not in value + setting else []
    body = batch_script(work).partition("\n")[2]
    exported = next((line for line in body.split("\n") if line.startswith("export ")), "")
    assert shlex.split(exported)[1] == f"X{name}={value}"
    assert shlex.split(body.rstrip("\n").rpartition("\n")[2])[-1] == f"key={setting}"
    assert not lines or lines[0] == "#!/bin/bash"


def test_a_job_asks_for_the_gpus_of_its_nodes() -> None:
    """srun(1), --gres: steps do not get what the job did not ask for, even on an exclusive node."""
    gpus = request_of(replace(NEOX, recipe="smoke", settings={}), instance_type="p5.48xlarge")
    options = job_of(gpus).batches[-1].options
    assert "--gres=gpu:8" in options
    assert not any("--gres" in option for option in job_of(request_of()).batches[-1].options)


def test_a_script_is_one_that_bash_understands() -> None:
    for batch in job_of(request_of(replace(NEOX, data="/data/it's $(here)"))).batches:
        subprocess.run(["bash", "-n"], input=batch.script, text=True, check=True)


NO_FILES = {"file_system_id": None, "file_system_mount": None}


@pytest.mark.parametrize(
    ("job", "target", "refusal", "said"),
    [
        (
            {"settings": {"tensor": "3"}},
            {},
            InvalidJob,
            "tensor=3 times pipeline=1 is 3, and does not divide",
        ),
        (
            {"settings": {"tensor": "8", "pipeline": "5"}},
            {},
            InvalidJob,
            "is 40, and does not divide",
        ),
        ({}, NO_FILES, DoesNotFit, "share no files"),
        ({"nodes": 17}, {}, DoesNotFit, "asks for 17 nodes but cluster 'trn1' has 16"),
        ({"processes_per_node": 33}, {}, DoesNotFit, "has 32 Trainium1 cores"),
    ],
)
def test_what_the_cluster_cannot_run_is_refused(
    job: dict[str, Any], target: dict[str, object], refusal: type[Exception], said: str
) -> None:
    with pytest.raises(refusal, match=said):
        request_of(replace(NEOX, **job), **target)


@pytest.mark.parametrize(
    "damage", [{"code": "../x"}, {"batches": []}, {"nodes": 0}, {"depends_on": ["1;id"]}]
)
def test_a_request_that_somebody_changed_is_refused(damage: dict[str, object]) -> None:
    record = {**json.loads(request_of().put["Body"]), **damage}
    with pytest.raises(DamagedRequest, match=f"has no {next(iter(damage))} as this Slipway writes it"):
        decode(json.dumps(record), where="it")
