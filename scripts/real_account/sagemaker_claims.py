"""The claim of SageMaker training: one small instance, with the deployed role, network, keys and image."""

from __future__ import annotations

from scripts.real_account.account import Account, CommandFailed
from scripts.real_account.claims import Proof, judged, not_tried
from scripts.real_account.clusters import SAGEMAKER

_JOB = "trained"
_HOURS = "0.25"  # SageMaker ends it then, whatever it does; it should take five minutes
_NO_TOOLKIT = "toolkit"


def job(account: Account) -> Proof:
    """A training job starts, meets nothing that its role may not do, and ends well."""
    on = ("--on", SAGEMAKER.name, "--nodes", str(SAGEMAKER.nodes), "--processes-per-node", "1")
    ends = ("--timeout-hours", _HOURS)
    try:
        account.run("slipway", "submit", "smoke", *on, *ends, "--name", _JOB, "--follow")
    except CommandFailed as failure:
        if account.is_yard and _NO_TOOLKIT in str(failure):
            return not_tried("AWS's training toolkit is not installed: python3 scripts/set_up.py toolkit")
        raise
    run = account.data("slipway", "status", _JOB)
    return judged(run["state"] == "succeeded", f"{run['name']} {run['state']} on {SAGEMAKER.instance_type}")
