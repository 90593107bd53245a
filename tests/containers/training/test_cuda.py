"""Recipes choose their settings on an NVIDIA GPU, as far as processors can show it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor, nn

from slipway.containers.models.decoder import Decoder, DecoderAttention
from slipway.containers.models.encoder import EncoderLayer
from slipway.containers.recipes.bert_pretrain.config import decode
from slipway.containers.training import devices
from slipway.containers.training.devices import KINDS, open_device, with_layers
from slipway.containers.training.engine import build_engine
from slipway.containers.training.engines.native.activations import Keeping
from slipway.containers.training.engines.native.engine import NativeSettings
from slipway.containers.training.layout import Layout
from tests.containers.training.engines.native import trainings
from tests.containers.training.engines.native.trainings import PROCESSOR, Training
from tests.containers.training.tiny_bert import ALONE, SHAPE, tiny_parts

# Dynamo reads tensors' gradients, and hides the warning from users but not from pytest.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")


class Counted:
    """Compile as torch.compile does, without a compiler for processors, and count what it compiled."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Tensor]) -> object:
        self.graphs += 1
        return graph.forward


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    counted, compiles = Counted(), torch.compile
    monkeypatch.setattr(torch, "compile", lambda run: compiles(run, backend=counted))
    torch.compiler.reset()
    yield counted
    torch.compiler.reset()


def test_a_gpu_gets_bf16_nccl_the_fused_optimizer_and_compiled_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The choice is one row of KINDS."""
    for name, answer in (("set_device", None), ("get_device_name", "NVIDIA H100 80GB HBM3")):
        monkeypatch.setattr(torch.cuda, name, lambda place, answer=answer: answer)
    found = replace(KINDS["cuda"], is_present=lambda: True, has_bf16=lambda: True)
    monkeypatch.setattr(devices, "KINDS", {**KINDS, "cuda": found})
    monkeypatch.setattr(devices, "find_spec", lambda name: name)
    device = with_layers(open_device(ALONE, "auto", "auto"), "auto")
    assert (device.kind, device.backend, device.precision) == ("cuda", "nccl", torch.bfloat16)
    assert (device.has_fused_adam, device.compiles, device.peak_tflops) == (True, True, 989)


@pytest.mark.parametrize("compiler", ["/usr/bin/cc", None])
@pytest.mark.parametrize("kind", KINDS)
def test_layers_are_compiled_on_gpus_and_as_a_person_says(
    kind: str, compiler: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a compiler in the image the first step would end the training."""
    monkeypatch.setattr(devices, "find_spec", lambda name: name)
    monkeypatch.setattr("shutil.which", lambda name: compiler)
    device = replace(PROCESSOR, kind=kind)
    chosen = [with_layers(device, word).compiles for word in ("auto", "yes", "no")]
    assert chosen == [kind == "cuda" and compiler is not None, True, False]


@pytest.mark.parametrize(
    ("recipe", "by_itself"),
    [("bert_pretrain", "auto"), ("gpt_neox", "auto"), ("gptj_finetune", "no"), ("glue_finetune", "no")],
)
def test_recipes_whose_steps_have_one_form_compile_and_others_do_not(recipe: str, by_itself: str) -> None:
    """Rows of a new length at each step would each need a new graph."""
    module = importlib.import_module(f"slipway.containers.recipes.{recipe}.config")
    assert module.CONFIG.__dataclass_fields__["compile_layers"].default == by_itself
    assert "cuda" in module.ACCELERATORS
    assert module.CONFIG.__dataclass_fields__["device"].default == "auto"


def test_a_training_may_be_resumed_with_its_layers_compiled_or_not() -> None:
    settings = {"zero": "0", "steps": "2", "micro_batch": "2"}
    one, other = (decode({**settings, "compile_layers": word}) for word in ("yes", "no"))
    assert one.identity() == other.identity()


