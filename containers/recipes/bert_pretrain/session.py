"""One training from what it was told to its last step: opens all that the loop needs, and closes it again."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from slipway.containers.data.rows.loader import Loader, Reading
from slipway.containers.recipes.bert_pretrain import start
from slipway.containers.recipes.bert_pretrain.config import BertConfig
from slipway.containers.recipes.bert_pretrain.data import open_dataset
from slipway.containers.recipes.bert_pretrain.engine import Engine, EngineParts, build_engine
from slipway.containers.recipes.bert_pretrain.export import export
from slipway.containers.recipes.bert_pretrain.flops import Utilisation
from slipway.containers.recipes.bert_pretrain.loop import Loop
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.observe.telemetry import Telemetry
from slipway.containers.training.agreement import check_ranks_agree
from slipway.containers.training.batch import BatchPlan
from slipway.containers.training.devices import open_device
from slipway.containers.training.report import Reporter, Words
from slipway.containers.training.saving import Saving
from slipway.containers.training.shutdown_watch import ShutdownWatch
from slipway.containers.training.start import open_checkpoints


def train(config: BertConfig, contract: LaunchContract, plan: BatchPlan, stack: ExitStack) -> None:
    telemetry = stack.enter_context(Telemetry.of(contract))
    ending = ShutdownWatch(contract)
    device = open_device(contract, config.device, config.precision)
    dataset = open_dataset(contract, config)
    stack.enter_context(start.process_group(device, contract, config))
    model = start.build_model(config, device, dataset)
    identity = start.training_identity(config, plan, device, model)
    check_ranks_agree(identity)
    parts = EngineParts(config=config, model=model, device=device, plan=plan, rank=contract.rank)
    engine = build_engine(parts)
    words, row_tokens = Words.of(contract), dataset.manifest.plan.row_tokens
    checkpoints = stack.enter_context(open_checkpoints(contract, config.keep, identity, words.say))
    beginning = start.begin(engine, model, checkpoints, config, contract)
    loader = stack.enter_context(Loader(dataset, _reading(config, contract, plan), beginning.cursor))
    reporter = Reporter(
        steps=config.steps_of(plan.global_batch),
        log_every=config.log_every,
        device=device,
        telemetry=telemetry,
        show=words.show,
        utilisation=Utilisation(device, plan.world, model.shape, row_tokens).in_words,
    )
    surroundings = PretrainServices(ending, checkpoints, reporter, words)
    _loop(parts, engine, surroundings).run(iter(loader), beginning.step)
    if contract.rank == 0 and checkpoints is not None:
        words.say(export(checkpoints.folder, model, dataset))


@dataclass(frozen=True, slots=True)
class PretrainServices:
    """Hold what saves and reports the training."""

    ending: ShutdownWatch
    checkpoints: Checkpoints | None
    reporter: Reporter
    words: Words


def _loop(parts: EngineParts, engine: Engine, services: PretrainServices) -> Loop:
    config, schedule = parts.config, start.build_schedule(parts.config, parts.plan)
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
        plan=parts.plan,
        rank=parts.rank,
        device=parts.device,
        engine=engine,
        schedule=schedule,
        ending=services.ending,
        saving=saving,
        tell=services.reporter.tell,
        say=services.words.say,
    )


def _reading(config: BertConfig, contract: LaunchContract, plan: BatchPlan) -> Reading:
    return Reading(rank=contract.rank, world=contract.world, global_batch=plan.global_batch, seed=config.seed)
