"""Builds what each node of an attempt is started with: the launch contract's variables, the launcher's words.

Also compares a run with what its compile job compiled.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from slipway.containers.runtime.contract import variables
from slipway.containers.runtime.linux import Machine
from slipway.jobs.platforms.on_nodes import RankPython, write_whole
from slipway.jobs.platforms.slurm.node.allocation import Allocation
from slipway.jobs.platforms.slurm.node.setting import SlurmNodeFacts, SlurmNodePaths, is_stand_in
from slipway.jobs.platforms.slurm.node.train import TrainWords
from slipway.jobs.platforms.slurm.request import asked_gres, grace_seconds
from slipway.jobs.words.catalogue.hardware import Family, family_of
from slipway.jobs.words.catalogue.instances import InstanceType, find_instance_type
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.launch_environment import SETTING_OPTION
from slipway.jobs.words.recipes import RECIPES, find_recipe
from slipway.jobs.words.slurm import COMPILE
from slipway.jobs.words.text import decode_json, printable

LAUNCHER = "slipway.containers.runtime.launch"
COMPILER = "neuron_parallel_compile"
INSTALLED_CODE = "/opt/slipway/node"  # infra/boot/software/slurm_first_boot.sh puts it there
_CONTAINERS_PYTHON = "python"  # as in AWS's images
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
    has_steps: bool  # the recipe can be told to end after a few steps
    scratch: Path  # of this attempt: on the main node, or where a container finds it too

    @property
    def is_stand_in(self) -> bool:
        return is_stand_in(self.where)

    @property
    def container(self) -> str | None:
        """Return the image that ranks run in; None if they run on the node itself."""
        return container_of(self.where, self.facts, self.words)

    @property
    def exit_file(self) -> Path:
        return self.scratch / "exit-code"

    @property
    def ranks_per_node(self) -> int:
        if self.words.ranks_per_node:
            return self.words.ranks_per_node
        family, devices = own_accelerator(self.facts)
        return devices * family.ranks_per_device if family and not self.is_stand_in else 1

    @property
    def compiles_graphs(self) -> bool:
        """Return True if the ranks' graphs go through Neuron's compiler."""
        family, _ = own_accelerator(self.facts)
        return family is not None and family.device == "neuron" and not self.is_stand_in


def container_of(where: SlurmNodePaths, facts: SlurmNodeFacts, words: TrainWords) -> str | None:
    """Return the job's image, or else the cluster's; None if processors stand in for accelerators."""
    return None if is_stand_in(where) else words.image or facts.container


def own_instance_type(facts: SlurmNodeFacts) -> InstanceType | None:
    return find_instance_type(facts.instance_type or "")


def own_accelerator(facts: SlurmNodeFacts) -> tuple[Family | None, int]:
    """Return the family of the node's accelerators that a job can train on, and their number."""
    hardware = own_instance_type(facts)
    if hardware is None or hardware.accelerator is None:
        return None, 0
    return family_of(hardware), hardware.accelerator.count


# pyxis (NVIDIA/pyxis v0.20.0, README.md): variables of the image take precedence over the node's, except
# those that say where the job's code is. Devices of GPUs and EFA are the node's: Enroot passes /dev on.
_MOUNTED = ("/shared", "/fsx", "/scratch", "/etc/slipway", INSTALLED_CODE)


def step_options(attempt: LaunchAttempt) -> list[str]:
    """Return srun's options for the nodes' hardware, and for the container that ranks run in."""
    hardware = own_instance_type(attempt.facts)
    gres = asked_gres(hardware) if hardware else ""
    options = [f"--gres={gres}"] if gres else []
    if not attempt.container:
        return options
    folders = dict.fromkeys((attempt.facts.shared, attempt.facts.scratch_mount, *_MOUNTED))
    mounts = ",".join(f"{path}:{path}" for path in folders if path and attempt.where.below(path).is_dir())
    return [
        *options,
        f"--container-image={enroot_address(attempt.container)}",
        f"--container-mounts={mounts}",
        "--container-env=PYTHONPATH",
        *("--container-writable", "--no-container-mount-home", "--no-container-entrypoint"),
    ]


def enroot_address(image: str) -> str:
    """Return an image's URI in Enroot's form (NVIDIA/enroot v3.5.0, doc/cmd/import.md).

    Enroot looks for credentials only if there is a user; ECR's user is AWS, and the node's file gets the
    password when it is needed (infra/boot/software/containers.sh). A digest replaces the tag.
    """
    registry, slash, name = image.partition("/")
    if not slash or "." not in registry:
        return image
    user = "AWS@" if ".dkr.ecr." in registry else ""
    return f"{user}{registry}#{name.replace('@', ':')}"


def launch_command(attempt: LaunchAttempt) -> list[str]:
    """Return the words that srun starts on each node; no shell reads them."""
    recipe, allocation = attempt.words.recipe, attempt.allocation
    # It gives an element of an array its share. A recipe that is not known here is of a newer Slipway.
    share = find_recipe(recipe).share_setting if recipe in RECIPES else None
    settings = dict(attempt.words.settings)
    if share and allocation.array_index is not None:
        settings = {share: f"{allocation.array_index}/{allocation.array_size}", **settings}
    if attempt.words.phase == COMPILE and attempt.has_steps:
        settings["steps"] = STEPS
    words = [word for name, value in settings.items() for word in (SETTING_OPTION, f"{name}={value}")]
    python = _CONTAINERS_PYTHON if attempt.container else attempt.python.program
    launcher = [python, "-m", LAUNCHER, "--module", attempt.module, "--", *words]
    if attempt.words.phase != COMPILE or not attempt.compiles_graphs:
        return launcher
    return [str(Path(attempt.python.program).parent / COMPILER), *launcher]


