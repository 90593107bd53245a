"""Work out what one launcher has to do: its position, settings, ranks with contracts and environments."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from slipway.containers.runtime import linux
from slipway.containers.runtime.contract import launchers, variables
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.contract.settings import (
    ACCELERATOR_FILES,
    RankPosition,
    Settings,
    attempt_of,
    digest_of,
    run_of,
)
from slipway.containers.runtime.launch import gpus
from slipway.containers.runtime.linux import Machine
from slipway.containers.runtime.rendezvous import wire
from slipway.containers.runtime.rendezvous.peers import PeerMember

ROOT_VARIABLE = "SLIPWAY_ROOT"  # where /dev, /proc and /sys are looked for: tests have their own
_MINUTE_SECONDS = 60
# The variable that collectives read (by key of ACCELERATOR_FILES), and how it names an interface:
# to NCCL a bare eth1 would mean eth10 as well (NCCL documentation, "Environment Variables").
_MEETS_OVER: Mapping[str, tuple[str, str]] = {
    "habana": ("HCCL_SOCKET_IFNAME", "{}"),
    "neuron": ("CCOM_SOCKET_IFNAME", "{}"),
    "nvidia": ("NCCL_SOCKET_IFNAME", "={}"),
}
# By key of ACCELERATOR_FILES: what makes a device suspect after a rank failed, and the health check before
# ranks start, once all devices are there.
_AFTER_FAILURE: Mapping[str, Callable[[Path], Iterable[str]]] = {"nvidia": gpus.signs_after_failure}
_HEALTH: Mapping[str, Callable[[int, Path], Iterable[str]]] = {"nvidia": gpus.findings}
# What lets accelerate, and so transformers' Trainer, join processors into one training: without it each rank
# trains alone where accelerate finds no accelerator (accelerate/state.py, _prepare_backend).
_JOINS_PROCESSORS: Mapping[str, str] = {"ACCELERATE_USE_CPU": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Describe one launcher of the job: there is one per node, or one per device if the scheduler started
    those."""

    place: RankPosition
    settings: Settings
    machine: Machine
    environment: Mapping[str, str]
    run: str
    attempt: int

    @property
    def member(self) -> PeerMember:
        secret = self.environment.get(variables.LAUNCH_SECRET, "")
        return PeerMember(
            key=wire.key(self.run, self.attempt, secret),
            node=self.place.rank,
            nodes=self.place.world,
            host=self.machine.host(),
            digest=digest_of(self.settings),
            findings=tuple(self._findings()),
        )

    def _findings(self) -> list[str]:
        """Count the devices; the first launcher of a node also checks their health."""
        found = findings(self.settings, self.machine.root)
        kind = self.settings.accelerator or ""
        check = _HEALTH.get(kind)
        if found or check is None or not self._is_told(kind) or self.place.local_rank:
            return found
        return list(check(self.settings.accelerators, self.machine.root))

    def signs_after_failure(self) -> list[str]:
        """Return the signs that a device, and not the program, made a rank fail."""
        kind = self.settings.accelerator or ""
        check = _AFTER_FAILURE.get(kind)
        return list(check(self.machine.root)) if check and self._is_told(kind) else []

    def _is_told(self, kind: str) -> bool:
        return not self.settings.is_stand_in or self.environment[variables.STAND_IN] == kind


def read_node(environment: Mapping[str, str], module: str, arguments: list[str]) -> Node:
    machine = Machine(root=Path(environment.get(ROOT_VARIABLE, "/")))
    place = launchers.read_position(environment, machine)
    return Node(
        place=place,
        settings=Settings.of(environment, place, module, arguments),
        machine=machine,
        environment=dict(environment),
        run=run_of(environment),
        attempt=attempt_of(environment),
    )


def contracts_of(node: Node, port: int) -> list[LaunchContract]:
    """Return the contracts of the ranks that this launcher starts, in order."""
    first = launchers.contract_of(replace(node.place, main_port=port), node.environment)
    if node.place.local_world > 1:
        return [first]  # the scheduler has started one launcher per device
    count = node.settings.processes
    return [
        replace(
            first,
            rank=node.place.node * count + local_rank,
            local_rank=local_rank,
            local_world=count,
            world=node.place.nodes * count,
        )
        for local_rank in range(count)
    ]


