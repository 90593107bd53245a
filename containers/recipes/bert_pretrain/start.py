"""What BERT pre-training brings to the session that all recipes share: data, model, schedule and its end."""

from __future__ import annotations

from dataclasses import asdict

from slipway.containers.recipes.bert_pretrain.batch import plan_batch
from slipway.containers.recipes.bert_pretrain.config import BertConfig
from slipway.containers.recipes.bert_pretrain.data import BertBatches, open_data
from slipway.containers.recipes.bert_pretrain.defaults import PEAKS
from slipway.containers.recipes.bert_pretrain.export import export
from slipway.containers.recipes.bert_pretrain.flops import training_flops_per_token
from slipway.containers.recipes.bert_pretrain.model import build_model
from slipway.containers.recipes.bert_pretrain.task import BertTask
from slipway.containers.training.batch import BatchPlan
from slipway.containers.training.schedules import Schedule
from slipway.containers.training.session import RecipeParts, Workplace
from slipway.containers.training.start import Trained


def prepare(config: BertConfig, place: Workplace) -> RecipeParts:
    plan = plan_batch(config, place.layout.readers)
    data = open_data(place.contract, config)
    dataset = data.training
    schedule = build_schedule(config, plan)
    model = build_model(config, place.contract, dataset, place.words.say)
    place.layout.check(
        heads=model.shape.heads,
        layers=model.shape.layers,
        micro_batches=plan.accumulation_steps,
        stages_per_rank=config.stages_per_rank,
    )
    batches = BertBatches(plan=plan, reader=place.reader, seed=config.seed, device=place.device)

    def finish(trained: Trained) -> None:
        if place.contract.rank == 0 and trained.checkpoints is not None:
            place.words.say(export(trained.checkpoints.storage, model.shape, dataset))

    return RecipeParts(
        title=f"BERT {config.size}: {dataset.rows} rows of {dataset.manifest.plan.row_tokens} tokens",
        task=BertTask(),
        model=model,
        plan=plan,
        schedule=schedule,
        identity={
            **config.identity(),
            "steps": schedule.steps,
            "global_batch": plan.global_batch,
            **{f"model_{name}": value for name, value in asdict(model.shape).items()},
            **({"held_out_share": config.held_out_share} if config.held_out_share else {}),
        },
        open_batches=lambda beginning: batches.open(dataset, beginning),
        start_from=config.start_from,
        flops_per_token=training_flops_per_token(model.shape, dataset.manifest.plan.row_tokens),
        held_out=data.held_out_batches(batches, config),
        finish=finish,
    )


def build_schedule(config: BertConfig, plan: BatchPlan) -> Schedule:
    published_peak = PEAKS[config.size, config.phase].at(plan.global_batch)
    return Schedule(
        peak=published_peak if config.learning_rate is None else config.learning_rate,
        steps=config.steps_of(plan.global_batch),
        warmup_share=config.warmup_share,
        constant_share=config.constant_share,
        decay=config.schedule,
        decay_power=config.decay_power,
    )
