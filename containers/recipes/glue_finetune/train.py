"""One rank of fine-tuning on GLUE: python -m containers.recipes.glue_finetune.train --set task=mrpc

Rank, world and places come from the launch contract; task and model lie below the data folder, or in S3.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack

from containers.recipes.glue_finetune.config import GlueConfig, decode_arguments
from containers.recipes.glue_finetune.recipe import MODULE
from containers.runtime.contract import LaunchContract
from containers.training.rank import run_rank


def main(arguments: Sequence[str] | None = None) -> int:
    return run_rank(MODULE, decode_arguments, _train, arguments, __doc__)


def _train(config: GlueConfig, contract: LaunchContract, stack: ExitStack) -> None:
    from containers.recipes.glue_finetune.session import train

    train(config, contract, stack)


if __name__ == "__main__":
    sys.exit(main())
