"""One fine-tuning from what it was told to its scores: opens all that the loop needs, and closes it again."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from containers.recipes.bert_pretrain import start
from containers.recipes.bert_pretrain.batch import BatchPlan
from containers.recipes.bert_pretrain.devices import Device, open_device
from containers.recipes.bert_pretrain.ending import Ending
from containers.recipes.bert_pretrain.engine_torch import TorchEngine
from containers.recipes.glue_finetune import opening
from containers.recipes.glue_finetune.batches import Batches
from containers.recipes.glue_finetune.config import GlueConfig
from containers.recipes.glue_finetune.evaluate import Evaluations
from containers.recipes.glue_finetune.finished import write_model
from containers.recipes.glue_finetune.loop import Loop
from containers.recipes.glue_finetune.model import Classifier
from containers.recipes.glue_finetune.report import Reporter, write_scores
from containers.runtime.contract import LaunchContract
from containers.runtime.telemetry import Telemetry

TRAINER_EPSILON = 1e-8  # of AdamW in the transformers Trainer, which the article uses


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the engine is made of."""

    config: GlueConfig
    model: Classifier
    device: Device
    plan: BatchPlan
    rank: int


def train(config: GlueConfig, contract: LaunchContract, plan: BatchPlan, stack: ExitStack) -> None:
    is_main = contract.rank == 0
    say, show = (_say, _print) if is_main else (_silent, _silent)
    telemetry = stack.enter_context(Telemetry.of(contract))
    ending = Ending(contract)
    device = open_device(contract, "cpu", config.precision)
    pretrained = opening.open_pretrained(config, contract)
    data = opening.open_data(config, contract, pretrained, say)
    backend = stack.enter_context(opening.process_group(config, contract, device))
    precision = str(device.precision).removeprefix("torch.")
    say(f"{data.task.name}: {len(data.train)} rows, {contract.world} rank(s) in {precision}, over {backend}")
    identity = opening.training_identity(config, plan, device, pretrained, data)
    start.check_ranks_agree(identity)
    model = opening.build_model(config, device, pretrained, data.task, say)
    parts = Parts(config=config, model=model, device=device, plan=plan, rank=contract.rank)
    engine = TorchEngine(parts, epsilon=TRAINER_EPSILON)
    checkpoints = stack.enter_context(start.open_checkpoints(contract, config.keep, identity, say))
    batches = Batches(
        lengths=data.train.lengths, plan=plan, pool_batches=config.pool_batches, seed=config.seed
    )
    schedule = opening.build_schedule(config, batches)
    evaluations = Evaluations(
        task=data.task, sets=data.dev, model=model, contract=contract, beat=telemetry.beat, say=show
    )
    loop = Loop(
        config=config,
        rank=contract.rank,
        examples=data.train,
        batches=batches,
        model=model,
        engine=engine,
        schedule=schedule,
        ending=ending,
        checkpoints=checkpoints,
        tell=Reporter(
            steps=schedule.steps, log_every=config.log_every, device=device, telemetry=telemetry, say=show
        ).tell,
        evaluate=lambda epochs: evaluations.run(f"epoch {epochs}"),
        say=say,
    )
    loop.run(opening.resume(config, engine, model, checkpoints))
    scores = evaluations.run(f"the last of {schedule.steps} steps")
    if is_main and contract.logs:
        write_scores(Path(contract.logs), data.task, scores)
    if is_main and checkpoints is not None:
        folder = write_model(checkpoints.folder, model, engine.weights(), pretrained, data.task)
        say(f"the model is in {folder}")


def _print(line: str) -> None:
    print(line, flush=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _silent(line: str) -> None:
    """The other ranks would say the same."""
