"""One training from what it was told to its last step: opens all that the loop needs, and closes it again."""

from __future__ import annotations

from contextlib import ExitStack

from containers.data.loader import Loader, Reading
from containers.recipes.bert_pretrain import start
from containers.recipes.bert_pretrain.config import BertConfig
from containers.recipes.bert_pretrain.engine import EngineParts, build_engine
from containers.recipes.bert_pretrain.flops import Utilisation
from containers.recipes.bert_pretrain.loop import Loop
from containers.runtime.contract import LaunchContract
from containers.runtime.telemetry import Telemetry
from containers.training.agreement import check_ranks_agree
from containers.training.batch import BatchPlan
from containers.training.devices import open_device
from containers.training.ending import Ending
from containers.training.report import Reporter, Words
from containers.training.saving import Saving
from containers.training.start import open_checkpoints


def train(config: BertConfig, contract: LaunchContract, plan: BatchPlan, stack: ExitStack) -> None:
    telemetry = stack.enter_context(Telemetry.of(contract))
    ending = Ending(contract)
    device = open_device(contract, config.device, config.precision)
    dataset = start.open_dataset(contract, config)
    stack.enter_context(start.process_group(device, contract, config))
    model = start.build_model(config, device, dataset)
    identity = start.training_identity(config, plan, device, model)
    check_ranks_agree(identity)
    engine = build_engine(
        EngineParts(config=config, model=model, device=device, plan=plan, rank=contract.rank)
    )
    words = Words.of(contract)
    checkpoints = stack.enter_context(open_checkpoints(contract, config.keep, identity, words.say))
    beginning = start.begin(engine, model, checkpoints, config, contract)
    loader = stack.enter_context(Loader(dataset, _reading(config, contract, plan), beginning.cursor))
    reporter = Reporter(
        steps=config.steps,
        log_every=config.log_every,
        device=device,
        telemetry=telemetry,
        show=words.show,
        utilisation=Utilisation(device, plan.world, model.shape, dataset.manifest.plan.row_tokens).in_words,
    )
    saving = Saving(
        engine=engine,
        checkpoints=checkpoints,
        ending=ending,
        every=config.checkpoint_every,
        steps=config.steps,
        place=device.place,
        say=words.say,
    )
    loop = Loop(
        config=config,
        plan=plan,
        rank=contract.rank,
        device=device,
        engine=engine,
        schedule=start.build_schedule(config, plan),
        ending=ending,
        saving=saving,
        tell=reporter.tell,
        say=words.say,
    )
    loop.run(iter(loader), beginning.step)


def _reading(config: BertConfig, contract: LaunchContract, plan: BatchPlan) -> Reading:
    return Reading(rank=contract.rank, world=contract.world, global_batch=plan.global_batch, seed=config.seed)
