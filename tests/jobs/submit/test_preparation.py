"""What is decided before a job is sent: its cost at most, its image, its quota, and whether it can run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.cloud import aws
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.platforms.batch.platform import NoImage
from slipway.jobs.platforms.batch.request import BatchRequest
from slipway.jobs.submit import preparing, submission
from slipway.jobs.submit.preparing import prepare
from slipway.jobs.submit.submission import (
    PastTheBlock,
    SmallQuota,
    refuse_past_block,
    refuse_small_quota,
    submit_prepared,
)
from slipway.jobs.words.job import DoesNotFit, InvalidJob, Job
from slipway.jobs.words.recipes import UnknownRecipe
from slipway.jobs.words.targets import BatchTarget, Target
from slipway.yard.endpoint import control
from slipway.yard.gateway.faults import Fault, FaultKind, script
from tests.jobs.deployed import job_names, record_target
from tests.jobs.words.test_targets import MPI_TARGET, SAGEMAKER_TARGET, SLURM_TARGET, TARGET
from tests.yard.conftest import RunningYard

# A job that is larger than the account's quota is refused with the command that asks for more.
DL = "L-6E869C2A"


def test_what_the_yards_ranks_will_miss_is_told_before_they_start(
    target: BatchTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f'no-such-{extra}==1; extra == "{extra}"' for extra in ("training", "deepspeed", "infra")]
    monkeypatch.setattr(metadata, "requires", lambda _name: lines)
    here = "in the yard ranks run in the environment of `slipway yard up`; here it lacks"
    told = [line for line in prepare(JOB, "dl1").warnings if line.startswith(here)]
    assert told == [f"{here} no-such-training: pip install 'slipway[training]'"]
    with_engine = replace(JOB, settings={**JOB.settings, "engine": "deepspeed"})
    told = [line for line in prepare(with_engine, "dl1").warnings if line.startswith(here)]
    assert told[1:] == [f"{here} no-such-deepspeed: pip install 'slipway[deepspeed]'"]
    monkeypatch.setattr(preparing, "is_in_yard", lambda: False)
    assert not any(line.startswith(here) for line in prepare(JOB, "dl1").warnings)


def allow(yard: RunningYard, vcpus: int) -> None:
    control(yard, "POST", "/grant-quota", {"code": DL, "vcpus": vcpus})


@pytest.mark.parametrize("vcpus", [0, 95, 2 * 96 - 1])
def test_a_job_that_no_quota_lets_start_is_not_submitted_and_one_that_just_fits_is(
    target: BatchTarget, yard_shell: RunningYard, vcpus: int
) -> None:
    allow(yard_shell, vcpus)
    with pytest.raises(SmallQuota) as caught:
        submit_prepared(prepare(JOB, "dl1"))
    assert "bert needs 2 × 96 = 192 vCPUs of dl1.24xlarge" in caught.value.message
    assert f"'Running On-Demand DL instances' of this account is {vcpus} in us-east-1" in caught.value.message
    assert caught.value.hint.startswith("slipway cluster quota dl1 --request")
    assert job_names(yard_shell, target) == []
    allow(yard_shell, 2 * 96)
    assert submit_prepared(prepare(JOB, "dl1")).job_id


@pytest.mark.parametrize("other", [MPI_TARGET, SLURM_TARGET])
def test_every_kind_with_machines_of_ec2_is_judged(yard_shell: RunningYard, other: Target) -> None:
    control(yard_shell, "POST", "/reset")
    with pytest.raises(SmallQuota, match=f"of {other.instance_type}, but the quota"):
        refuse_small_quota(JOB, other)
    refuse_small_quota(JOB, SAGEMAKER_TARGET)


DENIED = Unanswered(action="some:Action", code="AccessDeniedException", message="no")


@pytest.mark.parametrize(
    ("question", "answer"), [("ask_quota", DENIED), ("ask_all", DENIED), ("ask_quota", None)]
)
def test_who_may_not_ask_or_whose_type_no_quota_counts_is_not_kept_from_submitting(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch, question: str, answer: Unanswered | None
) -> None:
    allow(yard_shell, 0)
    monkeypatch.setattr(submission, question, lambda *_, **__: answer)
    refuse_small_quota(JOB, TARGET)


@pytest.mark.parametrize(
    ("hours", "asked", "hint"),
    [
        (24, None, "--timeout-hours 23.4"),
        (24, 23.0, None),
        (24, 23.6, "--timeout-hours 23.4"),
        (0.4, None, "declare dl1 with another reservation_id, and deploy it again"),
        (72, None, None),
    ],
)
def test_a_job_ends_before_ec2_takes_the_nodes_of_its_capacity_block(
    yard_shell: RunningYard, hours: float, asked: float | None, hint: str | None
) -> None:
    block = {
        "CapacityReservationId": "cr-0123456789abcdef0",
        "ReservationType": "capacity-block",
        "InstanceType": "p5.48xlarge",
        "State": "active",
        "AvailabilityZone": "us-east-1a",
        "TotalInstanceCount": 2,
        "EndDate": (datetime.now(UTC) + timedelta(hours=hours)).isoformat(),
    }
    said = {"CapacityReservations": [block]}
    respond = FaultKind.RESPOND
    operation = "DescribeCapacityReservations"
    script(yard_shell, Fault(service="ec2", operation=operation, kind=respond, body=(said,), times=None))
    refuse_past_block(JOB, TARGET)  # other nodes are asked for no end
    allow(yard_shell, 0)
    refuse_small_quota(JOB, replace(TARGET, instance_type="p5.48xlarge"))  # a block counts against no quota
    job = replace(JOB, timeout_seconds=None if asked is None else int(asked * 3600))
    target = replace(TARGET, capacity_block="cr-0123456789abcdef0")
    if hint is None:
        refuse_past_block(job, target)
        return
    with pytest.raises(
        PastTheBlock, match="but EC2 ends the nodes of cr-0123456789abcdef0 from 20"
    ) as caught:
        refuse_past_block(job, target)
    assert caught.value.hint == hint


JOB = Job(name="bert", recipe="bert_pretrain", nodes=2, settings={"size": "tiny"})


def test_deciding_changes_nothing(
    target: BatchTarget, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A reader refuses to change anything; here nobody may ask for another client."""

    def refused(*_: object) -> None:
        pytest.fail("a dry run asked for a client that can write")

    with monkeypatch.context() as patched:
        patched.setattr(aws, "client", refused)
        prepared = prepare(JOB, "dl1")
    assert isinstance(prepared.request, BatchRequest)
    assert prepared.request.submit["jobQueue"] == target.queue_arn
    assert not list(tmp_path.iterdir())
    costly = Job(name="b", recipe="bert_pretrain", nodes=2, timeout_seconds=3600, attempts=3)
    ceiling = prepare(costly, "dl1").ceiling
    assert ceiling.node_hours == 6, "every attempt of every node"
    assert ceiling.price is not None
    assert ceiling.usd == pytest.approx(6 * ceiling.price.usd_per_hour)


