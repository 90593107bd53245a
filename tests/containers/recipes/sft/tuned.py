"""Runs tunings of tiny models by TRL; each rank is a fork of one process that has imported it.

python -m tests.containers.recipes.sft.tuned FOLDER NAME …
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import peft
import trl
from accelerate import PartialState
from accelerate.utils import DistributedType
from trl import DPOTrainer, SFTTrainer  # both import late

from slipway.containers.recipes.sft import callbacks, data, train
from tests.containers.recipes.sft.tiny import write_inputs
from tests.containers.recipes.trainings import Trainings

IMPORTED_ONCE = (peft, trl, DPOTrainer, SFTTrainer, callbacks, data)  # before the forks
STEPS = 6
BASE: Mapping[str, str] = {
    "model": "llama",
    "data": "chats",
    "length": "64",
    "steps": str(STEPS),
    "global_batch": "8",
    "micro_batch": "2",
    "rate": "1e-2",
    "precision": "fp32",
    "checkpoint_every": "2",
    "log_every": "1",
}
LORA = {"lora_rank": "4", "lora_dropout": "0.1"}
# Each tuning by name: its ranks and settings.
TUNINGS: Mapping[str, tuple[int, Mapping[str, str]]] = {
    "pair": (2, {}),
    "lora": (1, {"model": "qwen", "data": "text.jsonl", **LORA}),
    "dpo": (1, {"model": "qwen", "data": "preferences.jsonl", "method": "dpo"}),
    "fsdp": (2, {"fsdp": "yes"}),
    "fsdp-bf16": (2, {"fsdp": "yes", "precision": "bf16"}),
    "ended": (2, {"steps": "4000", "checkpoint_every": "1000"}),
    "bf16": (1, {"model": "qwen", "loss_on": "assistant", "precision": "bf16"}),
}
ENDED_AFTER = 3
RESUMED = ("pair", "lora", "fsdp")


def be_rank(words: Sequence[str]) -> int:
    if "fsdp=yes" in words:
        take_processors_for_gpus()
    if "steps=4000" in words:
        ask_a_rank_to_end()
    return train.main(words)


def ask_a_rank_to_end() -> None:
    """Let the platform ask one of two ranks to end, while it computes its third step."""
    begin_step = callbacks.StepCallback.on_step_begin

    def begin_and_hear(own: Any, args: Any, state: Any, control: Any, **more: Any) -> None:
        begin_step(own, args, state, control, **more)
        if state.global_step == ENDED_AFTER - 1 and own.run.contract.rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    callbacks.StepCallback.on_step_begin = begin_and_hear  # of this fork alone


def take_processors_for_gpus() -> None:
    """Let accelerate shard over processors, which it does only over GPUs; nothing else is changed."""
    begin = PartialState.__init__

    def begin_as_gpus(state: PartialState, *words: Any, **more: Any) -> None:
        begin(state, *words, **more)
        if state.distributed_type == DistributedType.MULTI_CPU:
            state.distributed_type = DistributedType.MULTI_GPU

    PartialState.__init__ = begin_as_gpus
    train.refuse_processors = lambda device: None


def main(folder: Path, names: Sequence[str]) -> None:
    """Run one tuning and resume it, and the others that are asked for."""
    write_in_fork(folder / "data")
    tunings = Trainings(folder, be_rank, BASE)
    tunings.run("alone", 1, {})
    for name in names:
        tunings.run(name, *TUNINGS[name])
    for name in ("alone", *(name for name in names if name in RESUMED)):
        tunings.continue_from(name, f"{name}-resumed")
        tunings.run(f"{name}-resumed", *TUNINGS.get(name, (1, {})))
    tunings.finish()


def write_in_fork(data: Path) -> None:
    """Write models and rows in another process, because this one must compute nothing."""
    from tests.containers.forks import fork_each

    assert fork_each(1, lambda _: write_inputs(data)) == [0]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
