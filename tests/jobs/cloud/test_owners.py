"""A cluster belongs to the project that deployed it, and another project is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.jobs.cli import cli
from slipway.jobs.cloud.deployed import refuse_foreign
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.installation import find_project
from slipway.jobs.words.names import owner_parameter
from tests.yard.conftest import RunningYard

REGION = "us-east-1"


def test_a_cluster_of_another_project_is_refused_with_the_name_of_its_own(
    yard_shell: RunningYard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody deploys over it, either: CloudFormation creates a parameter of one name only once."""
    for name in ("one", "two"):
        assert cli.run(["init", str(tmp_path / name), "--name", "twin"]) == 0
    owner = find_project(tmp_path / "one").name
    assert owner is not None
    monkeypatch.chdir(tmp_path / "one")
    refuse_foreign("twin", REGION)  # nobody owns it yet
    parameter = {"Name": owner_parameter("twin"), "Value": owner, "Type": "String"}
    yard_shell.client("ssm").put_parameter(**parameter)
    refuse_foreign("twin", REGION)
    monkeypatch.chdir(tmp_path / "two")
    with pytest.raises(SlipwayError, match=f"cluster twin belongs to project {owner}, and ") as refused:
        refuse_foreign("twin", REGION)
    assert refused.value.hint == f"work in the folder of {owner}: its cdk.json says so"
