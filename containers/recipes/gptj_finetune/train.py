"""One rank of tuning a GPT-J: python -m slipway.containers.recipes.gptj_finetune.train --set task=sst2

Rank, world and places come from the launch contract; data and model lie below the data folder, or in S3.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack

from slipway.containers.recipes.gptj_finetune.config import GptjConfig, decode_arguments
from slipway.containers.recipes.gptj_finetune.recipe import MODULE
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.batch import share_batch
from slipway.containers.training.layout import ImpossibleLayout, Layout
from slipway.containers.training.rank import run_rank


def main(arguments: Sequence[str] | None = None) -> int:
    return run_rank(MODULE, decode_arguments, _train, arguments, __doc__)


def _train(config: GptjConfig, contract: LaunchContract, stack: ExitStack) -> None:
    layout = config.layout(contract)
    refuse_spanning(layout)
    share_batch(config.global_batch, config.micro_batch, layout.readers)  # refused here, it needs no torch
    from slipway.containers.recipes.gptj_finetune.start import prepare
    from slipway.containers.training.session import train

    train(config, contract, layout, prepare, stack)


def refuse_spanning(layout: Layout) -> None:
    """Raise ImpossibleLayout where ranks that cut one layer would talk over the nodes' network."""
    if layout.spans_nodes:
        raise ImpossibleLayout(
            f"tensor={layout.tensor} exceeds a node, which has {layout.ranks_per_node} ranks, or does not "
            "divide them",
            hint=f"set tensor to a divisor of {layout.ranks_per_node}, and pipeline for the rest",
        )


if __name__ == "__main__":
    sys.exit(main())
