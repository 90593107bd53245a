"""Run one rank of GPT-NeoX training: python -m slipway.containers.recipes.gpt_neox.train --set data=tokens

Rank and folders come from the launch contract. With `steps`, it compiles so many and saves nothing.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from slipway.containers.recipes.gpt_neox.config import (
    MODULE,
    GptNeoxConfig,
    decode_arguments,
    refuse_layout,
)
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.rank import run_rank


def _train(config: GptNeoxConfig, contract: LaunchContract, stack: ExitStack) -> None:
    config = config.resolved(contract.accelerator)
    if config.steps is not None:
        contract = replace(contract, checkpoints=None, logs=None)
    layout = config.layout(contract)
    refuse_layout(config, layout)  # here, as it needs no torch
    from slipway.containers.recipes.gpt_neox.model import prepare
    from slipway.containers.training.session import train

    train(config, contract, layout, prepare, stack)


main = partial(run_rank, MODULE, decode_arguments, _train, description=__doc__)

if __name__ == "__main__":
    sys.exit(main())
