"""Parses the command line with which a batch script starts an attempt.

A job that Slipway submitted names everything; a script that a person gives to sbatch names a recipe and its
settings (neox_tiny.sh next to run.slurm), and the node knows the rest.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass

from slipway.containers.runtime.contract import variables
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.slurm import COMPILE, RUN

ATTEMPTS = 3  # of a job by default
_MOST_ATTEMPTS = 10
_PHASES = (COMPILE, RUN)


class WrongWords(SlipwayError):
    """The batch script asks for something impossible."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainWords:
    phase: str
    model: str  # the submission's name, or that of the model's script
    attempts: int
    ranks_per_node: int | None  # None: one for each NeuronCore, or one without any
    folder: str | None  # of the run; None: a person started it, and it leaves no notes
    code: str | None  # None: the installed code
    image: str | None  # of the ranks' container; None: the cluster's, if it has one
    module: str | None  # None: the recipe's own
    recipe: str
    settings: Mapping[str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--phase", choices=_PHASES, help="the default is what compile.slurm and run.slurm say"
    )
    parser.add_argument("--attempts", type=int, default=ATTEMPTS, metavar="COUNT")
    parser.add_argument("--ranks-per-node", type=int, metavar="COUNT")
    parser.add_argument("--folder", metavar="PATH")
    parser.add_argument("--code", metavar="PATH")
    parser.add_argument("--image", metavar="URI")
    parser.add_argument("--module", metavar="MODULE")
    parser.add_argument("recipe", metavar="RECIPE")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")


def train_words(parsed: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> TrainWords:
    phase = parsed.phase or environment.get(variables.PHASE) or RUN
    if phase not in _PHASES:
        raise WrongWords(
            f"{variables.PHASE} is '{phase}'; allowed is {' or '.join(_PHASES)}",
            hint="hand the script of a model to compile.slurm or run.slurm",
        )
    if not 1 <= parsed.attempts <= _MOST_ATTEMPTS:
        raise WrongWords(f"--attempts is {parsed.attempts}; allowed is 1 to {_MOST_ATTEMPTS}")
    ranks = _ranks_per_node(parsed.ranks_per_node, environment)
    names = (variables.JOB, variables.MODEL, "SLURM_JOB_NAME")
    settings: dict[str, str] = {}
    for word in parsed.settings:  # a later one replaces an earlier one, such as the model's script's
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise WrongWords(
                f"'{word[:80]}' is no setting; allowed is KEY=VALUE", hint="quote it for the shell"
            )
        settings[name] = value
    return TrainWords(
        phase=phase,
        model=next((environment[name] for name in names if environment.get(name)), parsed.recipe),
        attempts=parsed.attempts,
        ranks_per_node=ranks,
        folder=parsed.folder,
        code=parsed.code,
        image=parsed.image,
        module=parsed.module,
        recipe=parsed.recipe,
        settings=settings,
    )


def _ranks_per_node(given: int | None, environment: Mapping[str, str]) -> int | None:
    """Return the number in the script, or else in the variable of whoever gave it to sbatch."""
    where, value = variables.PROCESSES_PER_NODE, environment.get(variables.PROCESSES_PER_NODE)
    if given is not None:
        where, value = "--ranks-per-node", str(given)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and int(value)):
        raise WrongWords(f"{where} is '{value[:20]}'; a number of ranks from 1 is allowed")
    return int(value)
