"""`slipway tensorboard`: the charts of a training job in a browser."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slipway.jobs.cli.options import region_option, target_option
from slipway.jobs.output import say
from slipway.jobs.words.errors import SlipwayError

if TYPE_CHECKING:
    from slipway.jobs.submit.curve import ScalarFile
    from slipway.jobs.words.run import AnyFound

PROGRAM = "tensorboard"
_WAIT_SECONDS = 5.0


@click.command()
@click.argument("job")
@click.option("--port", type=click.IntRange(1, 65535), default=6006, show_default=True, help="Local port.")
@click.option(
    "--write",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the charts of the job so far into this folder, and start no server.",
)
@target_option
@region_option
def command(job: str, port: int, folder: Path | None, target: str | None, region: str | None) -> None:
    """Show the loss, gradient norm, throughput and tokens per dollar of JOB in TensorBoard.

    On a machine that mounts the cluster's shared files, TensorBoard reads the job's own. Anywhere else the
    charts are made of the job's log, and grow with it.

    \b
    slipway tensorboard gpt_neox
    slipway tensorboard gpt_neox --write charts
    """
    from slipway.jobs.submit.find import find_run, targets_to_search

    found = find_run(job, targets_to_search(target, region))
    if folder is not None:
        _charts(found, folder)
        say(f"the charts of '{found.run.name}' are in {folder}: {PROGRAM} --logdir {folder}")
        return
    program = _program()
    own = _own_folder(found)
    if own is not None:
        with _serving(program, own, port) as server:
            server.wait()
        return
    with tempfile.TemporaryDirectory(prefix="slipway-tensorboard-") as written:
        charts = _charts(found, Path(written))
        with _serving(program, Path(written), port) as server:
            _follow(found, charts, server)


def _own_folder(found: AnyFound) -> Path | None:
    """Return where the job writes its charts, if that is seen from here."""
    mount = found.target.file_system_mount
    own = None if mount is None else Path(mount) / "logs" / found.run.name
    return own if own and own.is_dir() else None


def _charts(found: AnyFound, folder: Path) -> ScalarFile:
    """Make the charts of what the job has printed so far, in place of those made before."""
    from slipway.jobs.submit.curve import ScalarFile

    folder.mkdir(parents=True, exist_ok=True)
    charts = ScalarFile(folder / f"events.out.tfevents.0.{found.run.id.replace('/', '-')}")
    charts.path.unlink(missing_ok=True)
    _add_new(found, charts)
    return charts


def _add_new(found: AnyFound, charts: ScalarFile) -> None:
    from slipway.jobs.submit.logs import Wanted, follow_lines

    charts.add_new(list(follow_lines(found, Wanted(rank=0), to_end=False)))


def _follow(found: AnyFound, charts: ScalarFile, server: subprocess.Popen[bytes]) -> None:
    """Add to the charts while the job and the server run."""
    from slipway.jobs.submit.find import refresh

    while server.poll() is None:
        try:
            server.wait(None if found.run.state.is_final else _WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            found = refresh(found.run.id, found.target)
            _add_new(found, charts)


def _program() -> list[str]:
    """Return how TensorBoard is started: beside this Python, or wherever PATH has it."""
    beside = Path(sys.executable).with_name(PROGRAM)
    path = str(beside) if beside.exists() else shutil.which(PROGRAM)
    if path is None:
        raise SlipwayError(
            f"{PROGRAM} is not installed here",
            hint=f"pip install {PROGRAM}, or write the charts for another machine: --write FOLDER",
        )
    return [path]


@contextmanager
def _serving(program: list[str], folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    server = subprocess.Popen([*program, "--logdir", str(folder), "--port", str(port)])
    try:
        yield server
    except KeyboardInterrupt:
        say("stopped")
    finally:
        server.terminate()
        server.wait()
