"""`slipway cancel`: cancels a waiting or running job."""

from __future__ import annotations

import click

from slipway.jobs.cli.options import region_option, target_option
from slipway.jobs.output import Column, json_option, print_record, say

COLUMNS = (Column(name="name"), Column(name="id"), Column(name="was"), Column(name="cancelled"))
_REASON = "cancelled with slipway cancel"


@click.command()
@click.argument("job")
@click.option("--reason", default=_REASON, show_default=True, help="Reason that is kept with the job.")
@target_option
@region_option
@json_option
def command(job: str, reason: str, target: str | None, region: str | None, as_json: bool) -> None:
    """Cancel JOB (its id or name, or the beginning of either).

    A waiting job never starts. The processes of a running job get SIGTERM, and 30 seconds to save.

    \b
    slipway cancel bert_pretrain
    """
    from slipway.jobs.platforms.platform import platform_of
    from slipway.jobs.submit.find import find_run, targets_to_search

    found = find_run(job, targets_to_search(target, region))
    run = found.run
    if run.state.is_final:
        say(f"{run.name} has already ended: {run.state}")
    else:
        platform_of(found.target).cancel(found, reason)
    row = {"name": run.name, "id": run.id, "was": run.state, "cancelled": not run.state.is_final}
    print_record("", COLUMNS, row, as_json=as_json)
