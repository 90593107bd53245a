"""If EC2 does not start nodes, every command says in AWS's words why, and what helps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slipway.jobs.platforms.slurm import login_node, platform, runs
from slipway.jobs.platforms.slurm.explain import explain
from slipway.jobs.platforms.slurm.login_node import NoLoginNode, needed_login_node
from slipway.jobs.words.job import Job
from slipway.jobs.words.recipes import find_recipe
from slipway.jobs.words.slurm import COMPILE, SlurmAnswer, SlurmAttempt, SlurmNode, SlurmRecord
from tests.jobs.platforms.slurm.conftest import Cluster
from tests.jobs.platforms.slurm.test_platform import RECORD, Sdk, sdk
from tests.jobs.words.test_targets import SLURM_TARGET

__all__ = ["sdk"]

LIMIT = {
    "code": "VcpuLimitExceeded",
    "message": "You have requested more vCPU capacity than your current vCPU limit of 0 allows for it.",
}
NO_CAPACITY = {
    "code": "InsufficientInstanceCapacity",
    "message": "We currently do not have sufficient capacity.",
}
NODE = SlurmNode(name="workers-1", state="IDLE+CLOUD+POWERED_DOWN", reason="")
LOST = replace(NODE, reason="VcpuLimitExceeded")
REQUEUED = replace(RECORD, reason="BeginTime", restarts=1)
QUOTA = "slipway cluster quota trn1 --request"


def told(answer: SlurmAnswer, record: SlurmRecord = REQUEUED) -> Any:
    refused = login_node.refused_workers([record.name], answer, SLURM_TARGET)
    return explain(runs._found(record, answer, SLURM_TARGET, refused))


@pytest.mark.parametrize(
    ("error", "means", "fix"),
    [
        (LIMIT, "the account's quota of vCPUs leaves no room", QUOTA),
        (NO_CAPACITY, "AWS has too few free machines of this type", "in another zone or Region"),
        ({"code": "New", "message": "words"}, "AWS starts no node for it", "aws pcs get-compute-node-group"),
    ],
)
def test_a_job_whose_nodes_ec2_refused_is_explained_in_its_words(
    sdk: Sdk, error: dict[str, str], means: str, fix: str
) -> None:
    sdk.group_errors[SLURM_TARGET.node_group] = [error] * 10
    said = told(SlurmAnswer(jobs=(REQUEUED,)))
    assert said.sentence.startswith(f"{RECORD.name} waits: {means}")
    assert fix in said.fix
    assert said.evidence == (f"BeginTime; AWS says {error['code']}: {error['message']}",)


def test_the_reasons_of_slurms_nodes_tell_where_nobody_may_ask_pcs(sdk: Sdk) -> None:
    sdk.group_errors[SLURM_TARGET.node_group] = "AccessDeniedException"
    said = told(SlurmAnswer(jobs=(REQUEUED,), nodes=(LOST,)))
    assert "quota of vCPUs" in said.sentence
    assert QUOTA in said.fix
    assert "node workers-1 is IDLE+CLOUD+POWERED_DOWN: VcpuLimitExceeded" in said.evidence
    for nodes in ((), (LOST,)):
        fix = told(SlurmAnswer(jobs=(REQUEUED,), nodes=nodes)).fix
        assert "starttime" not in fix, "no advice burns another launch"


def test_a_job_that_gave_itself_back_is_not_told_of_launches_that_failed_long_ago(sdk: Sdk) -> None:
    sdk.group_errors[SLURM_TARGET.node_group] = [LIMIT]
    own = SlurmAttempt(job=RECORD.id, number=1, started=100, ended=110, exit_code=85)
    said = told(SlurmAnswer(jobs=(REQUEUED,), attempts=(own,)))
    assert "it is back in the queue; Slurm lets a requeued job wait two minutes" in said.sentence
    assert (said.fix, said.evidence) == ("", ("BeginTime",))


def test_a_job_whose_nodes_start_now_is_not_told_of_launches_before(sdk: Sdk) -> None:
    sdk.group_errors[SLURM_TARGET.node_group] = [LIMIT]
    starting = replace(REQUEUED, state="CONFIGURING")
    assert "quota" not in told(SlurmAnswer(jobs=(starting,), nodes=(LOST,)), starting).sentence


def test_a_job_whose_compile_job_has_no_nodes_says_so(sdk: Sdk) -> None:
    sdk.group_errors[SLURM_TARGET.node_group] = [LIMIT]
    compiling = replace(REQUEUED, id="6", phase=COMPILE)
    waiting = replace(RECORD, reason="Dependency")
    assert QUOTA in told(SlurmAnswer(jobs=(compiling, waiting)), waiting).fix


def test_a_login_node_that_ec2_does_not_start_is_told_wherever_one_is_needed(
    cluster: Cluster, sdk: Sdk
) -> None:
    sdk.instances = []
    sdk.group_errors[SLURM_TARGET.login_group] = [LIMIT] * 10
    said = f"no login node of 'trn1' is running: AWS says VcpuLimitExceeded: {LIMIT['message']}"
    with pytest.raises(NoLoginNode) as caught:
        needed_login_node(cluster.target)
    assert caught.value.message == said
    assert caught.value.hint.startswith(QUOTA)
    job = Job(name="smoke", recipe="smoke", nodes=1)
    assert platform.prepare(job, find_recipe("smoke"), cluster.target, ()).warnings == (
        f"{said}; submitting refuses",
    )
    sdk.group_errors[SLURM_TARGET.login_group] = "AccessDeniedException"
    with pytest.raises(NoLoginNode, match="GetComputeNodeGroup gave no answer: AccessDenied") as caught:
        needed_login_node(cluster.target)
    assert "allow aws:GetComputeNodeGroup to your role" in caught.value.hint


def test_a_node_that_is_off_says_why_its_last_start_failed(sdk: Sdk, monkeypatch: pytest.MonkeyPatch) -> None:
    unfit = replace(NODE, reason="slipway: 7 of 8 EFA devices")
    monkeypatch.setattr(platform, "read_answer", lambda _: SlurmAnswer(nodes=(NODE, LOST, unfit)))
    assert [row["why"] for row in platform.node_rows(SLURM_TARGET)] == [
        "Slurm starts it when a job needs it",
        "Slurm starts it when a job needs it; the last time AWS refused it: VcpuLimitExceeded",
        "Slurm starts it when a job needs it; its last machine was not fit: 7 of 8 EFA devices",
    ]
