"""An attempt of a plan is a job like any other, with the devices and the time limit that the plan says."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from slipway.jobs.cloud import aws
from slipway.jobs.code.folder import read_folder
from slipway.jobs.code.packing import keep_archive
from slipway.jobs.plan.run import clusters
from slipway.jobs.plan.run.clusters import (
    START_SECONDS,
    ClusterExecutor,
    NoTarget,
    Unreached,
    as_job,
    completed,
    outcome_of,
    refuse_unfit_commands,
    refuse_unrunnable,
)
from slipway.jobs.plan.run.running import MISTAKE, SentRun
from slipway.jobs.plan.search.model import (
    Assignment,
    Goal,
    LowerBound,
    Mode,
    NodeDevices,
    Plan,
    PlanJob,
    Pool,
)
from slipway.jobs.platforms.batch import platform
from slipway.jobs.submit.find import UnknownJob
from slipway.jobs.words.job import Job
from slipway.jobs.words.run import Cost, Found, JobState, Run
from slipway.jobs.words.targets import BatchTarget, SlurmTarget, Target, encode_target, parameter_name
from tests.jobs.code.projects import write
from tests.jobs.words.test_targets import SLURM_TARGET
from tests.yard.conftest import RunningYard

POOL = Pool(type="trn1.32xlarge", nodes=4, devices_per_node=32, price_per_hour=21.5, cluster="trn1")
JOB = PlanJob(
    name="lr1",
    modes=(),
    job=Job(name="lr1", recipe="gpt_neox", nodes=1, settings={"size": "tiny", "rate": "1e-4"}),
)


def assignment(devices: int, nodes: int) -> Assignment:
    mode = Mode(
        technique="tensor",
        type=POOL.type,
        devices=devices,
        seconds=3600,
        error=0.2,
        settings=(("tensor", "8"),),
    )
    each = tuple(range(min(devices, POOL.devices_per_node)))
    placement = tuple(NodeDevices(node=node, devices=each) for node in range(nodes))
    return Assignment(job="lr1", mode=mode, pool=0, start=0, seconds=3600, placement=placement)


def test_a_gang_is_a_job_of_so_many_nodes_with_what_its_technique_sets() -> None:
    job = as_job(JOB, assignment(64, 2), POOL, "plan-1", attempt=1)
    assert (job.nodes, job.processes_per_node) == (2, None)
    assert job.settings == {"size": "tiny", "rate": "1e-4", "tensor": "8"}
    assert job.timeout_seconds == 3600 * 1.2 + START_SECONDS


def test_a_job_on_a_part_of_a_node_starts_no_more_processes_than_its_devices() -> None:
    assert as_job(JOB, assignment(8, 1), POOL, "plan-1", attempt=1).processes_per_node == 8


def test_attempts_are_other_jobs_with_the_same_checkpoints_and_plans_do_not_share_them() -> None:
    first, second, other = (
        as_job(JOB, assignment(8, 1), POOL, tag, attempt) for tag, attempt in (("p", 1), ("p", 2), ("q", 1))
    )
    assert (first.repeat, second.repeat) == (0, 1)
    assert first.checkpoints == second.checkpoints == "checkpoints/p/lr1"
    assert other.checkpoints == "checkpoints/q/lr1"


def plan_of(job: PlanJob, pool: Pool, placed: Assignment | None = None) -> Plan:
    bound = LowerBound(value=0, name="none")
    assignments = (placed or assignment(8, 1),)
    return Plan(jobs=(job,), pools=(pool,), goal=Goal(), assignments=assignments, bound=bound)


def test_what_cannot_be_submitted_is_refused_by_name_before_anything_is() -> None:
    refuse_unrunnable(plan_of(JOB, POOL))
    with pytest.raises(NoTarget, match="job 'lr1' has modes but no recipe"):
        refuse_unrunnable(plan_of(replace(JOB, job=None), POOL))
    with pytest.raises(NoTarget, match=r"the plan's pool of trn1.32xlarge is no cluster"):
        refuse_unrunnable(plan_of(JOB, replace(POOL, cluster="")))


def test_jobs_that_may_share_a_node_are_refused_by_name_before_anything_is_submitted() -> None:
    half = replace(assignment(16, 1).mode, type=POOL.type)
    whole = replace(half, devices=POOL.devices_per_node)
    one, other = replace(JOB, modes=(half, whole)), replace(JOB, name="lr2", modes=(half,))
    told = "jobs 'lr1' and 'lr2' may share a node of cluster 'trn1' .'lr1' takes 16 of its 32 devices"
    with pytest.raises(NoTarget, match=told):
        refuse_unrunnable(replace(plan_of(one, POOL), jobs=(one, other)))
    for jobs in ((one, replace(other, modes=(whole,))), (one,)):
        refuse_unrunnable(replace(plan_of(one, POOL), jobs=jobs))


def run(**facts: Any) -> Run:
    unsaid = dict.fromkeys(Run.__dataclass_fields__)
    cost = Cost(usd=None, node_hours=None, price=None)
    return Run(**{**unsaid, "cost": cost, "attempts": (), "depends_on": (), **facts})


@pytest.mark.parametrize(
    ("state", "status", "reason", "outcome"),
    [
        (JobState.RUNNING, "RUNNING", None, None),
        (JobState.SUCCEEDED, "COMPLETED", None, "succeeded"),
        (JobState.FAILED, "FAILED", "Essential container in task exited", "failed"),
        (JobState.FAILED, "Cancelled", None, "withdrawn"),
        (JobState.FAILED, "CANCELLED", None, "withdrawn"),
        (JobState.FAILED, "Stopped", None, "withdrawn"),
        (JobState.FAILED, "FAILED", "Host EC2 (instance i-1) terminated.", "lost"),
        (JobState.FAILED, "MainNodeLost", "host ip-10-0-0-4 was lost, which led the job", "lost"),
        (JobState.FAILED, "NODE_FAIL", None, "lost"),
    ],
)
def test_each_platform_s_word_for_an_end_is_understood(
    state: JobState, status: str, reason: str | None, outcome: str | None
) -> None:
    assert outcome_of(run(state=state, status=status, reason=reason)) == outcome


UNREACHED = EndpointConnectionError(endpoint_url="https://batch.us-east-1.amazonaws.com")
DENIED = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "DescribeJobs")


def test_a_plan_waits_out_a_network_that_fails_and_nothing_else(
    target: BatchTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    executor = ClusterExecutor(pools=(POOL,), tag="plan-1", say=said.append, targets={0: target})
    answers: dict[str, Exception | None] = {"j-1": None, "j-2": UNREACHED}

    def refreshed(run_id: str, target: BatchTarget) -> Found[BatchTarget]:
        if answer := answers[run_id]:
            raise answer
        return Found(run=run(id=run_id, state=JobState.WAITING, status="RUNNABLE"), target=target, detail={})

    monkeypatch.setattr(clusters, "refresh", refreshed)
    runs = {"one": SentRun(0, "j-1", at=0), "two": SentRun(0, "j-2", at=0)}
    assert list(executor.look(runs)) == list(executor.look(runs)) == ["one"]
    assert len(said) == 1
    assert "two is looked at again later: Could not connect" in said[0]
    answers["j-2"] = None
    assert list(executor.look(runs)) == ["one", "two"]
    answers["j-2"] = DENIED
    with pytest.raises(ClientError):
        executor.look(runs)


EXPIRED = ClientError({"Error": {"Code": "ExpiredTokenException", "Message": "old"}}, "DescribeJobs")


def test_a_plan_waits_until_its_user_has_signed_in_again_unless_the_environment_has_the_keys(
    target: BatchTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    executor = ClusterExecutor(pools=(POOL,), tag="plan-1", say=said.append, targets={0: target})

    def expired(*_: object, **__: object) -> None:
        raise EXPIRED

    monkeypatch.setattr(clusters, "refresh", expired)
    monkeypatch.setattr(clusters, "submit", expired)
    runs = {"one": SentRun(0, "j-1", at=0)}
    for ask in (lambda: executor.look(runs), lambda: executor.send(JOB, assignment(8, 1), 1)):
        with pytest.raises(ClientError):
            ask()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    before = aws.own_session()
    assert executor.look(runs) == {}
    assert "one is looked at again later: An error occurred (Expired" in said[0]
    assert "sign in to AWS again" in said[0]
    assert aws.own_session() is not before, "it reads the credentials again"
    with pytest.raises(Unreached, match="sign in to AWS again"):
        executor.send(JOB, assignment(8, 1), 1)


def test_a_request_to_stop_a_job_outlasts_a_network_that_fails(
    target: BatchTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = ClusterExecutor(pools=(POOL,), tag="plan-1", targets={0: target})
    answers: list[Exception | None] = [UNREACHED, None]
    asked: list[str] = []

    def refreshed(run_id: str, target: BatchTarget) -> Found[BatchTarget]:
        if answer := answers.pop(0):
            raise answer
        return Found(run=run(id=run_id, state=JobState.RUNNING, status=""), target=target, detail={})

    monkeypatch.setattr(clusters, "refresh", refreshed)
    monkeypatch.setattr(aws, "_ASK_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(platform, "cancel", lambda found, why: asked.append(why))
    executor.stop(SentRun(0, "j-1", at=0), "it goes on elsewhere")
    assert asked == ["it goes on elsewhere"]


def test_two_slurm_clusters_of_a_plan_may_each_have_a_job_with_the_same_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pools = tuple(replace(POOL, cluster=name) for name in ("trn1", "gpu"))
    targets: dict[int, Target] = {
        place: replace(SLURM_TARGET, name=pool.cluster) for place, pool in enumerate(pools)
    }
    states = {"trn1": JobState.SUCCEEDED, "gpu": JobState.RUNNING}

    def refreshed(run_id: str, target: SlurmTarget) -> Found[SlurmTarget]:
        found = run(id=run_id, target=target.name, state=states[target.name], status="")
        return Found(run=found, target=target, detail={})

    monkeypatch.setattr(clusters, "refresh", refreshed)
    executor = ClusterExecutor(pools=pools, tag="plan-1", targets=targets)
    seen = executor.look({"one": SentRun(0, "1", at=0), "two": SentRun(1, "1", at=0)})
    assert {name: sight.outcome for name, sight in seen.items()} == {"one": "succeeded", "two": None}


def test_a_plan_goes_on_after_aws_has_forgotten_a_job(
    target: BatchTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgotten(run_id: str, _: BatchTarget) -> Found[BatchTarget]:
        raise UnknownJob(f"AWS Batch no longer knows job {run_id}")

    monkeypatch.setattr(clusters, "refresh", forgotten)
    executor = ClusterExecutor(pools=(POOL,), tag="plan-1", targets={0: target})
    old, new = (SentRun(0, "j-1", at=time.time() - days * 86_400) for days in (8, 0))
    assert executor.look({"one": old})["one"].outcome == "lost", "so it is sent again, and resumes"
    executor.stop(old, "it goes on elsewhere")
    for ask in (lambda: executor.look({"one": new}), lambda: executor.stop(new, "it goes on elsewhere")):
        with pytest.raises(UnknownJob):
            ask()


def test_an_attempt_that_could_not_be_sent_for_want_of_a_network_is_sent_again(
    target: BatchTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreached(*_: object, **__: object) -> Job:
        raise UNREACHED

    monkeypatch.setattr(clusters, "submit", unreached)
    executor = ClusterExecutor(pools=(POOL,), tag="plan-1", targets={0: target})
    uploading = replace(executor, complete=unreached)  # the folder of a command
    for sender in (executor, uploading):
        with pytest.raises(Unreached) as refused:  # which a run of a plan tries again
            sender.send(JOB, assignment(8, 1), 1)
        assert refused.value.exit_code != MISTAKE


def test_nodes_that_a_cluster_has_no_more_are_lost(target: BatchTarget, yard_shell: RunningYard) -> None:
    executor = ClusterExecutor(pools=(replace(POOL, nodes=3, cluster=target.name),), tag="plan-1")
    parameters, name = yard_shell.client("ssm"), parameter_name(target.name)
    for nodes, lost in ((3, set[tuple[int, int]]()), (1, {(0, 1), (0, 2)}), (2, {(0, 2)})):
        value = encode_target(replace(target, max_nodes=nodes))
        parameters.put_parameter(Name=name, Value=value, Type="String", Overwrite=True)
        assert executor.find_lost() == lost
    parameters.delete_parameter(Name=name)
    assert executor.find_lost() == {(0, 0), (0, 1), (0, 2)}


# A command of a plan that its cluster would refuse is refused before anything of the plan is submitted.
MODE = Mode(technique="given", type="dl1.24xlarge", devices=1, seconds=600)
NEEDS = {"requirements": "needs.txt"}


def planned(target: BatchTarget, folder: Path, settings: Mapping[str, str], image: str | None = None) -> Plan:
    source = keep_archive(read_folder(write(folder, {"train.py": "", "needs.txt": "numpy\n"})))
    words = {"source": str(source), "command": '["python", "train.py"]', **settings}
    job = Job(name="vision", recipe="command", nodes=1, settings=words, image=image, processes_per_node=1)
    where = (NodeDevices(node=0, devices=(0,)),)
    return plan_of(
        PlanJob(name="vision", modes=(MODE,), job=job),
        Pool(type=MODE.type, nodes=2, devices_per_node=1, price_per_hour=1.0, cluster=target.name),
        Assignment(job="vision", mode=MODE, pool=0, start=0, seconds=600, placement=where),
    )


def test_packages_that_no_node_could_install_are_refused_with_the_job(
    target: BatchTarget, yard_shell: RunningYard, tmp_path: Path
) -> None:
    plan = planned(target, tmp_path / "mine", NEEDS)
    write(tmp_path / "mine", {"needs.txt": "--no-index\n"})  # changed since then; it runs as it was planned
    with pytest.raises(NoTarget, match=r"job 'vision' of the plan: the nodes of .* reach no internet"):
        refuse_unfit_commands(plan)
    online = encode_target(replace(target, has_internet=True))
    parameters, name = yard_shell.client("ssm"), parameter_name(target.name)
    parameters.put_parameter(Name=name, Value=online, Type="String", Overwrite=True)
    refuse_unfit_commands(plan)


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("own-vision-0123456789abcdef", "the registry has no image .*:own-vision-0123456789abcdef"),
        ("example.com/vision:2", "is of example.com, and the nodes of"),
    ],
)
def test_an_image_that_the_cluster_cannot_pull_is_refused_with_the_job(
    target: BatchTarget, tmp_path: Path, image: str, said: str
) -> None:
    with pytest.raises(NoTarget, match=f"job 'vision' of the plan: .*{said}"):
        refuse_unfit_commands(planned(target, tmp_path / "mine", {}, image))


def test_a_folder_that_is_not_kept_any_more_is_refused_with_the_job(
    target: BatchTarget, tmp_path: Path
) -> None:
    plan = planned(target, tmp_path / "mine", {})
    (job,) = plan.jobs
    assert job.job is not None
    Path(job.job.settings["source"]).unlink()
    with pytest.raises(NoTarget, match="its folder is not kept as"):
        refuse_unfit_commands(plan)


def test_the_image_of_the_project_is_named_in_the_repository_of_the_chosen_cluster(
    target: BatchTarget, yard_shell: RunningYard, tmp_path: Path
) -> None:
    yard_shell.client("s3").create_bucket(Bucket=target.bucket)
    (job,) = planned(target, tmp_path / "mine", {}, "own-vision-0123456789abcdef").jobs
    assert job.job is not None
    sent = completed(job.job, target)
    assert sent.image == f"{target.repository_uri}:own-vision-0123456789abcdef"
    assert sent.settings["source"].startswith(f"s3://{target.bucket}/sources/")
