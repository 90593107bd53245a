"""What a person and a program see of a training: a progress line now and then, a record of every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from containers.recipes.bert_pretrain.batch import BatchPlan
from containers.recipes.bert_pretrain.config import BertConfig
from containers.recipes.bert_pretrain.devices import Device
from containers.recipes.bert_pretrain.flops import training_flops_per_token
from containers.recipes.bert_pretrain.loop import StepReport
from containers.recipes.bert_pretrain.model import BertShape
from containers.runtime.telemetry import Step, Telemetry

# The best public figure for BERT-Large at 128 tokens in bf16, on an A100: what ours is printed beside.
PUBLISHED_MFU = 0.44


@dataclass(slots=True, kw_only=True)
class Reporter:
    config: BertConfig
    plan: BatchPlan
    device: Device
    row_tokens: int
    shape: BertShape
    telemetry: Telemetry
    say: Callable[[str], None]
    _since: list[StepReport] = field(default_factory=list)

    def tell(self, report: StepReport) -> None:
        rate = self.plan.global_batch / report.seconds
        self.telemetry.record(
            Step(
                step=report.step,
                loss=report.loss,
                learning_rate=report.learning_rate,
                seconds=report.seconds,
                own_seconds=report.own_seconds,
                gradient_norm=report.gradient_norm,
                sequences_per_second=rate,
                tokens_per_second=rate * self.row_tokens,
                memory_bytes=self.device.memory_bytes(),
            )
        )
        self._since.append(report)
        if report.step % self.config.log_every == 0 or report.step == self.config.steps:
            self.say(self._line())
            self._since.clear()

    def _line(self) -> str:
        last, count = self._since[-1], len(self._since)
        seconds = sum(each.seconds for each in self._since) / count
        rate = self.plan.global_batch / seconds
        left = (self.config.steps - last.step) * seconds
        loss = sum(each.loss for each in self._since) / count
        return (
            f"step {last.step}/{self.config.steps}  loss {loss:.4f}  "
            f"lr {last.learning_rate:.3g}  |g| {last.gradient_norm:.3g}  {rate:,.1f} sequences/s"
            f"{self._mfu(rate)}  {in_hours(left)} left"
        )

    def _mfu(self, sequences_per_second: float) -> str:
        if (peak := self.device.peak_tflops) is None:
            return ""
        tokens = sequences_per_second * self.row_tokens / self.plan.world
        flops = tokens * training_flops_per_token(self.shape, self.row_tokens)
        return f"  MFU {flops / (peak * 1e12):.1%} (published best {PUBLISHED_MFU:.0%})"


def in_hours(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
