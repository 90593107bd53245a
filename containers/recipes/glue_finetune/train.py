"""Run one rank of GLUE tuning: python -m slipway.containers.recipes.glue_finetune.train --set task=mrpc

Rank and folders come from the launch contract; task and model lie below the data folder, or in S3.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial

from slipway.containers.recipes.glue_finetune.config import MODULE, GlueConfig, decode_arguments
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.rank import run_rank


def _train(config: GlueConfig, contract: LaunchContract, stack: ExitStack) -> None:
    from slipway.containers.recipes.glue_finetune.model import prepare
    from slipway.containers.training.session import train

    train(config, contract, config.layout(contract), prepare, stack)


main = partial(run_rank, MODULE, decode_arguments, _train, description=__doc__)

if __name__ == "__main__":
    sys.exit(main())
