"""`slipway amis`: the AMIs that exist, how old they are, and what uses them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

import click

from slipway.jobs.output import Column, json_option, print_table

COLUMNS = (
    Column(name="image"),
    Column(name="ami_id", title="AMI"),
    Column(name="state"),
    Column(name="age_days", title="age", unit="days", align="right"),
    Column(name="lock_digest", title="lock"),
    Column(name="used_by", absent="nobody"),
    Column(name="why", absent=""),
)


@click.command()
@click.argument("images", nargs=-1, metavar="[IMAGE]...")
@click.option("--region", help="Region to search. Default: your own.")
@json_option
def command(images: tuple[str, ...], region: str | None, as_json: bool) -> None:
    """List the AMIs that were baked, newest first: age, state, and what uses them.

    Clusters find the AMI of an image in a parameter. An AMI is "in use" if that parameter names it, "stale"
    if in addition the pipeline would now bake a different one, "replaced" if the parameter names another one,
    and "missing" if the parameter names it but it does not exist.

    \b
    slipway amis
    slipway amis cpu-mpi --json
    """
    from slipway.jobs.clusters.images.baked import describe, find_images

    found = describe(find_images(region), datetime.now(UTC))
    rows = [asdict(ami) for ami in found if not images or ami.image in images]
    shown = [{**row, "used_by": row["used_by"] or None, "why": row["why"] or None} for row in rows]
    print_table("AMIs", COLUMNS, shown, as_json=as_json)
