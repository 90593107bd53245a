"""`slipway calibrate`: adds the rate of a run, or published rates, to what estimates rest on."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from slipway.jobs.cli.completing import complete_job
from slipway.jobs.cli.estimate_views import rounded
from slipway.jobs.cli.options import region_option, target_option
from slipway.jobs.cloud import aws
from slipway.jobs.estimate import throughput
from slipway.jobs.estimate.evidence.calibrations import Known, find_calibration, fit_measurement, merged
from slipway.jobs.estimate.evidence.measurements import (
    decode_measurements,
    encode_measurements,
    our_measurements,
)
from slipway.jobs.estimate.inputs.asking import calibrate
from slipway.jobs.estimate.inputs.own_data import CALIBRATION, PUBLISHED, own_measurements, own_path, update
from slipway.jobs.output import Column, json_option, print_record, print_table, say, warn
from slipway.jobs.submit import find
from slipway.jobs.submit.rate import RunRate, read_run
from slipway.jobs.words.errors import SlipwayError

_MET_WITHIN = 0.01  # relative distance from the measured rate that counts as met


def _share(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


CALIBRATE_COLUMNS = (
    Column(name="name"),
    Column(name="instance", title="type"),
    Column(name="model"),
    Column(name="nodes"),
    Column(name="sequences_per_second", title="measured", unit="seq/s"),
    Column(name="before", title="predicted before", unit="seq/s"),
    Column(name="after", title="and now", unit="seq/s"),
    Column(name="utilisation", absent="as it was", format=_share),
    Column(name="network_efficiency", absent="as it was", format=_share),
    Column(name="source"),
)

PUBLISHED_COLUMNS = (
    Column(name="model"),
    Column(name="hardware"),
    Column(name="nodes", align="right"),
    Column(name="devices", align="right"),
    Column(name="sequences_per_second", title="published", unit="seq/s", align="right", format=rounded(2)),
    Column(name="before", title="told before", unit="seq/s", align="right", format=rounded(2)),
    Column(name="after", title="and now", unit="seq/s", align="right", format=rounded(2)),
    Column(name="word", title="basis"),
    Column(name="basis", title="standing on"),
)


@click.command()
@click.argument("run", metavar="[JOB]", required=False, shell_complete=complete_job)
@click.option(
    "--published",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="CSV of rates that others published, or that you measured elsewhere, instead of JOB.",
)
@target_option
@region_option
@click.option("--from-yard", is_flag=True, help="Accept a run of the yard, which measures this machine only.")
@click.option("--dry-run", is_flag=True, help="Show what would change, without changing it.")
@json_option
def calibrate_command(
    run: str | None, published: Path | None, dry_run: bool, as_json: bool, **asked: Any
) -> None:
    """Correct the estimates with JOB (its id or name, or the beginning of either), or with published rates.

    The job's throughput after the warm-up becomes a row of calibration.csv in $XDG_CONFIG_HOME/slipway (or of
    the file that SLIPWAY_CALIBRATION names). Your rows replace the published ones for that model and family.
    Calibrating the same job again replaces its row; deleting the row undoes it.

    With --published, every row of FILE goes to published.csv in the same folder, or none if one cannot be
    used; each bad row is named. docs/estimate.md lists the columns. An estimate is then based on the nearest
    row for its accelerator, and says which row and how near it is. Reading a file again replaces its rows.

    \b
    slipway calibrate bert_pretrain --on dl1 --dry-run
    slipway calibrate --published rates.csv --dry-run
    """
    if (run is None) == (published is None):
        raise click.UsageError("Give either JOB or --published FILE.")
    if published is not None:
        if any(asked.values()):
            raise click.UsageError("--on, --region and --from-yard belong to JOB, not to --published.")
        _learn(published, dry_run=dry_run, as_json=as_json)
    else:
        found = find.find_newest(str(run), find.targets_to_search(asked["target"], asked["region"]), say)
        if aws.is_in_yard() and not (dry_run or asked["from_yard"]):
            raise SlipwayError(
                f"job '{found.run.name}' ran in the yard, on this machine's processors and not on a "
                f"{found.run.instance_type}",
                hint="use --dry-run to see what it would change, or --from-yard to accept it",
            )
        _learn_run(read_run(found), dry_run=dry_run, as_json=as_json)


def _learn(published: Path, *, dry_run: bool, as_json: bool) -> None:
    rows = calibrate(published, dry_run=dry_run)
    for row in rows:
        if not row.is_followed:
            warn(
                f"{row.model} on {row.devices} devices of {row.hardware}: {row.sequences_per_second:g} "
                "sequences a second are more than the traffic of its step leaves time for, so the row counts "
                "for its own size alone"
            )
    print_table("", PUBLISHED_COLUMNS, [asdict(row) for row in rows], as_json=as_json)
    say("nothing was changed" if dry_run else f"written to {own_path(PUBLISHED)}")


def _learn_run(rate: RunRate, *, dry_run: bool, as_json: bool) -> None:
    ours, asked = our_measurements(), rate.asked
    measured = rate.measurement(datetime.now(UTC).date().isoformat())
    own = [row for row in own_measurements() if row.run != measured.run]
    row = fit_measurement(measured, asked, own, ours)
    before = _predicted(rate, find_calibration(merged(ours, own), asked))
    after = _predicted(rate, find_calibration(merged(ours, [*own, row]), asked))
    if abs(after / row.sequences_per_second - 1) > _MET_WITHIN:
        warn(
            f"the model cannot meet {row.sequences_per_second:g} sequences a second, which is more than the "
            f"devices' peak or the traffic of a step leaves time for: it stays at {after:g}"
        )

    def with_row(text: str) -> str:
        rows = decode_measurements(text, str(own_path(CALIBRATION))) if text else ()
        return encode_measurements([*(each for each in rows if each.run != row.run), row])

    if not dry_run:
        say(f"written to {update(CALIBRATION, with_row)}")
    record = {**asdict(row), "before": before, "after": after}
    print_record(CALIBRATE_COLUMNS, record, as_json=as_json)
    if dry_run:
        say("nothing was changed")


def _predicted(rate: RunRate, known: Known) -> float:
    asked = rate.asked
    made = throughput(asked.model, asked.cluster, asked.layout, known.calibration)
    return round(made.sequences_per_second, 4)
