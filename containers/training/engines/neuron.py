"""The Neuron engine: a decoder on Trainium by NxD of Neuron's SDK 2.28, the last that trains on Trn1.

NxD cuts the layers between tensor ranks, runs the pipeline and shards the optimizer over data ranks
(ZeRO-1). All is traced: torch-xla collects a step's operations and compiles them as one graph for the
gradients and one for the update, which are the same in every step, since no shape depends on the data.
Weights are bf16, rounded stochastically where NEURON_RT_STOCHASTIC_ROUNDING_EN says so, from fp32 in the
optimizer: these are what is saved, in the boxes that any other engine reads.

Never tried on hardware. What it calls is held to signatures that NxD published, and its own part runs in
tests, on stand-ins that compute on the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import neuronx_distributed as nxd
import torch
import torch_xla.core.xla_model as xm
from neuronx_distributed.parallel_layers import layers, loss_functions
from neuronx_distributed.utils.adamw_fp32_optim_params import AdamW_FP32OptimParams
from torch import Tensor, nn

from slipway.containers.models.decoder import Decoder, DecoderShape
from slipway.containers.models.rotary import rotation
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.engine import EngineParts, RestoredEngine, metric_sums
from slipway.containers.training.engines.native.assembly import (
    TensorShare,
    cut_side,
    planned,
    planned_cuts,
    share_of,
)
from slipway.containers.training.engines.native.engine import initial_weights
from slipway.containers.training.state import MOMENTS, WEIGHTS, SavedState, TensorPiece
from slipway.containers.training.task import Inputs, MicroBatch


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ShardedParameter:
    """Hold this rank's part of one parameter: cut between tensor ranks, and the optimizer's share of that."""

    name: str  # in the whole model
    parameter: nn.Parameter
    shard: nn.Parameter  # fp32; its last rows are padding where the data ranks do not divide them
    local: TensorShare  # where the parameter lies in the whole
    share: TensorShare  # where the shard does
    is_cut: bool

    def trimmed(self, tensor: Tensor) -> Tensor:
        return tensor[: sum(count for _, count in self.share.spans)]


class NeuronEngine(RestoredEngine):
    def __init__(self, parts: EngineParts) -> None:
        assert isinstance(parts.model, Decoder), "build refused all else"
        self._parts = parts
        self._initial = initial_weights(parts.model, parts.config.seed)
        self._sizes = {name: tuple(each.shape) for name, each in parts.model.named_parameters()}
        cuts = planned_cuts(parts.model, parts.layout.tensor)
        self._sides = {name: cut_side(cuts, name) for name in self._sizes}
        settings = neuron_settings(parts, self._fill)
        # NxD's matrices take the place of those that tensor ranks share, and have no memory yet.
        with torch.device("meta"):
            for name, module, word in list(planned(parts.model)):
                parts.model.set_submodule(name, _parallel(module, word, parts.device.precision))
        decoder = parts.model.to(parts.device.precision)
        traced = named(TracedDecoder(decoder, loss_functions.parallel_cross_entropy))
        self._model = nxd.initialize_parallel_model(settings, lambda: traced)
        own = {plain_name(name): each for name, each in self._model.named_parameters()}
        self._optimizer = nxd.initialize_parallel_optimizer(
            settings,
            AdamW_FP32OptimParams,
            parts.optimizer_groups(own.values()),
            lr=0.0,
            max_norm=parts.config.clip_norm,  # of ZeRO-1, which is not told optimizer_config's
        )
        self._held = list(self._shards({id(each): name for name, each in own.items()}))

    def accumulate(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        sums, count = metric_sums(self._parts), len(micro_batches)
        assert all(each.weight == 1 / count for each in micro_batches), "the pipeline takes the plain mean"
        self._parts.watch.wait_begins()
        if self._parts.layout.pipeline > 1:
            together = {
                name: torch.cat([_given(each.inputs, name) for each in micro_batches])
                for name in ("words", "labels")
            }
            loss = self._model.run_train(**together)
            return sums if loss is None else sums + loss.to(sums.device)
        for each in micro_batches:
            loss = self._loss(each.inputs) / count
            loss.backward()
            sums += loss.detach()
            xm.mark_step()
        return sums

    def step(self, rate: float) -> float:
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        self._optimizer.zero_grad()
        xm.mark_step()
        return float(self._optimizer.grad_norm)

    def evaluate(self, inputs: Inputs) -> Tensor:
        assert self._parts.layout.pipeline == 1, "the recipe refuses held-out rows in NxD's pipeline"
        with torch.no_grad():
            found = self._loss(inputs).float()[None]
        xm.mark_step()
        return found

    def pieces(self) -> Iterator[TensorPiece]:
        yield from self.pieces_left_out(self._parts.rank)
        for number, one in enumerate(self._held):
            if one.is_cut or number % self._parts.layout.tensor == self._parts.at.tensor:
                for kind, tensor in self._kinds(one).items():
                    yield from one.share.pieces(kind, one.name, one.trimmed(tensor.detach().cpu()))

    def _loss(self, inputs: Inputs) -> Tensor:
        loss: Tensor = self._model(words=_given(inputs, "words"), labels=_given(inputs, "labels"))
        return loss

    @torch.no_grad()
    def _fill(self, module: nn.Module, device: torch.device) -> None:
        """Give a module's own parameters their weights; NxD has just made them, empty, on the processor."""
        del device
        for leaf, parameter in module.named_parameters(recurse=False):
            name = f"{module.slipway_name}.{leaf}"
            part = self._initial(name, torch.Size(self._sizes[name]))
            for box, view in self._share(name, (0, 1)).boxes(parameter.data):
                view.copy_(part(box))

    def _share(self, name: str, sharded: tuple[int, int]) -> TensorShare:
        (side, stacked), tensor = self._sides[name], (self._parts.at.tensor, self._parts.layout.tensor)
        return share_of(self._sizes[name], side=side, stacked=stacked, tensor=tensor, sharded=sharded)

    def _shards(self, names: Mapping[int, str]) -> Iterator[ShardedParameter]:
        """Yield each parameter with its share in the optimizer, which ZeRO-1 keeps in the same order."""
        sharded = (self._parts.at.data, self._parts.layout.data)
        own = self._optimizer.optimizer.base_optimizer.param_groups
        for group, shards in zip(self._optimizer.param_groups, own, strict=True):
            for parameter, shard in zip(group["params"], shards["params"], strict=True):
                name = names[id(parameter)]
                yield ShardedParameter(
                    name=name,
                    parameter=parameter,
                    shard=shard,
                    local=self._share(name, (0, 1)),
                    share=self._share(name, sharded),
                    is_cut=self._sides[name][0] is not None,
                )

    def _state(self, one: ShardedParameter) -> dict[str, Any]:
        """Return the optimizer's state of a shard, and make it if no step has."""
        state: dict[str, Any] = self._optimizer.optimizer.base_optimizer.state[one.shard]
        if not state:
            state |= {"step": 0, **{kind: torch.zeros_like(one.shard) for kind in MOMENTS}}
        return state

    def _kinds(self, one: ShardedParameter) -> dict[str, Tensor]:
        state = self._state(one)
        return {WEIGHTS: one.shard, **{kind: state[kind] for kind in MOMENTS}}

    @torch.no_grad()
    def _load(self, saved: SavedState, kinds: Collection[str], steps: int) -> None:
        for one in self._held:
            _read(saved, WEIGHTS, one.name, one.local, one.parameter)
            for kind, tensor in self._kinds(one).items():
                if kind in kinds:
                    _read(saved, kind, one.name, one.share, one.trimmed(tensor))
            self._state(one)["step"] = steps
        xm.mark_step()


