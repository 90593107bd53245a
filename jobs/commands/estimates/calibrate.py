"""`slipway calibrate`: adds the measured throughput of a run to the rows that estimates are based on."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from slipway.jobs.commands.options import region_option
from slipway.jobs.commands.output import Column, json_option, print_record, say
from slipway.jobs.core.errors import SlipwayError

if TYPE_CHECKING:
    from slipway.jobs.estimate.evidence.calibrations import Known
    from slipway.jobs.estimate.evidence.measurements import Measurement
    from slipway.jobs.runs.rate import RunRate


def _share(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


COLUMNS = (
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


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--on", "target", metavar="TARGET", help="Cluster of the run. Default: search all clusters.")
@region_option
@click.option("--from-yard", is_flag=True, help="Accept a run of the yard, which measures this machine only.")
@click.option("--dry-run", is_flag=True, help="Show what would change, without changing it.")
@json_option
def command(
    run: str, target: str | None, region: str | None, from_yard: bool, dry_run: bool, as_json: bool
) -> None:
    """Correct the estimates for an instance family with RUN (its id or name, or the beginning of either).

    The run's throughput after the warm-up becomes a row of calibration.csv in $XDG_CONFIG_HOME/slipway (or of
    the file that SLIPWAY_CALIBRATION names). Your rows replace the published ones for that model and family.
    Calibrating the same run again replaces its row; deleting the row undoes it.

    \b
    slipway calibrate bert_pretrain --on dl1 --dry-run
    """
    from slipway.jobs.aws import is_in_yard
    from slipway.jobs.runs.find import find_run, targets_to_search
    from slipway.jobs.runs.rate import read_run

    found = find_run(run, targets_to_search(target, region))
    if is_in_yard() and not (from_yard or dry_run):
        raise SlipwayError(
            f"job '{found.run.name}' ran in the yard, on this machine's processors and not on a "
            f"{found.run.instance_type}",
            hint="use --dry-run to see what it would change, or --from-yard to accept it",
        )
    rate = read_run(found)
    row, before, after = _fit(rate)
    if not dry_run:
        _add(row)
    record = {**asdict(row), "before": before, "after": after}
    print_record("", COLUMNS, record, as_json=as_json)
    if dry_run:
        say("nothing was changed")


def _fit(rate: RunRate) -> tuple[Measurement, float, float]:
    """Return the new row, and what is predicted for this configuration without and with it."""
    from datetime import UTC, datetime

    from slipway.jobs.estimate.evidence.calibrations import find_calibration, fit_measurement, merged
    from slipway.jobs.estimate.evidence.measurements import our_measurements
    from slipway.jobs.estimate_inputs.own_data import own_measurements

    ours, asked = our_measurements(), rate.asked
    measured = rate.measurement(datetime.now(UTC).date().isoformat())
    own = [row for row in own_measurements() if row.run_id != rate.found.run.id]
    row = fit_measurement(measured, asked, own, ours)
    before = find_calibration(merged(ours, own), asked)
    after = find_calibration(merged(ours, [*own, row]), asked)
    return row, _predicted(rate, before), _predicted(rate, after)


def _predicted(rate: RunRate, known: Known) -> float:
    from slipway.jobs.estimate import throughput

    asked = rate.asked
    made = throughput(asked.model, asked.cluster, asked.layout, known.calibration)
    return round(made.sequences_per_second, 4)


def _add(row: Measurement) -> None:
    from slipway.jobs.estimate.evidence.measurements import decode_measurements, encode_measurements
    from slipway.jobs.estimate_inputs.own_data import CALIBRATION, own_path, update

    def with_row(text: str) -> str:
        rows = decode_measurements(text, str(own_path(CALIBRATION))) if text else ()
        kept = [each for each in rows if each.run_id != row.run_id]
        return encode_measurements([*kept, row])

    say(f"written to {update(CALIBRATION, with_row)}")
