"""Pre-trains a small Llama with FSDP2, and resumes from the newest checkpoint whose digests match."""

import hashlib
import os
import shutil
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

STEPS = int(os.environ.get("STEPS", "200"))
FOLDER = Path(os.environ.get("SLIPWAY_CHECKPOINTS", "checkpoints"))
SUMS = "SHA256SUMS"  # `sha256sum --check SHA256SUMS` in a checkpoint's folder checks the same


def main() -> None:
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpu else torch.device("cpu")
    dist.init_process_group("cuda:nccl,cpu:gloo" if has_gpu else "gloo")
    torch.manual_seed(0)
    shape = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=256, intermediate_size=128, **shape)).to(device)
    for part in (*model.model.layers, model):
        fully_shard(part)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    first = newest_whole()
    if first:
        weights, moments = get_state_dict(model, optimizer)
        dcp.load({"model": weights, "optim": moments}, checkpoint_id=place(first))
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
        say(f"resuming from step {first}")
    for step in range(first, STEPS):
        drawn = torch.Generator().manual_seed(step * dist.get_world_size() + dist.get_rank())
        begins = torch.randint(256, (8, 1), generator=drawn)
        rows = ((begins + 7 * torch.arange(32)) % 256).to(device)  # put your tokens in place of these
        loss = model(input_ids=rows, labels=rows).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % 10 == 0:
            say(f"step {step + 1}/{STEPS}  loss {loss.item():.4f}")
            weights, moments = get_state_dict(model, optimizer)
            save(step + 1, {"model": weights, "optim": moments})
            say(f"saved step {step + 1}")
    dist.destroy_process_group()


def say(line: str) -> None:
    if dist.get_rank() == 0:
        print(line, flush=True)


def place(step: int) -> Path:
    return FOLDER / f"step-{step:08}"


def save(step: int, state: dict[str, object]) -> None:
    """Publish a checkpoint by renaming it, once it holds the digests of all its files."""
    draft = FOLDER / "draft"
    if dist.get_rank() == 0:
        shutil.rmtree(draft, ignore_errors=True)  # left by an attempt that was killed
        draft.mkdir(parents=True)
    dist.barrier()
    dcp.save(state, checkpoint_id=draft)
    own = [f"{digest(file)}  {file.name}\n" for file in share(sorted(draft.iterdir()))]
    told: list[list[str]] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(told, own)
    if dist.get_rank() == 0:
        (draft / SUMS).write_text("".join(sum(told, [])))
        shutil.rmtree(place(step), ignore_errors=True)  # a damaged one of the same step
        draft.rename(place(step))
        for old in sorted(FOLDER.glob("step-*"))[:-3]:
            shutil.rmtree(old)
    dist.barrier()


def newest_whole() -> int:
    """Return the newest step whose files are all as they were saved, or 0 if there is none."""
    for folder in sorted(FOLDER.glob("step-*"), reverse=True):
        lines = (folder / SUMS).read_text().splitlines() if (folder / SUMS).exists() else []
        files = [line.split("  ", 1) for line in lines]
        right = [(folder / name).is_file() and digest(folder / name) == saved for saved, name in share(files)]
        is_whole = torch.tensor(int(bool(lines) and all(right)))
        dist.all_reduce(is_whole, op=dist.ReduceOp.MIN)  # each rank checked a share of the files
        if is_whole.item():
            return int(folder.name.removeprefix("step-"))
        say(f"skipping {folder.name}: it is not what was saved")
    return 0


def share(everything: list) -> list:
    return everything[dist.get_rank() :: dist.get_world_size()]


def digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # skip Python's own shutdown: a PyTorch thread that still runs would abort the finished rank
