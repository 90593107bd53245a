"""A job that was submitted runs as AWS Batch would run it, in real processes, and commands reach it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway.jobs.cli.cli import run
from slipway.yard.machines.isolation.tiers import TIERS
from slipway.yard.services.differences import OF_BATCH
from tests.waiting import until
from tests.yard.services.batch.conftest import ATTEMPT, FOREVER, NODE, Cluster, exit_codes

SHOW_ENVIRONMENT = "import json, os\nprint(json.dumps(dict(os.environ)))"


def test_every_node_gets_the_environment_that_batch_sets(cluster: Cluster) -> None:
    job = cluster.submit(SHOW_ENVIRONMENT + "\n" + FOREVER)
    for node in (0, 1):
        cluster.says(job, "ready", node)
    found = cluster.describe(job)
    assert (found["nodeProperties"]["numNodes"], found["jobName"]) == (2, "trial")
    main, child = (json.loads(cluster.lines(job, node)[0]) for node in (0, 1))
    assert (main["AWS_BATCH_JOB_ID"], child["AWS_BATCH_JOB_ID"]) == (f"{job}#0", f"{job}#1")
    assert (child["AWS_BATCH_JOB_NODE_INDEX"], child["AWS_BATCH_JOB_NUM_NODES"]) == ("1", "2")
    assert (main["AWS_BATCH_JQ_NAME"], main["AWS_BATCH_CE_NAME"]) == ("queue", "pool")
    assert (main["AWS_BATCH_JOB_ATTEMPT"], main["AWS_BATCH_JOB_MAIN_NODE_INDEX"]) == ("1", "0")
    address = "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"
    assert address in child
    assert address not in main


def test_only_the_main_nodes_failure_is_retried(cluster: Cluster) -> None:
    failing_child = cluster.submit(NODE + "if node == 1: sys.exit(85)\n" + FOREVER)
    failing_main = cluster.submit(NODE + ATTEMPT + "sys.exit(85 if node == 0 and attempt == 1 else 0)")
    main = cluster.ended(failing_main)
    assert (main["status"], len(main["attempts"])) == ("SUCCEEDED", 2)
    until(lambda: cluster.describe(f"{failing_child}#1")["container"].get("exitCode") == 85)
    child = cluster.describe(failing_child)
    assert (child["status"], child["attempts"]) == ("RUNNING", [])
    assert exit_codes(cluster.describe(f"{failing_main}#0")) == [85, 0]


def test_exit_85_is_retried_and_exit_1_is_not(cluster: Cluster) -> None:
    resumable, final = cluster.submit("exit(85)"), cluster.submit("exit(1)")
    assert (cluster.ended(resumable)["status"], cluster.ended(final)["status"]) == ("FAILED", "FAILED")
    assert exit_codes(cluster.describe(f"{resumable}#0")) == [85, 85, 85]
    assert exit_codes(cluster.describe(f"{final}#0")) == [1]


def test_a_job_that_takes_too_long_is_ended_and_not_tried_again(cluster: Cluster) -> None:
    found = cluster.ended(cluster.submit(FOREVER, timeout={"attemptDurationSeconds": 600}))
    assert (found["status"], len(found["attempts"])) == ("FAILED", 1)
    assert found["statusReason"] == "Job attempt duration exceeded timeout"


def test_the_last_lines_before_a_kill_are_in_the_log(cluster: Cluster) -> None:
    shout = "import os\nfor n in range(2000): print('line', n)\nprint('end', end='', flush=True)\n"
    shout += "os.kill(os.getpid(), 9)"
    job = cluster.submit(shout, nodes=1)
    cluster.ended(job)
    assert cluster.lines(job)[-2:] == ["line 1999", "end"]
    assert len(cluster.lines(job)) == 2001


def test_a_command_that_is_not_there_ends_with_127_and_says_so(cluster: Cluster) -> None:
    definition = cluster.define("absent", container={"command": ["no-such-program"]})
    job = cluster.batch.submit_job(jobName="absent", jobQueue="queue", jobDefinition=definition)["jobId"]
    assert cluster.ended(job)["status"] == "FAILED"
    assert exit_codes(cluster.describe(f"{job}#0")) == [127]
    assert "no-such-program" in cluster.lines(job)[0]


def test_a_job_with_more_words_than_ecs_takes_is_accepted_and_fails(cluster: Cluster) -> None:
    found = cluster.ended(cluster.submit(f"pass  # {'x' * 8192}"))
    assert (found["status"], found["statusReason"]) == (
        "FAILED",
        "Container Overrides length must be at most 8192",
    )


def test_a_job_whose_log_group_is_missing_fails_with_the_reason(cluster: Cluster) -> None:
    options = {"awslogs-group": "absent"}
    definition = cluster.define(
        "mute", container={"logConfiguration": {"logDriver": "awslogs", "options": options}}
    )
    job = cluster.submit("pass", definition=definition)
    assert cluster.ended(job)["statusReason"] == "Task failed to start"
    assert "ResourceInitializationError" in cluster.describe(f"{job}#0")["container"]["reason"]


def test_a_single_container_runs_without_the_variables_of_nodes_and_of_the_yard_s_own_environment(
    cluster: Cluster,
) -> None:
    cluster.define_single()
    timeout = {"attemptDurationSeconds": 60_000}
    asked: dict[str, Any] = {"tags": {"slipway:recipe": "trial"}, "timeout": timeout}
    job = cluster.submit_single(SHOW_ENVIRONMENT, **asked)
    found = cluster.ended(job)
    assert found["container"]["exitCode"] == 0
    assert (found["tags"], found["timeout"]) == (asked["tags"], asked["timeout"])
    assert found["createdAt"] <= found["startedAt"] <= found["stoppedAt"]
    seen = json.loads(cluster.lines(job, None)[0])
    assert seen["AWS_BATCH_JOB_ID"] == job
    assert not [name for name in seen if "NODE" in name]
    of_machine = {name for name in seen if not name.startswith("AWS_")}
    assert of_machine <= {"PATH", "HOME", "LANG", "PYTHONPATH", "LC_CTYPE", "SLIPWAY_STAND_IN"}
    assert seen["AWS_ENDPOINT_URL"] == cluster.yard.endpoint


# `slipway yard kill-node` and what `slipway yard status` says of jobs.


@pytest.fixture(autouse=True)
def home(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_YARD_HOME", str(cluster.yard.home))


def test_a_child_node_that_is_killed_by_command_triggers_nothing(cluster: Cluster) -> None:
    job = cluster.submit(FOREVER)
    cluster.says(job, "ready", 1)
    assert run(("yard", "kill-node", "tri", "1")) == 0
    until(lambda: cluster.describe(f"{job}#1")["container"].get("exitCode") == 137)
    assert cluster.describe(job)["status"] == "RUNNING"
    assert "exitCode" not in cluster.describe(f"{job}#0")["container"]


def test_a_node_that_is_not_there_is_named(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    job = cluster.submit(FOREVER)
    cluster.says(job, "ready")
    own = f"trial ({job})"
    for wrong, words in (
        ((job, "2"), "has no node 2; it has 0 to 1"),
        (
            ("absent", "0"),
            f"'absent' matches 0 running jobs of Batch, MPI, Slurm or SageMaker; of Batch run: {own}",
        ),
    ):
        assert run(("yard", "kill-node", *wrong)) != 0
        assert words in capsys.readouterr().err
    assert cluster.describe(job)["status"] == "RUNNING"


def test_status_says_what_is_kept_apart_and_what_is_left_out(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], tier: str
) -> None:
    assert run(("yard", "status", "--json")) == 0
    said = json.loads(capsys.readouterr().out)["batch_jobs"]
    words = next(each.words for each in TIERS if each.name == tier)
    assert said[0] == f"isolation: {words}"
    assert said[1].startswith("homes: ")
    assert said[2].endswith(str(cluster.yard.home / "tmp" / "batch" / "file-systems"))
    assert len(said) == 3 + len(OF_BATCH)