def test_a_layout_that_the_cluster_s_pytorch_was_not_proved_for_is_refused_unless_the_image_is_the_job_s_own(
    target: BatchTarget,
) -> None:
    job = replace(JOB, settings={"size": "tiny", "sharded": "2"})
    with pytest.raises(DoesNotFit, match=r"PyTorch 2\.13 and newer, and the image gaudi holds 2\.4\.0"):
        prepare(job, "dl1")
    own = f"{target.repository_uri.partition('/')[0]}/mine:1"
    assert prepare(replace(job, image=own), "dl1").job.image == own


@pytest.mark.parametrize(("image", "is_warned"), [("pytorch", True), ("gpu", False)])
def test_a_cluster_whose_image_lacks_trl_is_warned_of_before_ranks_end_for_it(
    target: BatchTarget, yard_shell: RunningYard, image: str, is_warned: bool
) -> None:
    gpus = replace(target, name="gpus", instance_type="p5.48xlarge", image=image)
    record_target(yard_shell, gpus)
    job = Job(name="tuned", recipe="sft", nodes=1)
    said = f"image '{image}' is not known to hold trl"
    assert any(line.startswith(said) for line in prepare(job, "gpus").warnings) == is_warned
    own = f"{target.repository_uri.partition('/')[0]}/mine:1"
    assert "hold trl" not in "".join(prepare(replace(job, image=own), "gpus").warnings)


