"""Trains a small GPT-2 with transformers' Trainer, which saves and resumes from what was saved."""

import os

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

ROWS = [(torch.arange(16) * (index % 7 + 1) + index) % 64 for index in range(512)]
FOLDER = os.environ.get("SLIPWAY_CHECKPOINTS", "checkpoints")

torch.manual_seed(0)
config = GPT2Config(
    vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
)
os.makedirs(FOLDER, exist_ok=True)
trainer = Trainer(
    model=GPT2LMHeadModel(config),
    args=TrainingArguments(
        output_dir=FOLDER,
        max_steps=int(os.environ.get("STEPS", "40")),
        save_steps=10,
        logging_steps=10,
        per_device_train_batch_size=4,
        learning_rate=3e-3,
        report_to="none",
    ),
    train_dataset=[{"input_ids": row, "labels": row} for row in ROWS],
)
checkpoint = get_last_checkpoint(FOLDER)
if checkpoint and trainer.is_world_process_zero():
    print(f"resuming from step {checkpoint.rpartition('-')[2]}", flush=True)
trainer.train(resume_from_checkpoint=checkpoint)
