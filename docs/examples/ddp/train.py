"""Trains a small network with DistributedDataParallel, saves, and resumes from what was saved."""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = int(os.environ.get("STEPS", "200"))
PLACE = os.path.join(os.environ.get("SLIPWAY_CHECKPOINTS", "checkpoints"), "last.pt")

has_gpu = torch.cuda.is_available()
dist.init_process_group("nccl" if has_gpu else "gloo")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpu else torch.device("cpu")
torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1)).to(device)
model, first = DistributedDataParallel(network), 0
optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
if os.path.exists(PLACE):
    saved = torch.load(PLACE, map_location=device, weights_only=True)
    network.load_state_dict(saved["network"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["step"]
    if dist.get_rank() == 0:
        print(f"resuming from step {first}", flush=True)

for step in range(first, STEPS):
    drawn = torch.Generator().manual_seed(step * dist.get_world_size() + dist.get_rank())
    inputs = torch.randn(64, 32, generator=drawn).to(device)
    loss = (model(inputs) - inputs.mean(dim=1, keepdim=True).mul(8).sin()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0 and (step + 1) % 10 == 0:
        print(f"step {step + 1}/{STEPS}  loss {loss.item():.4f}", flush=True)
        os.makedirs(os.path.dirname(PLACE), exist_ok=True)
        torch.save(
            {"step": step + 1, "network": network.state_dict(), "optimizer": optimizer.state_dict()},
            f"{PLACE}.new",
        )
        os.replace(f"{PLACE}.new", PLACE)  # a reader sees the old file or the new one, never half of one
dist.destroy_process_group()
sys.stdout.flush()
os._exit(0)  # skip Python's own shutdown: a PyTorch thread that still runs would abort the finished rank
