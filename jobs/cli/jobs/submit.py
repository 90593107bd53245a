"""`slipway submit`: submits a recipe to a deployed cluster, exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from slipway.jobs.cli.jobs.own_code import find_image, submit_own
from slipway.jobs.cli.jobs.submitting import carry_out, seconds_of, take_answers
from slipway.jobs.cli.options import place_options, submission_options

if TYPE_CHECKING:
    from slipway.jobs.code.own_recipes import OwnRecipe
    from slipway.jobs.words.job import Job


@click.command()
@click.argument("recipe")
@place_options
@click.option(
    "--array",
    metavar="0-LAST[%MOST]",
    help="Number of jobs that divide the work, and how many run at a time, on Slurm: 0-15%4.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of the recipe. Repeatable."
)
@click.option("--name", help="Name of the job; a digest is appended. Default: the recipe's name.")
@submission_options
def command(target: str, region: str | None, **asked: Any) -> None:
    """Submit RECIPE to a deployed cluster; `slipway recipes` lists them.

    A job is submitted once, however often you run the command: a repeated or interrupted command finds the
    existing job. Settings reach the recipe exactly as typed; no shell interprets them. If the cluster keeps
    machines between jobs, missing machines are started first.

    \b
    slipway submit bert_pretrain --on dl1 --nodes 2 --set size=tiny --follow
    slipway submit bert_pretrain --on dl1 --nodes 16 --set phase=2 --dry-run
    slipway submit prepare_tokens --on trn1 --nodes 1 --array 0-15 --set input=text.jsonl
    slipway submit prepare_bert --on dl1 --nodes 2 --set sample_megabytes=2
    slipway submit bert_pretrain --on dl1 --nodes 2 --set size=tiny --depends-on prepare_bert
    """
    from slipway.jobs.code.own_recipes import find_own_recipe
    from slipway.jobs.submit.preparing import prepare

    if own := find_own_recipe(asked["recipe"]):
        _submit_own(own, target, region, asked)
        return
    if asked["image"] is not None:
        from slipway.jobs.cloud.deployed import find_target_by_name

        asked["image"] = find_image(asked["image"], find_target_by_name(target, region))
    answers = take_answers(asked)
    carry_out(prepare(_job(**asked), target, region), answers)


def _submit_own(own: OwnRecipe, target: str, region: str | None, asked: dict[str, Any]) -> None:
    """Submit the command that starts the recipe, with the project's folder."""
    from slipway.jobs.cloud.deployed import find_target_by_name
    from slipway.jobs.code.folder import read_folder
    from slipway.jobs.code.own_recipes import own_command
    from slipway.jobs.words.job import parse_settings

    if asked.pop("array"):
        raise click.UsageError(f"--array divides the work of Slipway's recipes, and {own.name} is your own.")
    command = own_command(own, parse_settings(asked.pop("settings")))
    recipe = asked.pop("recipe")
    asked["name"] = asked["name"] or recipe
    submit_own(command, read_folder(own.project), find_target_by_name(target, region), asked)


def _job(
    recipe: str,
    nodes: int,
    settings: tuple[str, ...],
    name: str | None,
    timeout_hours: float | None,
    **others: Any,
) -> Job:
    """Build the job; `others` are fields of a job under the same names."""
    from slipway.jobs.words.job import Job, parse_settings

    return Job(
        name=recipe if name is None else name,
        recipe=recipe,
        nodes=nodes,
        settings=parse_settings(settings),
        timeout_seconds=seconds_of(timeout_hours),
        **others,
    )
