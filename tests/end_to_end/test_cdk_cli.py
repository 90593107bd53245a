"""What the unmodified CDK command line does in the yard, from bootstrap to nothing left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Shell
from tests.end_to_end.in_process import create, delete

pytestmark = pytest.mark.cdk

APPROVED = ("--require-approval", "never")


def cdk(folder: Path, verb: str, *arguments: str) -> tuple[str, ...]:
    app = "python -m tests.end_to_end.apps.changing"
    return ("cdk", verb, "--app", app, "--output", str(folder), *arguments)


def value_of_setting(shell: Shell) -> str:
    return str(shell.client("ssm").get_parameter(Name="/changing/setting")["Parameter"]["Value"])


def log_groups(shell: Shell) -> set[str]:
    found = shell.client("logs").describe_log_groups(logGroupNamePrefix="/changing/")["logGroups"]
    return {group["logGroupName"] for group in found}


@pytest.fixture(scope="module")
def assembly(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("assembly")
    shell.must(*cdk(folder, "synth", "--quiet"))
    return folder


@pytest.fixture
def deployed(shell: Shell, assembly: Path) -> Shell:
    """Begin with the stack that the first deployment makes, which two tests here watch."""
    create(shell, assembly)
    return shell


@pytest.fixture(autouse=True)
def leave_nothing(shell: Shell) -> Iterator[None]:
    yield
    delete(shell, ["changing"])
    assert log_groups(shell) == set()


def test_a_second_deploy_changes_nothing_and_says_so_and_destroy_leaves_nothing(
    shell: Shell, tmp_path: Path
) -> None:
    assert "(no changes)" not in shell.must(*cdk(tmp_path, "deploy", *APPROVED))
    assert "(no changes)" in shell.must(*cdk(tmp_path, "deploy", *APPROVED))
    shell.must("cdk", "destroy", "--force", "--app", str(tmp_path))  # as written last
    assert log_groups(shell) == set()


def test_diff_shows_what_would_change_and_changes_nothing(deployed: Shell, tmp_path: Path) -> None:
    text = deployed.must(*cdk(tmp_path, "diff", "-c", "value=second", "-c", "group=/changing/two"))
    assert "second" in text
    assert "replace" in text
    assert value_of_setting(deployed) == "first"
    assert log_groups(deployed) == {"/changing/one"}


def test_an_update_changes_in_place_and_replaces_where_it_must(deployed: Shell, tmp_path: Path) -> None:
    text = deployed.must(
        *cdk(tmp_path, "deploy", *APPROVED, "-c", "value=second", "-c", "group=/changing/two")
    )
    assert value_of_setting(deployed) == "second"
    assert log_groups(deployed) == {"/changing/two"}
    assert "changing.LogName = /changing/two" in text


def test_drift_names_what_was_changed_behind_the_stacks_back(deployed: Shell, tmp_path: Path) -> None:
    assert "No drift detected" in deployed.must(*cdk(tmp_path, "drift"))
    deployed.client("ssm").put_parameter(
        Name="/changing/setting", Value="elsewhere", Type="String", Overwrite=True
    )
    text = deployed.must(*cdk(tmp_path, "drift"))
    assert "Setting" in text
    assert "elsewhere" in text


def test_a_failed_create_is_rolled_back_and_can_be_deployed_again(shell: Shell, tmp_path: Path) -> None:
    taken = shell.client("ssm")
    taken.put_parameter(Name="/changing/taken", Value="mine", Type="String")
    failed = shell.run(*cdk(tmp_path, "deploy", *APPROVED, "-c", "break=true"))
    taken.delete_parameter(Name="/changing/taken")
    assert failed.status != 0
    assert "ROLLBACK_COMPLETE" in failed.text
    assert "/changing/taken" in failed.text
    assert log_groups(shell) == set()
    shell.must(*cdk(tmp_path, "deploy", *APPROVED))
    assert value_of_setting(shell) == "first"


def test_a_failed_update_is_undone_in_place_changes_too(deployed: Shell, tmp_path: Path) -> None:
    outside = deployed.client("ssm")
    outside.put_parameter(Name="/changing/taken", Value="mine", Type="String")
    changes = ("-c", "break=true", "-c", "value=second", "-c", "group=/changing/two")
    failed = deployed.run(*cdk(tmp_path, "deploy", *APPROVED, *changes))
    outside.delete_parameter(Name="/changing/taken")
    assert failed.status != 0
    assert "UPDATE_ROLLBACK_COMPLET" in failed.text  # the CDK cuts the column there
    assert value_of_setting(deployed) == "first"
    assert log_groups(deployed) == {"/changing/one"}
