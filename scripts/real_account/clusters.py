"""List the small clusters to deploy, and their order. To add a stage, add a row to STAGES."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from scripts.real_account.account import ROOT, Account, CommandFailed
from slipway.jobs.cloud.aws import Unanswered, ask_all, reader
from slipway.jobs.words.images.amis import bakery_stack_name
from slipway.jobs.words.names import stack_name

NODES = 2
_QUIETLY = ("--require-approval", "never", "--concurrency", "4")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallCluster:
    """Describes a declared cluster with the settings that make it cheap."""

    name: str
    image: str | None  # of its AMI; None: AWS maintains it, or SageMaker provides the machines
    instance_type: str
    settings: Mapping[str, str]
    parts: tuple[str, ...] = ("network", "storage", "observability")
    folder: Path = ROOT  # of the project that declares it
    nodes: int = NODES
    most_hours: float | None = None  # the most that a machine of it can run; None: the whole run

    @property
    def baked(self) -> str:
        """Return the image that its bakery bakes."""
        assert self.image is not None, f"{self.name} has no bakery"
        return self.image

    @property
    def stacks(self) -> tuple[str, ...]:
        return (stack_name(self.name), *(stack_name(self.name, part) for part in self.parts))

    def overrides(self, email: str) -> tuple[str, ...]:
        """Return the options of `cdk` and of preflight that turn the declared cluster into this one."""
        settings = {
            "instance_type": self.instance_type,
            "max_nodes": str(self.nodes),
            "keep_data": "false",
            "budget_usd_per_month": "30",
            "alert_email": email,
            **self.settings,
        }
        return tuple(word for key, value in settings.items() for word in ("-c", f"{self.name}.{key}={value}"))


MPI = SmallCluster(
    name="c6i",
    image="cpu-mpi",
    instance_type="c6i.large",
    settings={"idle_minutes": "10", "root_volume_gib": "50"},
)
_OF_BATCH = ("network", "storage", "observability", "images")
# The DL1's own AMI, container image and job definition, on machines without the accelerator.
BATCH = SmallCluster(
    name="dl1",
    image="gaudi-ecs",
    instance_type="c6i.xlarge",
    parts=_OF_BATCH,
    settings={
        "machine_image": "gaudi-ecs",
        "image": "gaudi",
        "runnable_timeout_minutes": "10",
        "root_volume_gib": "100",
    },
)
# DL1 without AWS Batch, only as far as CloudFormation: with the AMI of the other MPI cluster, because the
# first bake of its own AMI stops until a checksum is written into its lock.
MPI_DL1 = SmallCluster(
    name="dl1-mpi",
    image="gaudi-mpi",
    instance_type="c6i.large",
    settings={
        "idle_minutes": "10",
        "root_volume_gib": "50",
        "machine_image": "cpu-mpi",
        "ami_parameter": "/slipway/amis/cpu-mpi/id",
    },
)
# Trn1's own controller, queue and AMI, with workers that have no accelerator.
SLURM = SmallCluster(
    name="trn1",
    image="neuron-slurm",
    instance_type="c6i.large",
    settings={"idle_minutes": "10", "root_volume_gib": "100", "machine_image": "neuron-slurm"},
)
# SageMaker ends a job after an hour at the latest; the tried one takes five minutes.
SAGEMAKER = SmallCluster(
    name="sagemaker",
    image=None,
    instance_type="ml.m5.large",
    settings={"volume_gb": "30", "job_timeout_hours": "1"},
    nodes=1,
    most_hours=1.0,
)
# AWS's own AMI and container, as in a new project: on processors, and on the cheapest GPUs.
CPU = SmallCluster(
    name="acceptance-cpu",
    image=None,
    instance_type="c6i.xlarge",
    parts=_OF_BATCH,
    settings={"runnable_timeout_minutes": "10", "root_volume_gib": "100", "job_timeout_hours": "1"},
    folder=Path(__file__).with_name("project"),
)
GPU = replace(CPU, name="acceptance-gpu", instance_type="g6.xlarge")
CLUSTERS = (MPI, CPU, GPU, BATCH, MPI_DL1, SLURM, SAGEMAKER)


def bakery_stacks(image: str, region: str) -> tuple[str, ...]:
    return (bakery_stack_name(image), bakery_stack_name(f"network-{region}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Describes a set of stacks: a bakery, or a cluster."""

    name: str
    cluster: SmallCluster
    is_bakery: bool

    def stacks(self, region: str) -> tuple[str, ...]:
        return bakery_stacks(self.cluster.baked, region) if self.is_bakery else self.cluster.stacks

    @property
    def owner(self) -> str:
        """Return the owner by which `slipway cluster leftovers` lists what the stage kept."""
        return self.cluster.baked if self.is_bakery else self.cluster.name

    def make(self, account: Account) -> None:
        stack = self.stacks(account.region)[0]
        account.run("cdk", "deploy", stack, *_QUIETLY, *self._context(account), folder=self.cluster.folder)

    def destroy(self, account: Account, stacks: tuple[str, ...]) -> None:
        context = self._context(account)
        account.run("cdk", "destroy", *stacks, "--force", *context, folder=self.cluster.folder)

    def _context(self, account: Account) -> tuple[str, ...]:
        alike = [cluster for cluster in CLUSTERS if cluster.folder == self.cluster.folder]
        return (
            "--output",
            str(account.log.parent / "cdk.out"),
            *(word for cluster in alike for word in cluster.overrides(account.email)),
        )


STAGES = (
    Stage(name="cpu", cluster=CPU, is_bakery=False),
    Stage(name="gpu", cluster=GPU, is_bakery=False),
    Stage(name="bakery-mpi", cluster=MPI, is_bakery=True),
    Stage(name="mpi", cluster=MPI, is_bakery=False),
    Stage(name="mpi-dl1", cluster=MPI_DL1, is_bakery=False),
    Stage(name="bakery-batch", cluster=BATCH, is_bakery=True),
    Stage(name="batch", cluster=BATCH, is_bakery=False),
    Stage(name="bakery-slurm", cluster=SLURM, is_bakery=True),
    Stage(name="slurm", cluster=SLURM, is_bakery=False),
    Stage(name="sagemaker", cluster=SAGEMAKER, is_bakery=False),
)
BY_NAME = {stage.name: stage for stage in STAGES}


def existing_stacks(account: Account) -> dict[str, str]:
    """Return the state of every stack of the region."""
    found = ask_all(reader("cloudformation", account.region), "DescribeStacks", "Stacks")
    if isinstance(found, Unanswered):
        raise CommandFailed(f"{found.action} gave no answer: {found.code}, {found.message}")
    return {
        stack["StackName"]: stack["StackStatus"]
        for stack in found
        if stack["StackStatus"] != "DELETE_COMPLETE"
    }