def neuron_settings(parts: EngineParts, fill: Any) -> dict[str, Any]:
    """Return NxD's configuration of this layout, and begin its model parallelism."""
    layout, is_mixed = parts.layout, parts.device.precision is torch.bfloat16
    pipeline = {
        "transformer_layer_cls": TracedLayer,
        "num_microbatches": parts.plan.accumulation_steps,
        "output_loss_value_spec": True,
        "input_names": ["words", "labels"],
        "leaf_module_cls": [TracedEnd.__name__],
        "auto_partition": True,
        "use_zero1_optimizer": True,
    }
    keeps = parts.config.checkpoint_activations == "none"
    found: dict[str, Any] = nxd.neuronx_distributed_config(
        tensor_parallel_size=layout.tensor,
        pipeline_parallel_size=layout.pipeline,
        pipeline_config=pipeline if layout.pipeline > 1 else None,
        optimizer_config={
            "zero_one_enabled": True,
            "grad_clipping": True,
            "max_grad_norm": parts.config.clip_norm,
        },
        activation_checkpoint_config=None if keeps else TracedLayer,
        model_init_config={"meta_device_init": True, "param_init_fn": fill, "sequential_move_factor": 11},
        mixed_precision_config={
            "use_master_weights": is_mixed,
            "use_fp32_grad_acc": is_mixed,
            "use_master_weights_in_ckpt": False,
        },
    )
    return found


