"""Which ranks a tuning can have: told where it is submitted, and again where it starts. No torch here."""

from __future__ import annotations

from slipway.containers.recipes.gptj_finetune.config import GptjConfig
from slipway.containers.training.batch import share_batch
from slipway.containers.training.layout import ImpossibleLayout, Layout


def refuse_layout(config: GptjConfig, layout: Layout) -> None:
    refuse_spanning(layout)
    share_batch(config.global_batch, config.micro_batch, layout.readers)


def refuse_spanning(layout: Layout) -> None:
    """Raise ImpossibleLayout where ranks that cut one layer would talk over the nodes' network."""
    if layout.spans_nodes:
        raise ImpossibleLayout(
            f"tensor={layout.tensor} exceeds a node, which has {layout.ranks_per_node} ranks, or does not "
            "divide them",
            hint=f"set tensor to a divisor of {layout.ranks_per_node}, and pipeline for the rest",
        )
