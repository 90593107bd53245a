"""Checks whether this node is fit for a job; slurmd asks before each one, through prolog.sh.

An unfit node is given back with the reason, and the prolog fails: Slurm returns the job to the queue and
another node gets it. The job is held there unless SchedulerParameters has nohold_on_prolog_fail
(slurm.conf(5)).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

from slipway.containers.runtime.contract.settings import ACCELERATOR_FILES, METADATA, METADATA_VARIABLE
from slipway.containers.runtime.launch import gpus
from slipway.containers.runtime.launch.assignment import count_devices
from slipway.containers.runtime.launch.supervise import is_taken_back
from slipway.jobs.platforms.slurm.node import programs
from slipway.jobs.platforms.slurm.node.launch import own_accelerator
from slipway.jobs.platforms.slurm.node.setting import SlurmNodeFacts, SlurmNodePaths, is_stand_in
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.slurm import UNFIT

_EFA_FILES = r"infiniband/uverbs[0-9]+"
_NCCOM = "nccom-test"
_NCCOM_FOLDERS = ("/opt/aws/neuron/bin",)
_NCCOM_SECONDS = 180.0
_NCCOM_BYTES = "67108864"
_BUS_BANDWIDTH = re.compile(r"Avg bus bandwidth:\s*(?P<gb>[0-9.]+)\s*GB/s")
_SCONTROL_SECONDS = 20.0
_LONGEST_REASON = 200
_UNFIT = 1
# Slurm powers such a node down as soon as it is idle, and then another machine may have its name. One that
# was only drained stays drained when it is powered down, and never gets a job again, unless slurm.conf has
# idle_on_node_suspend (SchedMD/slurm, src/slurmctld/power_save.c): AWS does not say whether PCS has it. The
# second state is for a Slurm that starts no machines, which refuses the first.
_UNFIT_STATES = ("POWER_DOWN_ASAP", "DRAIN")


def check_node(where: SlurmNodePaths, facts: SlurmNodeFacts) -> int:
    """Return 0 for a healthy node; give back any other, and return the code that returns its job."""
    found = [] if is_stand_in(where) else list(findings(where, facts))
    # Slurm would start the returned job on the same node while that exists: all attempts would end on it.
    if is_taken_back(os.environ.get(METADATA_VARIABLE) or METADATA):
        found.append("EC2 takes this Spot instance back")
    if not found:
        return 0
    reason = f"{UNFIT}{'; '.join(found)}"[:_LONGEST_REASON]
    print(f"error: this node is not fit for jobs: {reason}", file=sys.stderr)
    _give_back(reason)
    return _UNFIT


def findings(where: SlurmNodePaths, facts: SlurmNodeFacts) -> Iterator[str]:
    """Yield everything that is less than the instance type promises."""
    family, devices = own_accelerator(facts)
    missing = []
    if family:
        missing.append((family.files, count_devices(ACCELERATOR_FILES[family.files], where.root), devices))
    missing.append(("EFA", count_devices(_EFA_FILES, where.root), facts.efa_interfaces or 0))
    few = [f"{count} of {wanted} {name} devices" for name, count, wanted in missing if count < wanted]
    yield from few
    if few or family is None:
        return
    if family.all_reduce_floor_gb_s and devices > 1:
        yield from _slow_collectives(where, devices * family.ranks_per_device, family.all_reduce_floor_gb_s)
    if family.files == "nvidia":
        yield from gpus.findings(devices, where.root)


def _slow_collectives(where: SlurmNodePaths, ranks: int, floor: float) -> Iterator[str]:
    folders = [str(where.below(folder)) for folder in _NCCOM_FOLDERS]
    program = shutil.which(_NCCOM, path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))
    if program is None:
        yield f"there is no {_NCCOM}"
        return
    words = [program, "-r", str(ranks), "allr", "-b", _NCCOM_BYTES, "-e", _NCCOM_BYTES, "-d", "bf16"]
    try:
        ran = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=_NCCOM_SECONDS, errors="replace"
        )
    except subprocess.TimeoutExpired:
        yield f"an all-reduce of {ranks} ranks does not end in {_NCCOM_SECONDS:.0f} s"
        return
    said = _BUS_BANDWIDTH.search(ran.stdout)
    if ran.returncode or said is None:
        last = " ".join((ran.stderr or ran.stdout).split())[-80:]
        yield f"an all-reduce of {ranks} ranks fails ({last or f'exit code {ran.returncode}'})"
    elif float(said["gb"]) < floor:
        yield f"an all-reduce of {ranks} ranks moves {said['gb']} GB/s, and {floor:g} is the least"


def _give_back(reason: str) -> None:
    """Set the reason before slurmd drains the node, which would only say that the prolog failed."""
    node = os.environ.get("SLURMD_NODENAME")
    if not node:
        return
    for state in _UNFIT_STATES:
        words = ["scontrol", "update", f"NodeName={node}", f"State={state}", f"Reason={reason}"]
        try:
            programs.ask(words, seconds=_SCONTROL_SECONDS)
        except programs.DeadController as error:
            print(f"error: {error.message}", file=sys.stderr)
            return
        except SlipwayError as error:
            print(f"error: {error.message}", file=sys.stderr)
        else:
            return
