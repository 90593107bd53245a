"""Anything but plain tensors is refused; ranks communicate over a real process group."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slipway.containers.runtime.checkpoint import tensor_file
from slipway.containers.runtime.errors import Refusal

ROOT = Path(__file__).parents[4]

torch: Any = pytest.importorskip("torch")


def test_what_is_no_plain_tensor_is_refused_by_name() -> None:
    with pytest.raises(Refusal, match="'z' has the dtype"):
        tensor_file.encode_tensor("z", torch.zeros(2, dtype=torch.complex64))


RANK = """
import datetime, os, sys
import torch.distributed as distributed
from slipway.containers.runtime.checkpoint.tensor_file import torch_collective
store = distributed.FileStore(sys.argv[1], 3)
limit = datetime.timedelta(seconds=30)
distributed.init_process_group("gloo", timeout=limit, store=store, rank=int(sys.argv[2]), world_size=3)
collective = torch_collective()
told = collective.gather({"rank": collective.rank, "text": "é" * collective.rank * 1000})
assert [one["rank"] for one in told] == [0, 1, 2], told
assert [len(one["text"]) for one in told] == [0, 1000, 2000]
distributed.destroy_process_group()
os._exit(0)  # Python's own end may meet a thread of gloo that lives on, and abort
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
