"""`slipway curve`: the loss and the throughput of a training job so far."""

from __future__ import annotations

from dataclasses import asdict

import click

from slipway.jobs.output import Column, json_option, print_table
from slipway.jobs.words.errors import SlipwayError

ROWS = 20
COLUMNS = (
    Column(name="step", align="right"),
    Column(name="attempt", align="right"),
    Column(name="loss", align="right"),
    Column(name="sequences_per_second", title="throughput", unit="sequences/s", align="right", absent="-"),
    Column(name="curve", title="loss, from 0"),
)


@click.command()
@click.argument("job")
@click.option(
    "--rows", type=click.IntRange(2), default=ROWS, show_default=True, help="Maximum number of rows."
)
@json_option
def command(job: str, rows: int, as_json: bool) -> None:
    """Show the loss and the throughput of JOB (its id or name, or the beginning of either).

    If two attempts trained the same step, the later attempt is shown. A command of your own that slipway run
    started has a curve if its rank 0 prints lines such as: step 10/200  loss 0.5310

    \b
    slipway curve bert_pretrain
    slipway curve my-training --rows 10
    """
    from slipway.jobs.submit.curve import bar, points, thinned
    from slipway.jobs.submit.find import find_run, targets_to_search
    from slipway.jobs.submit.logs import Wanted, follow_lines

    found = find_run(job, targets_to_search(None, None))
    lines = [line.text for line in follow_lines(found, Wanted(rank=0), to_end=False)]
    all_points = points(lines)
    if not all_points:
        raise SlipwayError(
            f"job '{found.run.name}' has not reported a step yet; it is {found.run.state}",
            hint=f"slipway logs {found.run.name} --follow; a step is a line such as: step 10/200  loss 0.5",
        )
    highest = max(point.loss for point in all_points)
    shown = all_points if as_json else thinned(all_points, rows)
    table = [{**asdict(point), "curve": bar(point.loss, highest)} for point in shown]
    print_table(
        f"{found.run.name}: {all_points[-1].step} of {all_points[-1].steps} steps",
        COLUMNS,
        table,
        as_json=as_json,
    )
