"""A job on a cluster of MPI machines: its request is decided on submission, and read from S3 by the main
node.

Facts that only nodes know (their members, the cores of each) are not in it: jobs/platforms/mpi/node/run.py
adds them. Also the nodes' order and readiness, and the command lines of MPIs: another MPI is a row of MPIS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from slipway.jobs.words.given import wrong_fields
from slipway.jobs.words.job import (
    NAME,
    Check,
    are_texts,
    decode_request,
    encode_request,
    is_count,
    is_digest,
    is_text,
    matches,
)
from slipway.jobs.words.text import decode_json, refuse_newer

SCHEMA_VERSION = 2
# Time for the Auto Scaling group to replace a lost node, and for that to join.
REPLACED_SECONDS = 900
LONGEST_SECONDS = 172_800  # of a command (Systems Manager user guide, executionTimeout)
# Besides an attempt's own time: hosts are checked, code is fetched, ranks save and end.
MARGIN_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiJob:
    name: str
    recipe: str
    nodes: int
    module: str  # run by every rank
    arguments: tuple[str, ...]
    environment: Mapping[str, str]  # the static half of the launch contract
    processes_per_node: int | None  # None: one for each NUMA domain, which the nodes count
    code: str  # SHA-256 of the bundle that holds the module
    mpi: str  # required on the nodes: a key of MPIS below
    efa_interfaces: int  # of a node
    attempts: int
    timeout_seconds: int  # of one attempt
    waits_for: tuple[str, ...]  # ids of jobs on this cluster that must succeed first


def command_seconds(timeout_seconds: int, attempts: int) -> int:
    """Return the seconds that a job's whole command needs."""
    return attempts * (timeout_seconds + MARGIN_SECONDS) + (attempts - 1) * REPLACED_SECONDS


def longest_timeout(seconds: int, attempts: int) -> int:
    """Return the longest timeout of an attempt for which the command needs at most `seconds`."""
    return (seconds - (attempts - 1) * REPLACED_SECONDS) // attempts - MARGIN_SECONDS


def encode(job: MpiJob) -> str:
    return encode_request(SCHEMA_VERSION, asdict(job))


def decode(text: str, *, where: str) -> MpiJob:
    """Decode a request; `where` names it in errors."""
    record = decode_request(text, SCHEMA_VERSION, _CHECKS, where=where, reader="nodes have")
    return MpiJob(**{**record, **{name: tuple(record[name]) for name in _LISTS}})


_LISTS = ("arguments", "waits_for")
_CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(("recipe", "module", "mpi"), is_text),
    "name": matches(NAME),
    "code": is_digest,
    **dict.fromkeys(("nodes", "efa_interfaces", "attempts", "timeout_seconds"), is_count(0)),
    **dict.fromkeys(_LISTS, are_texts),
    "environment": lambda value: (
        isinstance(value, dict) and all(is_text(each) for pair in value.items() for each in pair)
    ),
    "processes_per_node": lambda value: value is None or is_count(0)(value),
}


# The nodes of an MPI cluster: their names, their order, and whether they answered; for nodes and laptops.
# Each node computes the order for itself, and the first is the main node, so nobody has to ask.
# In the cluster's bucket: the main node writes it, and other nodes withdraw their answers.
READY_KEY = "cluster/ready.json"
READINESS_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    name: str
    address: str
    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Holds one node's answer in the all-reduce of all nodes."""

    name: str
    instance_id: str
    answered: bool
    why: str  # why it did not answer; empty if it did
    lasts: bool = False  # True: waiting does not help


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    nodes: tuple[Answer, ...]
    ready: bool  # True: as many nodes as declared, and all answered
    at: int  # Unix seconds


def host_name(address: str) -> str:
    """Return the name that EC2 derives from an address, without a domain."""
    return f"ip-{address.replace('.', '-')}"


def order_members(instances: Iterable[Mapping[str, Any]]) -> list[Member]:
    """Order running instances of DescribeInstances: the longest running first, which is the main node."""
    known = [instance for instance in instances if instance.get("PrivateIpAddress")]
    known.sort(key=lambda each: (each["LaunchTime"], each["InstanceId"]))
    return [
        Member(
            name=host_name(each["PrivateIpAddress"]),
            address=str(each["PrivateIpAddress"]),
            instance_id=str(each["InstanceId"]),
        )
        for each in known
    ]


def encode_readiness(readiness: Readiness) -> str:
    return json.dumps({"schema": READINESS_SCHEMA_VERSION, **asdict(readiness)}, indent=1)


