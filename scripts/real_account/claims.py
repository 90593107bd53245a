"""Define claims about AWS and their proofs, and the claims that all clusters share.

To add a claim, write a function here or in a module of its cluster, and a row of all_claims.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from scripts.real_account.account import Account, CommandFailed, Evidence
from scripts.real_account.clusters import CLUSTERS, NODES, SmallCluster, existing_stacks


class ClaimOutcome(StrEnum):
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Holds the outcome of a claim, and what was seen."""

    outcome: ClaimOutcome
    seen: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    name: str
    promise: str
    stage: str  # the stage of STAGES that must be deployed
    prove: Callable[[Account], Proof]


def judged(holds: bool, seen: str) -> Proof:
    """Return a proof that confirms or refutes; the account adds its evidence."""
    return Proof(outcome=ClaimOutcome.CONFIRMED if holds else ClaimOutcome.REFUTED, seen=seen)


def not_tried(why: str) -> Proof:
    return Proof(outcome=ClaimOutcome.NOT_TRIED, seen=why)


# Claims of every cluster: what preflight answers, what a bake makes, what CloudFormation accepts.


def preflight(account: Account) -> Proof:
    """Prove that AWS answers all questions of preflight: silence is a missing permission or a wrong call."""
    silent: list[str] = []
    unknown_to_yard: list[str] = []
    for cluster in CLUSTERS:
        for row in _preflight(account, cluster):
            if row["outcome"] == "unknown" and "gave no answer" in row["found"]:
                of = unknown_to_yard if account.is_yard and "NotImplemented" in row["found"] else silent
                of.append(f"{cluster.name}: {row['check']}: {row['found']}")
    if unknown_to_yard and not silent:
        return not_tried("; ".join(unknown_to_yard))
    return judged(not silent, "; ".join(silent) or "AWS answered every question of preflight")


def _preflight(account: Account, cluster: SmallCluster) -> list[dict[str, str]]:
    """Return preflight's rows; exit code 1 is allowed, since before a bake some checks fail."""
    command = ("slipway", "preflight", cluster.name, *cluster.overrides(account.email), "--json")
    try:
        text = account.run(*command, folder=cluster.folder)
    except CommandFailed:
        text = account.run(*command, fails=True, folder=cluster.folder)
    rows: list[dict[str, str]] = json.loads(text)
    return rows


def bake(account: Account, cluster: SmallCluster) -> Proof:
    baked = account.data("slipway", "image", "bake", cluster.baked, "--wait", "--region", account.region)
    outcomes = {row["check"]: row["outcome"] for row in _preflight(account, cluster)}
    sound = outcomes["machine image"] == outcomes["locked versions"] == "ok"
    return judged(sound, f"{baked['ami_id']} was baked, and preflight calls it {outcomes['machine image']}")


def deployed(account: Account, cluster: SmallCluster) -> Proof:
    """Prove that CloudFormation made every stack, and no machine was started."""
    whole, seen = made(account, cluster)
    started = len(machines(account, cluster))
    return judged(whole and started == 0, f"{seen}; {started} machines were started by it")


def runs_to_its_end(account: Account, name: str, *words: str) -> Proof:
    """Prove that a job that prepares data runs to its end on all nodes."""
    account.run("slipway", "submit", "prepare_bert", *words, "--name", name, "--follow")
    run = account.data("slipway", "status", name)
    return judged(
        (run["state"], run["nodes"]) == ("succeeded", NODES),
        f"{run['name']} {run['state']} on {run['nodes']} nodes",
    )


def made(account: Account, cluster: SmallCluster) -> tuple[bool, str]:
    """Return True if every stack of the cluster is complete, and the state of each."""
    states = {name: state for name, state in existing_stacks(account).items() if name in cluster.stacks}
    for name in cluster.stacks:
        account.ask("cloudformation", "DescribeStacks", StackName=name)
    whole = len(states) == len(cluster.stacks) and all(
        state in ("CREATE_COMPLETE", "UPDATE_COMPLETE") for state in states.values()
    )
    return whole, ", ".join(f"{name} {state}" for name, state in sorted(states.items()))


def machines(account: Account, cluster: SmallCluster) -> list[str]:
    """Return the ids of the cluster's machines that are billed."""
    filters = [
        {"Name": "tag:slipway:cluster", "Values": [cluster.name]},
        {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]},
    ]
    answer = account.ask("ec2", "DescribeInstances", Filters=filters)
    return [instance["InstanceId"] for found in answer["Reservations"] for instance in found["Instances"]]
