"""Measure steps on this machine's GPU: model FLOP/s as a share of the data sheet's (MFU), and memory.

Needs only torch: scripts/bench gpu. It measures wall time, since the GPU works while the host waits; each row
is the median of some steps, after steps that compile and warm up.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, distributed, nn

from scripts.benchmark_rows import Row, seconds_of
from scripts.benchmarks_decoder import NextWords
from slipway.containers.models.decoder import DecoderShape, build_decoder, training_flops_per_token
from slipway.containers.models.encoder import BertForPreTraining
from slipway.containers.models.shapes import BERT_SIZES
from slipway.containers.recipes.bert_pretrain import model as bert
from slipway.containers.recipes.bert_pretrain.config import decode as decode_bert
from slipway.containers.recipes.gpt_neox.config import decode as decode_neox
from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.training.config import TrainingConfig
from slipway.containers.training.devices import Device, open_device, with_layers
from slipway.containers.training.engine import EngineParts, StepWatch, build_engine
from slipway.containers.training.layout import BatchPlan, Layout
from slipway.containers.training.task import Inputs, MicroBatch, Task

ROW_TOKENS, PREDICTIONS = 128, 20  # phase 1
MASKED_SHARE, SHORT_SHARE = 0.15, 0.1
STEPS, WARM_UP_STEPS = 6, 3
RATE = 1e-4
# The article's step of 16 × 24 rows, in fewer and larger micro-batches.
BERT_BATCHES = tuple(
    BatchPlan(micro_batch=384 // count, accumulation_steps=count, readers=1) for count in (24, 6, 2, 1)
)
# GPT-J-6B's width with fewer layers, so that one GPU also holds the optimizer's state.
DECODERS: Mapping[str, DecoderShape] = {
    name: DecoderShape(
        family=name,
        layers=8,
        hidden=4096,
        heads=heads,
        intermediate=16384,
        vocabulary=50432,
        rotary_dimensions=rotary,
        has_attention_bias=name == "neox",
        has_head_bias=name == "gptj",
        gelu="tanh",
    )
    for name, heads, rotary in (("neox", 32, 32), ("gptj", 16, 64))
}
DECODER_BATCH, DECODER_TOKENS = BatchPlan(micro_batch=4, accumulation_steps=4, readers=1), 2048

Rows = dict[str, Tensor]


def gpu() -> Iterator[Row]:
    if not torch.cuda.is_available():
        yield Row(what="steps on a GPU", measured="no GPU here")
        return
    device = open_device(read_contract({}), "cuda", "bf16")
    for plan in BERT_BATCHES:
        yield _bert(with_layers(device, "auto"), plan)
    yield _bert(with_layers(device, "no"), BERT_BATCHES[-1])
    # The engine of decoders needs a process group in bf16, here of only this process.
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29577"}
    distributed.init_process_group("nccl", rank=0, world_size=1)
    try:
        for name in DECODERS:
            yield _decoder(with_layers(device, "auto"), name)
    finally:
        distributed.destroy_process_group()


def _bert(device: Device, plan: BatchPlan) -> Row:
    shape = BERT_SIZES["large"]
    settings = {"micro_batch": plan.micro_batch, "accumulation_steps": plan.accumulation_steps}
    config = decode_bert({"size": "large", **{name: str(value) for name, value in settings.items()}})
    rows = draw_rows(plan.micro_batch, shape.vocabulary, 0)
    inputs: Inputs = {name: column.to(device.place) for name, column in rows.items()}
    parts = parts_alone(device, config, plan, BertForPreTraining(shape), bert.BertTask())
    seconds, memory = _timed(parts, inputs)
    tokens = plan.global_batch * ROW_TOKENS / seconds
    return Row(
        what=f"BERT-Large, {plan.micro_batch} × {plan.accumulation_steps} rows of {ROW_TOKENS}",
        measured=f"{plan.global_batch / seconds:,.0f} rows/s",
        beside=f"{memory}{'' if device.compiles else ', not compiled'}",
        ratio=_share(device, tokens * bert.training_flops_per_token(shape, ROW_TOKENS)),
        goal=f"50 % of the peak; the best public run on A100 {bert.PUBLISHED_MFU:.0%}",
    )


def _decoder(device: Device, name: str) -> Row:
    shape, plan = DECODERS[name], DECODER_BATCH
    config = decode_neox({"micro_batch": str(plan.micro_batch), "global_batch": str(plan.global_batch)})
    words = torch.randint(shape.vocabulary, (plan.micro_batch, DECODER_TOKENS), device=device.place)
    parts = parts_alone(device, config, plan, build_decoder(shape, seed=0), NextWords())
    seconds, memory = _timed(parts, {"words": words})
    tokens = plan.global_batch * DECODER_TOKENS / seconds
    return Row(
        what=f"{name}, {shape.layers} layers of {shape.hidden}, 4 × 4 rows of {DECODER_TOKENS}",
        measured=f"{tokens:,.0f} tokens/s",
        beside=memory,
        ratio=_share(device, tokens * training_flops_per_token(shape, DECODER_TOKENS)),
        goal="50 % of the peak",
    )


def parts_alone(
    device: Device, config: TrainingConfig, plan: BatchPlan, model: nn.Module, task: Task
) -> EngineParts:
    """Return the parts of an engine on one rank."""
    return EngineParts(
        config=config,
        task=task,
        model=model,
        device=device,
        layout=Layout(),
        rank=0,
        plan=plan,
        watch=StepWatch(),
    )


def _timed(parts: EngineParts, inputs: Inputs) -> tuple[float, str]:
    """Return the median seconds of a step, and the peak memory."""
    torch.cuda.reset_peak_memory_stats()
    engine, count = build_engine(parts), parts.plan.accumulation_steps
    batch = [MicroBatch(inputs=inputs, seed=1, weight=1 / count)] * count

    def step() -> None:
        engine.accumulate(batch)
        engine.step(RATE)
        torch.cuda.synchronize()

    seconds = [seconds_of(step) for _ in range(WARM_UP_STEPS + STEPS)][WARM_UP_STEPS:]
    memory = f"{torch.cuda.max_memory_allocated() / (1 << 30):.1f} GiB"
    torch.cuda.empty_cache()
    return statistics.median(seconds), memory


def _share(device: Device, flops: float) -> str:
    peak = device.peak_tflops
    return f"MFU {flops / (peak * 1e12):.1%}" if peak else f"{flops / 1e12:.0f} TFLOP/s, peak unknown"


def draw_rows(batch: int, vocabulary: int, seed: int) -> Rows:
    """Make rows like those of prepared data: a tenth are short, and 15 % of each is masked."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(1000, vocabulary, (batch, ROW_TOKENS), generator=generator)
    used = torch.full((batch,), ROW_TOKENS)
    short = torch.rand(batch, generator=generator) < SHORT_SHARE
    used[short] = torch.randint(16, ROW_TOKENS, (int(short.sum()),), generator=generator)
    mask = torch.arange(ROW_TOKENS) < used[:, None]
    positions = torch.zeros(batch, PREDICTIONS, dtype=torch.int64)
    labels = torch.zeros(batch, PREDICTIONS, dtype=torch.int64)
    for row in range(batch):
        count = min(PREDICTIONS, max(1, round(int(used[row]) * MASKED_SHARE)))
        places = 1 + torch.randperm(int(used[row]) - 1, generator=generator)[:count]
        positions[row, :count], labels[row, :count] = places, words[row, places]
    return {
        "words": (words * mask).int(),
        "segments": (torch.arange(ROW_TOKENS) >= used[:, None] // 2).to(torch.int8) * mask,
        "mask": mask.to(torch.int8),
        "positions": positions.int(),
        "labels": labels.int(),
        "follows": torch.randint(0, 2, (batch,), generator=generator).to(torch.int8),
    }
