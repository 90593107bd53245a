"""Decoders with rotary positions: GPT-J (Wang and Komatsuzaki 2021) and GPT-NeoX (Black et al. 2022).

Queries, keys and values are one matrix in both families, laid out head by head, so that tensor parallelism
can cut its rows between heads. Another family is one row of FAMILIES.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it

from slipway.containers.models.rotary import Rotation, rearranged, rotated, rotation
from slipway.containers.models.shapes import PackedRows, cut_layers


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderFamily:
    rotates_neighbours: bool  # pairs dimensions (0, 1), (2, 3), ...; else (0, n/2), (1, n/2 + 1), ...
    shares_norm: bool  # attention and the feed-forward part share one norm


FAMILIES: Mapping[str, DecoderFamily] = {
    "gptj": DecoderFamily(rotates_neighbours=True, shares_norm=True),
    "neox": DecoderFamily(rotates_neighbours=False, shares_norm=False),
}


_ADD_TO_RESIDUAL = ("attention.output.weight", "mlp.down.weight")  # these two of each layer


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderShape:
    family: str
    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocabulary: int
    rotary_dimensions: int  # the first dimensions of each head rotate
    rotary_base: float = 10_000.0
    rotates_whole_heads: bool = False  # another way to compute the same result: see rotary.py
    positions: int = 2048  # the longest sequence that the model was made for
    has_parallel_residual: bool = True
    has_attention_bias: bool = False
    has_head_bias: bool = False
    is_tied: bool = False  # the head scores with the matrix of the embeddings
    gelu: str = "tanh"  # as torch calls it: "none" is exact
    norm_epsilon: float = 1e-5
    dropout: float = 0.0
    attention_dropout: float = 0.0
    initial_spread: float = 0.02
    # Matrices that add to the residual begin smaller, by the root of their number (Radford et al. 2019, 2.3).
    scales_residuals: bool = False

    def __post_init__(self) -> None:
        width, is_gptj = self.head_width, self.family == "gptj"
        contradictions = {
            f"family={self.family!r}: it is one of {', '.join(FAMILIES)}": self.family not in FAMILIES,
            f"heads={self.heads} do not divide hidden={self.hidden}": self.hidden % self.heads > 0,
            f"rotary_dimensions={self.rotary_dimensions}: an even number from 2 to {width}, a head's width": (
                self.rotary_dimensions % 2 > 0 or not 2 <= self.rotary_dimensions <= width
            ),
            "family='gptj' has no residual in series": is_gptj and not self.has_parallel_residual,
            "a tied head has no bias of its own": self.is_tied and self.has_head_bias,
            f"rotates_whole_heads needs an even width of a head, and it is {width}": (
                self.rotates_whole_heads and width % 2 > 0
            ),
        }
        for reason, is_so in contradictions.items():
            if is_so:
                raise ValueError(reason)

    @property
    def head_width(self) -> int:
        return self.hidden // self.heads

    @property
    def identity(self) -> dict[str, Any]:
        """Return what a resumed training must share with the saved one: all but how weights were drawn."""
        named = {f"model_{name}": value for name, value in asdict(self).items()}
        del named["model_scales_residuals"]
        return named

    @property
    def rotates_neighbours(self) -> bool:
        return FAMILIES[self.family].rotates_neighbours


class Decoder(nn.Module):
    """Score the next word at each position.

    A whole decoder is a pipeline of one stage. `cut` returns stages that hold some of the layers, under the
    same names, and turn words or hidden states into hidden states or scores.
    """

    # How tensor parallelism cuts the matrices: the values are keys of CUTS in engines/native/assembly.py.
    # Every rank holds all other parameters whole.
    tensor_plan: ClassVar[Mapping[str, str]] = {
        "embeddings": "words",
        "layers.*.attention.query_key_value": "columns",
        "layers.*.attention.output": "rows",
        "layers.*.mlp.up": "columns",
        "layers.*.mlp.down": "rows",
        "head": "scores",
    }

    def __init__(self, shape: DecoderShape) -> None:
        super().__init__()
        self.shape = shape
        self.embeddings: nn.Embedding | None = nn.Embedding(shape.vocabulary, shape.hidden)
        self.dropout = nn.Dropout(shape.dropout)
        self.layers = nn.ModuleList(DecoderLayer(shape) for _ in range(shape.layers))
        self.norm: nn.LayerNorm | None = nn.LayerNorm(shape.hidden, eps=shape.norm_epsilon)
        self.head: nn.Linear | None = nn.Linear(shape.hidden, shape.vocabulary, bias=shape.has_head_bias)
        self.is_first = True
        self.stage_layers: Sequence[int] | None = None  # layers per stage of a pipeline; None: even
        self.row_shares = 1  # ranks that share the tokens of a row, from the embeddings to the last norm
        self.tie()

    def forward(self, inputs: Tensor, rows: PackedRows | None = None, scored: Tensor | None = None) -> Tensor:
        """Return the scores of every token, or of `scored`: indices into the tokens of all rows.

        With `rows`, the inputs are one row, in which these rows lie end to end.
        """
        hidden = inputs
        if self.is_first:
            assert self.embeddings is not None, "the first stage has the embeddings"
            hidden = self.dropout(self.embeddings(inputs.long()))
        turned = self._rotation(hidden, rows)
        for layer in self.layers.children():
            hidden = layer(hidden, turned, rows)
        if self.norm is None or self.head is None:
            return hidden
        hidden = self.norm(hidden)
        if scored is not None:  # the indices count in whole rows, which every rank has from here on
            hidden = hidden.flatten(0, 1)[scored]
        scores: Tensor = self.head(hidden)
        return scores

    def _rotation(self, hidden: Tensor, rows: PackedRows | None) -> Rotation:
        if rows is None:
            return rotation(self.shape, hidden.shape[1] * self.row_shares, hidden)
        cosines, sines = rotation(self.shape, max(length for _, length in rows.runs), hidden)
        return cosines[rows.places], sines[rows.places]

    def tie(self) -> None:
        """Let the head share the embeddings' matrix again, after either was replaced."""
        if self.shape.is_tied and self.head is not None and self.embeddings is not None:
            self.head.weight = self.embeddings.weight

    def initial_weights(self, name: str, size: torch.Size, seed: int) -> Tensor:
        """Draw the whole weights of one parameter, which depend only on the seed and the name.

        Each rank that holds a part draws the whole tensor, one at a time, and keeps its part.
        """
        if name.endswith("bias"):
            return torch.zeros(size)
        if "norm" in name:
            return torch.ones(size)
        digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
        draws = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big"))
        spread = self.shape.initial_spread
        if self.shape.scales_residuals and name.endswith(_ADD_TO_RESIDUAL):
            spread /= math.sqrt(2 * self.shape.layers)
        drawn = torch.empty(size).normal_(std=spread, generator=draws)
        return rearranged(self.shape, name, drawn)

    def cut(self, stages: int) -> list[Decoder]:
        """Return the stages of a pipeline, which share this decoder's modules."""
        last = ["norm", "head", *(["embeddings"] if self.shape.is_tied else [])]
        found = cut_layers(self, type(self), self.stage_layers or stages, last=last)
        for number, stage in enumerate(found):
            stage.is_first = number == 0
        return found


