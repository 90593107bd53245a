"""Runs one rank of the all-reduce that shows whether the nodes of a cluster can work together."""

from __future__ import annotations

import os
from datetime import timedelta

from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.runtime.errors import Interruption


def main() -> None:
    import torch
    from torch import distributed

    contract = read_contract(os.environ)
    if contract.world == 1:
        return
    distributed.init_process_group("gloo", timeout=timedelta(seconds=contract.collective_seconds))
    answers = torch.zeros(contract.world)
    answers[contract.rank] = 1
    distributed.all_reduce(answers)
    missing = [rank for rank, count in enumerate(answers.tolist()) if count != 1]
    if missing:
        raise Interruption(f"the all-reduce is wrong for rank {', '.join(map(str, missing))}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