def test_an_image_where_nodes_run_no_containers_is_refused_with_what_to_do(yard_shell: RunningYard) -> None:
    record_target(yard_shell, MPI_TARGET)
    job = Job(name="own", recipe="smoke", nodes=1, image="vision")
    with pytest.raises(DoesNotFit, match="the nodes of 'c6i' run no containers") as refused:
        prepare(job, "c6i")
    assert "slipway run --requirements FILE" in refused.value.hint


def test_an_image_that_is_not_pushed_is_refused_on_aws(
    target: BatchTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepare(JOB, "dl1")
    assert prepared.image_digest is None
    assert "is not pushed: slipway image build gaudi --on dl1" in prepared.warnings[0]
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    with pytest.raises(NoImage, match="is not in its repository"):
        submit_prepared(prepared)


def test_text_that_the_role_of_jobs_cannot_read_is_warned_of(target: BatchTarget) -> None:
    settings = {"input": "s3://elsewhere/wiki", "vocabulary": "vocab.txt"}
    job = Job(name="p", recipe="prepare_bert", nodes=1, settings=settings)
    assert any("input is s3://elsewhere/wiki" in warning for warning in prepare(job, "dl1").warnings)


def test_the_digest_of_the_image_is_recorded(
    yard_shell: RunningYard, target: BatchTarget, tmp_path: Path
) -> None:
    manifest = '{"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json"}'
    yard_shell.client("ecr").put_image(
        repositoryName="dl1", imageManifest=manifest, imageTag=target.image_tag
    )
    submitted = submit_prepared(prepare(JOB, "dl1"))
    digest = submitted.prepared.image_digest
    assert digest is not None
    assert isinstance(submitted.prepared.request, BatchRequest)
    assert submitted.prepared.request.submit["tags"]["slipway:image-digest"] == digest
    assert digest in next(tmp_path.rglob("*.json")).read_text()


@pytest.mark.parametrize(
    ("changes", "refusal", "said"),
    [
        ({"recipe": "bert_pretrian"}, UnknownRecipe, "there is no recipe 'bert_pretrian'"),
        ({"settings": {"size": "huge"}}, InvalidJob, "size"),
        (
            {
                "recipe": "prepare_bert",
                "settings": {"input": "https://me:secret@host/wiki.txt", "vocabulary": "vocab.txt"},
            },
            InvalidJob,
            "input is 'https://host/wiki.txt', and must be a path below the data folder",
        ),
        (
            {"recipe": "prepare_tokens", "nodes": 1, "settings": {}, "array": "0-3"},
            DoesNotFit,
            "--array is 0-3, and cluster 'dl1' runs no arrays of jobs",
        ),
        (
            {"recipe": "prepare_bert", "settings": {"input": "wikicorpus"}},
            InvalidJob,
            "vocabulary is not set, and only a sample trains its own; set vocabulary=s3://",
        ),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_sent(
    yard_shell: RunningYard,
    target: BatchTarget,
    changes: dict[str, Any],
    refusal: type[Exception],
    said: str,
) -> None:
    asked: dict[str, Any] = {"name": "bert", "recipe": "bert_pretrain", "nodes": 2, **changes}
    with pytest.raises(refusal, match=said):
        prepare(Job(**asked), "dl1")
    assert job_names(yard_shell, target) == []
