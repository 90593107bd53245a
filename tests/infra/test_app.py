"""The app makes every declared cluster, asks no service, and tells each mistake in one line."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3

import slipway.infra.app
from slipway.infra.__main__ import unpack_anywhere
from slipway.infra.app import build
from slipway.infra.declare.cdk_json import feature_flags
from slipway.infra.declare.machine_images import MachineImage
from slipway.infra.declare.types import Cluster
from tests.infra.synthesis import CLUSTER, MPI_CLUSTER, of_type

ROOT = Path(__file__).parents[2]
NAMES = (
    *("AlarmName", "AutoScalingGroupName", "ComputeEnvironmentName", "DashboardName", "JobQueueName"),
    *("LaunchTemplateName", "LogGroupName", "Name", "RepositoryName", "RoleName"),
)
STACKS = {"dl1-network", "dl1-storage", "dl1-observability", "dl1-images", "dl1"}
NETWORK = "slipway-bakery-network-us-east-1"
BAKERIES = {
    NETWORK,
    "slipway-bakery-cpu-mpi",
    "slipway-bakery-gaudi-ecs",
    "slipway-bakery-gaudi-mpi",
    "slipway-bakery-neuron-slurm",
}
ONE_CLUSTER = """from slipway.infra.clusters import CLUSTERS as ALL

