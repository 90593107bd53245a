"""F43: after Ctrl-C in `cdk deploy` CloudFormation goes on or waits, and the next deployment finishes it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.conftest import ROOT, Shell
from tests.end_to_end.in_process import delete
from tests.end_to_end.test_cdk_cli import APPROVED, cdk, log_groups, value_of_setting

pytestmark = pytest.mark.cdk

STACK = "changing"
PATIENCE_SECONDS = 120.0
LOOK_AGAIN_SECONDS = 0.1  # the deploy needs the processors that looking takes
# CloudFormation waits for the first resource for as long as Systems Manager throttles it.
HOLD = ("slipway", "yard", "faults", "add", "ssm", "PutParameter", "throttle", "--always")
GO_ON = ("slipway", "yard", "faults", "clear")


@pytest.fixture(autouse=True)
def leave_nothing(shell: Shell) -> Iterator[None]:
    yield
    shell.must(*GO_ON)
    delete(shell, [STACK])
    assert log_groups(shell) == set()


def state(shell: Shell) -> str:
    found = shell.client("cloudformation").list_stacks()["StackSummaries"]
    return next((each["StackStatus"] for each in found if each["StackName"] == STACK), "")


def interrupted_once(shell: Shell, folder: Path, status: str) -> str:
    """Press Ctrl-C in a deploy as soon as its stack is in this state, and return what it printed."""
    deploy = subprocess.Popen(
        cdk(folder, "deploy", *APPROVED),
        cwd=ROOT,
        env=dict(shell.environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    while state(shell) != status:
        assert deploy.poll() is None, "it ended before it was interrupted"
        assert time.monotonic() < deadline, f"the stack is {state(shell)!r}, and never {status}"
        time.sleep(LOOK_AGAIN_SECONDS)
    os.killpg(deploy.pid, signal.SIGINT)
    text, _ = deploy.communicate(timeout=PATIENCE_SECONDS)
    return text


def test_the_next_deploy_waits_for_the_one_that_was_interrupted_and_finds_it_done(
    shell: Shell, tmp_path: Path
) -> None:
    shell.must(*HOLD)
    interrupted_once(shell, tmp_path, "CREATE_IN_PROGRESS")
    shell.must(*GO_ON)
    shell.must(*cdk(tmp_path, "deploy", *APPROVED))
    assert state(shell) in ("CREATE_COMPLETE", "UPDATE_COMPLETE")
    assert value_of_setting(shell) == "first"
    assert log_groups(shell) == {"/changing/one"}


def test_a_stack_that_only_has_a_change_set_is_deployed_by_the_next_deploy(
    shell: Shell, tmp_path: Path
) -> None:
    """Ctrl-C between the change set and its execution leaves REVIEW_IN_PROGRESS, with nothing in it."""
    shell.must(*cdk(tmp_path, "deploy", *APPROVED, "--method", "prepare-change-set"))
    assert state(shell) == "REVIEW_IN_PROGRESS"
    shell.must(*cdk(tmp_path, "deploy", *APPROVED))
    assert state(shell) == "CREATE_COMPLETE"
    assert value_of_setting(shell) == "first"


@pytest.mark.long  # test_cdk_cli.py deploys again what failed
def test_a_stack_whose_create_was_rolled_back_is_made_anew(shell: Shell, tmp_path: Path) -> None:
    shell.client("logs").create_log_group(logGroupName="/changing/one")
    failed = shell.run(*cdk(tmp_path, "deploy", *APPROVED))
    assert failed.status != 0
    shell.client("logs").delete_log_group(logGroupName="/changing/one")
    shell.must(*cdk(tmp_path, "deploy", *APPROVED))
    assert state(shell) == "CREATE_COMPLETE"
