"""Options that several commands share, and the line that says for which project a command works."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from slipway.jobs.cli.completing import complete_cluster, complete_job
from slipway.jobs.output import json_option, say
from slipway.jobs.words.installation import NoProject, find_project

F = TypeVar("F", bound=Callable[..., None])


def finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Refuse nan and inf, which click's ranges let through."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number", ctx, param)
    return value


cluster_argument = click.argument("cluster", shell_complete=complete_cluster)
job_argument = click.argument("job", shell_complete=complete_job)
newest_job_argument = click.argument("job", required=False, shell_complete=complete_job)


def cluster_option(help_text: str, *, required: bool = False) -> Callable[[F], F]:
    """Return --on for a deployed cluster, which the command receives as `target`."""
    return click.option(
        "--on",
        "target",
        metavar="CLUSTER",
        required=required,
        shell_complete=complete_cluster,
        help=help_text,
    )


target_option = cluster_option("Cluster of the job. Default: search all clusters.")
only_target_option = cluster_option("Limit to this cluster.")
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


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator for several options; help lists them in this order."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


place_options = together(
    cluster_option("Deployed cluster; slipway cluster targets lists them.", required=True),
    click.option("--nodes", type=int, required=True, help="Number of nodes."),
)
submission_options = together(
    click.option(
        "--image",
        metavar="IMAGE",
        help="Container image to run in: a folder of the project's images/, or a URI in the account's "
        "registry. Default: the cluster's.",
    ),
    click.option(
        "--data",
        metavar="PATH",
        help="Path or URL of the data; a relative path is one in the shared file system.",
    ),
    click.option(
        "--checkpoints",
        metavar="PATH",
        help="Path or URL to save to and to resume from; relative as for --data.",
    ),
    click.option("--processes-per-node", type=int, help="Processes per node. Default: one per device."),
    click.option(
        "--timeout-hours", type=float, help="Time limit of an attempt in hours. Default: the cluster's limit."
    ),
    click.option("--attempts", type=int, help="Maximum number of attempts. Default: the cluster's."),
    click.option(
        "--depends-on",
        multiple=True,
        metavar="JOB",
        shell_complete=complete_job,
        help="Job on the same cluster that must succeed first. Repeatable.",
    ),
    target_region_option,
    confirm_cost_option,
    click.option("--again", is_flag=True, help="Submit the job once more, although it exists."),
    click.option(
        "--follow",
        is_flag=True,
        help="Print the job's log on stderr until the job ends; fail if the job fails.",
    ),
    dry_run_option,
    json_option,
)


# Says which project a command works for, if it is not the current folder.


def say_project() -> None:
    try:
        folder = find_project().folder
    except NoProject:
        return  # a command that needs a project refuses with a better message
    if folder != Path.cwd():
        say(f"project: {folder}")