class DecoderLayer(nn.Module):
    """Apply attention and the feed-forward part, in parallel or one after the other."""

    def __init__(self, shape: DecoderShape) -> None:
        super().__init__()
        self.is_parallel = shape.has_parallel_residual
        self.attention_norm = nn.LayerNorm(shape.hidden, eps=shape.norm_epsilon)
        self.attention = DecoderAttention(shape)
        self.mlp_norm = (
            None if FAMILIES[shape.family].shares_norm else nn.LayerNorm(shape.hidden, eps=shape.norm_epsilon)
        )
        self.mlp = FeedForward(shape)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, hidden: Tensor, turned: Rotation, rows: PackedRows | None = None) -> Tensor:
        normed = self.attention_norm(hidden)
        attended = self.dropout(self.attention(normed, turned, rows))
        if not self.is_parallel:
            hidden = hidden + attended
        if self.mlp_norm is not None:
            normed = self.mlp_norm(hidden)
        widened = self.dropout(self.mlp(normed))
        total: Tensor = widened + attended + hidden if self.is_parallel else widened + hidden
        return total


class DecoderAttention(nn.Module):
    def __init__(self, shape: DecoderShape) -> None:
        super().__init__()
        self.width = shape.head_width
        self.rotates_neighbours = shape.rotates_neighbours
        self.dropout = shape.attention_dropout
        self.query_key_value = nn.Linear(shape.hidden, 3 * shape.hidden, bias=shape.has_attention_bias)
        self.output = nn.Linear(shape.hidden, shape.hidden, bias=shape.has_attention_bias)

    def forward(self, hidden: Tensor, turned: Rotation, rows: PackedRows | None = None) -> Tensor:
        moving, value = self.project(hidden).split((2, 1), dim=3)
        batch, length = moving.shape[:2]
        query, key = rotated(moving, turned, neighbours=self.rotates_neighbours).unbind(3)
        if rows is not None:
            dropout = self.dropout if self.training else 0.0
            mixed = rows.attend(query[0], key[0], value.squeeze(3)[0], dropout, is_causal=True)
            packed: Tensor = self.output(mixed[None])
            return packed
        mixed = F.scaled_dot_product_attention(
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.squeeze(3).transpose(1, 2),
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=True,
        )
        output: Tensor = self.output(mixed.transpose(1, 2).reshape(batch, length, -1))
        return output

    def project(self, hidden: Tensor) -> Tensor:
        """Return queries, keys and values: batch × length × heads × 3 × a head's width."""
        # The number of heads follows from the matrix: a rank of a tensor-parallel layer has only some heads.
        together: Tensor = self.query_key_value(hidden).unflatten(-1, (-1, 3, self.width))
        return together


