"""Run the Trainer of transformers and ours in turns: after each of its steps one of ours, in one process."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import Tensor

from scripts.benchmark_rows import Row, seconds_of
from slipway.containers.runtime.contract.launchers import read_contract

ALONE = read_contract({})
Item = dict[str, Tensor]


@dataclass(slots=True, kw_only=True)
class Turns:
    """Holds the processor seconds of each step, and the Trainer's losses."""

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def row(self, what: str, *, batch: int, uncounted: int, goal: str) -> Row:
        """Compare the sums over all steps: if rows differ in length, a median would show only some rows."""
        ours, theirs = (sum(each[uncounted:]) for each in (self.ours, self.theirs))
        rows = batch * (len(self.ours) - uncounted)
        return Row(
            what=what,
            measured=f"{rows / ours:.0f} rows/s",
            beside=f"Trainer {rows / theirs:.0f} rows/s",
            ratio=f"ratio {theirs / ours:.2f}",
            goal=goal,
        )


def train_in_turns(
    model: Any, items: Sequence[Item], step: Callable[[], None], collate: Any = None, **settings: Any
) -> Turns:
    """Train with the Trainer's defaults and these settings, and call `step` after each of its steps."""
    turns, resumed = Turns(), [0.0]

    class AfterEach(transformers.TrainerCallback):
        def on_train_begin(self, *_: Any, **rest: Any) -> None:
            resumed[0] = time.process_time()

        def on_step_end(self, *_: Any, **rest: Any) -> None:
            turns.theirs.append(time.process_time() - resumed[0])
            turns.ours.append(seconds_of(step, time.process_time))
            resumed[0] = time.process_time()

    class Heard(transformers.Trainer):
        def compute_loss(self, *given: Any, **named: Any) -> Any:
            loss = super().compute_loss(*given, **named)
            turns.losses.append(float(loss.detach()))
            return loss

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            use_cpu=True,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **settings,
        )
        own = {} if collate is None else {"data_collator": collate}
        trainer = Heard(
            model=model, args=arguments, train_dataset=_Items(items), callbacks=[AfterEach()], **own
        )
        trainer.train()
    return turns


class _Items(torch.utils.data.Dataset[Item]):
    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, at: int) -> Item:
        return dict(self._items[at])
