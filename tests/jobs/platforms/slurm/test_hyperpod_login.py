"""A cluster on HyperPod takes no command of Systems Manager: who submits is told how to reach it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from botocore.session import Session

from slipway.jobs.platforms.slurm import login_node, platform
from slipway.jobs.platforms.slurm.login_node import NoCommands
from slipway.jobs.words.job import Job
from slipway.jobs.words.recipes import find_recipe
from slipway.jobs.words.slurm.hyperpod import CAPACITY, session_target
from tests.jobs.words.test_targets import SLURM_TARGET

POD = replace(
    SLURM_TARGET, name="pod", capacity=CAPACITY, scheduler_cluster="abcdefghijkl", login_group="controller"
)


def test_submitting_says_in_one_line_why_not_and_in_another_what_to_do() -> None:
    job = Job(name="smoke", recipe="smoke", nodes=1)
    with pytest.raises(NoCommands, match="'pod' is on HyperPod, whose nodes take no commands") as refused:
        platform.prepare(job, find_recipe("smoke"), POD, ())
    assert "sagemaker-cluster:abcdefghijkl_controller-INSTANCE" in refused.value.hint
    assert "--cluster-name pod" in refused.value.hint


def test_asking_for_its_jobs_says_the_same() -> None:
    with pytest.raises(NoCommands):
        login_node.read_answer(POD)


def test_systems_managers_own_model_takes_no_node_of_hyperpod_for_a_command() -> None:
    model = Session().get_service_model("ssm")
    pattern = model.shape_for("InstanceId").metadata["pattern"]
    assert "sagemaker-cluster" not in pattern
    assert len(session_target("abcdefghijkl", "controller", "i-0123456789abcdef0")) < 400
