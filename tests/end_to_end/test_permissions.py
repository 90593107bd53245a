"""Each purpose's commands, by somebody who has only the printed policy, on a cluster of each kind."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.clusters.permissions import PolicyScope, grants_for, policy
from slipway.yard.endpoint import ACCOUNT, control
from tests.end_to_end.conftest import REGION, Shell, make_ready, yard_at
from tests.end_to_end.in_process import deploy
from tests.yard.asking import BY_ACCOUNT, make_role
from tests.yard.conftest import RunningYard

pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.long]

KINDS = {"dl1": "batch", "c6i": "mpi", "trn1": "slurm", "sagemaker": "sagemaker"}
SMALL = {"sagemaker": {"instance_type": "ml.m5.large", "volume_gb": "30"}}
RUN = (
    "slipway run --on {on} --nodes 1 --processes-per-node 1 --folder {code} --confirm-cost unknown "
    "--name {name} {more} -- {python} train.py"
)
# By purpose, in the order of a cluster's life; what begins with "-" may end with any code.
COMMANDS = {
    "submit": (
        RUN.replace("{name}", "short").replace("{more}", "--follow"),
        RUN.replace("{name}", "endless").replace("{more}", "--env SECONDS=600"),
        "slipway status endless",
        "slipway explain endless",
        "slipway cancel endless",
        "slipway cluster upload {code} --on {on}",
        "slipway cluster targets {on}",
        "-slipway submit smoke --on {on} --nodes 1 --dry-run",
    ),
    "read": (
        "slipway status --on {on} --nodes",
        "slipway status --all",
        "slipway logs short",
        "slipway explain short",
        "slipway report curve short",
        "slipway cluster list {on}",
        "slipway cluster targets {on}",
        "slipway instance refresh-prices",
    ),
    "deploy": ("-slipway preflight {on}", "slipway cluster quota {on} --request"),
    "destroy": ("slipway cluster empty {on} --yes", "slipway cluster destroy {on} --yes"),
}
# `cdk deploy` alone assumes these; tests/end_to_end/test_cdk_cli.py deploys by them.
BY_CDK = {("deploy", "sts:AssumeRole")}


def test_who_has_the_policy_of_bootstrap_bootstraps_and_does_it_again(tmp_path: Path) -> None:
    place = PolicyScope(cluster="dl1", kind="batch", region=REGION, account=ACCOUNT, image="")
    document: Any = policy("bootstrap", place)

    def become(yard: RunningYard) -> None:
        make_role(yard, "bootstrap", BY_ACCOUNT, *document["Statement"])
        control(yard, "POST", "/caller-role", "bootstrap")

    with yard_at(tmp_path / "yard", become) as shell:
        assert "bootstrapped." in shell.printed["cdk bootstrap"]
        again = shell.must("cdk", "bootstrap", "--app", "", f"aws://{ACCOUNT}/{REGION}")
        assert "bootstrapped (no changes)" in again
        yard = RunningYard(endpoint=shell.environment["AWS_ENDPOINT_URL"], home=tmp_path / "yard")
        assert control(yard, "GET", "/denied") == []


@pytest.fixture(params=sorted(KINDS))
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Shell, RunningYard, str]]:
    on = str(request.param)
    with yard_at(tmp_path / "yard", make_ready) as shell:
        deploy(shell, tmp_path / "assembly", on, max_nodes="2", **SMALL.get(on, {}))
        yield (
            shell,
            RunningYard(endpoint=shell.environment["AWS_ENDPOINT_URL"], home=tmp_path / "yard"),
            on,
        )


def test_a_purposes_commands_need_its_policy_and_no_less(
    cluster: tuple[Shell, RunningYard, str], tmp_path: Path
) -> None:
    shell, yard, on = cluster
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(
        "import os, time\nprint('step 1 loss 2.0', flush=True)\n"
        "time.sleep(float(os.environ.get('SECONDS', '1')))\n"
    )
    place = PolicyScope(cluster=on, kind=KINDS[on], region=REGION, account=ACCOUNT, image="")
    for purpose, commands in COMMANDS.items():
        document: Any = shell.data("slipway", "cluster", "permissions", on, "--for", purpose)
        statements = document["Statement"]
        make_role(yard, purpose, BY_ACCOUNT, *statements)
        control(yard, "POST", "/caller-role", purpose)
        for command in commands:
            words = command.removeprefix("-").format(on=on, code=code, python=sys.executable).split()
            ran = shell.run(*words)
            assert ran.status == 0 or command.startswith("-"), f"{purpose}: {' '.join(words)}\n{ran.text}"
        control(yard, "POST", "/caller-role", "")
        denied = [row for row in control(yard, "GET", "/denied") if row["role"] == purpose]
        assert denied == [], json.dumps(denied, indent=1)
        used = {
            row["action"]
            for row in control(yard, "GET", "/permissions")
            if row["role"] == purpose and row["used"]
        }
        always = {
            action for grant in grants_for(purpose, place) if not grant.when for action in grant.actions
        }
        unused = {action for action in always - used if (purpose, action) not in BY_CDK}
        assert not unused, f"{purpose} on {on} allows what no command calls: {sorted(unused)}"
