"""Run one rank of a user's own task: python -m slipway.containers.tasks.train --set task=FILE

Rank, world size and folders come from the launch contract. With `steps`, it trains so many and saves nothing.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.tasks.config import UserTaskConfig, decode_arguments
from slipway.containers.training.rank import run_rank

MODULE = "slipway.containers.tasks.train"


def train_task(config: UserTaskConfig, contract: LaunchContract, stack: ExitStack) -> None:
    if config.steps is not None:
        contract = replace(contract, checkpoints=None)
    layout = config.layout(contract)
    from slipway.containers.tasks.start import prepare
    from slipway.containers.training.session import train

    train(config, contract, layout, prepare, stack)


main = partial(run_rank, MODULE, decode_arguments, train_task, description=__doc__)

if __name__ == "__main__":
    sys.exit(main())