CLUSTERS = tuple(cluster for cluster in ALL if cluster.name == "dl1")
MACHINE_IMAGES = ()
"""
OTHER_STACKS = {
    f"{cluster}{part}"
    for cluster in ("c6i", "dl1-mpi", "trn1", "sagemaker")
    for part in ("", "-network", "-storage", "-observability")
}


def synthesized(folder: Path, project: Path = ROOT, /, **context: object) -> subprocess.CompletedProcess[str]:
    """Run the app as the CDK's command line does."""
    return subprocess.run(
        [sys.executable, "-m", "slipway.infra"],
        cwd=project,
        env={
            **os.environ,
            "CDK_OUTDIR": str(folder),
            "CDK_CONTEXT_JSON": json.dumps({**feature_flags(), **context}),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def app_of(**changes: object) -> cdk.App:
    app = cdk.App(context=dict(feature_flags()))
    build(app, [replace(CLUSTER, **changes)])  # type: ignore[arg-type]  # settings of any type
    return app


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("assembly")
    done = synthesized(folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_command_line_gets_the_stacks_of_every_declared_cluster(assembly: Path) -> None:
    assert {path.name.removesuffix(".template.json") for path in assembly.glob("*.template.json")} == (
        STACKS | OTHER_STACKS | BAKERIES
    )
    # Clusters of several projects in one account are kept apart like these: no name occurs twice.
    given = [each for path in assembly.glob("*.template.json") for each in names_given(path)]
    assert len(given) > 50
    assert [each for each, count in Counter(given).items() if count > 1] == []


def names_given(template: Path) -> Iterator[tuple[str, str]]:
    """Yield the type and name of each resource that we name; CloudFormation names the others."""
    for resource in json.loads(template.read_text(encoding="utf-8"))["Resources"].values():
        for key in NAMES:
            if isinstance(name := resource.get("Properties", {}).get(key), str):
                yield resource["Type"], name


def test_no_cluster_waits_for_a_bakery(assembly: Path) -> None:
    artifacts = json.loads((assembly / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
    needed = {stack: artifacts[stack].get("dependencies", []) for stack in STACKS | OTHER_STACKS | BAKERIES}
    for stack in BAKERIES:
        assert [each for each in needed.pop(stack) if not each.endswith(".assets")] == [*{NETWORK} - {stack}]
    assert all(not BAKERIES & {*others} for others in needed.values())


def test_a_setting_of_the_context_reaches_the_template(tmp_path: Path) -> None:
    """Use a project with one cluster, because the checkout takes seconds to write all templates."""
    (tmp_path / "cdk.json").write_text("{}", encoding="utf-8")
    (tmp_path / "clusters.py").write_text(ONE_CLUSTER, encoding="utf-8")
    done = synthesized(tmp_path / "out", tmp_path, **{"dl1.max_nodes": "4"})
    assert done.returncode == 0, done.stderr
    template = json.loads((tmp_path / "out" / "dl1.template.json").read_text(encoding="utf-8"))
    (pool,) = of_type(template, "AWS::Batch::ComputeEnvironment").values()
    assert pool["ComputeResources"]["MaxvCpus"] == 4 * 96


def build_with_an_open_bucket(
    app: cdk.App, _clusters: Sequence[Cluster], _images: Sequence[MachineImage], *, gated: bool
) -> None:
    s3.CfnBucket(cdk.Stack(app, "Stack"), "Open")
    build(app, [], gated=gated)


@pytest.mark.parametrize("validation", ["true", "false"])
def test_cdk_nag_stops_a_deployment_unless_somebody_turns_validation_off_and_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], validation: str
) -> None:
    monkeypatch.setenv("CDK_VALIDATION", validation)
    monkeypatch.setattr(slipway.infra.app, "build", build_with_an_open_bucket)
    stopped = pytest.raises(RuntimeError, match="ValidationFailed")
    with nullcontext() if validation == "false" else stopped:
        assert slipway.infra.app.main() == 0
    assert ("no gate looks at these templates" in capsys.readouterr().err) is (validation == "false")


def test_every_mistake_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    wrong = {"dl1.max_nodez": "4", "dl1.instance_type": "dl1.24xlage"}
    done = synthesized(tmp_path, **wrong)
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 2
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*.template.json"))


def test_deploying_the_cluster_brings_along_what_it_stands_on() -> None:
    compute = app_of().synth().get_stack_by_name("dl1")
    below = {dependency.id for dependency in compute.dependencies if not dependency.id.endswith(".assets")}
    assert below == STACKS - {"dl1"}


def test_a_stack_is_in_the_declared_region_and_in_any_account_unless_one_is_declared() -> None:
    for account in (None, "123456789012"):
        for stack in app_of(account=account).node.children:
            assert isinstance(stack, cdk.Stack)
            assert stack.region == "us-east-1"
            assert (stack.account == account) == (account is not None)


def test_synthesis_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("synthesis opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(variable, raising=False)
    app_of().synth()


def test_every_taggable_resource_carries_the_cluster_and_the_users_tags() -> None:
    app = cdk.App(context=dict(feature_flags()))
    build(app, [replace(CLUSTER, tags={"team": "größe 東京"})])
    templates = [stack.template for stack in app.synth().stacks]
    vpc, *_ = [each for template in templates for each in of_type(template, "AWS::EC2::VPC").values()]
    tags = {tag["Key"]: tag["Value"] for tag in vpc["Tags"]}
    assert tags["slipway:cluster"] == "dl1"
    assert tags["team"] == "größe 東京"


def test_two_clusters_stand_side_by_side() -> None:
    app = cdk.App(context=dict(feature_flags()))
    build(app, [CLUSTER, replace(CLUSTER, name="second", vpc_cidr="10.40.0.0/16"), MPI_CLUSTER])
    names = [stack.stack_name for stack in app.synth().stacks]
    assert len(names) == len(set(names)) == 14


# The CDK app does not check types again that mypy has checked.
OUTPUT = """
import sys
from slipway.infra.__main__ import trust_types
trust_types()
import aws_cdk as cdk
stack = cdk.Stack(cdk.App(), "Stack")
cdk.CfnOutput(stack, "Name", value=stack.stack_name)
print("typeguard" in sys.modules)
"""


def test_the_app_makes_constructs_without_the_checker_of_types() -> None:
    done = subprocess.run([sys.executable, "-c", OUTPUT], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(("home", "told"), [("file", "disabled"), ("home", None)])
def test_a_home_that_takes_no_files_is_no_reason_not_to_synthesize(
    home: str, told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / home))
    monkeypatch.setattr(os, "environ", dict(os.environ))
    os.environ.pop("JSII_RUNTIME_PACKAGE_CACHE", None)
    unpack_anywhere()
    assert os.environ.get("JSII_RUNTIME_PACKAGE_CACHE") == told
