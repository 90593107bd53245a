"""Trains a small network with Lightning Fabric, saves, and resumes from what was saved."""

import os

import torch
from lightning_fabric import Fabric

STEPS = int(os.environ.get("STEPS", "200"))
PLACE = os.path.join(os.environ.get("SLIPWAY_CHECKPOINTS", "checkpoints"), "last.ckpt")

fabric = Fabric(
    accelerator="auto",
    devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
    num_nodes=int(os.environ.get("NNODES", "1")),
)
fabric.launch()
fabric.seed_everything(0)
network = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1))
network, optimizer = fabric.setup(network, torch.optim.AdamW(network.parameters(), lr=3e-3))
state = {"network": network, "optimizer": optimizer, "step": 0}
if os.path.exists(PLACE):
    fabric.load(PLACE, state)
    fabric.print(f"resuming from step {state['step']}")

for step in range(state["step"], STEPS):
    drawn = torch.Generator().manual_seed(step * fabric.world_size + fabric.global_rank)
    inputs = torch.randn(64, 32, generator=drawn).to(fabric.device)
    loss = (network(inputs) - inputs.mean(dim=1, keepdim=True).mul(8).sin()).square().mean()
    optimizer.zero_grad()
    fabric.backward(loss)
    optimizer.step()
    if (step + 1) % 10 == 0:
        if fabric.is_global_zero:
            print(f"step {step + 1}/{STEPS}  loss {loss.item():.4f}", flush=True)
        state["step"] = step + 1
        fabric.save(f"{PLACE}.new", state)
        if fabric.is_global_zero:
            os.replace(f"{PLACE}.new", PLACE)  # a reader sees the old file or the new one, never half of one
        fabric.barrier()
