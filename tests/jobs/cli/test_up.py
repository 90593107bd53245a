"""One command from a declaration to a cluster: what is missing, what it costs, one question, step by step."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs import output
from slipway.jobs.cli import up
from slipway.jobs.clusters.raising import missing_steps
from tests.jobs.clusters.preflight.test_checks import CLUSTER, READY, need
from tests.jobs.conftest import Slipway
from tests.yard.conftest import RunningYard

# In place of the CDK, which takes seconds: it notes its words, and synthesizes one stack that costs a
# controller's worth of nothing and an endpoint.
CDK = """#!{python}
import json, pathlib, sys
words = sys.argv[1:]
with open("{told}", "a") as told:
    told.write(" ".join(words) + "\\n")
if words[0] == "{failing}":
    sys.exit("the stack failed")
if words[0] == "synth":
    folder = pathlib.Path(words[words.index("--output") + 1])
    stack = {{"type": "aws:cloudformation:stack", "environment": "aws://unknown-account/us-east-1",
              "properties": {{"templateFile": "c6i.template.json"}}, "displayName": "c6i"}}
    (folder / "manifest.json").write_text(json.dumps({{"artifacts": {{"c6i": stack}}}}))
    endpoint = {{"Type": "AWS::EC2::VPCEndpoint", "Properties": {{"VpcEndpointType": "Interface"}}}}
    (folder / "c6i.template.json").write_text(json.dumps({{"Resources": {{"Endpoint": endpoint}}}}))
"""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """Return what a CDK in place of the real one was told."""
    notes, program = tmp_path / "told", tmp_path / "cdk"
    failing = getattr(request, "param", "none")
    program.write_text(CDK.format(python=sys.executable, told=notes, failing=failing))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return notes


def test_what_is_missing_is_named_in_its_order_as_one_would_type_it() -> None:
    nothing = replace(READY, bootstrap_version=None, parameter=None, vcpus=(need(5.0),))
    assert [step.words for step in missing_steps(CLUSTER, nothing)] == [
        "cdk bootstrap aws://123456789012/us-east-1",
        "slipway cluster quota dl1 --request --wait",
        "cdk deploy slipway-bakery-gaudi-ecs",
        "slipway image bake gaudi-ecs --wait --region us-east-1",
        "cdk deploy dl1",
    ]


def test_where_nothing_is_missing_only_what_differs_is_deployed() -> None:
    (step,) = missing_steps(CLUSTER, READY)
    assert step.words == "cdk deploy dl1"


def test_an_ami_of_awss_own_is_never_missing() -> None:
    cluster = replace(CLUSTER, instance_type="p5.48xlarge")
    assert [step.words for step in missing_steps(cluster, replace(READY, parameter=None))] == [
        "cdk deploy dl1"
    ]


def test_a_dry_run_says_the_price_and_the_steps_and_does_nothing(
    yard_shell: RunningYard, slipway: Slipway, told: Path
) -> None:
    err = slipway.told("up", "c6i", "--dry-run")
    assert (
        "  cdk bootstrap aws://123456789012/us-east-1    # us-east-1 is not bootstrapped for the CDK" in err
    )
    assert "costs 7.30 USD a month while nothing runs, and what is stored" in err
    assert "while a job runs, up to 4 nodes of c6i.16xlarge at 2.72 USD/h" in err
    assert told.read_text().count("\n") == 1
    assert told.read_text().startswith("synth c6i --quiet --output ")


def test_without_a_person_nothing_is_created_unasked(
    yard_shell: RunningYard, slipway: Slipway, told: Path
) -> None:
    err = slipway.told("up", "c6i", code=1)
    assert "error: c6i would be brought up, and without a terminal nobody can be asked" in err
    assert "hint: slipway up c6i --yes" in err
    assert "deploy" not in told.read_text()


def test_each_step_is_said_and_timed_and_the_stacks_are_those_that_were_priced(
    yard_shell: RunningYard, slipway: Slipway, told: Path
) -> None:
    ssm = yard_shell.client("ssm")
    ssm.put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="33", Type="String")
    ssm.put_parameter(Name="/slipway/amis/cpu-mpi/id", Value="ami-1", Type="String")
    err = slipway.told("up", "c6i", "--yes")
    assert "step 1/1: cdk deploy c6i\n" in err
    assert "step 1/1: done after " in err
    assert "c6i takes jobs: slipway run --on c6i --nodes 1 -- python train.py\n" in err
    synthesized, deployed = told.read_text().splitlines()
    folder = synthesized.rpartition(" ")[2]
    assert deployed == f"deploy c6i --require-approval never --concurrency 4 --app {folder}"


def test_a_budget_that_counts_nothing_yet_is_warned_of_and_keeps_no_cluster_down(
    yard_shell: RunningYard, slipway: Slipway, told: Path
) -> None:
    tags = [{"Key": "slipway:cluster", "Value": "c6i"}]
    yard_shell.client("ec2").create_volume(
        AvailabilityZone="us-east-1a", Size=1, TagSpecifications=[{"ResourceType": "volume", "Tags": tags}]
    )
    err = slipway.told("up", "c6i", "--dry-run")
    assert "warning: cost allocation tag: slipway:cluster is inactive in Billing" in err


@pytest.mark.parametrize("told", ["bootstrap"], indirect=True)
def test_a_bootstrap_does_not_make_the_templates_again(
    yard_shell: RunningYard, slipway: Slipway, told: Path
) -> None:
    slipway.told("up", "c6i", "--yes", code=1)
    synthesized, bootstrap = told.read_text().splitlines()
    folder = synthesized.rpartition(" ")[2]
    assert bootstrap == f"bootstrap aws://123456789012/us-east-1 --app {folder}"


@pytest.mark.parametrize("told", ["bootstrap"], indirect=True)
def test_a_step_that_fails_ends_it_and_says_how_to_go_on(
    yard_shell: RunningYard, slipway: Slipway, told: Path
) -> None:
    err = slipway.told("up", "c6i", "--yes", code=1)
    assert "error: cdk bootstrap ended with 1" in err
    assert "hint: run it again: slipway up c6i" in err
    assert "deploy c6i" not in told.read_text()


def test_who_interrupts_a_deployment_is_told_that_it_goes_on_and_how_to_go_on_with_it(
    yard_shell: RunningYard, slipway: Slipway, told: Path
) -> None:
    """F43. Ctrl-C reaches the command and the CDK's program alike."""
    program, never = told.with_name("cdk"), 'if words[0] == "none":\n    sys.exit("the stack failed")'
    stop = f"import os; os.kill(os.getppid(), {signal.SIGINT:d}); sys.exit(1)"
    stop = f'if words[0] == "bootstrap":\n    {stop}'
    program.write_text(program.read_text().replace(never, stop))
    err = slipway.told("up", "c6i", "--yes", code=130)
    assert "CloudFormation finishes what cdk bootstrap has begun; then go on: slipway up c6i\n" in err
    assert "deploy c6i" not in told.read_text()


