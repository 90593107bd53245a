"""What `slipway run` and a recipe of one's own share: the folder goes along, and a command starts in it."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.jobs.cli.jobs.submitting import COLUMNS, Answers, carry_out, seconds_of, take_answers
from slipway.jobs.code.folder import megabytes
from slipway.jobs.output import Column, say, warn

if TYPE_CHECKING:
    from slipway.jobs.code.command_job import OwnCommand
    from slipway.jobs.code.folder import ProjectFolder
    from slipway.jobs.code.packing import PackedProject
    from slipway.jobs.words.job import Job
    from slipway.jobs.words.targets import Target

_COLUMNS = (
    *(column for column in COLUMNS if column.name != "recipe"),
    Column(name="command"),
    Column(name="source.address", title="folder sent to"),
)
_DIGEST_SHOWN = 12


def submit_own(own: OwnCommand, sent: ProjectFolder, target: Target, asked: dict[str, Any]) -> None:
    """Send the folder and start the command; `asked` holds the values of place and submission options."""
    from slipway.jobs.code.command_job import refuse_requirements
    from slipway.jobs.code.packing import pack_project

    asked["image"] = find_image(asked["image"], target)
    answers = take_answers(asked)
    _warn_of_what_stays(sent, own)
    if own.requirements:
        refuse_requirements(own.requirements, sent, target)
    with tempfile.TemporaryDirectory(prefix="slipway-run-") as scratch:
        packed = pack_project(sent, Path(scratch) / "folder.tar.gz")
        _submit(_job(own, sent, packed, target, asked), packed, target, answers)


def find_image(asked: str | None, target: Target) -> str | None:
    """Return the URI of the image that a person asked for, if any."""
    if asked is None:
        return None
    from slipway.jobs.clusters.images.project_images import resolve_image

    return resolve_image(asked, target)


def _warn_of_what_stays(sent: ProjectFolder, own: OwnCommand) -> None:
    """Warn of what is not sent although somebody may count on it."""
    from slipway.jobs.code.folder import ignored_words

    for name in sent.skipped:
        warn(f"{name} is a socket, a FIFO or a device, and is not sent")
    for word in ignored_words(sent, own.words):
        warn(f"{word} is not sent: git ignores it")


def _job(
    own: OwnCommand, sent: ProjectFolder, packed: PackedProject, target: Target, asked: dict[str, Any]
) -> Job:
    """Build the job; what is left in `asked` are fields of a job under the same names."""
    from slipway.jobs.code.command_job import RECIPE, command_settings, folder_name
    from slipway.jobs.code.packing import project_url
    from slipway.jobs.words.job import Job

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
    from slipway.jobs.cloud import aws
    from slipway.jobs.code.packing import upload_project
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
