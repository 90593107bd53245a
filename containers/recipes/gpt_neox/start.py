"""What GPT-NeoX pre-training brings to the session that all recipes share: data, model, schedule, end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from slipway.containers.models.decoder import DecoderShape
from slipway.containers.models.flops import training_flops_per_token
from slipway.containers.recipes.gpt_neox.compiled import (
    CompileSettings,
    check_compiled,
    compile_settings,
    write_compiled,
)
from slipway.containers.recipes.gpt_neox.config import GptNeoxConfig
from slipway.containers.recipes.gpt_neox.data import Corpus, TokenBatches, open_corpus
from slipway.containers.recipes.gpt_neox.export import export
from slipway.containers.recipes.gpt_neox.model import build_model
from slipway.containers.recipes.gpt_neox.task import NextTokenTask
from slipway.containers.runtime.collective import Json
from slipway.containers.training.batch import share_batch
from slipway.containers.training.schedules import Schedule
from slipway.containers.training.session import RecipeParts, Workplace
from slipway.containers.training.start import Trained


def prepare(config: GptNeoxConfig, place: Workplace) -> RecipeParts:
    plan = share_batch(config.global_batch, config.micro_batch, place.layout.readers)
    model = build_model(config, place.contract)
    shape = model.shape
    place.layout.check(
        heads=shape.heads,
        layers=shape.layers,
        micro_batches=plan.accumulation_steps,
        stages_per_rank=config.stages_per_rank,
    )
    settings = compile_settings(config, shape, place)
    if config.steps is None and config.compiled == "same":
        check_compiled(settings, place.words.say)
    corpus, held_out = _open_corpora(config, place, shape.vocabulary)
    batches = TokenBatches(plan=plan, reader=place.reader, seed=config.seed, device=place.device)
    schedule = build_schedule(config)

    def finish(trained: Trained) -> None:
        if place.contract.rank == 0:
            for line in _leave(config, trained, settings, shape):
                place.words.say(line)

    return RecipeParts(
        title=_title(config, corpus.name),
        task=NextTokenTask(),
        model=model,
        plan=plan,
        schedule=schedule,
        identity=_identity(config, schedule, shape),
        open_batches=lambda beginning: batches.open(corpus, beginning),
        betas=(config.beta1, config.beta2),
        epsilon=config.epsilon,
        start_from=config.start_from,
        flops_per_token=training_flops_per_token(shape, config.length),
        held_out=batches.held_out(held_out, config),
        finish=finish,
    )


def _open_corpora(config: GptNeoxConfig, place: Workplace, vocabulary: int) -> tuple[Corpus, Corpus | None]:
    """Open what is trained on, and what is only measured on."""
    corpus = open_corpus(place.contract, config, config.data, vocabulary)
    if config.held_out is None:
        return corpus, None
    return corpus, open_corpus(place.contract, config, config.held_out, vocabulary)


def _identity(config: GptNeoxConfig, schedule: Schedule, shape: DecoderShape) -> dict[str, Json]:
    model = {f"model_{name}": value for name, value in asdict(shape).items()}
    return {**config.identity(), "steps": schedule.steps, **model}


def _leave(
    config: GptNeoxConfig, trained: Trained, settings: CompileSettings, shape: DecoderShape
) -> Iterator[str]:
    """Leave the model, or a record of what was compiled; yield a line that says so."""
    if config.steps is not None:
        yield write_compiled(settings)
    elif trained.checkpoints is not None:
        yield export(trained.checkpoints.storage, shape)


def build_schedule(config: GptNeoxConfig) -> Schedule:
    return Schedule(
        peak=config.rate,
        least=config.least_rate,
        steps=config.all_steps if config.steps is None else config.steps,
        warmup_share=config.warmup,
        decay=config.schedule,
        decay_power=1.0,
    )


def _title(config: GptNeoxConfig, corpus: str) -> str:
    if config.steps is not None:
        return f"GPT-NeoX {config.size}: compiles {config.steps} step(s), and keeps nothing of them"
    return f"GPT-NeoX {config.size}: {config.tokens:,} tokens in {config.all_steps:,} steps, from {corpus}"