def test_a_cluster_that_is_declared_and_not_deployed_is_offered_to_be_brought_up(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    err = slipway.told("submit", "smoke", "--on", "c6i", "--nodes", "1", code=1)
    assert "error: no target is called 'c6i'" in err
    assert "hint: it is declared: slipway up c6i" in err


def test_run_offers_to_bring_up_a_declared_cluster_to_whoever_can_be_asked(
    yard_shell: RunningYard,
    slipway: Slipway,
    told: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").touch()
    asked: list[str] = []
    for module in (up, output):
        monkeypatch.setattr(module, "can_ask", lambda: True)

    def agree(question: str) -> bool:
        asked.append(question)
        return True

    monkeypatch.setattr(up, "ask", agree)
    words = ("run", "--on", "c6i", "--nodes", "1", "--folder", str(tmp_path / "code"))
    assert (
        "hint: it is declared: slipway up c6i" in slipway(*words, "--dry-run", "--", "python", "train.py")[2]
    )
    assert not told.exists()
    ssm = yard_shell.client("ssm")
    ssm.put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="33", Type="String")
    ssm.put_parameter(Name="/slipway/amis/cpu-mpi/id", Value="ami-1", Type="String")
    code, _, err = slipway(*words, "--", "python", "train.py")
    assert "no target is called 'c6i'; it is declared, and this brings it up first" in err
    assert asked == ["Do it?"]
    assert err.index("USD a month while nothing runs") < err.index("step 1/1: cdk deploy c6i\n")
    assert (code, "error: no target is called 'c6i'" in err) == (1, True), (
        "what stands for the CDK deploys nothing"
    )
