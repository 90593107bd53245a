"""Slipway's part in a training by the Trainer: a record of every step, verified checkpoints, exit codes.

The Trainer writes its checkpoint to this rank's own disk. Its files are published as tensors of any training
are (containers/runtime/checkpoint), and come back as files once all ranks have verified their digests.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from transformers import PrinterCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from slipway.containers.data.sources.sources import check_name
from slipway.containers.models.folder import FOLDER
from slipway.containers.recipes.sft.config import SftConfig
from slipway.containers.runtime import disk
from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, Mode, Resumed, Training
from slipway.containers.runtime.collective import Collective, Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.node_folders import hold
from slipway.containers.runtime.observe.progress import SAVING
from slipway.containers.runtime.observe.telemetry import Telemetry
from slipway.containers.training.devices import Device
from slipway.containers.training.engine import checkpoint_wire
from slipway.containers.training.layout import BatchPlan
from slipway.containers.training.report import NotFinite, Reporter, StepReport, Words
from slipway.containers.training.saving import Saving, ShutdownWatch, check_ranks_agree, summed
from slipway.containers.training.start import open_checkpoints
from slipway.containers.training.state import SavedState, TensorPiece, WantedBox

_KIND = "trainer"  # of the tensors that are files
_BLOCK_BYTES = 16 << 20
_PREFIX = "sft-run-"
_ADAPTER = "adapter_config.json"
_NOT_OF_A_MODEL = ("training_args.bin", "README.md")  # a pickle, and a card that nobody wrote


@contextmanager
def open_run(
    config: SftConfig,
    contract: LaunchContract,
    device: Device,
    collective: Collective,
    identity: dict[str, Json],
) -> Iterator[TunedRun]:
    """Check that all ranks have the same settings, model and rows, and open what the callbacks need."""
    check_ranks_agree(identity, collective)
    words = Words.of(contract)
    training = Training.of(contract, topology={"data": contract.world}, config=identity)
    with (
        Telemetry.of(contract) as telemetry,
        open_checkpoints(
            contract, training, config.keep, checkpoint_wire(contract), words.say
        ) as checkpoints,
    ):
        yield TunedRun(
            config=config,
            contract=contract,
            device=device,
            collective=collective,
            words=words,
            telemetry=telemetry,
            ending=ShutdownWatch(contract),
            checkpoints=checkpoints,
            folder=hold(_PREFIX, f"{contract.run} {contract.attempt} {contract.rank}"),
        )


@dataclass(slots=True, kw_only=True)
class TunedRun:
    config: SftConfig
    contract: LaunchContract
    device: Device
    collective: Collective
    words: Words
    telemetry: Telemetry
    ending: ShutdownWatch
    checkpoints: Checkpoints | None
    folder: Path  # of this rank alone, on its node

    def train(self, trainer: Any, plan: BatchPlan) -> None:
        """Train from the newest checkpoint that verifies to the last step, and write the model beside it."""
        rows = len(trainer.train_dataset)  # TRL leaves out those that have nothing to learn
        if not rows:
            raise Refusal(
                f"no row of {self.config.data} has anything to learn within {self.config.length} tokens",
                hint="set a larger length, or give other rows",
            )
        mode = cast(Mode, self.config.resume)
        found = self.checkpoints.resume(mode, reshard=True) if self.checkpoints else None
        saving = Saving(
            engine=TrainerFiles(self.folder / "trainer"),
            checkpoints=self.checkpoints,
            ending=self.ending,
            every=self.config.checkpoint_every,
            minutes=self.config.checkpoint_minutes,
            steps=0,
            place=self.device.place,
            say=self.words.say,
            newest=found.step if found else 0,
        )
        trainer.remove_callback(PrinterCallback)  # every line of it is one of ours, too
        trainer.add_callback(StepCallback(run=self, saving=saving, plan=plan, rows=rows))
        resumed = None
        if found is not None:  # its folder is written once per node, from the verified bytes
            identity = f"{self.contract.run} {self.contract.attempt} files of {found.step}"
            resumed = str(hold(_PREFIX, identity, partial(write_files, found)))
        trainer.train(resume_from_checkpoint=resumed)
        self._write_model(trainer)

    def _write_model(self, trainer: Any) -> None:
        if self.checkpoints is None:
            return
        written = self.folder / FOLDER
        trainer.save_model(str(written))  # all ranks: each may hold a share
        if self.contract.rank == 0:
            for name in _NOT_OF_A_MODEL:
                (written / name).unlink(missing_ok=True)
            if (adapter := written / _ADAPTER).exists():  # it names where the model lay on this node
                content = {**json.loads(adapter.read_bytes()), "base_model_name_or_path": self.config.model}
                adapter.write_text(json.dumps(content, indent=2), encoding="utf-8")
            with self.checkpoints.storage.beside() as beside:
                copy_model(written, beside)
            self.words.say(f"the model is in {self.checkpoints.storage}/{FOLDER}")
        self.collective.gather(None)


@dataclass(frozen=True, slots=True)
class TrainerFiles:
    """Return the files of the checkpoint that the Trainer has just written, as bytes."""

    folder: Path

    def pieces(self) -> Iterator[TensorPiece]:
        for checkpoint in self.folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
            for path in sorted(path for path in checkpoint.rglob("*") if path.is_file()):
                size, name = path.stat().st_size, path.relative_to(checkpoint).as_posix()
                data = torch.from_file(str(path), size=size, dtype=torch.uint8) if size else _EMPTY
                yield TensorPiece.whole(_KIND, name, data)
            shutil.rmtree(checkpoint)


_EMPTY = torch.empty(0, dtype=torch.uint8)


def write_files(found: Resumed, folder: Path) -> None:
    """Write the Trainer's checkpoint as it was saved; every byte is checked against its digest."""
    saved = SavedState(found)
    for key, stored in found.manifest.tensors.items():
        name = key.removeprefix(f"{_KIND}/")
        check_name(name)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (size,) = stored.shape
        boxes = (
            WantedBox(kind=_KIND, parameter=name, box=Box((start,), (min(_BLOCK_BYTES, size - start),)))
            for start in range(0, size, _BLOCK_BYTES)
        )
        disk.write_synced(folder / name, (memoryview(part.numpy()) for part in saved.read_each(boxes)))


