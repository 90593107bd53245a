"""Trains a small network on all ranks. Replace its model and data with yours, and keep the rest.

It is plain PyTorch: whoever starts it sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as
torchrun does. `python train.py` alone is one rank. It saves to SLIPWAY_CHECKPOINTS, and resumes from there:
a folder, or an s3:// URL if nodes share no files, such as several instances of SageMaker.
"""

from __future__ import annotations

import atexit
import io
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = int(os.environ.get("STEPS", "200"))
SAVE_EVERY = 20
BATCH = 64  # samples of one rank
FEATURES = 32
RESUME_ME = 85  # the exit code that asks Slipway for another attempt
CHECKPOINT = os.environ.get("SLIPWAY_CHECKPOINTS", "checkpoints") + "/last.pt"
ALONE = {
    "RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_RANK": "0",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}

stopping = False


def main() -> int:
    # SIGTERM comes before the machine goes, and before the job's time is up.
    signal.signal(signal.SIGTERM, stop)
    device = start()
    torch.manual_seed(0)  # the same first weights on every rank
    network = nn.Sequential(nn.Linear(FEATURES, 128), nn.Tanh(), nn.Linear(128, 1)).to(device)
    model = DistributedDataParallel(network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(resume(network, optimizer, device), STEPS):
        loss = train(model, optimizer, *samples(step, device))
        if dist.get_rank() == 0 and (step + 1) % 10 == 0:
            print(f"step {step + 1}/{STEPS}  loss {loss:.4f}", flush=True)
        if is_stopping(device):
            save(step + 1, network, optimizer)
            return RESUME_ME
        if (step + 1) % SAVE_EVERY == 0 or step + 1 == STEPS:
            save(step + 1, network, optimizer)
    dist.destroy_process_group()
    return 0


def start() -> torch.device:
    """Join the other ranks; without a launcher, train as the only rank."""
    for name, value in ALONE.items():
        os.environ.setdefault(name, value)
    has_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if has_gpu else "gloo")
    return torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpu else torch.device("cpu")


def samples(step: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return different samples for every step and rank, and the same ones after a resume."""
    drawn = torch.Generator().manual_seed(step * dist.get_world_size() + dist.get_rank())
    inputs = torch.randn(BATCH, FEATURES, generator=drawn)
    return inputs.to(device), inputs.mean(dim=1, keepdim=True).mul(8).sin().to(device)


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, wanted: torch.Tensor
) -> float:
    loss = nn.functional.mse_loss(model(inputs), wanted)
    optimizer.zero_grad()
    loss.backward()  # the ranks average their gradients here
    optimizer.step()
    return float(loss.item())


def save(step: int, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    if dist.get_rank() == 0:
        state = {"step": step, "network": network.state_dict(), "optimizer": optimizer.state_dict()}
        content = io.BytesIO()
        torch.save(state, content)
        write(content.getvalue())
        print(f"saved step {step}", flush=True)
    dist.barrier()


def resume(network: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> int:
    """Return the step to resume from, or 0 if nothing is saved."""
    content = read()
    if content is None:
        return 0
    state = torch.load(io.BytesIO(content), map_location=device, weights_only=True)
    network.load_state_dict(state["network"])
    optimizer.load_state_dict(state["optimizer"])
    if dist.get_rank() == 0:
        print(f"resuming from step {state['step']}", flush=True)
    return int(state["step"])


def write(content: bytes) -> None:
    """Replace the checkpoint in one step: if this is killed, the last one stays complete."""
    if CHECKPOINT.startswith("s3://"):
        import boto3

        place = urlsplit(CHECKPOINT)
        boto3.client("s3").put_object(Bucket=place.netloc, Key=place.path[1:], Body=content)
        return
    file = Path(CHECKPOINT)
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".draft")
    draft.write_bytes(content)
    draft.replace(file)


def read() -> bytes | None:
    """Return the last checkpoint, if there is one."""
    if CHECKPOINT.startswith("s3://"):
        import boto3

        s3, place = boto3.client("s3"), urlsplit(CHECKPOINT)
        try:
            found = s3.get_object(Bucket=place.netloc, Key=place.path[1:])
        except s3.exceptions.NoSuchKey:
            return None
        return bytes(found["Body"].read())
    return Path(CHECKPOINT).read_bytes() if Path(CHECKPOINT).exists() else None


def stop(_signal: int, _frame: object) -> None:
    global stopping  # noqa: PLW0603 - a signal has no other way to tell
    stopping = True


def is_stopping(device: torch.device) -> bool:
    """Return True on all ranks if any of them was told to stop, so that all stop after the same step."""
    told = torch.tensor(float(stopping), device=device)
    dist.all_reduce(told, op=dist.ReduceOp.MAX)
    return bool(told.item())


def end(code: int) -> NoReturn:
    """Skip Python's own shutdown, in which a PyTorch thread that still runs aborts one run in thirty."""
    atexit._run_exitfuncs()  # run what your loggers registered for the end
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    end(main())
