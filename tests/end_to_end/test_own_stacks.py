"""The CDK app of docs/examples, with our cluster in its VPC, is deployed, used and destroyed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import ROOT, THROUGH_GATE, Shell

pytestmark = pytest.mark.cdk

NAME, OWN = "guest", "own"
STACKS = {NAME, f"{NAME}-images", f"{NAME}-network", f"{NAME}-observability", f"{NAME}-storage"}
RANKS = ("--nodes", "2", "--processes-per-node", "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnApp:
    """The example's folder, and commands in it."""

    folder: Path
    yard: Shell

    def must(self, *command: str) -> str:
        return self.yard.must("env", f"--chdir={self.folder}", *command)

    def run(self, *command: str) -> tuple[int, str]:
        done = self.yard.run("env", f"--chdir={self.folder}", *command)
        return done.status, done.text

    def data(self, *command: str) -> Any:
        return self.yard.data("env", f"--chdir={self.folder}", *command)

    def stacks(self) -> set[str]:
        found = self.yard.client("cloudformation").describe_stacks()["Stacks"]
        return {stack["StackName"] for stack in found} & {*STACKS, OWN}


@pytest.fixture(scope="module")
def app(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnApp]:
    folder = tmp_path_factory.mktemp("own") / "own_stacks"
    shutil.copytree(ROOT / "docs" / "examples" / "own_stacks", folder)
    own = OwnApp(folder=folder, yard=shell)
    shell.must(
        "env", f"--chdir={folder}", *THROUGH_GATE, "cdk", "deploy", "--all", "--require-approval", "never"
    )
    yield own
    own.must("cdk", "destroy", "--all", "--force", "--app", str(folder / "cdk.out"))
    assert own.stacks() == set()


def test_the_cluster_stands_in_the_network_of_the_app(app: OwnApp) -> None:
    assert app.stacks() == {*STACKS, OWN}
    ec2 = app.yard.client("ec2")
    of_cluster = [{"Name": "tag:slipway:cluster", "Values": [NAME]}]
    groups = ec2.describe_security_groups(Filters=of_cluster)["SecurityGroups"]
    (vpc,) = {group["VpcId"] for group in groups}
    tags = ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["Tags"]
    assert {"Key": "Name", "Value": "own/Vpc"} in tags


def test_commands_find_the_cluster_and_its_price_is_without_a_network(app: OwnApp) -> None:
    (row,) = app.data("slipway", "cluster", "list", "--json")
    assert (row["name"], row["state"]) == (NAME, "deployed, 5 stacks")
    assert "AWS::EC2::NatGateway" not in row["resources"]
    (target,) = [each for each in app.data("slipway", "cluster", "targets", "--json") if each["name"] == NAME]
    assert target["bucket"].startswith("own-results")
    _, checked = app.run("slipway", "preflight", NAME, "--json")
    checks, _ = json.JSONDecoder().raw_decode(checked)
    found = {check["check"]: check["outcome"] for check in checks}
    assert found["project"] == "ok"
    assert found["default security group"] == "ok"


def changed_copy(app: OwnApp, folder: Path, **changes: str) -> OwnApp:
    """Return the app with some text of its program replaced, and with the same stacks deployed."""
    shutil.copytree(app.folder, folder, ignore=shutil.ignore_patterns("cdk.out"))
    program = folder / "app.py"
    text = program.read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    program.write_text(text, encoding="utf-8")
    return OwnApp(folder=folder, yard=app.yard)


def test_destroy_says_what_to_do_where_the_app_has_the_cluster_no_longer(app: OwnApp, tmp_path: Path) -> None:
    other = changed_copy(app, tmp_path / "other", **{"for cluster in CLUSTERS:": "for cluster in ():"})
    status, said = other.run("slipway", "cluster", "destroy", NAME, "--yes")
    assert status == 1
    assert f"the CDK app in {other.folder} has no stack" in said
    assert "aws cloudformation delete-stack --region us-east-1 --stack-name guest" in said
    assert app.stacks() == {*STACKS, OWN}


def test_a_misspelt_cluster_in_the_context_stops_a_deployment_in_one_line(app: OwnApp) -> None:
    status, said = app.run("cdk", "deploy", "--all", "-c", "gest.max_nodes=1")
    assert status == 1
    assert said.splitlines()[0] == (
        "error: gest.max_nodes of the context: names the cluster 'gest', which is not declared; "
        "did you mean guest?"
    )


@pytest.mark.long  # the daily run has jobs on a cluster of this kind in test_training.py
def test_a_job_runs_there_and_is_refused_nothing(app: OwnApp) -> None:
    app.must("slipway", "image", "build", "gaudi")
    app.must("slipway", "submit", "smoke", "--on", NAME, *RANKS, "--name", "visit", "--follow")
    assert app.data("slipway", "status", "visit", "--json")["state"] == "succeeded"
    assert app.data("slipway", "yard", "denied", "--json") == []
    bucket = app.data("slipway", "cluster", "targets", NAME, "--json")["bucket"]
    kept = app.yard.client("s3").list_objects_v2(Bucket=bucket)["Contents"]
    assert any(each["Key"].startswith("builds/") for each in kept)


def test_the_bucket_stays_its_owners_with_all_that_is_in_it_when_the_cluster_goes(
    app: OwnApp, tmp_path: Path
) -> None:
    """The cluster is removed from a Stage of an app, where the CDK gives its stacks other names."""
    bucket = app.data("slipway", "cluster", "targets", NAME, "--json")["bucket"]
    for key in ("ours", "builds/of-the-cluster"):
        app.yard.client("s3").put_object(Bucket=bucket, Key=key, Body=b"1")
    status, said = app.run("slipway", "cluster", "empty", NAME, "--yes")
    assert status == 1
    assert "was given to it and is not its own" in said
    in_stage = {
        "app = cdk.App()": 'app = cdk.Stage(cdk.App(), "Prod")',
        "app.synth()": "app.node.root.synth()",
    }
    changed_copy(app, tmp_path / "staged", **in_stage).must("slipway", "cluster", "destroy", NAME, "--yes")
    assert app.stacks() == {OWN}
    left = {each["Key"] for each in app.yard.client("s3").list_objects_v2(Bucket=bucket)["Contents"]}
    assert left >= {"ours", "builds/of-the-cluster"}
