"""PyTorch's tensors survive a checkpoint bit for bit; ranks talk over a real process group."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slipway.containers.runtime.checkpoint import tensors
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints
from slipway.containers.runtime.errors import Refusal
from tests.containers.runtime.saving import quiet, training

ROOT = Path(__file__).parents[4]

torch: Any = pytest.importorskip("torch")


def test_torch_tensors_of_every_dtype_come_back_bit_for_bit(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    saved = {
        "f32": torch.randn(3, 5, generator=generator),
        "bf16": torch.randn(7, generator=generator).to(torch.bfloat16),
        "f16": torch.randn(3, generator=generator).half(),
        "f8": torch.randn(4, generator=generator).to(torch.float8_e4m3fn),
        "transposed": torch.arange(6).reshape(2, 3).t(),
        "scalar": torch.tensor(3, dtype=torch.int64),
        "empty": torch.empty(0, 4),
        "flags": torch.tensor([True, False]),
        "nan": torch.tensor([float("nan"), float("-inf"), -0.0]),
        "rng": torch.get_rng_state(),
    }
    with Checkpoints(tmp_path, training(), say=quiet) as checkpoints:
        checkpoints.save(1, tensors.from_torch(saved))
        found = checkpoints.resume("required")
    assert found is not None
    read = tensors.to_torch(found.tensors(0))
    for name, tensor in saved.items():
        assert read[name].dtype == tensor.dtype
        assert read[name].shape == tensor.shape
        flat, wanted = read[name].reshape(-1), tensor.contiguous().reshape(-1)
        assert torch.equal(flat.view(torch.uint8), wanted.view(torch.uint8)), name
    read["f32"] += 1  # writable: an optimizer goes on with it


def test_what_is_no_plain_tensor_is_refused_by_name() -> None:
    with pytest.raises(Refusal, match="'z' has the dtype"):
        tensors.from_torch({"z": torch.zeros(2, dtype=torch.complex64)})


RANK = """
import datetime, os, sys
import torch.distributed as distributed
from slipway.containers.runtime.checkpoint.tensors import torch_collective
store = distributed.FileStore(sys.argv[1], 3)
limit = datetime.timedelta(seconds=30)
distributed.init_process_group("gloo", timeout=limit, store=store, rank=int(sys.argv[2]), world_size=3)
collective = torch_collective()
told = collective.gather({"rank": collective.rank, "text": "é" * collective.rank * 1000})
assert [one["rank"] for one in told] == [0, 1, 2], told
assert [len(one["text"]) for one in told] == [0, 1000, 2000]
distributed.destroy_process_group()
"""


def test_ranks_gather_json_over_a_real_process_group(tmp_path: Path) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, tmp_path / "store", str(rank)], cwd=ROOT, stderr=subprocess.PIPE
        )
        for rank in range(3)
    ]
    complaints = [rank.communicate(timeout=60)[1].decode() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0, 0], complaints
