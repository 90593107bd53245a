"""`slipway run`: runs a user's own command in a user's own folder on a deployed cluster, exactly once."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slipway.jobs.commands.jobs.submitting import COLUMNS, Answers, carry_out, seconds_of, take_answers
from slipway.jobs.commands.options import place_options, submission_options
from slipway.jobs.commands.output import Column, say, warn
from slipway.jobs.project_source.sizes import DEFAULT_LIMIT_MB, LARGEST_LIMIT_MB, megabytes

if TYPE_CHECKING:
    from slipway.jobs.core.job import Job
    from slipway.jobs.core.targets import Target
    from slipway.jobs.project_source.command_job import OwnCommand
    from slipway.jobs.project_source.folder import ProjectFolder
    from slipway.jobs.project_source.packing import PackedProject

_COLUMNS = (
    *(column for column in COLUMNS if column.name != "recipe"),
    Column(name="command"),
    Column(name="source.address", title="folder sent to"),
)
_DIGEST_SHOWN = 12


# Without `--` as well, the first word that is no option begins the command.
@click.command(context_settings={"allow_interspersed_args": False})
@place_options
@click.option(
    "--per-node",
    is_flag=True,
    help="Start the command once per node: torchrun and accelerate start the processes themselves.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path(),
    show_default="the current folder",
    help="Folder to send; the command runs in it.",
)
@click.option(
    "--limit",
    "limit_mb",
    type=click.IntRange(1, LARGEST_LIMIT_MB),
    metavar="MB",
    default=DEFAULT_LIMIT_MB,
    show_default=True,
    help="Maximum size of the folder.",
)
@click.option(
    "--requirements",
    metavar="FILE",
    help="File of the folder that pip installs on each node, on top of the image.",
)
@click.option("--include-secrets", is_flag=True, help="Send files that look like secrets, such as .env.")
@click.option("--name", help="Name of the job; a digest is appended. Default: the folder's name.")
@submission_options
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND…", type=click.UNPROCESSED)
def command(
    target: str,
    region: str | None,
    folder: Path,
    limit_mb: int,
    include_secrets: bool,
    **asked: Any,
) -> None:
    """Run COMMAND in the current folder on the nodes of a deployed cluster.

    The folder is sent without what git ignores, once for each content. Each process finds the variables of
    torchrun (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), SLIPWAY_CHECKPOINTS and SLIPWAY_DATA.
    Exit code 85 asks for another attempt. All else is as for slipway submit.

    \b
    slipway run --on c6i --nodes 2 --follow -- python train.py --lr 0.1
    slipway run --on dl1 --nodes 2 --per-node -- torchrun train.py
    slipway run --on c6i --nodes 1 --dry-run -- ./prepare.sh
    """
    from slipway.jobs.clusters.deployed import find_target_by_name
    from slipway.jobs.project_source.command_job import OwnCommand, refuse_requirements
    from slipway.jobs.project_source.packing import pack_project

    answers = take_answers(asked)
    own = OwnCommand(
        words=asked.pop("words"), is_per_node=asked.pop("per_node"), requirements=asked.pop("requirements")
    )
    sent = _look_at(folder, own, limit_mb, include_secrets)
    found = find_target_by_name(target, region)
    if own.requirements:
        refuse_requirements(own.requirements, sent, found)
    with tempfile.TemporaryDirectory(prefix="slipway-run-") as scratch:
        packed = pack_project(sent, Path(scratch) / "folder.tar.gz")
        _submit(_job(own, sent, packed, found, asked), packed, found, answers)


def _look_at(folder: Path, own: OwnCommand, limit_mb: int, include_secrets: bool) -> ProjectFolder:
    """Look at the folder, and warn of what stays here although somebody may count on it."""
    from slipway.jobs.project_source.folder import ignored_words, read_folder

    sent = read_folder(folder, limit_mb=limit_mb, include_secrets=include_secrets)
    for name in sent.skipped:
        warn(f"{name} is a socket, a FIFO or a device, and is not sent")
    for word in ignored_words(sent, own.words):
        warn(f"{word} is not sent: git ignores it")
    return sent


def _job(
    own: OwnCommand, sent: ProjectFolder, packed: PackedProject, target: Target, asked: dict[str, Any]
) -> Job:
    """Build the job; what is left in `asked` are fields of a job under the same names."""
    from slipway.jobs.core.job import Job
    from slipway.jobs.project_source.command_job import RECIPE, command_settings, folder_name
    from slipway.jobs.project_source.uploading import project_url

    name, hours = asked.pop("name"), asked.pop("timeout_hours")
    ranks = 1 if own.is_per_node and asked["processes_per_node"] is None else asked["processes_per_node"]
    return Job(
        **{**asked, "processes_per_node": ranks},
        name=folder_name(sent.path) if name is None else name,
        recipe=RECIPE,
        settings=command_settings(own, project_url(packed.digest, target)),
        timeout_seconds=seconds_of(hours),
    )


def _submit(job: Job, packed: PackedProject, target: Target, answers: Answers) -> None:
    from slipway.jobs import aws
    from slipway.jobs.project_source.uploading import upload_project
    from slipway.jobs.submit.preparing import prepare

    def send_folder() -> None:
        if upload_project(packed, target, aws.client("s3", target.region)):
            say(f"sent the folder to {job.settings['source']}")

    prepared = prepare(job, target.name, target.region)
    size = f"{packed.files} files, {megabytes(packed.size_bytes)}"
    compressed = f"{megabytes(packed.packed_bytes)} compressed"
    say(f"the folder: {size}, {compressed}, SHA-256 {packed.digest[:_DIGEST_SHOWN]}")
    carry_out(prepared, answers, send_files=send_folder, columns=_COLUMNS, more=_more(job, packed))


def _more(job: Job, packed: PackedProject) -> Mapping[str, object]:
    return {
        "command": shlex.join(json.loads(job.settings["command"])),
        "source": {
            "address": job.settings["source"],
            "files": packed.files,
            "size_bytes": packed.size_bytes,
            "packed_bytes": packed.packed_bytes,
            "sha256": packed.digest,
        },
    }
