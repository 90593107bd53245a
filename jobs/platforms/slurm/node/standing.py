"""Which jobs of ours there are, whoever of three knows: the controller, its accounts, the jobs' folders.

The controller forgets a job minutes after its end; accounts may be off, late or down; and of a job that never
began no folder tells. So all three are asked, and what cannot be is said beside the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from slipway.jobs.platforms.slurm.node import programs, slurm_json
from slipway.jobs.platforms.slurm.node.attempts import ended_attempts, remembered
from slipway.jobs.platforms.slurm.node.programs import NoSlurm, SlurmRefused
from slipway.jobs.platforms.slurm.node.slurm_json import OddAnswer
from slipway.jobs.words.slurm.slurm_answer import SlurmAnswer, SlurmAttempt, SlurmNode, SlurmRecord

_ACCOUNTS_SINCE = "now-30days"
_MOST_FOLDERS = 500
_DISABLED = "accounting storage is disabled"
_FORGOTTEN = "UNKNOWN"

T = TypeVar("T")


class NoAccounts(SlurmRefused):
    """The cluster keeps no accounts of its jobs."""


def read_standing(folder: Path, name: str | None = None, slurm_version: str | None = None) -> SlurmAnswer:
    """Read one submission or all of them below the folder of runs; nothing that fails here ends it."""
    notes: list[str] = []
    queued = _asked(lambda: read_queue(slurm_version), notes)
    accounted = _asked(lambda: read_accounts(slurm_version), notes)
    folders = _folders(folder, name)
    told = [record for each in folders for record in remembered(each)]
    jobs = merge(told, accounted, queued)
    wanted = [job for job in jobs if name in (None, job.name)]
    return SlurmAnswer(
        jobs=tuple(sorted(wanted, key=_order)),
        attempts=tuple(_attempts(folders)),
        nodes=tuple(_asked(lambda: _nodes(slurm_version), notes)),
        notes=tuple(dict.fromkeys(notes)),
    )


def read_queue(slurm_version: str | None = None) -> list[SlurmRecord]:
    """Read what the controller holds; it has to answer."""
    try:
        text = programs.ask(["squeue", "--json", "--states=all"], slurm_version=slurm_version)
        return slurm_json.read_queue(text)
    except programs.DeadController:
        programs.ask(["squeue", "--noheader"], slurm_version=slurm_version)  # it says why, and JSON does not
        raise


def read_accounts(slurm_version: str | None = None) -> list[SlurmRecord]:
    """Read the accounts; raise what kept sacct from telling them."""
    try:
        text = programs.ask(
            ["sacct", "--json", "--allusers", f"--starttime={_ACCOUNTS_SINCE}"], slurm_version=slurm_version
        )
    except SlurmRefused as refused:
        if _DISABLED in refused.message:
            raise NoAccounts(
                "this cluster keeps no accounts (sacct: accounting storage is disabled): a job that the "
                "controller has forgotten is told from its own folder",
            ) from None
        raise
    return slurm_json.read_accounts(text)


def merge(*sources: list[SlurmRecord]) -> list[SlurmRecord]:
    """Join what several say of the same jobs: a later source is believed, but for one that knows no more."""
    found: dict[str, SlurmRecord] = {}
    for source in sources:
        for record in source:
            if record.state != _FORGOTTEN or record.id not in found:
                found[record.id] = record
    return list(found.values())


def _asked(ask: Callable[[], list[T]], notes: list[str]) -> list[T]:
    try:
        return ask()
    except (SlurmRefused, NoSlurm, OddAnswer) as error:
        notes.append(error.message)
        return []


def _nodes(slurm_version: str | None) -> list[SlurmNode]:
    try:
        text = programs.ask(["scontrol", "show", "nodes", "--json"], slurm_version=slurm_version)
    except programs.DeadController:
        raise
    except SlurmRefused:  # before release 23.02, where sinfo prints what scontrol does since
        text = programs.ask(["sinfo", "--json"], slurm_version=slurm_version)
    return slurm_json.read_nodes(text)


def _folders(folder: Path, name: str | None) -> list[Path]:
    if name is not None:
        return [folder / name] if (folder / name).is_dir() else []
    try:
        found = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return []
    return [path for path in found if path.is_dir()][:_MOST_FOLDERS]


def _attempts(folders: list[Path]) -> list[SlurmAttempt]:
    return [attempt for folder in folders for attempt in ended_attempts(folder)]


def _order(job: SlurmRecord) -> tuple[int, str]:
    return (job.submitted or 0, job.id)
