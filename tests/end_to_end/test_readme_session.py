"""README's session is what its commands print, in its order, in a yard that nobody made ready.

test_training.py compares the commands that train.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.yard.services.imagebuilder.machine.base import reason_for_no_base
from tests.end_to_end.conftest import Shell
from tests.readme_session import never_printed, session

pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.build]

# Run, and compared, by test_training.py.
ELSEWHERE = ("slipway submit bert_pretrain", "slipway yard kill-node", "slipway logs")
MAKES_READY = ("slipway yard up", "eval", "cdk bootstrap")  # run by the fixture
REFUSED = "cdk deploy --all"
BAKE = "slipway bake gaudi-ecs"
BAKE_SECONDS = 900


def test_the_session_of_the_readme_prints_what_it_shows(fresh_shell: Shell, tmp_path: Path) -> None:
    # The gate looks at every template of every stack; here it would only take time.
    variables = {"CDK_OUTPUT": str(tmp_path), "CDK_VALIDATION": "false"}
    ready = Shell(environment={**fresh_shell.environment, **variables})
    for typed in session():
        if typed.command.startswith(ELSEWHERE):
            continue
        if typed.command.startswith(BAKE) and reason_for_no_base():
            ready.must("slipway", "yard", "stand-in", "gaudi-ecs")  # no bake here: it needs root
            continue
        if typed.command.startswith(MAKES_READY):
            done = [text for start, text in fresh_shell.printed.items() if typed.command.startswith(start)]
        else:
            ran = ready.run("bash", "-c", typed.command, timeout_s=BAKE_SECONDS)
            assert (ran.status != 0) is typed.command.startswith(REFUSED), ran.text
            done = [ran.text]
        assert never_printed(typed.lines, "\n".join(done)) == [], f"$ {typed.command}\n" + "\n".join(done)


def test_a_cluster_whose_ami_is_missing_is_refused_before_anything_of_it_stands(
    fresh_shell: Shell, tmp_path: Path
) -> None:
    deploy = ("env", "CDK_VALIDATION=false", "cdk", "deploy", "c6i", "--require-approval", "never")
    ran = fresh_shell.run(*deploy, "--output", str(tmp_path))
    assert ran.status != 0
    assert "/slipway/amis/cpu-mpi/id" in ran.text
    cloudformation = fresh_shell.client("cloudformation")
    for stack in cloudformation.describe_stacks()["Stacks"]:
        if stack["StackName"].startswith("c6i"):
            resources = cloudformation.list_stack_resources(StackName=stack["StackName"])
            assert resources["StackResourceSummaries"] == []
    assert fresh_shell.client("ec2").describe_vpc_endpoints()["VpcEndpoints"] == []
