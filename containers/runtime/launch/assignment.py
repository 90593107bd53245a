"""What one launcher has to do: its place, its settings, its ranks' contracts and environments."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from slipway.containers.runtime.contract import identity, launchers, variables, versions
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.contract.rank_position import RankPosition
from slipway.containers.runtime.contract.settings import ACCELERATOR_FILES, Settings
from slipway.containers.runtime.launch import health
from slipway.containers.runtime.machine import Machine
from slipway.containers.runtime.rendezvous import wire
from slipway.containers.runtime.rendezvous.peers import PeerMember

ROOT_VARIABLE = "SLIPWAY_ROOT"  # where /dev, /proc and /sys are looked for: tests have their own
_MINUTE_SECONDS = 60
# What the collectives of an accelerator (a key of ACCELERATOR_FILES) read.
_MEETS_OVER: Mapping[str, str] = {"habana": "HCCL_SOCKET_IFNAME", "neuron": "CCOM_SOCKET_IFNAME"}
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
            digest=versions.digest(self.settings),
            findings=tuple(health.findings(self.settings, self.machine.root)),
        )


def read_node(environment: Mapping[str, str], module: str, arguments: list[str]) -> Node:
    machine = Machine(root=Path(environment.get(ROOT_VARIABLE, "/")))
    place = launchers.read_position(environment, machine)
    return Node(
        place=place,
        settings=Settings.of(environment, place, module, arguments),
        machine=machine,
        environment=dict(environment),
        run=identity.run(environment),
        attempt=identity.attempt(environment),
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
    processors = len(os.sched_getaffinity(0))
    defaults = {
        "OMP_NUM_THREADS": str(max(1, processors // contract.local_world)),  # else each takes all processors
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
    """Return True if ranks here may use devices: those that are there, and not those that were promised."""
    root = Path(environment.get(ROOT_VARIABLE, "/"))
    is_there = any(health.count_devices(pattern, root) for pattern in ACCELERATOR_FILES.values())
    return is_there and variables.STAND_IN not in environment


def _interface(environment: Mapping[str, str]) -> dict[str, str]:
    """Tell collectives over which interface ranks meet: such a node has many, most without a way.

    Outside a container the first may have any name, and Gaudi's own ports are interfaces as well.
    """
    name = _MEETS_OVER.get(environment.get(variables.ACCELERATOR, ""))
    found = Machine(root=Path(environment.get(ROOT_VARIABLE, "/"))).own_interface() if name else None
    return {name: found} if name and found else {}
