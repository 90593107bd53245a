"""Run one rank of BERT pre-training: python -m slipway.containers.recipes.bert_pretrain.train --set size=tiny

Rank, world size and folders come from the launch contract; the data is what data/rows/prepare_bert.py wrote.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial

from slipway.containers.recipes.bert_pretrain.config import MODULE, BertConfig, decode_arguments, plan_batch
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.rank import run_rank


def _train(config: BertConfig, contract: LaunchContract, stack: ExitStack) -> None:
    layout = config.layout(contract)
    plan_batch(config, layout.readers)  # refused here, it needs no torch
    from slipway.containers.recipes.bert_pretrain.data import keep_saved_batch
    from slipway.containers.recipes.bert_pretrain.model import prepare
    from slipway.containers.training.session import train

    config = keep_saved_batch(config, contract, layout.readers)
    train(config, contract, layout, prepare, stack)


main = partial(run_rank, MODULE, decode_arguments, _train, description=__doc__)

if __name__ == "__main__":
    sys.exit(main())
