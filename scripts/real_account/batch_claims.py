"""Claims of multi-node jobs on AWS Batch: with the DL1's AMI and image, and without its accelerator."""

from __future__ import annotations

from scripts.real_account.account import Account
from scripts.real_account.claims import Proof, judged
from scripts.real_account.clusters import BATCH, NODES
from scripts.real_account.common_claims import runs_to_its_end

_ON = ("--on", BATCH.name, "--nodes", str(NODES), "--processes-per-node", "1")
_SAMPLE = ("--set", "sample_megabytes=1", "--set", "shards=2")
_WORD = "DISABLED"
_TOLD_MINUTES = 10


def build(account: Account) -> Proof:
    """CodeBuild builds the container image and pushes the tag that the job definition names."""
    built = account.data("slipway", "image", "build", "gaudi", "--on", BATCH.name)
    target = account.data("slipway", "cluster", "targets", BATCH.name)
    return judged(built["tag"] == target["image_tag"], f"tag {built['tag']} is pushed")


def job(account: Account) -> Proof:
    """Two nodes of a multi-node job meet and run it to its end."""
    return runs_to_its_end(account, "multinode", *_ON, *_SAMPLE)


def stuck(account: Account) -> Proof:
    """A job that can never start says why, and ends when it is cancelled."""
    name = _environment(account)
    account.order("batch", "UpdateComputeEnvironment", computeEnvironment=name, state="DISABLED")
    try:
        account.run("slipway", "submit", "prepare_bert", *_ON, *_SAMPLE, "--name", "stuck")
        account.wait_until(
            "explain says why the job waits",
            lambda: _WORD in account.run("slipway", "explain", "stuck"),
            _TOLD_MINUTES,
        )
        said = account.run("slipway", "explain", "stuck").splitlines()[0]
        account.run("slipway", "cancel", "stuck")
        account.wait_until("the job ends", lambda: _state(account) in ("cancelled", "failed"), _TOLD_MINUTES)
    finally:
        account.order("batch", "UpdateComputeEnvironment", computeEnvironment=name, state="ENABLED")
    return judged(True, f"it said: {said}; cancelled, it is {_state(account)}")


def _state(account: Account) -> str:
    return str(account.data("slipway", "status", "stuck")["state"])


def _environment(account: Account) -> str:
    target = account.data("slipway", "cluster", "targets", BATCH.name)
    (queue,) = account.ask("batch", "DescribeJobQueues", jobQueues=[target["queue_arn"]])["jobQueues"]
    (order,) = queue["computeEnvironmentOrder"]
    return str(order["computeEnvironment"])
