"""`slipway upload`: copies files to where a cluster's jobs may read them."""

from __future__ import annotations

from pathlib import Path

import click

from slipway.jobs.commands.output import json_option, print_json, print_text, progress, say


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--on", "cluster", required=True, metavar="TARGET", help="A deployed cluster: slipway targets.")
@click.option("--name", help="Below datasets/ of its bucket; otherwise the last part of PATH.")
@click.option("--region", help="The target's; otherwise your own, then those of the declared clusters.")
@json_option
def command(path: Path, cluster: str, name: str | None, region: str | None, as_json: bool) -> None:
    """Copy the file or folder at PATH into a deployed cluster's bucket, where its jobs may read it.

    What is there already with the same content is not sent again, so an upload that was cut short goes on.

    \b
    slipway upload glue/mrpc --on c6i
    """
    from dataclasses import asdict

    from slipway.jobs.clusters.deployed import find_target_by_name
    from slipway.jobs.clusters.uploads import upload

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
