"""Trains a line under accelerate for some seconds, as any script would; it does not know Slipway."""

import os
import sys
import time

import torch
from accelerate import Accelerator

accelerator = Accelerator()
print(
    f"rank {accelerator.process_index} of {accelerator.num_processes}, {accelerator.distributed_type}",
    flush=True,
)
line = torch.nn.Linear(8, 1)
model, optimizer = accelerator.prepare(line, torch.optim.SGD(line.parameters(), lr=0.01))
for _ in range(50 * int(sys.argv[1])):
    time.sleep(0.02)
    optimizer.zero_grad()
    accelerator.backward(model(torch.ones(4, 8)).square().mean())
    optimizer.step()
accelerator.end_training()
sys.stdout.flush()
os._exit(0)  # Python's own shutdown may meet a running thread of torch
