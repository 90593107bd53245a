"""One rank: python -m slipway.containers.recipes.prepare_tokens.train --set input=text.jsonl

Nothing is trained here: `train` is the name of every recipe's entry point.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack

from slipway.containers.recipes.prepare_tokens.config import TokensConfig, decode_arguments
from slipway.containers.recipes.prepare_tokens.recipe import MODULE
from slipway.containers.recipes.prepare_tokens.session import prepare_share
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.rank import run_rank


def main(arguments: Sequence[str] | None = None) -> int:
    return run_rank(MODULE, decode_arguments, _prepare, arguments, __doc__)


def _prepare(config: TokensConfig, contract: LaunchContract, stack: ExitStack) -> None:
    prepare_share(config, contract)


if __name__ == "__main__":
    sys.exit(main())
