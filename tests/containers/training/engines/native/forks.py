"""Runs the ranks of a process group as forks of one process, because importing torch is slow."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta

import torch
from torch import distributed

from tests.containers.forks import fork_each, free_port

PATIENCE = timedelta(seconds=300)  # for a peer


def fork_ranks(world: int, body: Callable[[int], None]) -> None:
    """Run `body` as each rank of a process group on gloo; exit if one fails."""
    port = free_port()

    def be_rank(rank: int) -> None:
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

    codes = fork_each(world, be_rank)
    if any(codes):
        sys.exit(f"{world} ranks ended with {codes}")
