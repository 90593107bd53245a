"""Fixtures: a yard with a fast clock, whose AWS Batch runs tiny processes on each tier of isolation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from slipway.jobs.words.run import RETRY_RULES
from slipway.yard import process
from slipway.yard.endpoint import control
from slipway.yard.machines.isolation.tiers import TIER_VARIABLE, TIERS, best_tier
from slipway.yard.machines.settings import CLOCK_VARIABLE, STOP_VARIABLE
from tests.waiting import until
from tests.yard.accounts import raise_quotas
from tests.yard.conftest import RunningYard

# The program that nodes of several tests run.
FOREVER = "import signal\nprint('ready', flush=True)\nwhile True: signal.pause()"
NODE = "import os, sys, signal\nnode = int(os.environ['AWS_BATCH_JOB_NODE_INDEX'])\n"
ATTEMPT = "attempt = int(os.environ['AWS_BATCH_JOB_ATTEMPT'])\n"

ISOLATED = ("root", "user")
ENDED = ("SUCCEEDED", "FAILED")
LOG_GROUP = "jobs"
WORDS = {"on_exit_code": "onExitCode", "on_status_reason": "onStatusReason", "on_reason": "onReason"}
# Deployed as in infra/patterns/batch/compute_environment.py.
DEPLOYED_RULES = [
    {WORDS.get(key, key): value for key, value in asdict(rule).items() if value} for rule in RETRY_RULES
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Hold a queue of at most four nodes of 96 vCPUs, and what tests ask of it."""

    yard: RunningYard
    batch: Any

    def define(self, name: str = "train", **changes: Any) -> str:
        """Return a multi-node definition like our deployed one, but without devices."""
        groups = [{"targetNodes": "0:", "container": container(**changes.pop("container", {}))}]
        properties = {"numNodes": 2, "mainNode": 0, "nodeRangeProperties": groups}
        retry = {"attempts": 3, "evaluateOnExit": DEPLOYED_RULES}
        given = {"nodeProperties": properties, "retryStrategy": retry, **changes}
        made = self.batch.register_job_definition(jobDefinitionName=name, type="multinode", **given)
        return str(made["jobDefinitionArn"])

    def define_single(self) -> str:
        made = self.batch.register_job_definition(
            jobDefinitionName="single", type="container", containerProperties=container(vcpus=1)
        )
        return str(made["jobDefinitionArn"])

    def submit(self, code: str, *, definition: str = "train", nodes: int = 2, **more: Any) -> str:
        """Let every node run this Python code."""
        override = {"targetNodes": "0:", "containerOverrides": {"command": ["python", "-c", code]}}
        overrides = {"numNodes": nodes, "nodePropertyOverrides": [override]}
        given = {"jobName": "trial", "jobQueue": "queue", "jobDefinition": definition, **more}
        return str(self.batch.submit_job(nodeOverrides=overrides, **given)["jobId"])

    def submit_single(self, code: str, *, definition: str = "single", **more: Any) -> str:
        given = {"jobName": "trial", "jobQueue": "queue", "jobDefinition": definition, **more}
        override = {"command": ["python", "-c", code]}
        return str(self.batch.submit_job(containerOverrides=override, **given)["jobId"])

    def describe(self, job: str) -> dict[str, Any]:
        (found,) = self.batch.describe_jobs(jobs=[job])["jobs"]
        return dict(found)

    def ended(self, job: str) -> dict[str, Any]:
        """Return the job once it has ended."""
        until(
            lambda: control(self.yard, "POST", "/await-job", {"job": job, "timeout_s": 5}) in ENDED,
            lambda: f"still {self.describe(job)['status']}: {self.lines(job)}",
        )
        return self.describe(job)

    def lines(self, job: str, node: int | None = 0) -> list[str]:
        """Return what a node printed in its last attempt."""
        found = self.describe(job if node is None else f"{job}#{node}")
        stream = found["container"].get("logStreamName")
        logs = self.yard.client("logs")
        if not stream:
            return []
        events = logs.get_log_events(logGroupName=LOG_GROUP, logStreamName=stream, startFromHead=True)
        return [event["message"] for event in events["events"]]

    def says(self, job: str, text: str, node: int | None = 0) -> None:
        until(lambda: text in self.lines(job, node))

    def kill_node(self, job: str, node: int) -> None:
        control(self.yard, "POST", "/kill-node", {"job": job, "node": node})


def container(vcpus: int = 96, **changes: Any) -> dict[str, Any]:
    resources = [{"type": "VCPU", "value": str(vcpus)}, {"type": "MEMORY", "value": "700000"}]
    options = {"awslogs-group": LOG_GROUP, "awslogs-stream-prefix": "job"}
    return {
        "image": "gaudi:1",
        "resourceRequirements": resources,
        "linuxParameters": {"initProcessEnabled": True},
        "logConfiguration": {"logDriver": "awslogs", "options": options},
        **changes,
    }


@pytest.fixture(scope="session")
def tier(request: pytest.FixtureRequest) -> str:
    """Return the best tier; test_tiers.py asks for each."""
    name = str(getattr(request, "param", best_tier().name))
    if not next(tier for tier in TIERS if tier.name == name).works():
        pytest.skip(f"this machine cannot make the namespaces of tier '{name}'")
    return name


@pytest.fixture(scope="session")
def batch_yard(tier: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningYard]:
    home = tmp_path_factory.mktemp("batch") / "home"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {TIER_VARIABLE: tier, STOP_VARIABLE: "0.5", CLOCK_VARIABLE: "0.001"}.items():
            patch.setenv(name, value)
        started = process.up(folder=home)
    yield RunningYard(endpoint=started.state.endpoint, home=home)
    process.down(folder=home)


@pytest.fixture
def cluster(batch_yard: RunningYard) -> Cluster:
    control(batch_yard, "POST", "/reset")  # ends what an earlier test left running
    return new_cluster(batch_yard)


def new_cluster(yard: RunningYard) -> Cluster:
    raise_quotas(yard)
    batch = yard.client("batch")
    yard.client("logs").create_log_group(logGroupName=LOG_GROUP)
    resources = compute_resources(yard)
    made = batch.create_compute_environment(
        computeEnvironmentName="pool", type="MANAGED", computeResources=resources
    )
    order = [{"order": 1, "computeEnvironment": made["computeEnvironmentArn"]}]
    limits = [limit("MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE")]
    batch.create_job_queue(
        jobQueueName="queue", priority=1, computeEnvironmentOrder=order, jobStateTimeLimitActions=limits
    )
    cluster = Cluster(yard=yard, batch=batch)
    cluster.define()
    return cluster


def limit(reason: str) -> Mapping[str, Any]:
    return {"reason": reason, "state": "RUNNABLE", "maxTimeSeconds": 600, "action": "CANCEL"}


def compute_resources(yard: RunningYard) -> dict[str, Any]:
    ec2, iam = yard.client("ec2"), yard.client("iam")
    network = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=network, CidrBlock="10.0.0.0/20")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=network)["GroupId"]
    profile = iam.create_instance_profile(InstanceProfileName="node")["InstanceProfile"]["Arn"]
    return {
        "type": "EC2",
        "minvCpus": 0,
        "maxvCpus": 384,
        "instanceTypes": ["dl1.24xlarge"],
        "subnets": [subnet],
        "securityGroupIds": [group],
        "instanceRole": profile,
    }


def exit_codes(found: Mapping[str, Any]) -> Sequence[int | None]:
    return [attempt["container"].get("exitCode") for attempt in found["attempts"]]
