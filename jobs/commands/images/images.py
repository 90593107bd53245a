"""`slipway images`: the machine images that exist, how old they are, and who uses them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

import click

from slipway.jobs.commands.output import Column, json_option, print_table

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
@click.option("--region", help="Where to look; otherwise your own region.")
@json_option
def command(images: tuple[str, ...], region: str | None, as_json: bool) -> None:
    """List the machine images that were baked, the newest first: how old each is, and who uses it.

    An image is in use while its parameter names it; stale when the deployed pipeline has another lock;
    replaced by a later bake; missing when its parameter names what is not there.

    \b
    slipway images
    slipway images cpu-mpi --json
    """
    from slipway.jobs.images.baked import describe, find_images

    found = describe(find_images(region), datetime.now(UTC))
    rows = [asdict(each) for each in found if not images or each.image in images]
    shown = [{**row, "used_by": row["used_by"] or None, "why": row["why"] or None} for row in rows]
    print_table("machine images", COLUMNS, shown, as_json=as_json)
