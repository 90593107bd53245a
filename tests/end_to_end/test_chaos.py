"""Both roads stay right under the faults that one seed draws, in deployments, submissions and trainings.

The faults are eventual consistency, throttling, internal errors, lost answers, no capacity, late and lost
machines, lost packets and no DNS. A command that fails because of AWS is repeated, as a user would do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from slipway.yard.chaos.switches import SWITCHES
from slipway.yard.machines.isolation.tiers import best_tier
from tests.end_to_end.conftest import Finished, Shell, make_ready, yard_at
from tests.packages import require

require("deepspeed", reason="the extra 'deepspeed' is not installed")
pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.long]

SEED = "7"
MOST_TRIES = 8
PATIENCE_SECONDS = 600.0
SAMPLE = ("--set", "sample_megabytes=1", "--set", "duplicates=1")
TRAINING = {
    "size": "tiny",
    "precision": "fp32",
    "micro_batch": "8",
    "checkpoint_every": "5",
    "log_every": "5",
}
SETTINGS = [word for name, value in TRAINING.items() for word in ("--set", f"{name}={value}")]
SHORT = (*SETTINGS, "--set", "steps=15")
LONG = (*SETTINGS, "--set", "steps=40")  # enough steps for a node to be killed meanwhile


@pytest.fixture(scope="module")
def chaos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with yard_at(tmp_path_factory.mktemp("chaos"), make_ready) as shell:
        yield shell


def at_last(shell: Shell, *command: str) -> Finished:
    """Repeat a command until it succeeds; no try may end in a traceback."""
    said: list[str] = []
    for _ in range(MOST_TRIES):
        done = shell.run(*command)
        assert "Traceback" not in done.text
        if done.status == 0:
            return done
        said.append(done.text)
    raise AssertionError(f"{' '.join(command)} never succeeded:\n" + "\n".join(said))


def deploy(shell: Shell, cluster: str, assembly: str) -> None:
    """Write the templates once, which needs no AWS, and deploy them until that succeeds."""
    declared = ("-c", f"{cluster}.keep_data=false", "-c", f"{cluster}.max_nodes=2")
    shell.must("cdk", "synth", "--quiet", "--output", assembly, *declared)
    approved = ("--require-approval", "never", "--concurrency", "4")
    at_last(shell, "cdk", "deploy", cluster, *approved, "--app", assembly)


def destroy(shell: Shell, cluster: str, assembly: str) -> None:
    at_last(shell, "slipway", "cluster", "empty", cluster, "--yes")
    at_last(shell, "cdk", "destroy", f"{cluster}*", "--force", "--app", assembly)


def ended(shell: Shell, job: str) -> dict[str, Any]:
    """Follow the job's log, which may be cut short, until the job has ended."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        shell.run("slipway", "logs", job, "--follow")
        found = shell.run("slipway", "status", job)
        if found.status == 0 and any(word in found.text for word in ("succeeded", "failed")):
            return dict(shell.data("slipway", "status", job, "--json"))
        assert time.monotonic() < deadline, f"{job} does not end: {found.text}"


def must_succeed(shell: Shell, *jobs: str) -> None:
    for job in jobs:
        state = ended(shell, job)["state"]
        assert state == "succeeded", f"{job} has {state}: " + shell.run("slipway", "logs", job).text


def losses(shell: Shell, job: str) -> list[tuple[int, float]]:
    points = shell.data("slipway", "report", "curve", job, "--json")
    return [(point["step"], point["loss"]) for point in points]


def running_instances(shell: Shell) -> list[str]:
    wanted = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    found = shell.client("ec2").describe_instances(Filters=wanted)["Reservations"]
    return [instance["InstanceId"] for each in found for instance in each["Instances"]]


def test_dl1_trains_and_resumes_to_the_same_loss_while_everything_goes_wrong(
    chaos: Shell, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assembly = str(tmp_path_factory.mktemp("assembly"))
    on = ("--on", "dl1", "--nodes", "2", "--processes-per-node", "1")
    let_everything_go_wrong(chaos)
    deploy(chaos, "dl1", assembly)
    at_last(chaos, "slipway", "image", "build", "gaudi")
    at_last(chaos, "slipway", "submit", "prepare_bert", *on, *SAMPLE)
    must_succeed(chaos, "prepare_bert")
    for name in ("steady", "struck"):
        at_last(chaos, "slipway", "submit", "bert_pretrain", *on, *LONG, "--name", name)
    chaos.follow_until("struck", "saved step 5", seconds=PATIENCE_SECONDS, may_fail=True)
    chaos.run("slipway", "yard", "kill-node", "struck", "1")
    must_succeed(chaos, "steady", "struck")
    chaos.must("slipway", "yard", "faults", "clear")
    assert losses(chaos, "steady") == losses(chaos, "struck")
    assert chaos.data("slipway", "status", "struck", "--json")["attempts"]
    assert running_instances(chaos) == []


def test_c6i_trains_over_bad_links_to_the_same_loss_and_leaves_no_machine(
    chaos: Shell, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if not best_tier().isolated:
        pytest.skip("this machine can make no namespaces, so its hosts have no links")
    assembly = str(tmp_path_factory.mktemp("assembly"))
    on = ("--on", "c6i", "--nodes", "2")
    let_everything_go_wrong(chaos)
    deploy(chaos, "c6i", assembly)
    at_last(chaos, "slipway", "submit", "prepare_bert", *on, *SAMPLE, "--name", "rows")
    must_succeed(chaos, "rows")
    for name in ("first", "second"):
        at_last(chaos, "slipway", "submit", "bert_pretrain", *on, *SHORT, "--name", name)
        must_succeed(chaos, name)
    chaos.must("slipway", "yard", "faults", "clear")
    assert losses(chaos, "first") == losses(chaos, "second")
    destroy(chaos, "c6i", assembly)
    assert running_instances(chaos) == []


def let_everything_go_wrong(shell: Shell) -> None:
    """Switch on the faults of `yard up --chaos` in a bootstrapped yard."""
    every = [f"{switch.name}={switch.in_chaos:g}" for switch in SWITCHES.values()]
    shell.must("slipway", "yard", "faults", "set", *every, "--seed", SEED)
