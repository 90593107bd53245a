"""Measure a training step beside the transformers Trainer's: same machine, model, weights, rows and losses.

Needs the training extra and transformers: scripts/bench training. Our step runs after each of
the Trainer's, in one process; the ratio is of the medians. On a GPU, BERT-Large's share of it too.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from scripts.benchmark_rows import Row
from scripts.transformers_bert import build_reference, reference_rows
from slipway.containers.models.encoder import BertForPreTraining
from slipway.containers.models.shapes import BERT_SIZES, bert
from slipway.containers.recipes.bert_pretrain.batch import plan_batch
from slipway.containers.recipes.bert_pretrain.config import BertConfig, decode
from slipway.containers.recipes.bert_pretrain.model import PUBLISHED_MFU, BertTask, training_flops_per_token
from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.training.devices import Device, open_device
from slipway.containers.training.engine import Engine, EngineParts, StepWatch, build_engine
from slipway.containers.training.layout import Layout
from slipway.containers.training.optimizers import BETAS, EPSILON
from slipway.containers.training.task import MicroBatch

ROW_TOKENS, PREDICTIONS = 128, 20  # phase 1
MASKED_SHARE, SHORT_SHARE = 0.15, 0.1
BATCHES = (8, 32)
STEPS, WARM_UP_STEPS = 10, 2
RATE, DECAY, CLIP = 1e-4, 0.01, 1.0
MOST_APART = 1e-4  # of losses near 10, after ten steps of each its own rounding
# Without dropout, whose random stream is each one's own: the losses can then be compared.
SHAPE = replace(bert(4, 256, 4), dropout=0.0, attention_dropout=0.0)
GPU_MICRO_BATCHES = (64, 128, 256)
GPU_ACCUMULATION_STEPS = 4

Rows = dict[str, Tensor]


def training() -> list[Row]:
    torch.set_num_threads(1)
    rows = [side_by_side(batch) for batch in BATCHES]
    if torch.cuda.is_available():
        rows += [utilisation(micro_batch) for micro_batch in GPU_MICRO_BATCHES]
    return rows


def side_by_side(batch: int) -> Row:
    """Both in fp32 on the processor, one thread."""
    config = _config(micro_batch=batch, accumulation_steps=1, size="tiny", precision="fp32", device="cpu")
    device = open_device(ALONE, "cpu", "fp32")
    batches = [draw_rows(batch, SHAPE.vocabulary, number) for number in range(STEPS + WARM_UP_STEPS)]
    torch.manual_seed(1)
    model = BertForPreTraining(SHAPE)
    pair = Pair(engine=_engine(config, model, device), batches=batches)
    _train_reference(build_reference(model), pair, batch)
    apart = max(abs(ours - theirs) for ours, theirs in zip(pair.our_losses, pair.their_losses, strict=True))
    if apart > MOST_APART:
        raise SystemExit(
            f"error: the losses are {apart:.2g} apart; what is measured is not the same training"
        )
    ours, theirs = (
        statistics.median(seconds[WARM_UP_STEPS:]) for seconds in (pair.our_seconds, pair.their_seconds)
    )
    return Row(
        what=f"BERT 4×256 step, {batch} rows of {ROW_TOKENS}",
        measured=f"{1 / ours:.2f} steps/s",
        beside=f"Trainer {1 / theirs:.2f} steps/s",
        ratio=f"ratio {theirs / ours:.2f}",
        goal=f"at least 2.5; losses {apart:.0e} apart",
    )


@dataclass(slots=True, kw_only=True)
class Pair:
    """Our training, stepped once after each step of theirs; both timed apart."""

    engine: Engine
    batches: Sequence[Rows]
    our_seconds: list[float] = field(default_factory=list)
    their_seconds: list[float] = field(default_factory=list)
    our_losses: list[float] = field(default_factory=list)
    their_losses: list[float] = field(default_factory=list)
    _resumed: float = 0.0

    def begin(self) -> None:
        self._resumed = time.process_time()

    def take_turn(self) -> None:
        began = time.process_time()
        self.their_seconds.append(began - self._resumed)
        rows = self.batches[len(self.our_seconds)]
        inputs: dict[str, Tensor | None] = {**rows, "mask": None if rows["mask"].all() else rows["mask"]}
        means = self.engine.accumulate([MicroBatch(inputs=inputs, seed=1, weight=1.0)])
        self.engine.step(RATE)
        self.our_losses.append(float(means[0]))
        self._resumed = time.process_time()
        self.our_seconds.append(self._resumed - began)


def _train_reference(model: Any, pair: Pair, batch: int) -> None:
    import transformers

    class Turns(transformers.TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            if not pair.our_seconds:
                pair.begin()

        def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            pair.take_turn()

    class Heard(transformers.Trainer):
        def compute_loss(self, *given: Any, **named: Any) -> Any:
            loss = super().compute_loss(*given, **named)
            pair.their_losses.append(float(loss.detach()))
            return loss

    items = [
        {name: column[row] for name, column in reference_rows(rows).items()}
        for rows in pair.batches
        for row in range(batch)
    ]
    with tempfile.TemporaryDirectory() as folder:
        trainer = Heard(
            model=model, args=_arguments(folder, batch), train_dataset=_Items(items), callbacks=[Turns()]
        )
        trainer.train()


def _arguments(folder: str, batch: int) -> Any:
    import transformers

    return transformers.TrainingArguments(
        output_dir=folder,
        use_cpu=True,
        per_device_train_batch_size=batch,
        max_steps=STEPS + WARM_UP_STEPS,
        learning_rate=RATE,
        lr_scheduler_type="constant",
        weight_decay=DECAY,
        adam_beta1=BETAS[0],
        adam_beta2=BETAS[1],
        adam_epsilon=EPSILON,
        max_grad_norm=CLIP,
        train_sampling_strategy="sequential",
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


class _Items(torch.utils.data.Dataset[dict[str, Tensor]]):
    def __init__(self, items: Sequence[dict[str, Tensor]]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, at: int) -> dict[str, Tensor]:
        return self._items[at]


def utilisation(micro_batch: int) -> Row:
    """BERT-Large in bf16: model FLOPs a second over the data sheet's. Wall time, since the GPU works."""
    shape = BERT_SIZES["large"]
    device = open_device(ALONE, "cuda", "bf16")
    config = _config(
        micro_batch=micro_batch,
        accumulation_steps=GPU_ACCUMULATION_STEPS,
        size="large",
        precision="bf16",
        device="cuda",
    )
    model = BertForPreTraining(shape)
    engine = _engine(config, model, device)
    rows = {name: column.cuda() for name, column in draw_rows(micro_batch, shape.vocabulary, 0).items()}
    seconds = [_timed_step(engine, rows) for _ in range(STEPS + WARM_UP_STEPS)][WARM_UP_STEPS:]
    rate = micro_batch * GPU_ACCUMULATION_STEPS / statistics.median(seconds)
    flops = rate * ROW_TOKENS * training_flops_per_token(shape, ROW_TOKENS)
    mfu = f"MFU {flops / (device.peak_tflops * 1e12):.1%}" if device.peak_tflops else "MFU unknown: no peak"
    return Row(
        what=f"BERT-Large bf16, {micro_batch} rows of {ROW_TOKENS}, {device.name}",
        measured=f"{rate:,.0f} seq/s",
        beside=f"best public A100 run {PUBLISHED_MFU:.0%}",
        ratio=mfu,
        goal="50 % or more",
    )


def _timed_step(engine: Engine, rows: Rows) -> float:
    torch.cuda.synchronize()
    began = time.perf_counter()
    share = 1 / GPU_ACCUMULATION_STEPS
    engine.accumulate([MicroBatch(inputs=rows, seed=1, weight=share) for _ in range(GPU_ACCUMULATION_STEPS)])
    engine.step(RATE)
    torch.cuda.synchronize()
    return time.perf_counter() - began


def draw_rows(batch: int, vocabulary: int, seed: int) -> Rows:
    """Make rows as prepared data has them: a tenth is short, 15 % of each is masked."""
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


def _config(**settings: float | str) -> BertConfig:
    given: Mapping[str, float | str] = {
        "zero": 0,
        "optimizer": "adamw",
        "weight_decay": DECAY,
        "clip_norm": CLIP,
        **settings,
    }
    return decode({name: str(value) for name, value in given.items()})


def _engine(config: BertConfig, model: BertForPreTraining, device: Device) -> Engine:
    return build_engine(
        EngineParts(
            config=config,
            task=BertTask(),
            model=model,
            device=device,
            layout=Layout(),
            rank=0,
            plan=plan_batch(config, readers=1),
            watch=StepWatch(),
        )
    )


ALONE = read_contract({})