class FeedForward(nn.Module):
    def __init__(self, shape: DecoderShape) -> None:
        super().__init__()
        self.gelu = shape.gelu
        self.up = nn.Linear(shape.hidden, shape.intermediate)
        self.down = nn.Linear(shape.intermediate, shape.hidden)

    def forward(self, hidden: Tensor) -> Tensor:
        output: Tensor = self.down(F.gelu(self.up(hidden), approximate=self.gelu))
        return output


def build_decoder(shape: DecoderShape, *, seed: int, device: torch.device | str = "cpu") -> Decoder:
    """Build a whole decoder in fp32, with initial weights."""
    with torch.device("meta"):
        decoder = Decoder(shape)
    decoder.to_empty(device=device)
    decoder.tie()
    with torch.no_grad():
        for name, parameter in decoder.named_parameters():
            parameter.copy_(decoder.initial_weights(name, parameter.shape, seed))
    return decoder


# Model FLOPs utilization (MFU).


def training_flops_per_token(shape: DecoderShape, length: float, *, is_frozen: bool = False) -> float:
    """Return 3 × the FLOPs of forward, which are 8H² + 4HI + 4SH for each layer, and 2HV for the head.

    Matrices that are frozen beside adapters have no gradients of their own, and count 2 ×. Attention counts
    as if each token saw the whole row, as in published figures; recomputing counts nothing.
    """
    layer = 8 * shape.hidden**2 + 4 * shape.hidden * shape.intermediate
    matrices = shape.layers * layer + 2 * shape.hidden * shape.vocabulary
    return (2.0 if is_frozen else 3.0) * matrices + 3.0 * shape.layers * 4 * length * shape.hidden
