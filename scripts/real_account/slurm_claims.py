"""Claims of Slurm on AWS PCS: a login node that stays, two workers that come with a job and go after it."""

from __future__ import annotations

from scripts.real_account.account import Account, CommandFailed
from scripts.real_account.claims import Proof, judged
from scripts.real_account.clusters import NODES, SLURM
from scripts.real_account.common_claims import machines, made, runs_to_its_end

_ON = ("--on", SLURM.name, "--nodes", str(NODES), "--processes-per-node", "1")
_SAMPLE = ("--set", "sample_megabytes=1", "--set", "duplicates=1")
_LOGIN_NODES = 1
_LOGIN_MINUTES = 20
_IDLE_MINUTES = 30  # ten of them are the cluster's own setting


def deployed(account: Account) -> Proof:
    """CloudFormation made every stack, and PCS has one machine for it."""
    whole, seen = made(account, SLURM)
    account.wait_until(
        "PCS starts the login node", lambda: len(machines(account, SLURM)) >= _LOGIN_NODES, _LOGIN_MINUTES
    )
    count = len(machines(account, SLURM))
    return judged(whole and count == _LOGIN_NODES, f"{seen}; {count} machine runs")


def job(account: Account) -> Proof:
    """Slurm starts two workers for a job, and runs it to its end."""
    account.wait_until("the login node answers", lambda: _answers(account), _LOGIN_MINUTES)
    return runs_to_its_end(account, "under-slurm", *_ON, *_SAMPLE)


def given_back(account: Account) -> Proof:
    """Workers without a job end by themselves; the login node stays."""
    account.wait_until(
        "PCS takes the workers back", lambda: len(machines(account, SLURM)) == _LOGIN_NODES, _IDLE_MINUTES
    )
    return judged(True, f"{_LOGIN_NODES} machine is left")


def _answers(account: Account) -> bool:
    try:
        account.run("slipway", "status", "--on", SLURM.name, "--nodes")
    except CommandFailed:
        return False
    return True
