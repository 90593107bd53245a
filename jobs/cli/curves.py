"""Shows what runs achieved: `slipway report curve`, `speedup` of finished runs, and `tensorboard`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import click

from slipway.jobs.cli.completing import complete_recipe_or_job
from slipway.jobs.cli.estimate_views import percent, rounded
from slipway.jobs.cli.options import cluster_option, newest_job_argument, region_option, target_option
from slipway.jobs.cloud import aws
from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.inputs.own_data import measurements, rates
from slipway.jobs.estimate.inputs.places import alone
from slipway.jobs.estimate.inputs.workloads import recipe_workload
from slipway.jobs.output import Column, bar, json_option, print_table, say, warn
from slipway.jobs.submit import find, logs
from slipway.jobs.submit.curve import Point, ScalarFile, points, thinned
from slipway.jobs.submit.logs import LogLine, Wanted
from slipway.jobs.submit.metrics import LOSS, RATE
from slipway.jobs.submit.rate import LEAST_STEPS, settings_of
from slipway.jobs.submit.speedup import (
    Line,
    NothingToCompare,
    chosen,
    compare,
    estimated_speedups,
    published_speedups,
    sample,
    submit_line,
)
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import parse_settings
from slipway.jobs.words.recipes import RECIPES
from slipway.jobs.words.run import AnyFound
from slipway.jobs.words.text import printable

ROWS = 20
CURVE_COLUMNS = (
    Column(name="step", align="right"),
    Column(name="attempt", align="right"),
    Column(name="loss", align="right"),
    Column(name="sequences_per_second", title="throughput", unit="sequences/s", align="right", absent="-"),
)
_DRAWN = Column(name="curve", title="loss, from 0")
_USUAL = ("eval_loss",)  # shown next to the loss if reported


@click.command()
@newest_job_argument
@click.option(
    "--rows", type=click.IntRange(2), default=ROWS, show_default=True, help="Maximum number of rows."
)
@click.option("--metric", "wanted", multiple=True, metavar="NAME", help="Metric to show, too. Repeatable.")
@json_option
def report_curve_command(job: str | None, rows: int, wanted: tuple[str, ...], as_json: bool) -> None:
    """Show the loss and the throughput of JOB (its id or name, or the beginning of either).

    If two attempts trained the same step, the later attempt is shown. A command of your own has a curve if
    its rank 0 prints what transformers' Trainer, TRL, Lightning, DeepSpeed or Megatron print, lines such as
    step 10/200  loss 0.5310, or records such as {"step": 10, "loss": 0.531}. Records that it appends to
    metrics.jsonl in the folder SLIPWAY_LOGS count, and so do TensorBoard's event files there.

    \b
    slipway report curve bert_pretrain
    slipway report curve my-training --rows 10 --metric eval_accuracy
    """
    found = find.find_newest(job, find.targets_to_search(None, None), say)
    lines = [line.text for line in logs.follow_lines(found, Wanted(rank=0), to_end=False)]
    all_points = points(lines)
    if not all_points:
        raise SlipwayError(
            f"job '{found.run.name}' has reported no step; its state is {found.run.state}",
            hint=f"slipway logs {found.run.name} --follow; a step is a line such as: step 10/200  loss 0.5",
        )
    known = sorted({name for point in all_points for name in point.metrics} - {LOSS, RATE})
    if unknown := [name for name in wanted if name not in (*known, LOSS, RATE)]:
        raise SlipwayError(
            f"job '{found.run.name}' has reported no {', '.join(map(printable, unknown))}",
            hint=f"it reports {', '.join((LOSS, *known))}",
        )
    highest = max(point.loss for point in all_points)
    shown = all_points if as_json else thinned(all_points, rows)
    metrics = [name for name in (*_USUAL, *wanted) if name in known]
    more = [
        Column(name=f"beside{number}", title=name, align="right", absent="-")
        for number, name in enumerate(metrics)
    ]
    drawn = [
        {
            **asdict(point),
            "curve": bar(point.loss, highest),
            **({} if as_json else {column.name: point.metrics.get(column.title) for column in more}),
        }
        for point in shown
    ]
    print_table(
        f"{found.run.name}: {_how_far(all_points[-1])}",
        (*CURVE_COLUMNS, *more, _DRAWN),
        drawn,
        as_json=as_json,
    )
    if left := [name for name in known if name not in metrics]:
        say(f"it also reports {', '.join(left)}: --metric NAME")


def _how_far(last: Point) -> str:
    if not last.has_step:
        return f"{last.step} reports, which do not name their step"
    return f"{last.step} steps" if last.steps is None else f"{last.step} of {last.steps} steps"


# `slipway report speedup`: compares a recipe's speed on more nodes with published and estimated speed-ups.


def _times(value: object) -> str:
    assert isinstance(value, int | float)
    return f"{value:.2f} ×"


SPEEDUP_COLUMNS = (
    Column(name="nodes", align="right"),
    Column(name="seconds", unit="s", align="right", format=rounded(0)),
    Column(name="examples_per_second", title="examples/s", align="right", format=rounded(1)),
    Column(name="speedup", title="speed-up", align="right", format=_times),
    Column(name="efficiency", align="right", format=percent),
    Column(name="published", align="right", absent="-", format=_times),
    Column(name="estimated", align="right", absent="-", format=_times),
    Column(name="plot", title="█ measured  ◆ estimated  │ ideal"),
)


@click.command()
@click.argument(
    "names", nargs=-1, required=True, metavar="RECIPE|JOB…", shell_complete=complete_recipe_or_job
)
@cluster_option("Cluster of the jobs; required for a recipe.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Setting of the runs to compare. Repeatable.",
)
@region_option
@json_option
def report_speedup_command(
    names: tuple[str, ...],
    target: str | None,
    settings: tuple[str, ...],
    region: str | None,
    as_json: bool,
) -> None:
    """Compare finished runs of a RECIPE on 1, 2, 4 … nodes, or compare the named JOBs.

    Only runs with the same settings are compared: those of --set, or else the settings that ran at the most
    sizes. The newest run of each size counts. The speed-up compares examples per second after the warm-up;
    the seconds are those of the whole job. "published" is the speed-up that an article measured on such a
    cluster; "estimated" is what slipway estimate predicts for this one.

    \b
    slipway report speedup glue_finetune --on c6i
    slipway report speedup glue-one glue-two glue-four --json
    """
    found = (
        _of_recipe(names[0], target, settings, region)
        if len(names) == 1 and names[0] in RECIPES
        else _of_jobs(names, target, region)
    )
    lines, source = _compared(found)
    first = found[0].run
    title = f"{first.recipe} on {first.target}, {first.instance_type}"
    print_table(title, SPEEDUP_COLUMNS, [asdict(line) for line in lines], as_json=as_json)
    _tell(found, lines, source)


def _of_recipe(
    recipe: str, target: str | None, settings: tuple[str, ...], region: str | None
) -> list[AnyFound]:
    if target is None:
        raise click.UsageError(
            "--on is missing; name the cluster of the runs: slipway report speedup RECIPE --on CLUSTER"
        )
    targets = find.targets_to_search(target, region)
    ids = [run.id for run in find.list_runs(targets) if run.recipe == recipe and run.state.is_final]
    finished = [find.find_run(id_, targets) for id_ in ids]
    return chosen(finished, recipe, parse_settings(settings), target)[1]


def _of_jobs(names: Sequence[str], target: str | None, region: str | None) -> list[AnyFound]:
    targets = find.targets_to_search(target, region)
    found = sorted((find.find_run(name, targets) for name in names), key=lambda job: job.run.nodes or 0)
    first = found[0]
    for job in found[1:]:
        same = (job.run.recipe, job.run.target, settings_of(job.detail))
        if same != (first.run.recipe, first.run.target, settings_of(first.detail)):
            raise NothingToCompare(
                f"jobs '{first.run.name}' and '{job.run.name}' differ in more than the number of nodes",
                hint="compare runs of one recipe with the same settings on one target",
            )
    if first.run.nodes != 1:
        line = submit_line(first.run.recipe or "", first.run.target, 1, settings_of(first.detail))
        raise NothingToCompare("none of these jobs ran on one node", hint=f"submit it: {line}")
    return found


def _compared(found: Sequence[AnyFound]) -> tuple[list[Line], str]:
    samples = [
        sample(each, [line.text for line in logs.follow_lines(each, Wanted(rank=0), to_end=False)])
        for each in found
    ]
    run = found[0].run
    source, published, estimated = "", dict[int, float](), dict[int, float]()
    try:
        workload = recipe_workload(run.recipe or "", settings_of(found[0].detail))
        place = alone(instance_type(run.instance_type), rates(), region=None, term="on-demand")
        source, published = published_speedups(workload, run.instance_type)
        estimated = estimated_speedups(workload, place, [each.nodes for each in samples], measurements())
    except CannotEstimate as error:
        warn(f"no estimate: {error.message}")
    return compare(samples, published, estimated), source


def _tell(found: Sequence[AnyFound], lines: Sequence[Line], source: str) -> None:
    """Say on stderr what the numbers are based on, and what is missing."""
    if source:
        say(f"published: {source}")
    for each in lines:
        if each.is_short:
            warn(
                f"job '{each.job}' reported fewer than {LEAST_STEPS} steps after its warm-up, "
                "so its speed-up is uncertain"
            )
    if aws.is_in_yard():
        warn(
            f"all nodes of the yard share this machine's {os.cpu_count()} processors: speed-ups measured "
            "here mean nothing; estimated and published ones are of real nodes"
        )
    missing = next((nodes for nodes in (2, 4) if nodes not in {line.nodes for line in lines}), None)
    if missing:
        run, settings = found[0].run, settings_of(found[0].detail)
        say(f"for another size: {submit_line(run.recipe or '', run.target, missing, settings)}")


# `slipway report tensorboard`: shows the charts of a training job in a browser.
PROGRAM = "tensorboard"


@click.command()
@newest_job_argument
@click.option("--port", type=click.IntRange(1, 65535), default=6006, show_default=True, help="Local port.")
@click.option(
    "--write",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the charts of the job so far into this folder, and start no server.",
)
@target_option
@region_option
def report_tensorboard_command(
    job: str | None, port: int, folder: Path | None, target: str | None, region: str | None
) -> None:
    """Show the loss, gradient norm, throughput and tokens per dollar of JOB in TensorBoard.

    On a machine that mounts the cluster's shared files, TensorBoard reads the job's own. Anywhere else the
    charts are made of the job's log, and grow with it.

    \b
    slipway report tensorboard gpt_neox
    slipway report tensorboard gpt_neox --write charts
    """
    found = find.find_newest(job, find.targets_to_search(target, region), say)
    if folder is not None:
        _charts(found, folder)
        say(f"the charts of '{found.run.name}' are in {folder}: {PROGRAM} --logdir {folder}")
        return
    program = _program()
    mount = found.target.file_system_mount
    own = None if mount is None else Path(mount) / "logs" / found.run.name
    if own is not None and own.is_dir():  # this machine sees the charts that the job itself writes
        with _serving(program, own, port) as server:
            server.wait()
        return
    with tempfile.TemporaryDirectory(prefix="slipway-tensorboard-") as written:
        charts = _charts(found, Path(written))
        with _serving(program, Path(written), port) as server:
            _follow(found, charts, server)


def _charts(found: AnyFound, folder: Path) -> ScalarFile:
    """Write the charts of what the job has printed so far, and remove earlier ones."""
    folder.mkdir(parents=True, exist_ok=True)
    charts = ScalarFile(folder / f"events.out.tfevents.0.{found.run.id.replace('/', '-')}")
    charts.path.unlink(missing_ok=True)
    charts.add_new(list(logs.follow_lines(found, Wanted(rank=0), to_end=False)))
    return charts


class _ServerEndedError(Exception):
    """Nobody looks at the charts any more."""


def _follow(found: AnyFound, charts: ScalarFile, server: subprocess.Popen[bytes]) -> None:
    """Add to the charts while the job and the server run."""
    lines: list[LogLine] = []

    def show(seconds: float) -> None:
        if len(lines) > charts.seen:
            charts.add_new(lines)
        with suppress(subprocess.TimeoutExpired):
            server.wait(seconds)
            raise _ServerEndedError

    with suppress(_ServerEndedError):
        for line in logs.follow_lines(found, Wanted(rank=0), to_end=True, pause=show):
            lines.append(line)
        charts.add_new(lines)
        server.wait()


def _program() -> list[str]:
    """Return the path of TensorBoard, from this Python's folder or from PATH."""
    installed = Path(sys.executable).with_name(PROGRAM)
    path = str(installed) if installed.exists() else shutil.which(PROGRAM)
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