def decode_readiness(text: str) -> Readiness | None:
    """Return None if the record is damaged: the main node soon writes another."""
    try:
        record = decode_json(text)
    except ValueError:
        return None
    schema = record.get("schema") if isinstance(record, dict) else None
    refuse_newer(schema, READINESS_SCHEMA_VERSION, READY_KEY)
    if schema != READINESS_SCHEMA_VERSION:
        return None
    nodes, ready, at = record.get("nodes"), record.get("ready"), record.get("at")
    if not isinstance(nodes, list) or type(ready) is not bool or type(at) is not int:
        return None
    if not all(isinstance(node, dict) for node in nodes):
        return None
    complete = [{"lasts": False, **node} for node in nodes]  # nodes of an older Slipway leave it out
    if any(wrong_fields(Answer, each) for each in complete):
        return None
    answers = tuple(Answer(**{name: each[name] for name in Answer.__dataclass_fields__}) for each in complete)
    return Readiness(nodes=answers, ready=ready, at=at)


def has_answered(readiness: Readiness, instance_id: str) -> bool:
    return any(node.answered for node in readiness.nodes if node.instance_id == instance_id)


def take_back(readiness: Readiness, instance_id: str, why: str) -> Readiness:
    """Return the record without this node's answer, which is no longer true; `why` replaces it."""
    nodes = tuple(
        replace(node, answered=False, why=why) if node.instance_id == instance_id else node
        for node in readiness.nodes
    )
    return replace(readiness, nodes=nodes, ready=False)


def answers_of(members: Sequence[Member], readiness: Readiness | None) -> list[Answer]:
    """Return an answer for each running member; a new one has not been asked yet."""
    answers = {node.instance_id: node for node in readiness.nodes} if readiness else {}
    why = "it has not been asked yet"
    return [
        answers.get(member.instance_id)
        or Answer(name=member.name, instance_id=member.instance_id, answered=False, why=why)
        for member in members
    ]


# The command lines of Open MPI, MPICH and Intel MPI that start one launcher for each rank. Another MPI is one
# row. Values of variables are never in a command line: mpirun gets their names and takes the values from its
# own environment, so no shell on any node reads them.


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Holds what a node counts of itself: c6i.16xlarge has one NUMA domain, c6i.32xlarge two."""

    domains: int
    cores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Describes what one mpirun starts."""

    program: str
    hostfile: str
    hosts: Sequence[str]  # the main node first
    ranks_per_host: int
    topology: Topology
    environment: Mapping[str, str]  # of every rank
    command: Sequence[str]
    efa_interfaces: int
    has_ccl: bool  # True: oneCCL's bindings for torch are installed


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiImplementation:
    programs: tuple[str, ...]  # the first found is used: those of the EFA installer and oneAPI lead
    says: str  # pattern in the output of `--version`, since any of these may be called `mpirun`
    words: Callable[[Launch], list[str]]
    host_line: str
    variables: Callable[[Launch], dict[str, str]]  # for mpirun and its ranks


def ranks_of(processes_per_node: int | None, topology: Topology) -> int:
    """Return the given count, or one rank for each NUMA domain: remote memory is slow."""
    return processes_per_node or topology.domains


