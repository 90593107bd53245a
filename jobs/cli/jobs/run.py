"""`slipway run`: runs a user's own command in a user's own folder on a deployed cluster, exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from slipway.jobs.cli.jobs.own_code import submit_own
from slipway.jobs.cli.options import place_options, submission_options
from slipway.jobs.code.folder import DEFAULT_LIMIT_MB, LARGEST_LIMIT_MB


# Without `--` as well, the first word that is no option begins the command.
@click.command(context_settings={"allow_interspersed_args": False})
@place_options
@click.option(
    "--per-node",
    is_flag=True,
    help="Start the command once per node: torchrun and accelerate start the processes themselves.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path(),
    show_default="the current folder",
    help="Folder to send; the command runs in it.",
)
@click.option(
    "--limit",
    "limit_mb",
    type=click.IntRange(1, LARGEST_LIMIT_MB),
    metavar="MB",
    default=DEFAULT_LIMIT_MB,
    show_default=True,
    help="Maximum size of the folder.",
)
@click.option(
    "--requirements",
    metavar="FILE",
    help="File of the folder that pip installs on each node, on top of the image.",
)
@click.option("--include-secrets", is_flag=True, help="Send files that look like secrets, such as .env.")
@click.option("--name", help="Name of the job; a digest is appended. Default: the folder's name.")
@submission_options
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND…", type=click.UNPROCESSED)
def command(
    target: str,
    region: str | None,
    folder: Path,
    limit_mb: int,
    include_secrets: bool,
    **asked: Any,
) -> None:
    """Run COMMAND in the current folder on the nodes of a deployed cluster.

    The folder is sent without what git ignores, once for each content. Each process finds the variables of
    torchrun (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), SLIPWAY_CHECKPOINTS and SLIPWAY_DATA.
    Exit code 85 asks for another attempt. All else is as for slipway submit.

    \b
    slipway run --on c6i --nodes 2 --follow -- python train.py --lr 0.1
    slipway run --on dl1 --nodes 2 --per-node -- torchrun train.py
    slipway run --on c6i --nodes 1 --dry-run -- ./prepare.sh
    """
    from slipway.jobs.cloud.deployed import find_target_by_name
    from slipway.jobs.code.command_job import OwnCommand
    from slipway.jobs.code.folder import read_folder

    own = OwnCommand(
        words=asked.pop("words"), is_per_node=asked.pop("per_node"), requirements=asked.pop("requirements")
    )
    sent = read_folder(folder, limit_mb=limit_mb, include_secrets=include_secrets)
    submit_own(own, sent, find_target_by_name(target, region), asked)
