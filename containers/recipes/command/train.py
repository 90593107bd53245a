"""One rank of a user's own command: python -m slipway.containers.recipes.command.train --set source=…

It becomes the command, so that signals reach it and its exit code is the rank's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack

from slipway.containers.recipes.command.config import CommandConfig, decode_arguments
from slipway.containers.recipes.command.recipe import MODULE
from slipway.containers.recipes.command.start import start
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.rank import run_rank


def main(arguments: Sequence[str] | None = None) -> int:
    return run_rank(MODULE, decode_arguments, _run, arguments, __doc__)


def _run(config: CommandConfig, contract: LaunchContract, stack: ExitStack) -> None:
    start(config, contract)


if __name__ == "__main__":
    sys.exit(main())
