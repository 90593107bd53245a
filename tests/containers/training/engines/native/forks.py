"""Ranks as forks of one process that has imported torch: an import costs more than a tiny training."""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta

import torch
from torch import distributed

PATIENCE = timedelta(seconds=300)  # for a peer


def fork_ranks(world: int, body: Callable[[int], None]) -> None:
    """Run `body` as each rank of a process group on gloo; exit if one fails.

    This process must compute nothing itself: threads do not survive a fork.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    children = []
    for rank in range(world):
        if (child := os.fork()) == 0:
            _be_rank(rank, world, port, body)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if any(codes):
        sys.exit(f"{world} ranks ended with {codes}")


def _be_rank(rank: int, world: int, port: int, body: Callable[[int], None]) -> None:
    code = 1
    try:
        torch.set_num_threads(1)
        if world > 1:
            distributed.init_process_group(
                "gloo",
                init_method=f"tcp://127.0.0.1:{port}",
                rank=rank,
                world_size=world,
                timeout=PATIENCE,
            )
        body(rank)
        if world > 1:
            distributed.destroy_process_group()
        code = 0
    except BaseException:  # noqa: BLE001 - a fork ends here, whatever it was
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)
