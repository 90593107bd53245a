"""A training in plain torch.distributed; only the folder to save to comes from Slipway.

With `--stop-at STEP` its first attempt ends there with 85, which asks for another one.
"""

import os
import sys
from pathlib import Path

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

STEPS = 10
stop_at = int(sys.argv[sys.argv.index("--stop-at") + 1]) if "--stop-at" in sys.argv else None

distributed.init_process_group("gloo")
rank, world = distributed.get_rank(), distributed.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
saved, step = Path(os.environ["SLIPWAY_CHECKPOINTS"], "model.pt"), 0
if saved.exists():
    kept = torch.load(saved)
    model.module.load_state_dict(kept["model"])
    step = kept["step"]
    print(f"rank {rank} of {world} resumes at step {step}")
inputs = torch.randn(64, 8)[rank::world]
while step < STEPS:
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if step % 5 == 0:
        if rank == 0:
            torch.save({"model": model.module.state_dict(), "step": step}, saved)
        distributed.barrier()
    if step == stop_at:
        sys.stdout.flush()
        os._exit(85)
print(f"rank {rank} of {world}: loss {loss.item():.4f} with {sys.argv[1:]} in {Path.cwd().name}")
distributed.destroy_process_group()
# Even then a thread of gloo may outlive Python and end a rank with SIGABRT: docs/own-code.md.
sys.stdout.flush()
os._exit(0)
