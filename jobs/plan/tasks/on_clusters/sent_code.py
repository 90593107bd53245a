"""Send the folder with the code of tasks, as `slipway run` does: nodes import the tasks' modules from it.

Code that nodes could not import from it by a module's name is refused before anything is sent.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slipway.containers.runtime.contract import variables
from slipway.containers.runtime.errors import Refusal
from slipway.containers.tasks.description import TaskDescription
from slipway.jobs.cloud import aws
from slipway.jobs.cloud.deployed import find_target_by_name
from slipway.jobs.code.command_job import RECIPE, OwnCommand, command_settings
from slipway.jobs.code.packing import PackedProject, pack_project, upload_project
from slipway.jobs.code.user_modules import CannotTravel, UserModule, find_module, folder_of
from slipway.jobs.plan.search.model import Pool
from slipway.jobs.plan.tasks.task import Task, refuse_like_named
from slipway.jobs.plan.techniques.techniques import doubling
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import Job
from slipway.jobs.words.launch_environment import launch_environment
from slipway.jobs.words.run import AGREED_UNSAID, Agreed, price_of
from slipway.jobs.words.targets import Target

TRAIN, TRY = "slipway.containers.tasks.train", "slipway.containers.tasks.trial"


def named_tasks(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks if their names are unique and other processes can find their code."""
    try:
        return refuse_like_named(tasks)
    except Refusal as refusal:
        raise CannotTravel(refusal.message, hint=refusal.hint) from None


@contextmanager
def packed_code(tasks: Sequence[Task]) -> Iterator[PackedProject]:
    """Pack the folder that the tasks' modules are imported from; refuse what would not arrive."""
    found = [module for task in tasks for module in _modules(task)]
    folder = folder_of(found)
    with tempfile.TemporaryDirectory(prefix="slipway-tasks-") as scratch:
        yield pack_project(folder, Path(scratch) / "folder.tar.gz")


def send_code(packed: PackedProject, target: Target) -> None:
    """Upload the folder to the cluster's bucket, unless it is there."""
    upload_project(packed, target, aws.client("s3", target.region))


def task_settings(
    module: str, task: TaskDescription, settings: Mapping[str, str], source: str
) -> dict[str, str]:
    """Return the settings of the recipe `command` that start a rank of the task."""
    told = {**settings, "task": json.dumps(task.as_json())}
    words = [word for name, value in told.items() for word in ("--set", f"{name}={value}")]
    return command_settings(OwnCommand(words=("python", "-m", module, *words)), source)


def _modules(task: Task) -> Iterator[UserModule]:
    described = task.describe()
    for what, code in (
        ("load_model", described.load_model),
        ("load_dataloader", described.load_dataloader),
        ("the loss", described.loss),
    ):
        words = f"{what} of task '{task.name}'"
        if code.file is not None:
            raise CannotTravel(
                f"{words} is defined in {Path(code.file).name}, the script that runs, which nodes do not run",
                hint="move it to a module beside the script, such as models.py, and import it from there",
            )
        if module := find_module(code, words):
            yield module


# The clusters for tasks, as pools of a plan: each task takes whole nodes of one cluster.


class NoClusters(SlipwayError):
    """Reports clusters that tasks cannot be sent to."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOrder:
    """Hold which clusters to use, the most ranks of a node, and what a plan or a trial may cost."""

    names: tuple[str, ...]
    most_ranks: int | None = None  # of a node; None: one per device
    agreed: Agreed = AGREED_UNSAID

    @classmethod
    def of(cls, names: Sequence[str], most_ranks: int | None, agreed: Agreed) -> ClusterOrder:
        """Build the order; refuse names that are no list of clusters, and a node without ranks."""
        if isinstance(names, str) or not names or len(set(names)) < len(names):
            raise NoClusters(
                f"on is {names!r}, and names of clusters are wanted, each once",
                hint='write on=["dl1"], or leave it out to train here; slipway cluster targets lists them',
            )
        if most_ranks is not None and most_ranks < 1:
            raise NoClusters(f"devices is {most_ranks}", hint="give at least 1, or leave it out")
        return cls(names=tuple(names), most_ranks=most_ranks, agreed=agreed)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCluster:
    """Hold a cluster as tasks see it."""

    target: Target
    ranks_per_node: int
    nodes: int  # that may be shared out

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def pool(self) -> Pool:
        hardware, price = instance_type(self.target.instance_type), price_of(self.target)
        return Pool(
            type=hardware.name,
            nodes=self.nodes,
            devices_per_node=1,  # a job takes whole nodes
            price_per_hour=float(price.usd_per_hour) if price else 0.0,
            is_spot=self.target.is_spot,
            cluster=self.name,
        )

    def counts(self, wanted: Collection[int] | None) -> list[int]:
        """Return the device counts to try: of 1, 2, 4, … and all nodes, or those wanted that fill nodes."""
        nodes = doubling(self.nodes) if wanted is None else range(1, self.nodes + 1)
        every = [self.ranks_per_node * count for count in nodes]
        return [count for count in every if wanted is None or count in wanted]

    def nodes_of(self, devices: int) -> int:
        return devices // self.ranks_per_node


def find_clusters(order: ClusterOrder) -> list[TaskCluster]:
    found = []
    for name in order.names:
        target = find_target_by_name(name, None)
        asked = launch_environment(Job(name="task", recipe=RECIPE, nodes=1), target, "task")
        usual = int(asked[variables.PROCESSES_PER_NODE])
        found.append(
            TaskCluster(
                target=target,
                ranks_per_node=usual if order.most_ranks is None else min(usual, order.most_ranks),
                nodes=1
                if target.kind == "mpi"
                else target.max_nodes,  # an MPI cluster runs one job at a time
            )
        )
    return found
