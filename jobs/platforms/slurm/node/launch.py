"""What each node of an attempt is started with: the launch contract's variables, the launcher's words."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slipway.containers.runtime.contract import variables
from slipway.containers.runtime.linux import Machine
from slipway.jobs.platforms.rank_python import RankPython
from slipway.jobs.platforms.slurm.batch_script import grace_seconds
from slipway.jobs.platforms.slurm.node.allocation import Allocation
from slipway.jobs.platforms.slurm.node.precompile import STEPS
from slipway.jobs.platforms.slurm.node.setting import SlurmNodeFacts, SlurmNodePaths, is_stand_in
from slipway.jobs.platforms.slurm.node.train import TrainWords
from slipway.jobs.words.catalogue.accelerators import family_of
from slipway.jobs.words.catalogue.instances import InstanceType, find_instance_type
from slipway.jobs.words.launch_environment import SETTING_OPTION
from slipway.jobs.words.recipes import RECIPES, find_recipe
from slipway.jobs.words.slurm.slurm_job import COMPILE

LAUNCHER = "slipway.containers.runtime.launch"
COMPILER = "neuron_parallel_compile"
_RENDEZVOUS_SECONDS = 300.0  # Slurm starts a job when all nodes are up
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchAttempt:
    """Holds all that is known of an attempt before it starts."""

    where: SlurmNodePaths
    facts: SlurmNodeFacts
    words: TrainWords
    allocation: Allocation
    number: int  # from 1
    python: RankPython
    module: str
    has_steps: bool  # the recipe can be told to end after a few
    compiler: str
    scratch: Path  # of this attempt, on the main node

    @property
    def is_stand_in(self) -> bool:
        return is_stand_in(self.where)

    @property
    def exit_file(self) -> Path:
        return self.scratch / "exit-code"

    @property
    def ranks_per_node(self) -> int:
        if self.words.ranks_per_node:
            return self.words.ranks_per_node
        hardware = own_instance_type(self.facts)
        family = family_of(hardware) if hardware else None
        if self.is_stand_in or family is None or hardware is None or hardware.accelerator is None:
            return 1
        return hardware.accelerator.count * family.ranks_per_device


def own_instance_type(facts: SlurmNodeFacts) -> InstanceType | None:
    return find_instance_type(facts.instance_type or "")


def launch_command(attempt: LaunchAttempt) -> list[str]:
    """Return the words that srun starts on each node; no shell reads them."""
    settings = {**_share(attempt), **attempt.words.settings}
    if attempt.words.phase == COMPILE and attempt.has_steps:
        settings["steps"] = STEPS
    words = [word for name, value in settings.items() for word in (SETTING_OPTION, f"{name}={value}")]
    launcher = [attempt.python.program, "-m", LAUNCHER, "--module", attempt.module, "--", *words]
    return [*_compiler(attempt), *launcher]


def _share(attempt: LaunchAttempt) -> dict[str, str]:
    """Return the setting by which an element of an array does its share; none outside of one."""
    setting, allocation = _share_setting(attempt.words.recipe), attempt.allocation
    if setting is None or allocation.array_index is None:
        return {}
    return {setting: f"{allocation.array_index}/{allocation.array_size}"}


def _share_setting(recipe: str) -> str | None:
    return find_recipe(recipe).share_setting if recipe in RECIPES else None  # of a newer Slipway than this


def compiles_graphs(attempt: LaunchAttempt) -> bool:
    """Return True where the ranks' graphs go through Neuron's compiler."""
    hardware = own_instance_type(attempt.facts)
    family = family_of(hardware) if hardware else None
    return family is not None and family.device == "neuron" and not attempt.is_stand_in


def node_environment(attempt: LaunchAttempt, neuron: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of srun and of all that it starts; what the job's script set counts."""
    given = dict(os.environ)
    defaults = {"PATH": _PATH, **_of_hand(attempt), **attempt.python.variables, **neuron}
    return {**defaults, **given, **_of_attempt(attempt)}


def _of_attempt(attempt: LaunchAttempt) -> dict[str, str]:
    allocation, words = attempt.allocation, attempt.words
    array = {
        variables.ARRAY_INDEX: allocation.array_index,
        variables.ARRAY_SIZE: allocation.array_size,
    }
    places = {variables.CHECKPOINTS: "checkpoints", variables.LOGS: "logs"}
    thrown_away = {name: str(_thrown_away(attempt) / part) for name, part in places.items()}
    return {
        variables.ATTEMPT: str(attempt.number),
        variables.MAIN_ADDRESS: Machine().own_address(),
        variables.NODES: str(allocation.nodes),
        variables.PROCESSES_PER_NODE: str(attempt.ranks_per_node),
        variables.LAUNCH_SECRET: secrets.token_hex(16),
        variables.EXIT_FILE: str(attempt.exit_file),
        **({variables.STAND_IN: "1"} if attempt.is_stand_in else {}),
        **({"PYTHONPATH": words.code} if words.code else {}),
        **{name: str(value) for name, value in array.items() if value is not None},
        **(thrown_away if words.phase == COMPILE else {}),
    }


def _thrown_away(attempt: LaunchAttempt) -> Path:
    """Return where a compile job writes: its numbers mean nothing, and no run may resume from them."""
    return attempt.where.below(f"{attempt.facts.shared}/slipway/compiling") / attempt.allocation.job


def thrown_away(attempt: LaunchAttempt) -> Path:
    return _thrown_away(attempt)


def _of_hand(attempt: LaunchAttempt) -> dict[str, str]:
    """Return what a submitted job is told by its request, for a script that a person handed to sbatch."""
    facts, seconds = attempt.facts, attempt.allocation.seconds
    shared = attempt.where.below(facts.shared)
    told = {
        variables.JOB: attempt.words.model,
        variables.RENDEZVOUS_SECONDS: str(_RENDEZVOUS_SECONDS),
        variables.RESUME_AFTER_SIGNALS: "1",
        variables.DATA: str(shared / "data"),
        variables.CHECKPOINTS: str(shared / "checkpoints" / attempt.words.model),
        variables.LOGS: str(shared / "logs" / attempt.words.model),
        variables.ACCOUNT: facts.account,
        "AWS_REGION": facts.region,
        variables.TIMEOUT_SECONDS: str(seconds) if seconds else None,
        variables.GRACE_SECONDS: str(grace_seconds(seconds)) if seconds else None,
        **_hardware(facts),
    }
    return {name: value for name, value in told.items() if value is not None}


def _hardware(facts: SlurmNodeFacts) -> dict[str, str | None]:
    hardware = own_instance_type(facts)
    family = family_of(hardware) if hardware else None
    if hardware is None or family is None or hardware.accelerator is None:
        return {}
    return {
        variables.ACCELERATOR: family.files,
        variables.ACCELERATORS: str(hardware.accelerator.count),
        variables.EFA_INTERFACES: str(facts.efa_interfaces or 0),
    }


def _compiler(attempt: LaunchAttempt) -> list[str]:
    if attempt.words.phase != COMPILE or not compiles_graphs(attempt):
        return []
    return [str(Path(attempt.python.program).parent / COMPILER)]
