"""One rank of the preparation: python -m slipway.containers.recipes.prepare_bert.train --set input=text

Nothing is trained here: `train` is the name of every recipe's entry point.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack

from slipway.containers.recipes.prepare_bert.config import PrepareConfig, decode_arguments
from slipway.containers.recipes.prepare_bert.recipe import MODULE
from slipway.containers.recipes.prepare_bert.session import prepare_share
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.rank import run_rank


def main(arguments: Sequence[str] | None = None) -> int:
    return run_rank(MODULE, decode_arguments, _prepare, arguments, __doc__)


def _prepare(config: PrepareConfig, contract: LaunchContract, stack: ExitStack) -> None:
    prepare_share(config, contract)


if __name__ == "__main__":
    sys.exit(main())
