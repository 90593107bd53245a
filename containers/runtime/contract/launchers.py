"""Find out which launcher started this process, and its rank: one function per launcher.

A new launcher is one function and one row of LAUNCHERS, placed before those whose variables it may inherit.
The facts of the backend (job, data, checkpoints, logs) are SLIPWAY_* variables under every launcher.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from slipway.containers.runtime import values
from slipway.containers.runtime.contract import settings, variables
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.contract.settings import RankPosition
from slipway.containers.runtime.linux import Machine
from slipway.containers.runtime.named_files import UnusableFile, read_text
from slipway.containers.runtime.values import InvalidContract, shown

# Parse the lists of nodes that launchers give: Slurm's host lists and task counts, SageMaker's JSON.
_RESOURCES = "opt/ml/input/config/resourceconfig.json"
_MOST_HOSTS = 10_000
_MOST_BYTES = 16 << 20
_BRACKETS = re.compile(r"\[([^\[\]]+)\]")
_TASKS = re.compile(r"(?P<tasks>[0-9]{1,6})(\(x(?P<times>[0-9]{1,6})\))?", re.ASCII)


def main_host_of_slurm(environment: Mapping[str, str]) -> str:
    """Return the first host of a list: node001 for `node[001-004,7],other`."""
    name = "SLURM_JOB_NODELIST"
    text = environment.get(name, "")
    if "[" in text.split(",", 1)[0]:
        first = _BRACKETS.sub(lambda found: re.split("[,-]", found[1])[0], text[: _end_of_first(text)])
    else:
        first = text.split(",", 1)[0]
    return values.address({name: first}, name)


def tasks_of_slurm_node(environment: Mapping[str, str], node: int) -> int:
    """Return the number of tasks of one node: 1 for the third node of `2(x2),1`."""
    text = environment.get("SLURM_TASKS_PER_NODE", "")
    remaining = node
    for part in text.split(","):
        found = _TASKS.fullmatch(part)
        if found is None:
            break
        times = int(found["times"] or 1)
        if remaining < times:
            return int(found["tasks"])
        remaining -= times
    raise InvalidContract(
        f"SLURM_TASKS_PER_NODE is {shown(text or None)}, and must count the tasks of node {node}"
    )


def hosts_of_sagemaker(environment: Mapping[str, str], root: Path) -> tuple[list[str], str]:
    """Return all hosts, algo-2 before algo-10, and the name of this one."""
    if "SM_CURRENT_HOST" in environment:
        source, current = "SM_HOSTS", environment["SM_CURRENT_HOST"]
        hosts = _json(environment.get("SM_HOSTS", ""), source)
    else:
        source = f"/{_RESOURCES}"
        try:
            text = read_text(root / _RESOURCES, _MOST_BYTES)
        except UnusableFile as error:
            raise InvalidContract(
                error.message, hint="SageMaker writes it before it starts a container"
            ) from None
        record = _json(text, source)
        fields = record if isinstance(record, dict) else {}
        hosts, current = fields.get("hosts"), str(fields.get("current_host"))
    if not isinstance(hosts, list) or not 1 <= len(hosts) <= _MOST_HOSTS or current not in hosts:
        raise InvalidContract(
            f"{source} is {shown(str(hosts))}, and must list the hosts, {shown(str(current))} among them"
        )
    checked = [values.address({source: str(host)}, source) for host in hosts]
    if len(set(checked)) != len(checked):
        raise InvalidContract(f"{source} is {shown(str(hosts))}, and names a host twice")
    return sorted(checked, key=_natural), str(current)


def _end_of_first(text: str) -> int:
    """Return the index of the first comma outside brackets."""
    inside = False
    for position, character in enumerate(text):
        inside = character == "[" or (inside and character != "]")
        if character == "," and not inside:
            return position
    return len(text)


def _natural(host: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"([0-9]+)", host)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]


def _json(text: str, source: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidContract(f"{source} is {shown(text)}, and must be JSON") from None


Environment = Mapping[str, str]
Reader = Callable[[Environment, Machine], RankPosition]

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """Recognise one launcher by its variables, and read the position of this process from them."""

    signs: tuple[frozenset[str], ...]  # any one set of variables, all present, gives the launcher away
    read: Reader

    def recognises(self, environment: Environment) -> bool:
        return any(sign <= environment.keys() for sign in self.signs)


def batch(environment: Environment, machine: Machine) -> RankPosition:
    """Read the position from AWS Batch, which starts one process per node and tells every node but the
    main one its address."""
    if "AWS_BATCH_JOB_NODE_INDEX" not in environment:
        return _alone(environment)  # a single-node job, or one of an array
    nodes = values.whole(environment, "AWS_BATCH_JOB_NUM_NODES", low=1, high=values.LARGEST_WORLD)
    main = values.whole(environment, "AWS_BATCH_JOB_MAIN_NODE_INDEX", high=nodes - 1, default=0)
    index = values.whole(environment, "AWS_BATCH_JOB_NODE_INDEX", high=nodes - 1)
    if index == main:
        address = machine.own_address()
    else:
        address = values.address(environment, "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS")
    return _one_a_node(environment, (index - main) % nodes, nodes, address)


_STEP = {
    "NUM_TASKS": "SLURM_NTASKS",
    "NUM_NODES": "SLURM_NNODES",
    "NODELIST": "SLURM_JOB_NODELIST",
    "TASKS_PER_NODE": "SLURM_TASKS_PER_NODE",
}


def slurm(environment: Environment, machine: Machine) -> RankPosition:
    """Read the position from srun, which starts one process per task. A batch script without srun runs
    only once."""
    step = {name: environment[f"SLURM_STEP_{name}"] for name in _STEP if f"SLURM_STEP_{name}" in environment}
    own = {**environment, **{_STEP[name]: value for name, value in step.items()}}
    world = values.whole(own, "SLURM_NTASKS", low=1, high=values.LARGEST_WORLD, default=1)
    nodes = values.whole(own, "SLURM_NNODES", low=1, high=world, default=1)
    if world > 1 and "SLURM_STEP_ID" not in environment:
        raise InvalidContract(
            f"SLURM_NTASKS is {world} but SLURM_STEP_ID is missing, so only this one process runs",
            hint="start it with srun",
        )
    node = values.whole(own, "SLURM_NODEID", high=nodes - 1)
    return RankPosition(
        node=node,
        nodes=nodes,
        rank=values.whole(own, "SLURM_PROCID", high=world - 1),
        world=world,
        local_rank=values.whole(own, "SLURM_LOCALID", high=world - 1),
        local_world=tasks_of_slurm_node(own, node) if nodes > 1 else world,
        main_address=_main_of_slurm(own) if nodes > 1 else LOOPBACK,
        main_port=settings.port_of(environment),
    )


def _main_of_slurm(environment: Environment) -> str:
    """Return the first node's address as the batch script gave it, which runs there; else that node's name.

    Slurm's name of a node need not be one that a name service knows.
    """
    if variables.MAIN_ADDRESS in environment:
        return values.address(environment, variables.MAIN_ADDRESS)
    return main_host_of_slurm(environment)


def sagemaker(environment: Environment, machine: Machine) -> RankPosition:
    """Read the position from SageMaker, which starts one process per host; its toolkit repeats its file as
    SM_*."""
    hosts, current = hosts_of_sagemaker(environment, machine.root)
    return _one_a_node(environment, hosts.index(current), len(hosts), hosts[0])


def open_mpi(environment: Environment, machine: Machine) -> RankPosition:
    """Read the position from Open MPI's mpirun."""
    names = {name: f"OMPI_COMM_WORLD_{name.upper()}" for name in ("rank", "size", "local_rank", "local_size")}
    return _mpi(environment, names)