def node_environment(attempt: LaunchAttempt, neuron: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of srun and of all that it starts; variables of the job's script win."""
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
    discarded = {name: str(thrown_away(attempt) / part) for name, part in places.items()}
    # AWS's containers lack this package; on the node's own files it is installed.
    code = words.code or (INSTALLED_CODE if attempt.container else None)
    return {
        variables.ATTEMPT: str(attempt.number),
        variables.MAIN_ADDRESS: Machine().own_address(),
        variables.NODES: str(allocation.nodes),
        variables.PROCESSES_PER_NODE: str(attempt.ranks_per_node),
        variables.LAUNCH_SECRET: secrets.token_hex(16),
        variables.EXIT_FILE: str(attempt.exit_file),
        **({variables.STAND_IN: "1"} if attempt.is_stand_in else {}),
        **({"PYTHONPATH": code} if code else {}),
        **{name: str(value) for name, value in array.items() if value is not None},
        **(discarded if words.phase == COMPILE else {}),
    }


def thrown_away(attempt: LaunchAttempt) -> Path:
    """Return where a compile job writes: its numbers mean nothing, and no run may resume from them."""
    return attempt.where.below(f"{attempt.facts.shared}/slipway/compiling") / attempt.allocation.job


def _of_hand(attempt: LaunchAttempt) -> dict[str, str]:
    """Return the variables that a request would set, for a script that a person gave to sbatch."""
    facts, seconds = attempt.facts, attempt.allocation.seconds
    family, devices = own_accelerator(facts)
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
        variables.ACCELERATOR: family.files if family else None,
        variables.ACCELERATORS: str(devices) if family else None,
        variables.EFA_INTERFACES: str(facts.efa_interfaces or 0) if family else None,
    }
    return {name: value for name, value in told.items() if value is not None}


# The record of a compile job, with which a run must agree: the same settings, and no graph that failed.
# neuron_parallel_compile runs a few steps whose numbers mean nothing, compiles the graphs that it saw, and
# succeeds even if some failed: only its line "Total failed compilations" says so, one on each node.
STEPS = "3"  # as in the article's compile job
# Settings for a run's length and measurements; no graph depends on them.
_OF_NO_GRAPH = frozenset({"steps", "tokens", "profile"})
_TOTAL = re.compile(r"Total failed compilations:\s*(?P<failed>[0-9]{1,6})\b")
_UNSET = "the recipe's default"


class NotCompiled(SlipwayError):
    """Graphs failed to compile, so a run would compile them again at full price, or fail."""


class CompiledOtherwise(SlipwayError):
    """The compile job was of another model than the run."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """Describes what was compiled."""

    job: str
    nodes: int
    ranks_per_node: int
    compiler: str
    settings: Mapping[str, str]


@dataclass(slots=True)
class CompileTally:
    """Counts the results that each node's compiler prints in the job's output."""

    totals: list[int] = field(default_factory=list)

    def hear(self, line: str) -> None:
        if found := _TOTAL.search(line):
            self.totals.append(int(found["failed"]))

    def refuse_failures(self, nodes: int) -> None:
        """Refuse graphs that failed, and nodes that do not report the result of theirs."""
        if failed := sum(self.totals):
            raise NotCompiled(
                f"{failed} graphs failed to compile; allowed is 'Total failed compilations: 0' on all "
                f"{nodes} nodes",
                hint="the log says why each failed; mend that and submit the compile job again",
            )
        if len(self.totals) < nodes:
            raise NotCompiled(
                f"{len(self.totals)} of {nodes} nodes say 'Total failed compilations: 0', so graphs may be "
                "missing",
                hint="the log says how the others ended; submit the compile job again",
            )


def record_file(cache: str, model: str) -> Path:
    return Path(cache) / "compiled" / f"{model}.json"


def write_record(path: Path, compiled: Compiled) -> None:
    write_whole(path, json.dumps(asdict(compiled), sort_keys=True))


def read_record(path: Path) -> Compiled | None:
    """Read what was compiled last; None if nothing was, or nobody can read it."""
    try:
        record = decode_json(path.read_text(encoding="utf-8"))
        return Compiled(**record)
    except (OSError, ValueError, TypeError):
        return None


def refuse_otherwise(compiled: Compiled, wanted: Compiled) -> None:
    """Refuse a run that differs from the compiled one, and name each difference."""
    differences = [
        f"{name} is {value}, compiled was {other}"
        for name, value, other in (
            ("nodes", wanted.nodes, compiled.nodes),
            ("ranks per node", wanted.ranks_per_node, compiled.ranks_per_node),
            ("the compiler", wanted.compiler, compiled.compiler),
        )
        if value != other
    ]
    names = sorted((set(wanted.settings) | set(compiled.settings)) - _OF_NO_GRAPH)
    differences += [
        f"{name} is {_shown(wanted.settings, name)}, compiled was {_shown(compiled.settings, name)}"
        for name in names
        if wanted.settings.get(name) != compiled.settings.get(name)
    ]
    if differences:
        raise CompiledOtherwise(
            f"this run is not what compile job {compiled.job} compiled: {'; '.join(differences)}",
            hint="compile it with the settings of the run: sbatch --nodes COUNT compile.slurm SCRIPT",
        )


def _shown(settings: Mapping[str, str], name: str) -> str:
    return printable(settings[name]) if name in settings else _UNSET