@pytest.mark.parametrize("recomputes", [False, True])
def test_compiled_layers_of_a_decoder_train_as_others_do(
    compiler: Counted, recomputes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainings, "DECODER", replace(trainings.DECODER, dropout=0.0, attention_dropout=0.0))
    settings = NativeSettings(keeping=Keeping(recomputes=recomputes))
    eager = Training.of("decoder", Layout(), 0, settings).steps(range(3))
    assert compiler.graphs == 0
    compiled = Training.decoder_on(replace(PROCESSOR, compiles=True), settings).steps(range(3))
    assert compiled == pytest.approx(eager, rel=1e-4)
    assert compiler.graphs


def test_compiled_layers_of_bert_train_as_others_do_and_are_compiled_once(compiler: Counted) -> None:
    def losses(layers: int, *, compiles: bool) -> list[float]:
        torch.manual_seed(1)
        shape = replace(SHAPE, layers=layers, vocabulary=trainings.WORDS)
        parts, _ = tiny_parts(replace(shape, dropout=0.0, attention_dropout=0.0))
        engine = build_engine(replace(parts, device=replace(parts.device, compiles=compiles)))
        found = []
        for step in range(3):
            sums = engine.accumulate(trainings.micro_batches("encoder", step, Layout(), 0)[:1])
            found += [float(sums[0]), engine.step(1e-2)]
        return found

    assert losses(2, compiles=True) == pytest.approx(losses(2, compiles=False), rel=1e-4)
    first = compiler.graphs
    assert first
    torch.compiler.reset()
    losses(12, compiles=True)
    assert compiler.graphs == 2 * first, "layers share their code"


def by_the_book(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> Tensor:
    """Softmax of the scaled products (Vaswani et al. 2017, 3.2.1); each is batch × heads × length × width."""
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    return torch.softmax(scores.masked_fill(~visible, float("-inf")), dim=-1) @ value


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_the_fused_attention_of_an_encoder_is_that_of_the_book(precision: torch.dtype) -> None:
    torch.manual_seed(2)
    layer = EncoderLayer(replace(SHAPE, attention_dropout=0.0)).to(precision)
    hidden = torch.randn(2, 6, SHAPE.hidden, dtype=precision)
    visible = (torch.arange(6) < torch.tensor([[6], [4]]))[:, None, None, :]
    query, key, value = layer.query_key_value(hidden).view(2, 6, 3, SHAPE.heads, -1).permute(2, 0, 3, 1, 4)
    mixed = by_the_book(query, key, value, visible).transpose(1, 2).flatten(2)
    close(layer._attention(hidden, visible), layer.attention_output(mixed))


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_the_fused_attention_of_a_decoder_is_that_of_the_book(
    precision: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(3)
    decoder = Decoder(replace(trainings.DECODER, attention_dropout=0.0)).to(precision)
    attention = decoder.layers[0].attention
    assert isinstance(attention, DecoderAttention)
    hidden = torch.randn(2, 6, decoder.shape.hidden, dtype=precision)
    turned = decoder._rotation(hidden, None)
    fused = attention(hidden, turned)
    seen: list[str] = []

    def book(query: Tensor, key: Tensor, value: Tensor, *, dropout_p: float, is_causal: bool) -> Tensor:
        seen.append(f"causal={is_causal}, dropout={dropout_p}")
        return by_the_book(query, key, value, torch.ones(6, 6, dtype=torch.bool).tril())

    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", book)
    close(fused, attention(hidden, turned))
    assert seen == ["causal=True, dropout=0.0"], "a mask of its own would rule out the flash kernels"


def close(found: Tensor, wanted: Tensor) -> None:
    tolerance = 1e-5 if found.dtype is torch.float32 else 2e-2
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


def test_a_model_without_compiled_layers_is_left_as_it_is() -> None:
    model = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(2, 2)])})
    PROCESSOR.compile_layers(model)
    assert "forward" not in vars(model.get_submodule("layers.0"))
