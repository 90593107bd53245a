"""A training with transformers' Trainer as documented; only the folder to save to comes from Slipway.
STEPS says how long it is.
"""

import os
import sys
import time
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

STEPS = int(os.environ["STEPS"])


class Counting:
    """Rows in which each token follows from the one before; a Trainer takes any sequence."""

    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        time.sleep(0.01)  # as slow as data that has to be fetched
        row = (torch.arange(16) * (index % 7 + 1) + index) % 64
        return {"input_ids": row, "labels": row}


def last_whole(folder: str) -> str | None:
    """Return the last complete checkpoint; the Trainer itself would take an incomplete one."""
    whole = [path.parent for path in Path(folder).glob("checkpoint-*/trainer_state.json")]
    return str(max(whole, key=lambda path: int(path.name.rpartition("-")[2]))) if whole else None


torch.manual_seed(0)
sizes = {"vocab_size": 64, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 2}
calm = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
trainer = Trainer(
    model=GPT2LMHeadModel(GPT2Config(**sizes, **calm)),
    args=TrainingArguments(
        output_dir=os.environ["SLIPWAY_CHECKPOINTS"],
        max_steps=STEPS,
        save_steps=20,
        logging_steps=10,
        per_device_train_batch_size=4,
        learning_rate=3e-3,
        report_to="none",
        disable_tqdm=True,
    ),
    train_dataset=Counting(),
)
checkpoint = last_whole(trainer.args.output_dir)
if checkpoint and trainer.is_world_process_zero():
    print(f"resuming from step {checkpoint.rpartition('-')[2]}", flush=True)
trainer.train(resume_from_checkpoint=checkpoint)
if trainer.is_world_process_zero():
    for entry in trainer.state.log_history:  # the history of all attempts, which each checkpoint holds
        if "loss" in entry:
            print(f"step {entry['step']}/{STEPS}  loss {float(entry['loss']):.4f}", flush=True)
torch.distributed.destroy_process_group()
sys.stdout.flush()
os._exit(0)  # a rank may end by SIGABRT in Python's own shutdown
