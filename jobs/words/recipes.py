"""Finds the recipes that can be submitted. A new one is a folder of containers/recipes and one line of
RECIPES.

Only a recipe's config.py is imported, which needs just the standard library: a laptop has no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from slipway.jobs.words.catalogue.hardware import device_of
from slipway.jobs.words.catalogue.instances import InstanceType
from slipway.jobs.words.errors import Problem, SlipwayError, did_you_mean
from slipway.jobs.words.images.containers import LockedTorch
from slipway.jobs.words.job import DoesNotFit, InvalidJob
from slipway.jobs.words.text import money

RECIPES: Mapping[str, str] = {
    "bert_pretrain": "slipway.containers.recipes.bert_pretrain.config",
    "command": "slipway.containers.recipes.command.config",
    "glue_finetune": "slipway.containers.recipes.glue_finetune.config",
    "gpt_neox": "slipway.containers.recipes.gpt_neox.config",
    "gptj_finetune": "slipway.containers.recipes.gptj_finetune.config",
    "prepare_bert": "slipway.containers.recipes.prepare_bert.config",
    "prepare_corpus": "slipway.containers.recipes.prepare_corpus.config",
    "prepare_tokens": "slipway.containers.recipes.prepare_tokens.config",
    "sft": "slipway.containers.recipes.sft.config",
    "smoke": "slipway.containers.recipes.smoke.config",
}


Read = TypeVar("Read")


class UnknownRecipe(SlipwayError):
    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    name: str
    summary: str
    module: str  # run by every process, with --set key=value
    accelerators: tuple[str, ...]
    uses_accelerators: bool  # False: it works on processors only, on any machine
    job_settings: tuple[str, ...]  # each names another job on the same cluster
    share_setting: str | None  # says which share of an array's work is its own; None: it cannot be divided
    input_settings: tuple[str, ...]  # name what it reads; SageMaker downloads s3:// URLs to its instances
    code_settings: tuple[str, ...]  # name code in S3, which SageMaker downloads with the data
    config: Any  # the recipe's own module; its decode_arguments reads settings as the training process will


def find_recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise UnknownRecipe(
            f"there is no recipe '{name}'",
            hint=did_you_mean(name, RECIPES, otherwise=f"there are {', '.join(RECIPES)}"),
        )
    module = import_module(RECIPES[name])
    return Recipe(
        name=name,
        summary=module.SUMMARY,
        module=module.MODULE,
        accelerators=tuple(module.ACCELERATORS),
        uses_accelerators=getattr(module, "USES_ACCELERATORS", True),
        job_settings=tuple(getattr(module, "JOB_SETTINGS", ())),
        share_setting=getattr(module, "SHARE_SETTING", None),
        input_settings=tuple(getattr(module, "INPUT_SETTINGS", ())),
        code_settings=tuple(getattr(module, "CODE_SETTINGS", ())),
        config=module,
    )


def idle_accelerators(recipe: Recipe, instance_type: InstanceType, nodes: int) -> Iterator[str]:
    """Warn of accelerators that are paid for and that the recipe does not use."""
    accelerator, price = instance_type.accelerator, instance_type.price
    if recipe.uses_accelerators or accelerator is None:
        return
    cost = (
        f"cost {money(price.usd_per_hour * nodes)} USD an hour ({price.region}, {price.date})"
        if price
        else "have no known price"
    )
    fewer = "use --nodes 1, or" if nodes > 1 else "use"
    yield (
        f"{recipe.name} uses processors only: the {accelerator.count * nodes} accelerators of {nodes} "
        f"{instance_type.name} idle, and the nodes {cost}; {fewer} a cluster without accelerators"
    )


def refuse_settings(recipe: Recipe, settings: Mapping[str, str]) -> None:
    """Let the recipe read the settings itself, before a node is paid for."""
    read_settings(recipe.config.decode_arguments, settings)


def read_settings(decode: Callable[[Sequence[str]], Read], settings: Mapping[str, str]) -> Read:
    """Return what a recipe reads from the settings; raise InvalidJob with every mistake."""
    from slipway.containers.runtime.errors import Refusal

    try:
        return decode([f"{name}={value}" for name, value in settings.items()])
    except Refusal as refusal:
        mistakes = getattr(refusal, "mistakes", (str(refusal),))
        raise InvalidJob([Problem(where="--set", message=str(mistake)) for mistake in mistakes]) from None


def refuse_array(recipe: Recipe, settings: Mapping[str, str]) -> None:
    """Refuse an array whose jobs would all do the same work."""
    if recipe.share_setting is None:
        shared = [name for name in RECIPES if find_recipe(name).share_setting]
        raise DoesNotFit(
            f"every job of an array would do all work of recipe '{recipe.name}'; allowed with --array "
            f"is {' or '.join(shared)}",
            hint="leave out --array; --nodes divides the work of one job",
        )
    if recipe.share_setting in settings:
        raise InvalidJob(
            [
                Problem(
                    where=f"--set {recipe.share_setting}",
                    message="is set, and --array gives each of its jobs a share of its own",
                    hint=f"leave out --set {recipe.share_setting}, or --array",
                )
            ]
        )


def refuse_ranks(recipe: Recipe, settings: Mapping[str, str], world: int, ranks_per_node: int) -> None:
    """Let the recipe refuse a number of ranks that its settings cannot be divided among."""
    from slipway.containers.runtime.errors import Refusal

    if (refuse := getattr(recipe.config, "refuse_ranks", None)) is None:
        return
    try:
        refuse([f"{name}={value}" for name, value in settings.items()], world, ranks_per_node)
    except Refusal as refusal:
        raise DoesNotFit(refusal.message, hint=refusal.hint) from None


def refuse_torch(
    recipe: Recipe, settings: Mapping[str, str], instance_type: InstanceType, torch: LockedTorch | None
) -> None:
    """Refuse settings that are not proved on an image's PyTorch; `torch` is None if no lock names it."""
    from slipway.containers.runtime.errors import Refusal
    from slipway.containers.training.config import TrainingConfig, refuse_unproved

    config = read_settings(recipe.config.decode_arguments, settings)
    if torch is None or not isinstance(config, TrainingConfig):
        return
    try:
        refuse_unproved(
            config,
            torch.version,
            accelerator=device_of(instance_type),
            holder=f"the image {torch.image}",
        )
    except Refusal as refusal:
        raise DoesNotFit(refusal.message, hint=refusal.hint) from None


def refuse_hardware(recipe: Recipe, instance_type: InstanceType) -> None:
    device = device_of(instance_type)
    if device not in recipe.accelerators:
        raise DoesNotFit(
            f"recipe '{recipe.name}' cannot train on {device}, which is what {instance_type.name} has; "
            f"it can train on {', '.join(recipe.accelerators)}",
            hint="submit it to another target: slipway cluster targets",
        )
