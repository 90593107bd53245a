"""One fine-tuning from what it was told to its scores: opens all that the loop needs, and closes it again."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from slipway.containers.models.heads import Classifier
from slipway.containers.recipes.glue_finetune import start
from slipway.containers.recipes.glue_finetune.batch import Batches, plan_batch
from slipway.containers.recipes.glue_finetune.config import GlueConfig
from slipway.containers.recipes.glue_finetune.data import Data, open_data
from slipway.containers.recipes.glue_finetune.evaluate import Evaluations
from slipway.containers.recipes.glue_finetune.loop import Loop
from slipway.containers.recipes.glue_finetune.pretrained.write import write_model
from slipway.containers.recipes.glue_finetune.report import write_scores
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.observe.telemetry import Telemetry
from slipway.containers.training.agreement import check_ranks_agree
from slipway.containers.training.batch import BatchPlan
from slipway.containers.training.data_parallel import DataParallel
from slipway.containers.training.devices import Device, open_device
from slipway.containers.training.report import Reporter, Words
from slipway.containers.training.saving import Saving
from slipway.containers.training.shutdown_watch import ShutdownWatch
from slipway.containers.training.start import open_checkpoints, resume

TRAINER_EPSILON = 1e-8  # of AdamW in the transformers Trainer, which the article uses


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneParts:
    """Hold what the engine is made of."""

    config: GlueConfig
    model: Classifier
    device: Device
    plan: BatchPlan
    rank: int


def train(config: GlueConfig, contract: LaunchContract, stack: ExitStack) -> None:
    plan, words = plan_batch(config, contract), Words.of(contract)
    telemetry = stack.enter_context(Telemetry.of(contract))
    ending = ShutdownWatch(contract)
    device = open_device(contract, "cpu", config.precision)
    pretrained = start.open_pretrained(config, contract)
    data = open_data(config, contract, pretrained, words.say)
    backend = stack.enter_context(start.process_group(config, contract, device))
    ranks = f"{contract.world} rank(s) in {device.precision_name}, over {backend}"
    words.say(f"{data.task.name}: {len(data.train)} rows, {ranks}")
    identity = start.training_identity(config, plan, device, pretrained, data)
    check_ranks_agree(identity)
    model = start.build_model(config, device, pretrained, data.task, words.say)
    parts = FinetuneParts(config=config, model=model, device=device, plan=plan, rank=contract.rank)
    engine = DataParallel(parts, epsilon=TRAINER_EPSILON)
    checkpoints = stack.enter_context(open_checkpoints(contract, config.keep, identity, words.say))
    evaluations = Evaluations(
        task=data.task, sets=data.dev, model=model, contract=contract, beat=telemetry.beat, say=words.show
    )
    loop = _loop(parts, engine, data, evaluations, FinetuneServices(ending, checkpoints, telemetry, words))
    found = resume(engine, model, checkpoints, config.resume)
    loop.run(found.step if found else 0)
    scores = evaluations.run(f"the last of {loop.schedule.steps} steps")
    if contract.rank == 0 and contract.logs:
        write_scores(Path(contract.logs), data.task, scores)
    if contract.rank == 0 and checkpoints is not None:
        folder = write_model(checkpoints.folder, model, engine.weights(), pretrained, data.task)
        words.say(f"the model is in {folder}")


@dataclass(frozen=True, slots=True)
class FinetuneServices:
    """Hold what saves and reports the training."""

    ending: ShutdownWatch
    checkpoints: Checkpoints | None
    telemetry: Telemetry
    words: Words


def _loop(
    parts: FinetuneParts, engine: DataParallel, data: Data, scoring: Evaluations, services: FinetuneServices
) -> Loop:
    config = parts.config
    batches = Batches(
        lengths=data.train.lengths, plan=parts.plan, pool_batches=config.pool_batches, seed=config.seed
    )
    schedule = start.build_schedule(config, batches)
    reporter = Reporter(
        steps=schedule.steps,
        log_every=config.log_every,
        device=parts.device,
        telemetry=services.telemetry,
        show=services.words.show,
    )
    saving = Saving(
        engine=engine,
        checkpoints=services.checkpoints,
        ending=services.ending,
        every=config.checkpoint_every,
        steps=schedule.steps,
        place=parts.device.place,
        say=services.words.say,
    )
    return Loop(
        config=config,
        rank=parts.rank,
        examples=data.train,
        batches=batches,
        model=parts.model,
        engine=engine,
        schedule=schedule,
        ending=services.ending,
        saving=saving,
        tell=reporter.tell,
        evaluate=lambda epochs: scoring.run(f"epoch {epochs}"),
    )
