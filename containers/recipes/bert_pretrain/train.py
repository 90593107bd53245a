"""One rank of BERT pre-training: python -m containers.recipes.bert_pretrain.train --set size=tiny

Rank, world and places come from the launch contract; the data is what containers.data.prepare_bert wrote.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack

import torch
from torch import distributed

from containers.data.errors import DataError
from containers.data.loader import Loader, Reading
from containers.recipes.bert_pretrain import start
from containers.recipes.bert_pretrain.batch import BatchPlan, plan_batch
from containers.recipes.bert_pretrain.config import BertConfig, decode_arguments
from containers.recipes.bert_pretrain.devices import open_device
from containers.recipes.bert_pretrain.ending import Ending
from containers.recipes.bert_pretrain.engine import EngineParts, build_engine
from containers.recipes.bert_pretrain.loop import Loop
from containers.recipes.bert_pretrain.report import Reporter
from containers.runtime.contract import LaunchContract
from containers.runtime.errors import MISTAKE_EXIT_CODE, RESUMABLE_EXIT_CODE, Refusal
from containers.runtime.platforms import read_contract
from containers.runtime.telemetry import Telemetry


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m containers.recipes.bert_pretrain.train", description=__doc__
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    options = parser.parse_args(arguments)
    try:
        config = decode_arguments(options.settings)
        contract = read_contract(os.environ)
        with ExitStack() as stack:
            train(config, contract, plan_batch(config, contract.world), stack)
    except (Refusal, DataError) as error:
        return _fail(str(error), getattr(error, "exit_code", MISTAKE_EXIT_CODE))
    except torch.OutOfMemoryError as error:
        first_line = str(error).splitlines()[0]
        return _fail(
            f"{first_line}; set a smaller micro_batch: the same again ends the same", MISTAKE_EXIT_CODE
        )
    except distributed.DistError as error:
        return _fail(f"lost another rank: {error}", RESUMABLE_EXIT_CODE)
    return 0


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
    checkpoints = stack.enter_context(start.open_checkpoints(contract, config, identity, say))
    beginning = start.begin(engine, model, checkpoints, config, contract)
    reading = Reading(
        rank=contract.rank, world=contract.world, global_batch=plan.global_batch, seed=config.seed
    )
    loader = stack.enter_context(Loader(dataset, reading, beginning.cursor))
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


def _print(line: str) -> None:
    print(line, flush=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _silent(line: str) -> None:
    """The other ranks would say the same."""


def _fail(line: str, code: int) -> int:
    _say(f"error: {line}")
    return code


if __name__ == "__main__":
    sys.exit(main())