def threads_of(ranks_per_host: int, topology: Topology) -> int:
    return max(1, topology.cores // ranks_per_host)


def mpirun_words(mpi: str, launch: Launch) -> list[str]:
    return [launch.program, *MPIS[mpi].words(launch), *launch.command]


def mpirun_environment(mpi: str, launch: Launch) -> dict[str, str]:
    """Return the variables for the ranks, and for mpirun itself and its daemons on other nodes."""
    threads = {"OMP_NUM_THREADS": str(threads_of(launch.ranks_per_host, launch.topology))}
    fabric = {"FI_PROVIDER": "efa" if launch.efa_interfaces else "tcp"}
    # oneCCL, without an MPI of its own, connects through libfabric; its worker thread takes a core.
    ccl = {"CCL_ATL_TRANSPORT": "ofi", "CCL_WORKER_COUNT": "1"} if launch.has_ccl else {}
    uses_fabric = launch.efa_interfaces or launch.has_ccl or mpi == INTEL_MPI
    variables = MPIS[mpi].variables(launch)
    return {**threads, **(fabric if uses_fabric else {}), **ccl, **variables, **launch.environment}


def hostfile_text(mpi: str, launch: Launch) -> str:
    line = MPIS[mpi].host_line
    return "".join(f"{line.format(host=host, ranks=launch.ranks_per_host)}\n" for host in launch.hosts)


def _open_mpi(launch: Launch) -> list[str]:
    options = [word for name in sorted(mpirun_environment(OPEN_MPI, launch)) for word in ("-x", name)]
    world = str(launch.ranks_per_host * len(launch.hosts))
    return ["--hostfile", launch.hostfile, "-np", world, *_open_mpi_binding(launch), *options]


def _open_mpi_binding(launch: Launch) -> list[str]:
    """Place ranks in blocks, host after host, as containers/runtime/contract/launchers.py expects."""
    ranks, topology = launch.ranks_per_host, launch.topology
    blocks = ["--rank-by", "slot"]
    if topology.domains > 1 and ranks % topology.domains == 0:
        return ["--map-by", f"ppr:{ranks // topology.domains}:numa", *blocks, "--bind-to", "numa"]
    if 1 < ranks <= topology.cores:
        cores = threads_of(ranks, topology)
        return ["--map-by", f"ppr:{ranks}:node:PE={cores}", *blocks, "--bind-to", "core"]
    return ["--map-by", f"ppr:{ranks}:node:OVERSUBSCRIBE", *blocks, "--bind-to", "none"]


def _open_mpi_variables(launch: Launch) -> dict[str, str]:
    """Stop mpirun from killing launchers: they end the job on all nodes, with its true exit code.

    Open MPI 5 starts ranks by PRRTE, which has the same switch under its own name.
    """
    return {
        "OMPI_MCA_orte_abort_on_non_zero_status": "0",
        "PRTE_MCA_prte_abort_on_non_zero_status": "0",
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",  # the main node reaches every host itself, by its name
    }


def _hydra(bind: Callable[[Launch], list[str]], mpi: str) -> Callable[[Launch], list[str]]:
    def words(launch: Launch) -> list[str]:
        world = str(launch.ranks_per_host * len(launch.hosts))
        names = ",".join(sorted(mpirun_environment(mpi, launch)))
        placed = ["-f", launch.hostfile, "-n", world, "-ppn", str(launch.ranks_per_host)]
        return ["-launcher", "ssh", *placed, *bind(launch), "-genvlist", names]

    return words


def _mpich_binding(launch: Launch) -> list[str]:
    ranks, topology = launch.ranks_per_host, launch.topology
    if topology.domains > 1 and ranks % topology.domains == 0:
        return ["-bind-to", "numa", "-map-by", "numa"]
    if 1 < ranks <= topology.cores:
        return ["-bind-to", f"core:{threads_of(ranks, topology)}"]
    return ["-bind-to", "none"]


def _intel_variables(launch: Launch) -> dict[str, str]:
    ranks, topology = launch.ranks_per_host, launch.topology
    is_numa = topology.domains > 1 and ranks % topology.domains == 0 and ranks == topology.domains
    domain = "numa" if is_numa else str(threads_of(ranks, topology))
    return {
        "I_MPI_FABRICS": "shm:ofi",
        "I_MPI_OFI_PROVIDER": "efa" if launch.efa_interfaces else "tcp",
        "I_MPI_PIN": "1" if ranks <= topology.cores else "0",
        "I_MPI_PIN_DOMAIN": domain,
    }


OPEN_MPI, MPICH, INTEL_MPI = "open-mpi", "mpich", "intel-mpi"

MPIS: Mapping[str, MpiImplementation] = {
    OPEN_MPI: MpiImplementation(
        programs=("/opt/amazon/openmpi/bin/mpirun", "mpirun.openmpi", "mpirun"),
        says=r"Open MPI|OpenRTE|PRRTE",
        words=_open_mpi,
        host_line="{host} slots={ranks}",
        variables=_open_mpi_variables,
    ),
    MPICH: MpiImplementation(
        programs=("mpiexec.mpich", "mpiexec.hydra"),
        says="HYDRA",
        words=_hydra(_mpich_binding, MPICH),
        host_line="{host}:{ranks}",
        variables=lambda launch: {},
    ),
    INTEL_MPI: MpiImplementation(
        programs=("/opt/intel/oneapi/mpi/latest/bin/mpiexec.hydra", "mpiexec.hydra"),
        says=r"Intel\(R\) MPI",
        words=_hydra(lambda launch: [], INTEL_MPI),
        host_line="{host}:{ranks}",
        variables=_intel_variables,
    ),
}


# The moment at which a job that waited for others began, which its main node logs and laptops read. Systems
# Manager counts from the start of the command, which is the start of the wait.
_LINE = re.compile(r"^\[run\] begins at (\S+)$", re.MULTILINE)


def begins_line(moment: datetime) -> str:
    """Return the words that follow the mark of the main node's own lines."""
    return f"begins at {moment.astimezone(UTC).isoformat(timespec='seconds')}"


def begun_at(log: str) -> datetime | None:
    """Return the moment that a job's log names; None if it has not begun."""
    found = _LINE.search(log)
    try:
        return datetime.fromisoformat(found[1]).astimezone(UTC) if found else None
    except ValueError:
        return None
