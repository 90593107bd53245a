"""`scripts/acceptance`, whole, against a yard: each claim is tried, and nothing is left, whatever happens."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from scripts.real_account.all_claims import NAMES
from slipway.yard.endpoint import ACCOUNT
from slipway.yard.machines.isolation.tiers import best_tier
from tests.end_to_end.conftest import ROOT, Shell, make_ready, yard_at

pytestmark = [pytest.mark.cdk, pytest.mark.slow]

EMAIL = "acceptance@slipway.test"
# Each bake takes minutes, and tests/end_to_end/test_c6i_road.py does one.
BAKES = frozenset({"bake-mpi", "bake-batch", "bake-slurm"})
# The claims of Slurm, whose price we do not know; tests/end_to_end/test_trn1_road.py runs its road.
SLURM = frozenset({"deploy-slurm", "job-slurm", "idle-slurm"})
# Parts that a machine may lack for a yard; the claim then says so.
MAY_BE_MISSING = frozenset({"preflight", "reboot", "job-sagemaker"})


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A yard for this module, because a run refuses an account that has such a cluster already."""
    with yard_at(tmp_path_factory.mktemp("acceptance"), make_ready) as ready:
        yield ready


def command(state: Path, claims: Sequence[str]) -> tuple[str, ...]:
    asked = ("--email", EMAIL, "--account", ACCOUNT, "--state", str(state), "--claims", ",".join(claims))
    return ("scripts/acceptance", *asked)


def start(shell: Shell, state: Path, claims: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(state, claims),
        cwd=ROOT,
        env=dict(shell.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def signal_at(process: subprocess.Popen[str], line: str, number: signal.Signals) -> str:
    """Send the signal as soon as the line is printed; return all that was printed."""
    assert process.stdout is not None
    said = ""
    for printed in process.stdout:
        said += printed
        if printed.startswith(line):
            process.send_signal(number)
            break
    rest, _ = process.communicate(timeout=600)
    return said + rest


def standing(shell: Shell) -> list[str]:
    stacks = shell.client("cloudformation").describe_stacks()["Stacks"]
    ours = ("acceptance", "dl1", "c6i", "sagemaker")
    return [stack["StackName"] for stack in stacks if stack["StackName"].partition("-")[0] in ours]


def billed(shell: Shell) -> list[Any]:
    filters = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopping"]}]
    reservations = shell.client("ec2").describe_instances(Filters=filters)["Reservations"]
    return [instance for reservation in reservations for instance in reservation["Instances"]]


@pytest.mark.long
def test_a_killed_run_goes_on_where_it_stopped_tries_every_claim_and_leaves_nothing(
    shell: Shell, tmp_path: Path
) -> None:
    if not best_tier().isolated:
        pytest.skip("this machine can make no namespaces, so its hosts cannot die one by one")
    before = (ROOT / "docs" / "confirmed.md").read_text(encoding="utf-8")
    claims = [name for name in NAMES if name not in BAKES | SLURM]
    first = signal_at(start(shell, tmp_path, claims), "trying deploy-mpi", signal.SIGKILL)
    assert "at most" in first
    assert standing(shell), "a run that is killed takes nothing away"
    second = start(shell, tmp_path, claims)
    said, _ = second.communicate(timeout=1200)
    assert re.search(r"an earlier run left (\w+, )*mpi: this one goes on from there", said), said
    proofs = json.loads((tmp_path / f"{ACCOUNT}-us-east-1.done").read_text(encoding="utf-8"))["proofs"]
    assert proofs.keys() == set(claims)
    unproved = {name for name, proof in proofs.items() if proof["outcome"] != "confirmed"}
    assert unproved <= MAY_BE_MISSING, said
    assert {proofs[name]["outcome"] for name in unproved} <= {"not tried"}, said
    assert (second.returncode, standing(shell), billed(shell)) == (0, [], [])
    report = (tmp_path / "confirmed.md").read_text(encoding="utf-8")
    assert report.startswith("# Tried in the yard")
    assert ACCOUNT not in report
    assert EMAIL not in report
    assert re.search(r"\| `sns:ListSubscriptionsByTopic` \| [0-9a-zA-Z-]{20,} \| 20", report)
    assert (ROOT / "docs" / "confirmed.md").read_text(encoding="utf-8") == before


def test_a_run_that_is_told_to_end_takes_everything_away_first(shell: Shell, tmp_path: Path) -> None:
    process = start(shell, tmp_path, ["deploy-mpi", "nothing-left"])
    said = signal_at(process, "making mpi", signal.SIGTERM)
    assert "interrupted: taking everything away" in said
    assert process.returncode == 130, said
    assert (standing(shell), billed(shell)) == ([], []), said
    assert json.loads((tmp_path / f"{ACCOUNT}-us-east-1.json").read_text(encoding="utf-8"))["begun"] == []


def test_nothing_is_made_for_an_account_that_nobody_confirmed(shell: Shell, tmp_path: Path) -> None:
    asked = ("scripts/acceptance", "--email", EMAIL, "--state", str(tmp_path), "--claims", "preflight")
    for more in ((), ("--account", "999999999999")):
        done = shell.run(*asked, *more)
        assert done.status == 1
        assert f"error: the account is {ACCOUNT}" in done.text
    assert standing(shell) == []


def test_a_run_that_may_cost_more_than_the_limit_is_refused_before_it_asks(
    shell: Shell, tmp_path: Path
) -> None:
    asked = ("scripts/acceptance", "--email", EMAIL, "--state", str(tmp_path), "--claims", "deploy-mpi")
    done = shell.run(*asked, "--account", ACCOUNT, "--limit-usd", "0.5")
    assert done.status == 1
    assert "USD are more than the limit" in done.text
    assert standing(shell) == []
