"""`slipway upload`: copies files into a cluster's bucket, for its jobs to read."""

from __future__ import annotations

from pathlib import Path

import click

from slipway.jobs.cli.options import target_region_option
from slipway.jobs.output import json_option, print_json, print_text, progress, say


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--on", "cluster", required=True, metavar="TARGET", help="Deployed cluster; slipway targets lists them."
)
@click.option("--name", help="Name under datasets/ in the bucket. Default: the last part of PATH.")
@target_region_option
@json_option
def command(path: Path, cluster: str, name: str | None, region: str | None, as_json: bool) -> None:
    """Copy the file or folder at PATH into a deployed cluster's bucket, for its jobs to read.

    Files that are there already with the same content are skipped, so an interrupted upload resumes.

    \b
    slipway upload glue/mrpc --on c6i
    """
    from dataclasses import asdict

    from slipway.jobs.cloud.deployed import find_target_by_name
    from slipway.jobs.cloud.uploads import upload

    target = find_target_by_name(cluster, region)
    with progress(f"copying to {target.bucket}") as now:
        done = upload(
            path,
            path.resolve().name if name is None else name,
            target,
            lambda sent, total: now(f"{sent / 1e6:.1f} of {total / 1e6:.1f} MB"),
        )
    if as_json:
        print_json(asdict(done))
        return
    print_text(done.address)
    say(f"{done.sent} of {done.files} files sent, {done.sent_bytes / 1e6:.1f} MB")