def _parallel(module: nn.Module, word: str, precision: torch.dtype) -> nn.Module:
    rows, columns = module.weight.shape
    if word == "words":
        return layers.ParallelEmbedding(rows, columns, dtype=precision)
    has_bias = module.bias is not None
    if word == "rows":
        return layers.RowParallelLinear(columns, rows, bias=has_bias, input_is_parallel=True, dtype=precision)
    assert word in ("columns", "scores"), f"a decoder has no {word}"
    return layers.ColumnParallelLinear(columns, rows, bias=has_bias, gather_output=False, dtype=precision)


def _given(inputs: Inputs, name: str) -> Tensor:
    found = inputs[name]
    assert found is not None, f"a decoder is given {name}"
    return found


def _read(saved: SavedState, kind: str, name: str, share: TensorShare, target: Tensor) -> None:
    """Read a share on the processor, and send it as one tensor."""
    found = torch.empty(target.shape)
    saved.copy_to(share.pieces(kind, name, found))
    target.data.copy_(found)


def build(parts: EngineParts) -> NeuronEngine:
    if not isinstance(parts.model, Decoder):
        raise Refusal(
            f"engine=neuron trains decoders, and not {type(parts.model).__name__}",
            hint="set engine=native",
        )
    shape = parts.model.shape
    if shape.dropout or shape.attention_dropout or shape.is_tied:
        # Tensor ranks would draw masks of their own, and NxD's matrices are made one by one.
        raise Refusal(
            f"engine=neuron trains models without dropout and tied embeddings, and this one has dropout="
            f"{shape.dropout:g}, attention_dropout={shape.attention_dropout:g} and is_tied={shape.is_tied}",
            hint="give a config.json without them",
        )
    return NeuronEngine(parts)


# A decoder as the Neuron engine traces it: every line of its forward is a module that NxD takes as a whole.
# It is cut between these lines into the stages of a pipeline, so that only hidden states pass between them.
Losses = Callable[[Tensor, Tensor], Tensor]  # of scores and labels, one of each token
_WRAPPER = "_checkpoint_wrapped_module."  # what torch's activation checkpointing adds to names


class TracedLayer(nn.Module):
    """Run a layer with its own tables of rotary positions, so that only hidden states pass between stages."""

    def __init__(self, inner: nn.Module, shape: DecoderShape) -> None:
        super().__init__()
        self.inner = inner
        cosines, sines = rotation(shape, shape.positions, torch.empty(()))
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        length = hidden.shape[1]
        turned = (self.cosines[:length].to(hidden.dtype), self.sines[:length].to(hidden.dtype))
        found: Tensor = self.inner(hidden, turned)
        return found


class TracedEnd(nn.Module):
    """Score the next tokens, each rank its part of the vocabulary, and return the mean loss."""

    def __init__(self, norm: nn.Module, head: nn.Module, losses: Losses) -> None:
        super().__init__()
        self.norm, self.head = norm, head
        self._losses = losses

    def forward(self, hidden: Tensor, labels: Tensor) -> Tensor:
        scores = self.head(self.norm(hidden)).float()
        return self._losses(scores, labels).mean()


class TracedDecoder(nn.Module):
    """Compute a decoder so that every line is one node of the graph that NxD cuts into stages."""

    def __init__(self, decoder: Decoder, losses: Losses) -> None:
        super().__init__()
        assert decoder.embeddings is not None, "it is whole"
        assert decoder.norm is not None, "likewise"
        assert decoder.head is not None, "likewise"
        self.embeddings: nn.Module = decoder.embeddings
        self.layers = nn.ModuleList(TracedLayer(layer, decoder.shape) for layer in decoder.layers)
        self.end = TracedEnd(decoder.norm, decoder.head, losses)

    def forward(self, words: Tensor, labels: Tensor) -> Tensor:
        hidden: Tensor = self.embeddings(words)
        for layer in self.layers:
            hidden = layer(hidden)
        loss: Tensor = self.end(hidden, labels)
        return loss


def plain_name(name: str) -> str:
    """Return the name that a parameter has in the decoder."""
    return name.replace(_WRAPPER, "").replace(".inner.", ".").removeprefix("end.")


def named(model: nn.Module) -> nn.Module:
    """Tell each module its name in the decoder: NxD passes modules without."""
    for name, module in model.named_modules():
        module.slipway_name = plain_name(f"{name}.").removesuffix(".")
    return model
