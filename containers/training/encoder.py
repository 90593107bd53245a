"""One layer of BERT's encoder (Devlin et al. 2018), with the framework's fused attention."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it

VOCABULARY = 30522  # bert-base-uncased; a vocabulary of another size gives its own number
LAYER_NORM_EPSILON = 1e-12
INITIAL_SPREAD = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class BertShape:
    layers: int
    hidden: int
    heads: int
    vocabulary: int = VOCABULARY
    dropout: float = 0.1

    @property
    def intermediate(self) -> int:
        return 4 * self.hidden


class EncoderLayer(nn.Module):
    """Apply one encoder layer that normalises after each sum, as in the original BERT."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.attention_dropout = shape.dropout
        self.query_key_value = nn.Linear(shape.hidden, 3 * shape.hidden)
        self.attention_output = nn.Linear(shape.hidden, shape.hidden)
        self.attention_norm = nn.LayerNorm(shape.hidden, eps=LAYER_NORM_EPSILON)
        self.up = nn.Linear(shape.hidden, shape.intermediate)
        self.down = nn.Linear(shape.intermediate, shape.hidden)
        self.output_norm = nn.LayerNorm(shape.hidden, eps=LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, hidden: Tensor, visible: Tensor | None) -> Tensor:
        hidden = self.attention_norm(hidden + self.dropout(self._attention(hidden, visible)))
        wide = F.gelu(self.up(hidden))
        normed: Tensor = self.output_norm(hidden + self.dropout(self.down(wide)))
        return normed

    def _attention(self, hidden: Tensor, visible: Tensor | None) -> Tensor:
        batch, length, width = hidden.shape
        together = self.query_key_value(hidden).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = together.permute(2, 0, 3, 1, 4)
        dropout = self.attention_dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=visible, dropout_p=dropout)
        output: Tensor = self.attention_output(mixed.transpose(1, 2).reshape(batch, length, width))
        return output
