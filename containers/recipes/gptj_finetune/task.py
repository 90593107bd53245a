"""What tuning loses: the next token, where it counts; and which label's words a model finds likelier."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it

from slipway.containers.models.packing import PackedRows
from slipway.containers.training.engines.native.assembly import local_of
from slipway.containers.training.task import Inputs


class CausalTask:
    """Measure the loss of the scored tokens, and of pairs of rows how often the wanted one is likelier."""

    metrics = ("loss", "accuracy")

    def forward(self, model: nn.Module, inputs: Inputs) -> Tensor:
        return self.metrics_of(self.run_stage(model, None, inputs), inputs)

    def run_stage(self, stage: nn.Module, hidden: Tensor | None, inputs: Inputs) -> Tensor:
        """Run the model, or one stage of a pipeline, from words or the hidden state before it."""
        outputs: Tensor = stage(
            inputs["words"] if hidden is None else hidden, _packed(inputs), inputs["scored"]
        )
        return outputs

    def metrics_of(self, outputs: Tensor, inputs: Inputs) -> Tensor:
        """Return the metrics from what the model, or its last stage, returned; training has no pairs."""
        labels, owners, wanted = inputs["labels"], inputs.get("owners"), inputs.get("wanted")
        assert labels is not None, "every row has a token that counts"
        scores = outputs.float()
        if owners is None or wanted is None:
            # Local at once: PyTorch 2.8 finds no gradient of a stack of distributed numbers.
            loss = local_of(F.cross_entropy(scores, labels))
            return torch.stack([loss, torch.zeros_like(loss)])
        losses = local_of(F.cross_entropy(scores, labels, reduction="none"))
        likelihoods = torch.zeros(2 * len(wanted), device=losses.device).index_add(0, owners, -losses)
        pairs = likelihoods.view(-1, 2)
        of_wanted = pairs.gather(1, wanted[:, None])[:, 0]
        of_other = pairs.gather(1, 1 - wanted[:, None])[:, 0]
        # A tie is no answer.
        return torch.stack([-of_wanted.mean(), (of_wanted > of_other).float().mean()])


def _packed(inputs: Inputs) -> PackedRows | None:
    """Return the rows that lie end to end; on the meta device only shapes count, which are as of one row."""
    lengths = inputs.get("lengths")
    return None if lengths is None or lengths.is_meta else PackedRows.of(lengths)
