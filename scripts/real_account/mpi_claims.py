"""Claims of machines over MPI: two small nodes run a job, return from a reboot, are missed when lost."""

from __future__ import annotations

from typing import Any

from scripts.real_account import boots
from scripts.real_account.account import Account, CommandFailed
from scripts.real_account.claims import Proof, judged, not_tried
from scripts.real_account.clusters import MPI, NODES

_ON = ("--on", MPI.name, "--nodes", str(NODES))
_SAMPLE = ("--set", "sample_megabytes=1", "--set", "duplicates=1")
# A job that never ends by itself, and saves often.
_ENDLESS = {
    "size": "tiny",
    "precision": "fp32",
    "micro_batch": "4",
    "steps": "100000",
    "checkpoint_every": "10",
    "log_every": "10",
}
_START_MINUTES = 20
_READY_MINUTES = 10


def job(account: Account) -> Proof:
    """Two nodes start, answer an all-reduce and run a job to its end."""
    account.run("slipway", "submit", "prepare_bert", *_ON, *_SAMPLE, "--name", "acceptance", "--follow")
    run = account.data("slipway", "status", "acceptance")
    return judged(
        (run["state"], run["nodes"]) == ("succeeded", NODES),
        f"{run['name']} {run['state']} on {run['nodes']} nodes",
    )


def reboot(account: Account) -> Proof:
    """A node that was rebooted mounts the shared files again and takes a job."""
    nodes = _nodes(account)
    if len(nodes) < NODES:
        return not_tried(f"only {len(nodes)} nodes run, so none can be rebooted")
    node = nodes[-1]
    before = boots.boot_of(account, node)
    if not before:
        return not_tried(f"{node['name']} does not say which boot it is in")
    try:
        boots.reboot(account, node)
    except boots.CannotReboot as why:
        return not_tried(str(why))
    account.wait_until(
        f"{node['name']} starts again",
        lambda: boots.boot_of(account, node) not in ("", before),
        _READY_MINUTES,
    )
    account.wait_until("all nodes answer after the reboot", lambda: _ready(account), _READY_MINUTES)
    # The record that a node answers is older than its reboot, so the first jobs may come too early.
    account.wait_until("a job succeeds on all nodes", lambda: _job_succeeds(account), _READY_MINUTES)
    run = account.data("slipway", "status", "rebooted")
    return judged(run["state"] == "succeeded", f"after the reboot of one node, {run['name']} {run['state']}")


def _job_succeeds(account: Account) -> bool:
    words = ("slipway", "submit", "prepare_bert", *_ON, *_SAMPLE, "--name", "rebooted", "--again", "--follow")
    try:
        account.run(*words)
    except CommandFailed:
        return False
    return True


def lost_node(account: Account) -> Proof:
    """A job that loses a node fails everywhere, by its name and with an exit code that says so."""
    settings = [word for key, value in _ENDLESS.items() for word in ("--set", f"{key}={value}")]
    account.run("slipway", "submit", "bert_pretrain", *_ON, *settings, "--name", "loses")
    account.wait_until(
        "the job saves", lambda: "saved step 10" in account.run("slipway", "logs", "loses"), _START_MINUTES
    )
    lost = _nodes(account)[-1]
    _lose(account, lost)
    account.wait_until(
        "the job ends",
        lambda: account.data("slipway", "status", "loses")["state"] == "failed",
        _READY_MINUTES,
    )
    run = account.data("slipway", "status", "loses")
    said = account.run("slipway", "explain", "loses")
    return judged(
        run["exit_code"] == 85 and lost["name"] in said,
        f"exit code {run['exit_code']}; {said.splitlines()[0]}",
    )


def _nodes(account: Account) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = account.data("slipway", "status", "--on", MPI.name, "--nodes")
    return nodes


def _ready(account: Account) -> bool:
    return sum(bool(node["answered"]) for node in _nodes(account)) >= NODES


def _lose(account: Account, node: dict[str, Any]) -> None:
    """Take the machine away as AWS would when its hardware dies."""
    if account.is_yard:
        account.run("slipway", "yard", "kill-node", node["name"])
    else:
        account.order("ec2", "TerminateInstances", InstanceIds=[boots.instance_of(account, node)])