def hydra(environment: Environment, machine: Machine) -> RankPosition:
    """Read the position from MPICH or Intel MPI. Slurm's pmi2 sets PMI_* too, but no local rank: `slurm`
    reads those."""
    names = {"rank": "PMI_RANK", "size": "PMI_SIZE", "local_rank": "MPI_LOCALRANKID"}
    return _mpi(environment, {**names, "local_size": "MPI_LOCALNRANKS"})


def torchrun(environment: Environment, machine: Machine) -> RankPosition:
    """Read the position from torchrun, or from anything that sets the same variables."""
    world = values.whole(environment, "WORLD_SIZE", low=1, high=values.LARGEST_WORLD)
    local_world = values.whole(environment, "LOCAL_WORLD_SIZE", low=1, high=world)
    rank = values.whole(environment, "RANK", high=world - 1)
    nodes = values.whole(
        environment, "GROUP_WORLD_SIZE", low=1, high=world, default=max(1, world // local_world)
    )
    return RankPosition(
        node=values.whole(
            environment, "GROUP_RANK", high=nodes - 1, default=min(rank // local_world, nodes - 1)
        ),
        nodes=nodes,
        rank=rank,
        world=world,
        local_rank=values.whole(environment, "LOCAL_RANK", high=local_world - 1),
        local_world=local_world,
        main_address=values.address(environment, "MASTER_ADDR"),
        main_port=values.whole(environment, "MASTER_PORT", low=1, high=values.LARGEST_PORT),
    )


def plain(environment: Environment, machine: Machine) -> RankPosition:
    """Take this process for the only one of its job."""
    return _alone(environment)


# In order of detection: torchrun and mpirun run inside Batch, Slurm and SageMaker, and know the rank better.
LAUNCHERS: Mapping[str, Launcher] = {
    "torchrun": Launcher(signs=(frozenset({"RANK", "WORLD_SIZE"}),), read=torchrun),
    "open-mpi": Launcher(signs=(frozenset({"OMPI_COMM_WORLD_RANK"}),), read=open_mpi),
    "hydra": Launcher(signs=(frozenset({"PMI_RANK", "MPI_LOCALRANKID"}),), read=hydra),
    "slurm": Launcher(signs=(frozenset({"SLURM_PROCID"}),), read=slurm),
    "batch": Launcher(signs=(frozenset({"AWS_BATCH_JOB_ID"}),), read=batch),
    "sagemaker": Launcher(
        signs=(frozenset({"SM_CURRENT_HOST"}), frozenset({"TRAINING_JOB_NAME"})), read=sagemaker
    ),
    "plain": Launcher(signs=(frozenset(),), read=plain),
}


def detect(environment: Environment) -> str:
    """Return the name of the launcher that started this process."""
    return next(name for name, launcher in LAUNCHERS.items() if launcher.recognises(environment))


def read_position(environment: Environment, machine: Machine | None = None) -> RankPosition:
    """Return the position that the launcher gave this process; raise InvalidContract if the number of
    nodes is wrong."""
    place = LAUNCHERS[detect(environment)].read(environment, machine or Machine())
    expected = values.whole(
        environment, variables.NODES, low=1, high=values.LARGEST_WORLD, default=place.nodes
    )
    if place.nodes != expected:
        raise InvalidContract(
            f"'{detect(environment)}' started {place.nodes} node(s), and the job asked for {expected}",
            hint="submit it with that number of nodes",
        )
    return place


def read_contract(environment: Environment, machine: Machine | None = None) -> LaunchContract:
    """Return the contract of this process, whoever started it: our launcher, torchrun, srun, mpirun or a
    person."""
    if environment.keys() >= {"RANK", variables.NODE, variables.RUN}:
        return LaunchContract.from_environment(environment)
    return contract_of(read_position(environment, machine), environment)


def contract_of(place: RankPosition, environment: Environment) -> LaunchContract:
    """Combine the static half from SLIPWAY_* variables with the dynamic half from the position."""
    facts = {
        **asdict(place),
        "job": settings.job_of(environment),
        "run": settings.run_of(environment),
        "attempt": settings.attempt_of(environment),
        "deadline": _deadline(environment),
    }
    return LaunchContract.combined(environment, facts)


def _mpi(environment: Environment, names: Mapping[str, str]) -> RankPosition:
    """Derive the node, which no MPI tells: ranks lie in blocks, or go round the nodes (--map-by node)."""
    world = values.whole(environment, names["size"], low=1, high=values.LARGEST_WORLD)
    rank = values.whole(environment, names["rank"], high=world - 1)
    local_world = values.whole(environment, names["local_size"], low=1, high=world)
    local_rank = values.whole(environment, names["local_rank"], high=local_world - 1)
    nodes = -(-world // local_world)
    in_blocks = rank % local_world == local_rank
    return RankPosition(
        node=rank // local_world if in_blocks else rank % nodes,
        nodes=nodes,
        rank=rank,
        world=world,
        local_rank=local_rank,
        local_world=local_world,
        # Nor does any say where rank 0 is: the backend passes MASTER_ADDR along (-genv, -x).
        main_address=values.address(environment, "MASTER_ADDR") if nodes > 1 else LOOPBACK,
        main_port=settings.port_of(environment),
    )


def _one_a_node(environment: Environment, node: int, nodes: int, main_address: str) -> RankPosition:
    return RankPosition(
        node=node,
        nodes=nodes,
        rank=node,
        world=nodes,
        local_rank=0,
        local_world=1,
        main_address=main_address if nodes > 1 else LOOPBACK,
        main_port=settings.port_of(environment),
    )


def _alone(environment: Environment) -> RankPosition:
    return _one_a_node(environment, 0, 1, LOOPBACK)


def _deadline(environment: Environment) -> float | None:
    """Compute the deadline: the platform knows how long an attempt may take, the container when it began."""
    if (given := values.seconds(environment, variables.DEADLINE)) is not None:
        return given
    limit = values.seconds(environment, variables.TIMEOUT_SECONDS)
    return None if limit is None else float(int(time.time() + limit))
