"""Measure fine-tuning on MRPC against the transformers Trainer: same machine, weights, rows and settings.

Needs the training extra and transformers: scripts/bench glue. After each of the Trainer's steps one of ours
runs, in one process; the ratio is of the sums over all steps, since our steps differ in length. Rows and
model are made up: pairs as long as the real MRPC's, and an untrained BERT of 4 layers of 256.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from scripts.benchmark_rows import Row
from scripts.benchmark_trainer import ALONE, train_in_turns
from scripts.benchmarks_gpu import parts_alone
from slipway.containers.data.glue.node_rows import Examples
from slipway.containers.data.samples.model_sample import Size, write_model
from slipway.containers.data.samples.texts import write_task
from slipway.containers.models.encoder import Classifier
from slipway.containers.recipes.glue_finetune import model as start
from slipway.containers.recipes.glue_finetune.config import GlueConfig, decode_arguments
from slipway.containers.recipes.glue_finetune.data import Batches, Data, inputs_of, open_data, plan_batch
from slipway.containers.recipes.glue_finetune.evaluate import Evaluations, score
from slipway.containers.recipes.glue_finetune.model import GlueBatches, GlueLoss
from slipway.containers.recipes.glue_finetune.pretrained import write_classifier
from slipway.containers.training.devices import open_device
from slipway.containers.training.engine import build_engine
from slipway.containers.training.layout import BatchPlan
from slipway.containers.training.loop import Loop
from slipway.containers.training.saving import Saving, ShutdownWatch
from slipway.containers.training.schedules import Schedule

PROCESSOR = torch.device("cpu")
TRAIN_ROWS = 640
EPOCHS, BATCH, LENGTH, RATE = 3, 32, 128, 5e-4
SIZE = Size(layers=4, hidden=256, heads=4)
WARM_UP_STEPS = 2


@dataclass(slots=True, kw_only=True)
class Ours:
    loop: Loop
    batches: GlueBatches
    evaluations: Evaluations
    data: Data
    directory: Path  # the same weights, as transformers loads them
    steps: int = 0

    def take_turn(self) -> None:
        self.loop.step(self.steps, self.batches.step_batch(self.steps))
        self.steps += 1


def glue() -> Iterator[Row]:
    torch.set_num_threads(1)
    for what, pad in PADDINGS.items():
        with tempfile.TemporaryDirectory() as folder:
            ours = _ours(Path(folder))
            model = transformers.AutoModelForSequenceClassification.from_pretrained(ours.directory)
            examples = ours.data.train
            turns = train_in_turns(  # with the settings of the article's run_glue.py, else its defaults
                model,
                [pad(examples, row) for row in range(len(examples))],
                ours.take_turn,
                _collate,
                per_device_train_batch_size=BATCH,
                learning_rate=RATE,
                num_train_epochs=EPOCHS,
            )
            our_accuracy = ours.evaluations.run("the end")["dev"]["accuracy"]
            their_accuracy = _accuracy(model, ours.data)
        yield turns.row(
            f"MRPC, BERT 4×256, batch {BATCH}, {what}",
            batch=BATCH,
            uncounted=WARM_UP_STEPS,
            goal=f"{GOALS[what]}; accuracy {our_accuracy:.3f} and {their_accuracy:.3f}",
        )


def _ours(folder: Path) -> Ours:
    write_task(folder / "mrpc", "mrpc", train_rows=TRAIN_ROWS)
    write_model(folder / "bert", size=SIZE)
    config = decode_arguments(
        ["model=bert", f"epochs={EPOCHS}", f"learning_rate={RATE}", f"max_length={LENGTH}", "precision=fp32"]
    )
    contract = replace(ALONE, data=str(folder))
    plan = plan_batch(config, contract.nodes, readers=1)
    pretrained = start.open_pretrained(config, contract)
    data = open_data(config, contract, pretrained, _silent)
    model = start.build_model(config, pretrained, data.task, _silent)
    directory = write_classifier(folder, model, dict(model.named_parameters()), pretrained, data.task)
    batches = Batches(
        lengths=data.train.lengths, plan=plan, pool_batches=config.pool_batches, seed=config.seed
    )
    evaluations = Evaluations(
        task=data.task,
        sets=data.dev,
        model=model,
        contract=contract,
        place=PROCESSOR,
        beat=_silent,
        say=_silent,
    )
    return Ours(
        loop=_loop(config, model, plan, start.build_schedule(config, batches)),
        batches=GlueBatches(
            examples=data.train, batches=batches, reader=0, seed=config.seed, place=PROCESSOR
        ),
        evaluations=evaluations,
        data=data,
        directory=directory,
    )


def _loop(config: GlueConfig, model: Classifier, plan: BatchPlan, schedule: Schedule) -> Loop:
    parts = parts_alone(open_device(ALONE, "cpu", "fp32"), config, plan, model, GlueLoss())
    parts = replace(parts, epsilon=start.TRAINER_EPSILON)
    engine, ending = build_engine(parts), ShutdownWatch(ALONE)
    return Loop(
        parts=parts,
        engine=engine,
        schedule=schedule,
        ending=ending,
        saving=Saving(
            engine=engine,
            checkpoints=None,
            ending=ending,
            every=schedule.steps,
            minutes=10.0,
            steps=schedule.steps,
            place=parts.device.place,
            say=_silent,
        ),
        tell=lambda _: None,
        say=_silent,
        after=lambda _: None,
    )


def _accuracy(model: Any, data: Data) -> float:
    dev = data.dev["dev"]
    model.eval()
    with torch.inference_mode():
        found = [model(**_collate([_padded(dev, row)])).logits[0] for row in range(len(dev))]
    outputs = torch.stack(found).double().numpy()
    return score(data.task, outputs, dev.labels.astype("float64"))["accuracy"]


def _padded(examples: Examples, row: int, length: int = 0) -> dict[str, torch.Tensor]:
    inputs, labels = inputs_of(examples, np.array([row]), PROCESSOR)
    words, segments = inputs["words"], inputs["segments"]
    assert words is not None
    assert segments is not None
    given = {
        "input_ids": words,
        "token_type_ids": segments,
        "attention_mask": torch.ones_like(words),
    }
    missing = max(0, length - words.shape[0])
    padded = {name: torch.nn.functional.pad(each, (0, missing)) for name, each in given.items()}
    return {**padded, "labels": labels[0].long()}


def _collate(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Pad to the longest row of the batch, as DataCollatorWithPadding does; padded rows stay as they are."""
    longest = max(len(row["input_ids"]) for row in rows)
    columns = {
        name: torch.stack([torch.nn.functional.pad(row[name], (0, longest - len(row[name]))) for row in rows])
        for name in rows[0]
        if name != "labels"
    }
    return {**columns, "labels": torch.stack([row["labels"] for row in rows])}


def _silent(line: str) -> None:
    """Print nothing: a benchmark prints only its rows."""


PADDINGS: Mapping[str, Callable[[Examples, int], dict[str, torch.Tensor]]] = {
    "padded as run_glue.py does": lambda examples, row: _padded(examples, row, LENGTH),
    "padded to its batch": _padded,
}
GOALS: Mapping[str, str] = {
    "padded as run_glue.py does": "at least 2.6",
    "padded to its batch": "at least 1.5",
}
