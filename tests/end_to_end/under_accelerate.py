"""Runs a script of accelerate on two nodes of any cluster: together, and then alone on purpose."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from slipway.containers.runtime.launch.node_roles import WORKED_ALONE
from tests.end_to_end.conftest import Shell

_JOINED = Path(__file__).parent / "apps" / "joined.py"
_SECONDS = "3"
RANKS = 2


def refuse_ranks_that_train_alone_unsaid(shell: Shell, cluster: str, folder: Path) -> None:
    """Check that ranks train together, and that ranks that train alone are reported everywhere."""
    pytest.importorskip("accelerate", reason="the extra 'compare' is not installed")
    shutil.copy(_JOINED, folder / "joined.py")
    sent = ("--on", cluster, "--nodes", str(RANKS), "--processes-per-node", "1", "--folder", str(folder))
    joined = ("python", "joined.py", _SECONDS)
    said = shell.must("slipway", "run", *sent, "--name", "joined", "--follow", "--", *joined)
    for rank in range(RANKS):
        assert f"[{rank}] rank {rank} of {RANKS}, DistributedType.MULTI_CPU" in said
    assert WORKED_ALONE not in said
    run = shell.data("slipway", "status", "joined", "--json")
    assert (run["state"], run["warning"]) == ("succeeded", None)
    alone = ("env", "ACCELERATE_USE_CPU=false", *joined)
    said = shell.must("slipway", "run", *sent, "--name", "alone", "--follow", "--", *alone)
    for rank in range(RANKS):
        assert f"[{rank}] rank 0 of 1, DistributedType.NO" in said
    run = shell.data("slipway", "status", "alone", "--json")
    assert run["state"] == "succeeded"
    assert f"the {RANKS} {WORKED_ALONE}: " in run["warning"]
    assert run["warning"] in said
    assert WORKED_ALONE in shell.data("slipway", "explain", "alone", "--json")["sentence"]