def copy_model(written: Path, beside: Path) -> None:
    """Write the model beside the checkpoints, as a whole."""
    with disk.new_folder(beside / FOLDER) as folder:
        shutil.copytree(written, folder)
        for path in folder.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())


@dataclass
class StepCallback(TrainerCallback):
    """Report and save after each step, and end if any rank was asked to; all ranks do the same."""

    run: TunedRun
    saving: Saving
    plan: BatchPlan
    rows: int
    reporter: Reporter = field(init=False)
    must_end: bool = False
    began: float = 0.0
    tokens: int = 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_more: object
    ) -> None:
        run = self.run
        self.saving.steps = state.max_steps
        self.reporter = Reporter(
            steps=state.max_steps,
            log_every=run.config.log_every,
            device=run.device,
            world=run.contract.world,
            telemetry=run.telemetry,
            show=run.words.show,
            usd_per_hour=run.contract.usd_per_hour,
        )
        run.words.say(
            f"{run.config.method} of {run.config.model}: {self.rows} rows, {state.max_steps} steps, "
            f"{run.contract.world} rank(s) in {run.device.precision_name}"
        )
        self.began = time.perf_counter()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_more: object
    ) -> None:
        """Ask for a save if one is due; the Trainer logs the step before it saves."""
        step, run = state.global_step, self.run
        asked = [float(run.ending.is_near), float(run.contract.rank == 0 and self.saving.is_due())]
        ending, due = summed(torch.tensor(asked, device=run.device.place))
        self.must_end = ending > 0 or self.saving.must_end
        at_a_step = step % run.config.checkpoint_every == 0 or step == state.max_steps
        control.should_save = run.checkpoints is not None and bool(self.must_end or due or at_a_step)
        if self.must_end and not control.should_save:
            self.saving.after(step, must_end=True)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, float] | None = None,
        **_more: object,
    ) -> None:
        state.log_history.clear()  # it would be saved with each checkpoint; steps.jsonl has it
        if logs is None or "loss" not in logs:
            return  # of the whole training, at its end
        now, step = time.perf_counter(), state.global_step
        each = self.plan.global_batch  # rows of a step; the last one of an epoch may have fewer
        done = (step - 1) % math.ceil(self.rows / each) * each
        tokens = int(logs.get("num_tokens", 0))
        report = StepReport(
            step=step,
            rows=min(each, self.rows - done),
            tokens=tokens - self.tokens,
            loss=logs["loss"],
            gradient_norm=logs["grad_norm"],
            learning_rate=logs["learning_rate"],
            seconds=now - self.began,
            loss_scale=None,
            own_seconds=None,
        )
        self.tokens, self.began = tokens, now
        ending = self.run.ending
        ending.longest_step_seconds = max(ending.longest_step_seconds, report.seconds)
        self.reporter.tell(report)
        if not (math.isfinite(report.loss) and math.isfinite(report.gradient_norm)):
            raise NotFinite(
                f"step {step} has loss {report.loss} and gradient norm {report.gradient_norm}",
                hint="set a smaller rate, or precision=fp32",
            )
        if control.should_save:
            self.run.telemetry.beat(f"{SAVING}step {step} to this node's disk")

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_more: object
    ) -> None:
        self.saving.after(state.global_step, must_end=self.must_end, is_due=True)
        self.began = time.perf_counter()
