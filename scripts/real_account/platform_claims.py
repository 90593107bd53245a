"""Prove claims about AWS Batch, Slurm on AWS PCS and SageMaker, each without the accelerator it is for."""

from __future__ import annotations

from scripts.real_account.account import Account, CommandFailed
from scripts.real_account.claims import Proof, judged, machines, made, not_tried, runs_to_its_end
from scripts.real_account.clusters import BATCH, GPU, NODES, SAGEMAKER, SLURM, SmallCluster

# Multi-node jobs on AWS Batch, with the DL1's AMI and image.
_ON_BATCH = ("--on", BATCH.name, "--nodes", str(NODES), "--processes-per-node", "1")
_BATCH_SAMPLE = ("--set", "sample_megabytes=1", "--set", "shards=2")
_DISABLED = "DISABLED"
_TOLD_MINUTES = 10


def build_image(account: Account) -> Proof:
    """Prove that CodeBuild builds the container image and pushes the tag in the job definition."""
    built = account.data("slipway", "image", "build", "gaudi", "--on", BATCH.name)
    target = account.data("slipway", "cluster", "targets", BATCH.name)
    return judged(built["tag"] == target["image_tag"], f"tag {built['tag']} is pushed")


def batch_job(account: Account) -> Proof:
    """Prove that two nodes of a multi-node job meet and run it to its end."""
    return runs_to_its_end(account, "multinode", *_ON_BATCH, *_BATCH_SAMPLE)


def batch_stuck(account: Account) -> Proof:
    """Prove that a job that can never start says why, and ends when it is cancelled."""
    target = account.data("slipway", "cluster", "targets", BATCH.name)
    (queue,) = account.ask("batch", "DescribeJobQueues", jobQueues=[target["queue_arn"]])["jobQueues"]
    (order,) = queue["computeEnvironmentOrder"]
    name = str(order["computeEnvironment"])
    account.order("batch", "UpdateComputeEnvironment", computeEnvironment=name, state=_DISABLED)
    try:
        account.run("slipway", "submit", "prepare_bert", *_ON_BATCH, *_BATCH_SAMPLE, "--name", "stuck")
        account.wait_until(
            "explain says why the job waits",
            lambda: _DISABLED in account.run("slipway", "explain", "stuck"),
            _TOLD_MINUTES,
        )
        said = account.run("slipway", "explain", "stuck").splitlines()[0]
        account.run("slipway", "cancel", "stuck")
        account.wait_until(
            "the job ends", lambda: _state_of_stuck(account) in ("cancelled", "failed"), _TOLD_MINUTES
        )
    finally:
        account.order("batch", "UpdateComputeEnvironment", computeEnvironment=name, state="ENABLED")
    return judged(True, f"it said: {said}; cancelled, it is {_state_of_stuck(account)}")


def _state_of_stuck(account: Account) -> str:
    return str(account.data("slipway", "status", "stuck")["state"])


# Clusters without a bake: AWS's AMI and container, to which Slipway's own code is sent.
_QUARTER_OF_AN_HOUR = "0.25"


def nodes_meet(account: Account, cluster: SmallCluster) -> Proof:
    """Prove that two nodes join, all-reduce known numbers over their network, and get the right sums."""
    name = f"meet-{cluster.name}"
    on = ("--on", cluster.name, "--nodes", str(NODES), "--timeout-hours", _QUARTER_OF_AN_HOUR)
    account.run("slipway", "submit", "smoke", *on, "--name", name, "--follow")
    run, log = account.data("slipway", "status", name), account.run("slipway", "logs", name)
    with_gpus = cluster is GPU and not account.is_yard  # in a yard, processors stand in for them
    met = f"all_reduce over {'nccl' if with_gpus else 'gloo'}"
    said = next((line for line in log.splitlines() if " all_reduce over " in line), "no rank met another")
    holds = (run["state"], run["nodes"]) == ("succeeded", NODES) and met in said
    return judged(holds, f"{run['name']} {run['state']} on {run['nodes']} nodes: {said}")


# Slurm on AWS PCS: a permanent login node, and two workers that start with a job and end after it.
_ON_SLURM = ("--on", SLURM.name, "--nodes", str(NODES), "--processes-per-node", "1")
_SAMPLE = ("--set", "sample_megabytes=1", "--set", "duplicates=1")
_LOGIN_NODES = 1
_LOGIN_MINUTES = 20
_IDLE_MINUTES = 30  # of which the cluster's own setting takes ten


def slurm_deployed(account: Account) -> Proof:
    """Prove that CloudFormation made every stack, and PCS runs one machine for it."""
    whole, seen = made(account, SLURM)
    account.wait_until(
        "PCS starts the login node", lambda: len(machines(account, SLURM)) >= _LOGIN_NODES, _LOGIN_MINUTES
    )
    count = len(machines(account, SLURM))
    return judged(whole and count == _LOGIN_NODES, f"{seen}; {count} machine runs")


def slurm_job(account: Account) -> Proof:
    """Prove that Slurm starts two workers for a job, and runs it to its end."""
    asked = ("slipway", "status", "--on", SLURM.name, "--nodes")
    account.wait_until("the login node answers", lambda: account.succeeds(*asked), _LOGIN_MINUTES)
    return runs_to_its_end(account, "under-slurm", *_ON_SLURM, *_SAMPLE)


def given_back(account: Account) -> Proof:
    """Prove that workers without a job end by themselves, and the login node stays."""
    account.wait_until(
        "PCS takes the workers back", lambda: len(machines(account, SLURM)) == _LOGIN_NODES, _IDLE_MINUTES
    )
    return judged(True, f"{_LOGIN_NODES} machine is left")


# SageMaker training: one small instance, with the deployed role, network, keys and image.
_TRAINED = "trained"
_TRAINING_HOURS = "0.25"  # SageMaker ends the job then in any case; it should take five minutes
_NO_TOOLKIT = "toolkit"


def training_job(account: Account) -> Proof:
    """Prove that a training job starts, lacks no permission, and succeeds."""
    on = ("--on", SAGEMAKER.name, "--nodes", str(SAGEMAKER.nodes), "--processes-per-node", "1")
    ends = ("--timeout-hours", _TRAINING_HOURS)
    try:
        account.run("slipway", "submit", "smoke", *on, *ends, "--name", _TRAINED, "--follow")
    except CommandFailed as failure:
        if account.is_yard and _NO_TOOLKIT in str(failure):
            return not_tried("AWS's training toolkit is not installed: python3 scripts/set_up.py toolkit")
        raise
    run = account.data("slipway", "status", _TRAINED)
    return judged(run["state"] == "succeeded", f"{run['name']} {run['state']} on {SAGEMAKER.instance_type}")
