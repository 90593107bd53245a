"""Run one rank of the smoke test: python -m slipway.containers.recipes.smoke.train --set largest_mib=64

Nothing is trained here: `train` is the name of every recipe's entry point.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial

from slipway.containers.recipes.smoke.config import MODULE, SmokeConfig, decode_arguments
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.rank import run_rank


def _test(config: SmokeConfig, contract: LaunchContract, stack: ExitStack) -> None:
    from slipway.containers.recipes.smoke.session import smoke

    smoke(config, contract)


main = partial(run_rank, MODULE, decode_arguments, _test, description=__doc__)

if __name__ == "__main__":
    sys.exit(main())