def rank_environment(
    environment: Mapping[str, str], contract: LaunchContract, folder: Path
) -> dict[str, str]:
    """Return the container's environment plus the contract, with defaults for variables that nobody set."""
    processors = linux.count_processors()
    # Else each takes all processors, and spins while it waits for others. Nodes of the yard share a machine.
    ranks_here = contract.world if variables.STAND_IN in environment else contract.local_world
    defaults = {
        "OMP_NUM_THREADS": str(max(1, processors // ranks_here)),
        "PYTHONUNBUFFERED": "1",  # a line is in the log when it is printed, not when 8 kB are
        # A build that was killed leaves a lock here that later ranks wait on forever: so each attempt has
        # its own folder. Images bring their operators built.
        "TORCH_EXTENSIONS_DIR": str(folder / "torch_extensions"),
        "DEEPSPEED_TIMEOUT": str(math.ceil(contract.collective_seconds / _MINUTE_SECONDS)),
        **_interface(environment),
        **({} if has_accelerators(environment) else _JOINS_PROCESSORS),
    }
    inherited = {name: value for name, value in environment.items() if name != variables.LAUNCH_SECRET}
    return {**defaults, **inherited, **contract.to_environment()}


def has_accelerators(environment: Mapping[str, str]) -> bool:
    """Return True if ranks may use devices; those that exist count, not those that were promised."""
    root = Path(environment.get(ROOT_VARIABLE, "/"))
    is_there = any(count_devices(pattern, root) for pattern in ACCELERATOR_FILES.values())
    return is_there and variables.STAND_IN not in environment


def _interface(environment: Mapping[str, str]) -> dict[str, str]:
    """Tell collectives over which interface ranks meet: such a node has many, most without a way.

    Outside a container the first may have any name, and Gaudi's own ports are interfaces as well. A container
    of AWS Batch's multi-node jobs has an interface of its own, whose name differs from the node's.
    """
    read = _MEETS_OVER.get(environment.get(variables.ACCELERATOR, ""))
    found = Machine(root=Path(environment.get(ROOT_VARIABLE, "/"))).own_interface() if read else None
    return {read[0]: read[1].format(found)} if read and found else {}


# Check that this node has what the job was promised, before anything starts; all nodes are told the result.
# That needs no vendor's tool in the image: the devices of the container are files.
_EFA_FILES = r"infiniband/uverbs[0-9]+"


def findings(settings: Settings, root: Path) -> list[str]:
    """Return everything that is missing; [] for a healthy node. More than expected is fine."""
    found: list[str] = []
    if settings.is_stand_in:
        return found
    if settings.accelerator is not None:
        pattern = ACCELERATOR_FILES[settings.accelerator]
        found += _missing(f"{settings.accelerator} devices", pattern, settings.accelerators, root)
    found += _missing("EFA devices", _EFA_FILES, settings.efa_interfaces, root)
    return found


def notes(settings: Settings, root: Path) -> list[str]:
    """Say what a node with accelerators has, and what of it is less than promised but lets a job run."""
    if settings.accelerator is None:
        return []
    promised = f"{settings.accelerators} {settings.accelerator} devices"
    if settings.is_stand_in:
        return [f"this is a yard: processors stand in for {promised}"]
    devices = count_devices(ACCELERATOR_FILES[settings.accelerator], root)
    pages = huge_pages(root)
    kinds = (f"{devices} {settings.accelerator} devices", f"{count_devices(_EFA_FILES, root)} EFA devices")
    said = [f"this node has {', '.join(kinds)}, {numa_domains(root)} NUMA domains, {pages} huge pages"]
    if pages < settings.huge_pages:
        said.append(
            f"warning: {pages} of {settings.huge_pages} huge pages are reserved on this node: collectives "
            "may be slow or fail; its boot sets vm.nr_hugepages"
        )
    return said


def huge_pages(root: Path) -> int:
    with suppress(OSError, ValueError):
        return int((root / "proc/sys/vm/nr_hugepages").read_text())
    return 0


def numa_domains(root: Path) -> int:
    return len(list((root / "sys/devices/system/node").glob("node[0-9]*")))


def _missing(what: str, pattern: str, expected: int, root: Path) -> list[str]:
    devices = count_devices(pattern, root)
    if devices >= expected:
        return []
    return [f"{devices} of {expected} {what} (/dev/{pattern})"]


def count_devices(pattern: str, root: Path) -> int:
    """Count device files by name; a family's new and old names (accel0, hl0) are not added up."""
    dev = root / "dev"
    return max(
        sum(1 for path in _listed(dev / Path(one).parent) if re.fullmatch(one, str(path.relative_to(dev))))
        for one in pattern.split("|")
    )


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
