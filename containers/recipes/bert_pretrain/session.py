"""One training from what it was told to its last step: opens all that the loop needs, and closes it again."""

from __future__ import annotations

import sys
from contextlib import ExitStack

from containers.data.loader import Loader, Reading
from containers.recipes.bert_pretrain import start
from containers.recipes.bert_pretrain.batch import BatchPlan
from containers.recipes.bert_pretrain.config import BertConfig
from containers.recipes.bert_pretrain.devices import open_device
from containers.recipes.bert_pretrain.ending import Ending
from containers.recipes.bert_pretrain.engine import EngineParts, build_engine
from containers.recipes.bert_pretrain.loop import Loop
from containers.recipes.bert_pretrain.report import Reporter
from containers.runtime.contract import LaunchContract
from containers.runtime.telemetry import Telemetry


def train(config: BertConfig, contract: LaunchContract, plan: BatchPlan, stack: ExitStack) -> None:
    telemetry = stack.enter_context(Telemetry.of(contract))
    ending = Ending(contract)
    device = open_device(contract, config.device, config.precision)
    dataset = start.open_dataset(contract, config)
    stack.enter_context(start.process_group(device, contract, config))
    model = start.build_model(config, device, dataset)
    identity = start.training_identity(config, plan, device, model)
    start.check_ranks_agree(identity)
    engine = build_engine(
        EngineParts(config=config, model=model, device=device, plan=plan, rank=contract.rank)
    )
    say = _say if contract.rank == 0 else _silent
    checkpoints = stack.enter_context(start.open_checkpoints(contract, config.keep, identity, say))
    beginning = start.begin(engine, model, checkpoints, config, contract)
    loader = stack.enter_context(Loader(dataset, _reading(config, contract, plan), beginning.cursor))
    reporter = Reporter(
        config=config,
        plan=plan,
        device=device,
        row_tokens=dataset.manifest.plan.row_tokens,
        shape=model.shape,
        telemetry=telemetry,
        say=_print if contract.rank == 0 else _silent,
    )
    loop = Loop(
        config=config,
        plan=plan,
        rank=contract.rank,
        device=device,
        engine=engine,
        schedule=start.build_schedule(config, plan),
        ending=ending,
        checkpoints=checkpoints,
        tell=reporter.tell,
        say=say,
    )
    loop.run(iter(loader), beginning.step)


def _reading(config: BertConfig, contract: LaunchContract, plan: BatchPlan) -> Reading:
    return Reading(rank=contract.rank, world=contract.world, global_batch=plan.global_batch, seed=config.seed)


def _print(line: str) -> None:
    print(line, flush=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _silent(line: str) -> None:
    """The other ranks would say the same."""
