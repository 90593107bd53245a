"""The sagemaker cluster is deployed once into a new yard, and its owner is told what happens."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import ROOT, Shell
from tests.end_to_end.own_function import call_functions
from tests.end_to_end.own_project import STEPS, TRAIN_SLOWLY, begin_project, refuse_another_curve
from tests.end_to_end.training_cluster import (
    NAME,
    STACKS,
    deployed_cluster,
    request_received,
    stacks,
)
from tests.end_to_end.under_accelerate import refuse_ranks_that_train_alone_unsaid
from tests.yard.services.sagemaker.training_site import require_training

pytestmark = pytest.mark.cdk

FINE_TUNING = Path(__file__).parent / "apps" / "fine_tuning.py"
OWN_TRAINING = Path(__file__).parent / "apps" / "own_training.py"


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with deployed_cluster(tmp_path_factory.mktemp("cluster"), nodes=2) as shell:
        yield shell


@pytest.fixture(scope="module")
def target(deployed: Shell) -> dict[str, Any]:
    record = deployed.client("ssm").get_parameter(Name=f"/slipway/targets/{NAME}")["Parameter"]["Value"]
    found: dict[str, Any] = json.loads(record)
    return found


def test_one_command_deploys_all_of_it(deployed: Shell) -> None:
    assert stacks(deployed) >= STACKS


def test_the_target_names_what_there_is(deployed: Shell, target: dict[str, Any]) -> None:
    ec2 = deployed.client("ec2")
    (subnet,) = ec2.describe_subnets(SubnetIds=[target["subnet"]])["Subnets"]
    (group,) = ec2.describe_security_groups(GroupIds=[target["security_group"]])["SecurityGroups"]
    assert subnet["AvailabilityZone"] == target["zone"]
    assert group["VpcId"] == subnet["VpcId"]
    for rules in (group["IpPermissions"], group["IpPermissionsEgress"]):
        own = [pair["GroupId"] for rule in rules for pair in rule["UserIdGroupPairs"]]
        assert target["security_group"] in own
    role = target["execution_role"].rpartition("/")[2]
    trusted = deployed.client("iam").get_role(RoleName=role)["Role"]["AssumeRolePolicyDocument"]
    assert trusted["Statement"][0]["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    deployed.client("s3").head_bucket(Bucket=target["bucket"])


def test_nothing_runs_and_what_stands_costs_a_few_dollars(deployed: Shell) -> None:
    (found,) = [
        each for each in deployed.data("slipway", "cluster", "list", "--json") if each["name"] == NAME
    ]
    assert found["running_nodes"] == 0
    assert 0 < found["usd_per_month_idle"] < 10


def test_preflight_asks_sagemaker_and_not_ec2_for_quotas(deployed: Shell) -> None:
    ran = deployed.run("slipway", "preflight", NAME, "--json")
    checks, _ = json.JSONDecoder().raw_decode(ran.text)  # a summary follows, on standard error
    found = {each["check"]: each for each in checks}
    assert found["vCPU quota"]["outcome"] == "ok"
    assert found["machine image"]["outcome"] == "ok"
    failed = {name for name, each in found.items() if each["outcome"] == "failed"}
    # A fresh account may start none of the large types.
    assert failed <= {"alert e-mail", "cost allocation tag", "training instances"}, failed
    assert "training instances" in found


@pytest.mark.slow
def test_a_users_own_folder_is_brought_by_sagemaker_and_its_command_trains(
    deployed: Shell, tmp_path: Path
) -> None:
    require_training()
    pytest.importorskip("torch", reason="the extra 'training' is not installed")
    shutil.copy(OWN_TRAINING, tmp_path / "train.py")
    on = ("--on", NAME, "--nodes", "1", "--processes-per-node", "2", "--name", "own", "--follow")
    said = deployed.must(
        "slipway", "run", *on, "--folder", str(tmp_path), "--", "python", "train.py", "$(id)"
    )
    for rank in range(2):
        assert f"[{rank}] rank {rank} of 2: loss " in said
    assert "with ['$(id)'] in attempt-" in said
    run = deployed.data("slipway", "status", "own", "--json")
    (source,) = [
        each["DataSource"]["S3DataSource"]["S3Uri"]
        for each in request_received(deployed, run["name"])["InputDataConfig"]
        if each["ChannelName"] == "source"
    ]
    assert "/sources/" in source
    assert deployed.data("slipway", "yard", "denied", "--json") == []


@pytest.mark.slow
@pytest.mark.long  # other tests lose an instance, save to S3 and start a command
def test_the_script_of_a_project_that_loses_an_instance_resumes_and_ends_with_the_same_losses(
    deployed: Shell, target: dict[str, Any], tmp_path: Path
) -> None:
    require_training()
    pytest.importorskip("torch", reason="the extra 'training' is not installed")
    project = begin_project(deployed, tmp_path / "mine")
    on = ("--on", NAME, "--nodes", "2", "--processes-per-node", "1", "--name", "mine")
    told = project.must("slipway", "run", *on, "--", *TRAIN_SLOWLY)
    assert "share no files, so that SLIPWAY_CHECKPOINTS is s3://" in told
    project.follow_until("mine", "saved step 20")
    project.must("slipway", "yard", "kill-node", "mine", "1")
    log = project.must("slipway", "logs", "mine", "--follow")
    refuse_another_curve(log, project.folder)
    run = project.data("slipway", "status", "mine", "--json")
    assert (run["state"], len(run["attempts"])) == ("succeeded", 2)
    bucket, prefix = target["bucket"], f"jobs/{run['name']}/checkpoints/"
    kept = deployed.client("s3").list_objects_v2(Bucket=bucket, Prefix=prefix)
    assert [item["Key"].rpartition("/")[2] for item in kept["Contents"]] == ["last.pt"]
    assert deployed.data("slipway", "yard", "denied", "--json") == []


@pytest.mark.slow
@pytest.mark.long  # transformers is loaded six times
def test_a_script_that_saves_to_folders_alone_resumes_from_what_sagemaker_copied_of_them(
    deployed: Shell, tmp_path: Path
) -> None:
    require_training()
    pytest.importorskip("transformers", reason="the extra 'compare' is not installed")
    shutil.copy(FINE_TUNING, tmp_path / "train.py")
    on = ("--on", NAME, "--nodes", "2", "--per-node", "--name", "tuning", "--folder", str(tmp_path))
    words = ("env", f"STEPS={STEPS}", "torchrun", "train.py")
    deployed.must("slipway", "run", *on, "--checkpoints", "/opt/ml/checkpoints", "--", *words)
    deployed.follow_until("tuning", "'epoch': '0.7812'")  # step 50 of two ranks: step 40 is saved
    deployed.must("slipway", "yard", "kill-node", "tuning", "1")
    log = deployed.must("slipway", "logs", "tuning", "--follow")
    refuse_another_curve(log, tmp_path)


@pytest.mark.slow
@pytest.mark.long  # tests/containers/runtime/launch hold what is decided
def test_ranks_join_under_accelerate_and_who_trains_alone_is_told(deployed: Shell, tmp_path: Path) -> None:
    require_training()
    refuse_ranks_that_train_alone_unsaid(deployed, "sagemaker", tmp_path)


@pytest.mark.long  # tests/jobs/submit/test_functions.py does so without a cluster
def test_a_function_of_ones_own_returns_and_raises_on_two_nodes(deployed: Shell, tmp_path: Path) -> None:
    require_training()
    call_functions(deployed, "sagemaker", tmp_path)


@pytest.mark.slow
@pytest.mark.long  # the daily run fits an estimator on one instance in test_sdks.py
def test_the_estimator_of_the_examples_trains_on_two_instances_and_the_next_goes_on(
    deployed: Shell, target: dict[str, Any]
) -> None:
    require_training()
    pytest.importorskip("sagemaker", reason="needs SageMaker's SDK: scripts/set_up.py sagemaker")
    folder, told = ROOT / "docs" / "examples" / "sagemaker_estimator", json.dumps(target)
    own = {**deployed.environment, "SAGEMAKER_USER_CONFIG_OVERRIDE": "config.yaml"}
    shell = Shell(environment=own, folder=folder)
    said = [
        shell.must("bash", "-c", 'python estimator.py "$1" <<<"$2"', "bash", steps, told)
        for steps in ("20", "40")
    ]
    assert "step 20/20  loss" in said[0]
    assert "resuming from step" not in said[0]
    assert "resuming from step 20" in said[1]
    assert "step 40/40  loss" in said[1]
    assert said[1].count("step 40/40  loss") == 1, "each instance trained alone"
    assert deployed.data("slipway", "yard", "denied", "--json") == []
