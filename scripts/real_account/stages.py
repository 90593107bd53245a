"""What is made for the claims, in order, and how each is taken away again. A new stage is a row of STAGES."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.real_account.account import Account, CommandFailed
from scripts.real_account.clusters import (
    BATCH,
    CLUSTERS,
    MPI,
    MPI_DL1,
    SAGEMAKER,
    SLURM,
    SmallCluster,
    bakery_stacks,
)
from slipway.jobs.cloud.aws import Unanswered, ask_all, reader

_QUIETLY = ("--require-approval", "never", "--concurrency", "4")


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
        """Return the name under which `slipway leftovers` lists what it kept."""
        return self.cluster.baked if self.is_bakery else self.cluster.name

    def make(self, account: Account) -> None:
        stack = self.stacks(account.region)[0]
        account.run("cdk", "deploy", stack, *_QUIETLY, *self._context(account))

    def destroy(self, account: Account, stacks: tuple[str, ...]) -> None:
        account.run("cdk", "destroy", *stacks, "--force", *self._context(account))

    def _context(self, account: Account) -> tuple[str, ...]:
        return (
            "--output",
            str(account.log.parent / "cdk.out"),
            *(word for cluster in CLUSTERS for word in cluster.overrides(account.email)),
        )


STAGES = (
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
