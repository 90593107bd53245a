"""The wheel works in clean environments and empty folders; see also end_to_end/test_readme_session.py."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from slipway._version import VERSION
from slipway.infra.patterns.images.payload import payload_of
from slipway.jobs.words.images.containers import image_names, image_tag
from slipway.jobs.words.installation import containers_folder
from tests.installed import Environment, make_environment

OWN_STACKS = Path(__file__).parents[1] / "docs" / "examples" / "own_stacks"
SAGEMAKER = """from slipway.infra import SageMakerCluster

CLUSTERS = (
    SageMakerCluster(
        name="twin",
        instance_type="ml.p4d.24xlarge",
        max_nodes=2,
        region="us-east-1",
        zone="us-east-1a",
        budget_usd_per_month=2000,
        alert_email="you@example.com",
    ),
)
"""


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return make_environment(tmp_path_factory.mktemp("plain"), wheel)


@pytest.fixture(scope="module")
def complete(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return make_environment(tmp_path_factory.mktemp("complete"), wheel, ["infra", "yard"])


def test_the_version_says_the_commit_of_what_is_no_release_and_the_extras(
    plain: Environment, tmp_path: Path
) -> None:
    said = plain.run("slipway", "--version", cwd=tmp_path)
    assert re.fullmatch(rf"slipway {re.escape(VERSION)}\+g[0-9a-f]{{9}} \(extras: none\)\n", said.stdout), (
        said
    )


def test_estimates_and_instances_need_no_extra(plain: Environment, tmp_path: Path) -> None:
    estimated = plain.run("slipway", "estimate", "bert_pretrain", "--on", "dl1.24xlarge", cwd=tmp_path)
    assert estimated.returncode == 0, estimated.stderr
    assert plain.run("slipway", "instance", "list", "--json", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("command", "needs", "extra"),
    [
        ("slipway yard up", "the yard needs moto, cfn-lint", "yard"),
        ("python -P -m slipway.infra", "the CDK app of Slipway needs aws-cdk-lib", "infra"),
    ],
)
def test_what_needs_an_extra_says_what_to_install(
    plain: Environment, tmp_path: Path, command: str, needs: str, extra: str
) -> None:
    refused = plain.run(*command.split(), cwd=tmp_path)
    assert refused.returncode == 1
    error, hint = refused.stderr.splitlines()
    assert error.startswith(f"error: {needs}")
    assert hint.startswith(f"hint: pip install 'slipway[{extra}]'")


def test_the_yard_starts_and_stops_from_the_wheel(complete: Environment, tmp_path: Path) -> None:
    up = complete.run("slipway", "yard", "up", cwd=tmp_path)
    down = complete.run("slipway", "yard", "down", cwd=tmp_path)
    assert (up.returncode, down.returncode) == (0, 0), f"{up.stderr}{down.stderr}"


def test_a_data_file_that_was_lost_is_named_with_what_to_do(plain: Environment, tmp_path: Path) -> None:
    lost = plain.packages / "slipway" / "jobs" / "words" / "catalogue" / "instances.csv"
    kept = lost.rename(tmp_path / "kept.csv")
    refused = plain.run("slipway", "instance", "list", cwd=tmp_path)
    kept.rename(lost)
    assert refused.returncode == 1
    error, hint = refused.stderr.splitlines()
    assert error == f"error: slipway is installed without its data files: {lost} is missing"
    assert hint.startswith("hint: install it again")


def test_images_have_the_tags_that_they_have_in_the_checkout(plain: Environment) -> None:
    here, there = containers_folder(), plain.packages / "slipway" / "containers"
    assert image_names(there) == image_names(here)
    assert {image_tag(there, name) for name in image_names(there)} == {
        image_tag(here, name) for name in image_names(here)
    }


def test_without_a_project_a_command_says_how_to_begin_one(plain: Environment, tmp_path: Path) -> None:
    refused = plain.run("slipway", "cluster", "list", cwd=tmp_path)
    assert refused.returncode == 1
    error, hint = refused.stderr.splitlines()
    assert "neither" in error
    assert hint == "hint: go to your project, or begin one: slipway init FOLDER"


def test_a_project_s_clusters_are_listed_from_a_folder_below_it(plain: Environment, tmp_path: Path) -> None:
    assert plain.run("slipway", "init", "own", cwd=tmp_path).returncode == 0
    (tmp_path / "own" / "below").mkdir()
    listed = plain.run("slipway", "cluster", "list", "--json", cwd=tmp_path / "own" / "below")
    assert [row["name"] for row in json.loads(listed.stdout)] == ["own"], listed.stderr
    assert f"project: {tmp_path / 'own'}" in listed.stderr.splitlines()


@pytest.mark.cdk
def test_a_project_s_templates_are_those_of_the_checkout(complete: Environment, tmp_path: Path) -> None:
    """The payload of a bake holds code and locks: the same files, byte for byte, bake the same AMI."""
    assert complete.run("slipway", "init", "own", cwd=tmp_path).returncode == 0
    declared = tmp_path / "own" / "clusters.py"
    over_mpi = declared.read_text(encoding="utf-8").replace("BatchCluster", "MpiCluster")
    declared.write_text(over_mpi.replace("job_attempts=3", "idle_minutes=30"), encoding="utf-8")
    made = complete.run("cdk", "synth", "--quiet", "-c", "own.max_nodes=3", cwd=tmp_path / "own")
    assert made.returncode == 0, made.stderr
    out = tmp_path / "own" / "cdk.out"
    (payload,) = out.glob("asset.*.zip")
    assert payload.read_bytes() == payload_of("cpu-mpi").content
    network = json.loads((out / "own-network.template.json").read_text(encoding="utf-8"))
    assert "/slipway/owners/own" in json.dumps(network)
    stacks = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
    project = json.loads((tmp_path / "own" / "cdk.json").read_text(encoding="utf-8"))["context"]
    assert stacks["own"]["properties"]["tags"] == project


@pytest.mark.cdk
@pytest.mark.long  # the daily run deploys it from the checkout in end_to_end/test_own_stacks.py
def test_a_users_own_app_adds_a_cluster_from_the_wheel(complete: Environment, tmp_path: Path) -> None:
    own = tmp_path / "own_stacks"
    shutil.copytree(OWN_STACKS, own)
    made = complete.run("cdk", "synth", "--quiet", cwd=own)
    assert made.returncode == 0, made.stderr
    names = {path.name.removesuffix(".template.json") for path in (own / "cdk.out").glob("*.template.json")}
    assert names >= {"own", "guest", "guest-network", "guest-storage"}
    gates = complete.run("python", "-P", "-m", "slipway.infra.verify", "cdk.out", cwd=own)
    assert (gates.returncode, gates.stderr) == (0, "gates: 5 templates, 0 findings\n")


@pytest.mark.cdk
@pytest.mark.slow
@pytest.mark.long  # jobs/cloud/test_owners.py and preflight/test_checks.py test who is refused
def test_another_project_cannot_deploy_over_a_cluster_of_the_same_name(
    complete: Environment, tmp_path: Path
) -> None:
    one, two = (_project_of_sagemaker(complete, tmp_path / name) for name in ("one", "two"))
    assert complete.run("slipway", "yard", "up", cwd=tmp_path).returncode == 0
    try:
        yard = _yard_variables(complete, tmp_path)
        bootstrapped = complete.run("cdk", "bootstrap", "aws://123456789012/us-east-1", cwd=one, more=yard)
        assert bootstrapped.returncode == 0, bootstrapped.stderr
        deploy = ("cdk", "deploy", "twin-network", "--require-approval", "never")
        deployed = complete.run(*deploy, cwd=one, more=yard)
        assert deployed.returncode == 0, deployed.stderr
        refused = complete.run(*deploy, cwd=two, more=yard)
        assert refused.returncode == 1
        assert "'/slipway/owners/twin' already exists" in f"{refused.stdout}{refused.stderr}"
        checked = [
            complete.run("slipway", "preflight", "twin", "--json", cwd=folder, more=yard).stdout
            for folder in (one, two)
        ]
        destroyed = complete.run("slipway", "cluster", "destroy", "twin", "--yes", cwd=two, more=yard)
    finally:
        complete.run("slipway", "yard", "down", cwd=tmp_path)
    assert [_check(preflight) for preflight in checked] == ["ok", "failed"]
    assert "error: cluster twin belongs to project twin-" in destroyed.stderr


def _project_of_sagemaker(environment: Environment, folder: Path) -> Path:
    """Begin a project whose cluster needs no AMI, and so no bake."""
    assert (
        environment.run("slipway", "init", str(folder), "--name", "twin", cwd=folder.parent).returncode == 0
    )
    (folder / "clusters.py").write_text(SAGEMAKER, encoding="utf-8")
    return folder


def _yard_variables(environment: Environment, folder: Path) -> dict[str, str]:
    """Return what `eval "$(slipway yard env)"` sets."""
    shown = environment.run("bash", "-c", 'eval "$(slipway yard env)"; env -0', cwd=folder).stdout
    pairs = dict(pair.split("=", 1) for pair in shown.split("\0") if "=" in pair)
    return {name: value for name, value in pairs.items() if name.startswith(("AWS_", "NO_PROXY", "no_proxy"))}


def _check(preflight: str) -> str:
    found = {row["check"]: row["outcome"] for row in json.loads(preflight)}
    return str(found["project"])
