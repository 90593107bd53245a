"""Run one rank of tuning a GPT-J: python -m slipway.containers.recipes.gptj_finetune.train --set task=sst2

Rank and folders come from the launch contract; data and model lie below the data folder, or in S3.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial

from slipway.containers.recipes.gptj_finetune.config import (
    MODULE,
    GptjConfig,
    decode_arguments,
    refuse_layout,
)
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.rank import run_rank


def _train(config: GptjConfig, contract: LaunchContract, stack: ExitStack) -> None:
    layout = config.layout(contract)
    refuse_layout(config, layout)
    from slipway.containers.recipes.gptj_finetune.model import prepare
    from slipway.containers.training.session import train

    train(config, contract, layout, prepare, stack)


main = partial(run_rank, MODULE, decode_arguments, _train, description=__doc__)

if __name__ == "__main__":
    sys.exit(main())
