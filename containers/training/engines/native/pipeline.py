"""Run a pipeline: this rank's stages, and the schedule that sends micro-batches through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor, distributed, nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)

from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.engine import EngineParts
from slipway.containers.training.engines.native.assembly import Draws, local_of
from slipway.containers.training.task import Inputs, MicroBatch, Task

Schedule: TypeAlias = "ScheduleGPipe | Schedule1F1B | ScheduleInterleaved1F1B"
SCHEDULES: Mapping[str, type] = {
    "gpipe": ScheduleGPipe,
    "1f1b": Schedule1F1B,
    "interleaved": ScheduleInterleaved1F1B,
}


@runtime_checkable
class StagedTask(Task, Protocol):
    """A task that can also train a model that is cut into stages."""

    def run_stage(self, stage: nn.Module, hidden: Tensor | None, inputs: Inputs) -> object:
        """Run one stage on a hidden state, or the first one on words; return the hidden state or outputs."""

    def metrics_of(self, outputs: object, inputs: Inputs) -> Tensor:
        """Return the metrics, as `forward` does, from the outputs of the last stage."""


def staged(task: Task) -> StagedTask:
    if not isinstance(task, StagedTask):
        raise Refusal(f"a pipeline cannot train {type(task).__name__}", hint="set pipeline=1")
    return task


@dataclass(slots=True, kw_only=True)
class _Step:
    """Hold the micro-batches by number, which stages need beside the hidden state."""

    task: StagedTask
    draws: Draws
    micro_batches: Sequence[MicroBatch] = ()
    scale: float = 1.0
    metrics: list[Tensor] = field(default_factory=list)

    def loss(self, means: Tensor, number: Tensor) -> Tensor:
        weight = self.micro_batches[int(number)].weight
        self.metrics.append(means.detach() * weight)
        return means[0] * (weight * self.scale)


class StageRunner(nn.Module):
    """Run a stage on the micro-batch of a number: the schedule passes nothing but numbers and hidden states.

    The last one returns metrics: what they are computed from is larger than all else, and may go at once.
    """

    def __init__(self, stage: nn.Module, step: _Step, *, is_first: bool, is_last: bool) -> None:
        super().__init__()
        self.stage = stage
        self._step = step
        self._is_first, self._is_last = is_first, is_last

    def forward(self, hidden: Tensor, number: Tensor) -> Tensor:
        step, micro_batch = self._step, self._step.micro_batches[int(number)]
        step.draws.micro_batch = micro_batch.seed
        if self._is_first:
            step.draws.begin(micro_batch.seed, 0)
        outputs = step.task.run_stage(self.stage, None if self._is_first else hidden, micro_batch.inputs)
        if self._is_last:
            metrics = local_of(step.task.metrics_of(outputs, micro_batch.inputs))
            return metrics.float()  # as _schedule_of promises
        assert isinstance(outputs, Tensor), "all but the last stage return hidden states"
        return outputs


class Pipeline:
    """Run micro-batches through the stages of all ranks. All ranks of the pipeline make the same calls."""

    def __init__(
        self, parts: EngineParts, draws: Draws, *, stages: int, schedule: str, row_shares: int
    ) -> None:
        assert parts.mesh is not None, "a pipeline has several ranks"
        self._step = _Step(task=staged(parts.task), draws=draws)
        self._parts = parts
        self._group = parts.mesh.get_group("pipeline")
        self._row_shares = row_shares  # tensor ranks that share the tokens of a hidden state
        self._stages = stages
        self._schedule = schedule
        self._runners: dict[int, StageRunner] = {}
        self._schedules: dict[tuple[int, torch.Size], Schedule] = {}
        self._hidden_shapes: dict[frozenset[object], torch.Size] = {}

    def take(self, number: int, stage: nn.Module) -> StageRunner:
        """Add one of this rank's stages; return the module that computes it."""
        self._runners[number] = StageRunner(
            stage, self._step, is_first=number == 0, is_last=number == self._stages - 1
        )
        return self._runners[number]

    def in_flight(self, micro_batches: int) -> int:
        """Return how many micro-batches a stage of this rank keeps at most between forward and backward."""
        if self._schedule == "gpipe":
            return micro_batches
        ahead = self._parts.layout.pipeline - self._parts.at.pipeline
        return min(micro_batches, ahead if self._schedule == "1f1b" else 2 * ahead)

    def accumulate(
        self, micro_batches: Sequence[MicroBatch], outline: nn.Module, scale: float
    ) -> list[Tensor]:
        """Go forward and backward; return each micro-batch's weighted metrics on the last stage's rank.

        `outline` is the first stage on the meta device: it tells the shape of hidden states.
        """
        step = self._step
        step.micro_batches, step.scale, step.metrics = micro_batches, scale, []
        shapes = {self._hidden_shape(outline, each.inputs) for each in micro_batches}
        if len(shapes) > 1:
            raise Refusal(
                f"micro-batches of one step have hidden states of several shapes: {sorted(shapes)}",
                hint="pad rows to one length, or set pipeline=1",
            )
        numbers = torch.arange(len(micro_batches))
        first = (numbers,) if 0 in self._runners else ()
        self._schedule_of(len(micro_batches), shapes.pop()).step(*first, number=numbers, target=numbers)
        return step.metrics

    @torch.no_grad()
    def evaluate(self, inputs: Inputs, outline: nn.Module) -> Tensor | None:
        """Go forward through all stages; return the metrics on the last one's rank."""
        self._step.micro_batches = [MicroBatch(inputs=inputs, seed=0, weight=1.0)]
        shape, number = self._hidden_shape(outline, inputs), torch.zeros(1, dtype=torch.int64)
        for stage, runner in sorted(self._runners.items()):
            hidden = number
            if stage:
                hidden = torch.empty(
                    shape, dtype=self._parts.device.precision, device=self._parts.device.place
                )
                distributed.recv(
                    hidden, group=self._group, group_src=(stage - 1) % self._parts.layout.pipeline
                )
            outputs: Tensor = runner(hidden, number)
            if stage + 1 == self._stages:
                return outputs
            there = (stage + 1) % self._parts.layout.pipeline
            distributed.send(outputs.contiguous(), group=self._group, group_dst=there)
        return None

    def exchange(self, gradient: Tensor) -> None:
        """Add up the gradient of a parameter that the first and the last stage both hold."""
        ends = (0, (self._stages - 1) % self._parts.layout.pipeline)
        other = ends[1] if self._parts.at.pipeline == ends[0] else ends[0]
        theirs = torch.empty_like(gradient)
        operations = [
            distributed.P2POp(distributed.isend, gradient, group=self._group, group_peer=other),
            distributed.P2POp(distributed.irecv, theirs, group=self._group, group_peer=other),
        ]
        for work in distributed.batch_isend_irecv(operations):
            work.wait()
        gradient.add_(theirs)

    def _hidden_shape(self, outline: nn.Module, inputs: Inputs) -> torch.Size:
        """Return the shape of hidden states for these inputs; find it once per shape of inputs."""
        asked = frozenset(
            (name, value if value is None else (value.shape, value.dtype)) for name, value in inputs.items()
        )
        if asked not in self._hidden_shapes:
            there = {name: None if value is None else value.to("meta") for name, value in inputs.items()}
            with torch.no_grad():
                found = self._step.task.run_stage(outline, None, there)
            assert isinstance(found, Tensor), "a first stage returns hidden states"
            rows, length, *rest = found.shape
            self._hidden_shapes[asked] = torch.Size((rows, length // self._row_shares, *rest))
        return self._hidden_shapes[asked]

    def _schedule_of(self, micro_batches: int, shape: torch.Size) -> Schedule:
        """Return the schedule for so many micro-batches of this shape; schedules are cached."""
        found = self._schedules.get((micro_batches, shape))
        if found is None:
            first = torch.empty(1, dtype=torch.int64, device="meta")
            hidden = torch.empty(shape, dtype=self._parts.device.precision, device="meta", requires_grad=True)
            metrics = torch.empty(len(self._step.task.metrics), device="meta")
            stages = [
                PipelineStage(
                    runner,
                    number,
                    self._stages,
                    self._parts.device.place,
                    input_args=hidden if number else first,
                    output_args=metrics if number == self._stages - 1 else hidden,
                    group=self._group,
                )
                for number, runner in self._runners.items()
            ]
            found = SCHEDULES[self._schedule](
                stages if self._schedule == "interleaved" else stages[0],
                micro_batches,
                loss_fn=self._step.loss,
                scale_grads=False,
            )
            self._schedules[micro_batches, shape] = found
        return found
