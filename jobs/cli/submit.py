"""Starts a job exactly once: `slipway submit` a recipe, `run` a folder; `recipes` lists them."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slipway.jobs.cli.completing import complete_recipe
from slipway.jobs.cli.options import place_options, submission_options
from slipway.jobs.cli.submitting import SUBMITTING_COLUMNS, Answers, carry_out, seconds_of, take_answers
from slipway.jobs.code.folder import DEFAULT_LIMIT_MB, LARGEST_LIMIT_MB, megabytes
from slipway.jobs.output import Column, json_option, print_table, say, warn

if TYPE_CHECKING:
    from slipway.containers.training.settings import ValueKind
    from slipway.jobs.code.command_job import OwnCommand
    from slipway.jobs.code.folder import ProjectFolder
    from slipway.jobs.code.own_recipes import OwnRecipe
    from slipway.jobs.code.packing import PackedProject
    from slipway.jobs.words.job import Job
    from slipway.jobs.words.targets import Target


@click.command()
@click.argument("recipe", shell_complete=complete_recipe)
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
def submit_command(target: str, region: str | None, **asked: Any) -> None:
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
    from slipway.jobs.words.job import Job, parse_settings

    if recipe := find_own_recipe(asked["recipe"]):
        _submit_own_recipe(recipe, target, region, asked)
        return
    if asked["image"] is not None:
        from slipway.jobs.cloud.deployed import find_target_by_name

        asked["image"] = find_image(asked["image"], find_target_by_name(target, region))
    answers = take_answers(asked)
    name, hours, settings = asked.pop("name"), asked.pop("timeout_hours"), asked.pop("settings")
    job = Job(  # all other options are fields of Job by name
        **asked,
        name=asked["recipe"] if name is None else name,
        settings=parse_settings(settings),
        timeout_seconds=seconds_of(hours),
    )
    carry_out(prepare(job, target, region), answers)


def _submit_own_recipe(recipe: OwnRecipe, target: str, region: str | None, asked: dict[str, Any]) -> None:
    """Submit the command that starts a project's own recipe, with the project's folder."""
    from slipway.jobs.cloud.deployed import find_target_by_name
    from slipway.jobs.code.folder import read_folder
    from slipway.jobs.code.own_recipes import own_command
    from slipway.jobs.words.job import parse_settings

    if asked.pop("array"):
        raise click.UsageError(
            f"--array divides the work of Slipway's recipes, and {recipe.name} is your own."
        )
    command = own_command(recipe, parse_settings(asked.pop("settings")))
    asked["name"] = asked["name"] or asked["recipe"]
    del asked["recipe"]
    submit_folder(command, read_folder(recipe.project), find_target_by_name(target, region), asked)


# `slipway run`: runs a user's own command in a user's own folder on a deployed cluster, exactly once.


# Even without `--`, the first word that is no option begins the command.
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
@click.option(
    "--env", "variables", multiple=True, metavar="NAME=VALUE", help="Variable of the command. Repeatable."
)
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="NAME=SECRET",
    help="Variable whose value is the secret slipway/jobs/SECRET of AWS Secrets Manager. Repeatable.",
)
@click.option("--include-secrets", is_flag=True, help="Send files that look like secrets, or hold some.")
@click.option("--name", help="Name of the job; a digest is appended. Default: the folder's name.")
@submission_options
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND…", type=click.UNPROCESSED)
def run_command(
    target: str,
    region: str | None,
    folder: Path,
    limit_mb: int,
    include_secrets: bool,
    **asked: Any,
) -> None:
    """Run COMMAND in the current folder on the nodes of a cluster; at a terminal, offer to deploy it first.

    The folder is sent without what git ignores, once for each content. Each process finds the variables of
    torchrun (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), SLIPWAY_CHECKPOINTS and SLIPWAY_DATA.
    Exit code 85 asks for another attempt. Everything else works as in slipway submit.

    \b
    slipway run --on c6i --nodes 2 --follow -- python train.py --lr 0.1
    slipway run --on dl1 --nodes 2 --per-node -- torchrun train.py
    slipway run --on c6i --nodes 1 --dry-run -- ./prepare.sh
    slipway run --on c6i --nodes 2 --secret WANDB_API_KEY=wandb -- python train.py
    """
    from slipway.jobs.cli.up import deployed_or_offered
    from slipway.jobs.code.command_job import OwnCommand, read_variables, refuse_mistakes
    from slipway.jobs.code.folder import read_folder

    command = OwnCommand(
        words=asked.pop("words"),
        is_per_node=asked.pop("per_node"),
        requirements=asked.pop("requirements"),
        environment=read_variables("--env", asked.pop("variables")),
        secrets=read_variables("--secret", asked.pop("secrets")),
    )
    sent = read_folder(folder, limit_mb=limit_mb, include_secrets=include_secrets)
    refuse_mistakes(command, sent)
    if not command.requirements and any(file.name == "requirements.txt" for file in sent.files):
        say("requirements.txt is sent and not installed: --requirements requirements.txt installs it")
    there = deployed_or_offered(target, region, is_trial=asked["dry_run"])
    submit_folder(command, sent, there, asked)


# Sends a folder and starts a command in it, for `slipway run` and for a project's own recipes.
_COLUMNS = (
    *(column for column in SUBMITTING_COLUMNS if column.name != "recipe"),
    Column(name="command"),
    Column(name="source.address", title="folder sent to"),
)
_DIGEST_SHOWN = 12


def submit_folder(command: OwnCommand, sent: ProjectFolder, target: Target, asked: dict[str, Any]) -> None:
    """Send the folder and start the command; `asked` holds the values of the remaining options."""
    from slipway.jobs.code.command_job import RECIPE, command_settings, folder_name, refuse_requirements
    from slipway.jobs.code.folder import ignored_words, words_of_skipped
    from slipway.jobs.code.packing import pack_project, project_url
    from slipway.jobs.words.job import Job

    asked["image"] = find_image(asked["image"], target)
    answers = take_answers(asked)
    # Warn of files that are not sent, though the command may need them.
    for words in words_of_skipped(sent):
        warn(words)
    for word in ignored_words(sent, command.words):
        warn(f"{word} is not sent: git ignores it")
    if command.requirements:
        refuse_requirements(command.requirements, sent, target)
    with tempfile.TemporaryDirectory(prefix="slipway-run-") as scratch:
        packed = pack_project(sent, Path(scratch) / "folder.tar.gz")
        name, hours = asked.pop("name"), asked.pop("timeout_hours")
        job = Job(  # all other values of `asked` are fields of Job by name
            **{**asked, "processes_per_node": command.processes(asked["processes_per_node"])},
            name=folder_name(sent.path) if name is None else name,
            recipe=RECIPE,
            settings=command_settings(command, project_url(packed.digest, target)),
            timeout_seconds=seconds_of(hours),
        )
        _prepare_and_submit(job, packed, target, answers)


def find_image(asked: str | None, target: Target) -> str | None:
    """Return the URI of the image in --image; None without one."""
    if asked is None:
        return None
    from slipway.jobs.clusters.images.builds import resolve_image

    return resolve_image(asked, target)


def _prepare_and_submit(job: Job, packed: PackedProject, target: Target, answers: Answers) -> None:
    from slipway.jobs.cloud import aws
    from slipway.jobs.code.packing import upload_project
    from slipway.jobs.submit.preparing import prepare

    def send_folder() -> None:
        if upload_project(packed, target, aws.client("s3", target.region)):
            say(f"sent the folder to {job.settings['source']}")

    prepared = prepare(job, target.name, target.region)
    size = f"{packed.files} file{'s' * (packed.files != 1)}, {megabytes(packed.size_bytes)}"
    compressed = f"{megabytes(packed.packed_bytes)} compressed"
    say(f"the folder: {size}, {compressed}, SHA-256 {packed.digest[:_DIGEST_SHOWN]}")
    carry_out(
        prepared,
        answers,
        bring=send_folder,
        columns=_COLUMNS,
        more={
            "command": shlex.join(json.loads(job.settings["command"])),
            "source": {
                "address": job.settings["source"],
                "files": packed.files,
                "size_bytes": packed.size_bytes,
                "packed_bytes": packed.packed_bytes,
                "sha256": packed.digest,
            },
        },
    )


# `slipway recipes`: lists what can be submitted, and the settings of one.
RECIPES = (
    Column(name="name"),
    Column(name="summary", title="what it does", absent=""),
    Column(name="trains_on", title="trains on", absent="any"),
    Column(name="from", absent="Slipway"),
)
SETTINGS = (
    Column(name="setting"),
    Column(name="allowed"),
    Column(name="default", absent="-"),
)


@click.command()
@click.argument("recipe", required=False, shell_complete=complete_recipe)
@json_option
def recipes_command(recipe: str | None, as_json: bool) -> None:
    """List the recipes that can be submitted: Slipway's, and those of your project's folder recipes/.

    With RECIPE, list its settings. A default that depends on other settings is not shown.

    \b
    slipway recipes
    slipway recipes glue_finetune
    """
    from slipway.jobs.words import recipes

    if recipe is not None:
        print_table(f"settings of {recipe}", SETTINGS, [*_settings(recipe)], as_json=as_json)
        return
    ours = [
        {"name": known.name, "summary": known.summary, "trains_on": ", ".join(known.accelerators)}
        for known in map(recipes.find_recipe, recipes.RECIPES)
    ]
    print_table("recipes", RECIPES, [*ours, *_own_recipes()], as_json=as_json)


def _own_recipes() -> Iterator[dict[str, object]]:
    """List the project's own recipes; the row of a broken one says why, and hides no other."""
    from slipway.jobs.code.own_recipes import FOLDER, BrokenRecipe, find_own_recipe, own_names

    for name in own_names():
        row: dict[str, object] = {"name": name, "from": f"{FOLDER}/{name}.py"}
        try:
            recipe = find_own_recipe(name)
        except BrokenRecipe as broken:
            yield {**row, "summary": f"error: {broken.message}"}
        else:
            yield {**row, "summary": recipe.summary if recipe else ""}


def _settings(name: str) -> Iterator[dict[str, object]]:
    from slipway.containers.training.settings import defaults_of, kinds_of
    from slipway.jobs.code.own_recipes import find_own_recipe
    from slipway.jobs.words.recipes import find_recipe

    if recipe := find_own_recipe(name):
        yield from _rows(recipe.kinds(), defaults_of(recipe.code.Config))
        return
    module = find_recipe(name).config
    defaults = {} if hasattr(module, "BY_SIZE") else defaults_of(module.CONFIG)
    yield from _rows(kinds_of(module.CONFIG), defaults)


def _rows(kinds: Mapping[str, ValueKind], defaults: Mapping[str, object]) -> Iterator[dict[str, object]]:
    for name, kind in kinds.items():
        yield {"setting": name, "allowed": kind.wanted, "default": defaults.get(name)}
