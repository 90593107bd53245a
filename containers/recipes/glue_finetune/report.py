"""What a person and a program see of a fine-tuning: progress now and then, every step, and the scores.

`slipway curve` reads the progress line: its words are those of bert_pretrain/report.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from containers.data.glue_tasks import Task
from containers.recipes.bert_pretrain.devices import Device
from containers.recipes.bert_pretrain.report import in_hours
from containers.recipes.glue_finetune.loop import StepReport
from containers.runtime.telemetry import Step, Telemetry

SCORES_NAME = "scores.json"


@dataclass(slots=True, kw_only=True)
class Reporter:
    steps: int
    log_every: int
    device: Device
    telemetry: Telemetry
    say: Callable[[str], None]
    _since: list[StepReport] = field(default_factory=list)

    def tell(self, report: StepReport) -> None:
        self.telemetry.record(
            Step(
                step=report.step,
                loss=report.loss,
                learning_rate=report.learning_rate,
                seconds=report.seconds,
                own_seconds=report.own_seconds,
                gradient_norm=report.gradient_norm,
                sequences_per_second=report.rows / report.seconds,
                tokens_per_second=report.tokens / report.seconds,
                memory_bytes=self.device.memory_bytes(),
            )
        )
        self._since.append(report)
        if report.step % self.log_every == 0 or report.step == self.steps:
            self.say(self._line())
            self._since.clear()

    def _line(self) -> str:
        last = self._since[-1]
        seconds = sum(each.seconds for each in self._since)
        rows = sum(each.rows for each in self._since)
        loss = sum(each.loss * each.rows for each in self._since) / rows
        left = (self.steps - last.step) * seconds / len(self._since)
        return (
            f"step {last.step}/{self.steps}  loss {loss:.4f}  lr {last.learning_rate:.3g}  "
            f"|g| {last.gradient_norm:.3g}  {rows / seconds:,.1f} sequences/s  {in_hours(left)} left"
        )


def write_scores(folder: Path, task: Task, scores: Mapping[str, Mapping[str, float]]) -> None:
    """Of the end, by set; a metric that is not defined is null."""
    defined = {
        split: {name: value if value == value else None for name, value in each.items()}
        for split, each in scores.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCORES_NAME).write_text(json.dumps({"task": task.name, "scores": defined}, indent=1) + "\n")
