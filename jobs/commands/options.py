"""Options that several commands share; an option of one command stands in that command's file."""

from __future__ import annotations

import click

target_option = click.option(
    "--on",
    "target",
    metavar="TARGET",
    help="Cluster of the job. Required only if the name fits jobs on several clusters.",
)
only_target_option = click.option("--on", "target", metavar="TARGET", help="Limit to this cluster.")
region_option = click.option(
    "--region", help="Region to search. Default: your own, then those of the declared clusters."
)
target_region_option = click.option(
    "--region", help="Region of the target. Default: your own, then those of the declared clusters."
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print the request as JSON, without sending it."
)
confirm_cost_option = click.option(
    "--confirm-cost",
    metavar="DOLLARS",
    envvar="SLIPWAY_CONFIRM_COST",
    default="100",
    show_default=True,
    show_envvar=True,
    help="Maximum cost in USD to accept without asking, or 'unknown' for any job without a known price. "
    "Jobs in the yard cost nothing.",
)
overrides_option = click.option(
    "-c",
    "--context",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Setting to override, as for `cdk deploy -c`. Repeatable.",
)
