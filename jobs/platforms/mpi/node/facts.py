"""Facts that must be equal on all nodes of a job: each node prints its own, the main node compares them."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from slipway.containers.runtime.contract import variables
from slipway.jobs.platforms.mpi.node.setting import node_paths
from slipway.jobs.platforms.on_nodes import rank_python
from slipway.jobs.words.given import wrong_fields
from slipway.jobs.words.mpi import MPIS, Topology
from slipway.jobs.words.text import decode_json

_CCL = "oneccl_bindings_for_pytorch"
_NONE = "none"
_VERSION_SECONDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    python: str
    torch: str
    mpi: str  # the first line of its version's output
    slipway: str
    training: str  # what the ranks run in
    numa_domains: int
    cores: int
    ccl: bool
    running: str  # jobs with processes left here, separated by spaces


# In the order in which differences are reported, with their names for users.
EQUAL: Mapping[str, str] = {
    "python": "Python",
    "torch": "torch",
    "mpi": "MPI",
    "slipway": "slipway",
    "training": "for ranks",
    "numa_domains": "NUMA domains",
    "cores": "cores",
    "ccl": "oneCCL",
}


def own_facts(mpi: str) -> NodeFacts:
    topology = own_topology(Path("/"))
    return NodeFacts(
        python=platform.python_version(),
        torch=_version("torch"),
        mpi=_mpi_version(mpi),
        slipway=_version("slipway"),
        training=rank_python(node_paths().root).version,
        numa_domains=topology.domains,
        cores=topology.cores,
        ccl=find_spec(_CCL) is not None,
        running=" ".join(jobs_here()),
    )


def encode_facts(facts: NodeFacts) -> str:
    return json.dumps(asdict(facts))


def decode_facts(text: str) -> NodeFacts | None:
    """Decode the last line of the text: a shell's start-up files may print before it."""
    try:
        record = decode_json(text.strip().rpartition("\n")[2])
    except ValueError:
        return None
    if not isinstance(record, dict) or wrong_fields(NodeFacts, record):
        return None
    return NodeFacts(**{name: record[name] for name in NodeFacts.__dataclass_fields__})


def differences(host: str, facts: NodeFacts, main: str, of_main: NodeFacts) -> list[str]:
    return [
        f"{host} has {words} {getattr(facts, name)}, and {main} has {getattr(of_main, name)}"
        for name, words in EQUAL.items()
        if getattr(facts, name) != getattr(of_main, name)
    ]


def find_program(mpi: str) -> str | None:
    return next((found for name in MPIS[mpi].programs if (found := shutil.which(name))), None)


def own_topology(root: Path) -> Topology:
    """Count the cores and NUMA domains that this process may use; two threads share one core."""
    usable = os.sched_getaffinity(0)
    lists = (root / "sys/devices/system/node").glob("node[0-9]*/cpulist")
    domains = sum(bool(usable.intersection(parse_list(path.read_text()))) for path in lists)
    cores = {_siblings(root, each) for each in usable}
    return Topology(domains=max(1, domains), cores=max(1, len(cores)))


def _siblings(root: Path, processor: int) -> Sequence[int]:
    path = root / f"sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list"
    try:
        return tuple(parse_list(path.read_text()))
    except (OSError, ValueError):
        return (processor,)


def parse_list(text: str) -> list[int]:
    """Parse the kernel's list format: `0-3,8` is 0, 1, 2, 3, 8."""
    parts = [part.partition("-") for part in text.strip().split(",") if part]
    return [each for first, _, last in parts for each in range(int(first), int(last or first) + 1)]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return _NONE


def _mpi_version(mpi: str) -> str:
    program = find_program(mpi)
    if program is None:
        return _NONE
    said = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=False, timeout=_VERSION_SECONDS
    ).stdout
    if not re.search(MPIS[mpi].says, said):
        return f"{_NONE}: {program} is another"
    lines = [line.strip() for line in said.splitlines()]
    return next((line for line in lines if any(sign.isdigit() for sign in line)), lines[0])


# The processes of jobs on this node: each has its job's name in its environment, whoever started it.
_ENDPOINT = "AWS_ENDPOINT_URL"
_LAUNCHER = b"slipway.containers.runtime.launch"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - each file there is looked at
_PAUSE_SECONDS = 0.2
_REAP_SECONDS = 5.0


def jobs_here() -> list[str]:
    return sorted({job for _, job in _marked()})


def processes_of(job: str) -> list[int]:
    return [pid for pid, name in _marked() if name == job]


def end_processes(job: str, grace_seconds: float) -> list[int]:
    """Send SIGTERM, and SIGKILL after the grace time; return the processes that survive both.

    Only launchers get SIGTERM first: they give their ranks time to save, where mpirun would kill them.
    """
    asked = processes_of(job)
    launchers = []
    for pid in asked:
        with suppress(OSError):
            if _LAUNCHER in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                launchers.append(pid)
    _signal(launchers or asked, signal.SIGTERM)
    ends = time.monotonic() + grace_seconds
    while time.monotonic() < ends and processes_of(job):
        time.sleep(_PAUSE_SECONDS)
    ends = time.monotonic() + _REAP_SECONDS
    while (left := processes_of(job)) and time.monotonic() < ends:
        _signal(left, signal.SIGKILL)
        time.sleep(_PAUSE_SECONDS)
    return left


def clear_memory(user: int, folder: Path = _SHARED_MEMORY) -> None:
    """Remove the user's shared memory that ranks left, unless a job is running and may use it."""
    if jobs_here():
        return
    for path in folder.iterdir():
        with suppress(OSError):
            if path.lstat().st_uid == user:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _marked() -> Iterator[tuple[int, str]]:
    """Yield jobs' processes, except this one and its parent, whose command may contain the name, too.

    Imitated machines may share their processes with those of other yards, which have another endpoint.
    """
    own, is_machine = {os.getpid(), os.getppid()}, node_paths().is_machine
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            entries = path.read_bytes().decode(errors="replace").split("\0")
            found = dict(entry.partition("=")[::2] for entry in entries)
            is_here = is_machine or found.get(_ENDPOINT) == os.environ.get(_ENDPOINT)
            if variables.JOB in found and is_here and (pid := int(path.parent.name)) not in own:
                yield pid, found[variables.JOB]
