"""Ends two gloo ranks many times while the machine is busy: `python -m …gloo_endings COUNT`.

torch is imported once, and every rank is a fork of this process, so each takes a tenth of a second.
A rank (`rank` in place of COUNT) frees its tensors right before it ends, as a training does.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import distributed

from slipway.containers.runtime.contract import variables
from slipway.containers.runtime.launch import rank

STORE_VARIABLE = "GLOO_STORE"
BUSY_PROCESSES = 2
BUFFERS = 8


def main(endings: int) -> int:
    busy = [start(keep_busy) for _ in range(BUSY_PROCESSES)]
    try:
        codes = [code for _ in range(endings) for code in end_two_ranks()]
    finally:
        for pid in busy:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    print(f"{len(codes)} ranks ended, not with 0: {[code for code in codes if code]}")
    return int(any(codes))


def end_two_ranks() -> list[int]:
    with tempfile.TemporaryDirectory() as folder:
        pids = [start(be_rank, number, folder) for number in range(2)]
        return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def start(body: Callable[..., None], *arguments: object) -> int:
    if (pid := os.fork()) == 0:
        body(*arguments)
        os._exit(99)  # no body comes back
    return pid


def keep_busy() -> None:
    while True:
        pass


def be_rank(number: int, folder: str) -> None:
    os.environ |= {"RANK": str(number), STORE_VARIABLE: folder, variables.LAUNCHER: str(os.getppid())}
    sys.argv = ["rank", "tests.containers.training.gloo_endings", "rank"]
    rank.main()


def train() -> int:
    store = f"file://{Path(os.environ[STORE_VARIABLE]) / 'store'}"
    distributed.init_process_group("gloo", init_method=store, rank=int(os.environ["RANK"]), world_size=2)
    for work in [distributed.all_reduce(torch.ones(64), async_op=True) for _ in range(BUFFERS)]:
        work.wait()
    distributed.all_gather([torch.empty(8), torch.empty(8)], torch.ones(8))
    distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(train() if sys.argv[1] == "rank" else main(int(sys.argv[1])))
