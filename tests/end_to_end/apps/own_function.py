"""A user's script: it calls its own functions on two nodes of a cluster, and prints what comes back."""

import json
import os
import sys
from typing import Any

import torch
import torch.distributed


def share(weights: torch.Tensor, factor: int) -> dict[str, Any]:
    """Return the sum of what all ranks make of the weights, and which rank this is."""
    torch.distributed.init_process_group("gloo")
    made = weights * factor * (torch.distributed.get_rank() + 1)
    torch.distributed.all_reduce(made)
    torch.distributed.destroy_process_group()
    return {"rank": int(os.environ["RANK"]), "sum": made}


def fail_on(rank: int) -> None:
    """Raise on one rank while the others wait for it."""
    torch.distributed.init_process_group("gloo")
    if torch.distributed.get_rank() == rank:
        raise ValueError(f"rank {rank} has had enough")
    torch.distributed.barrier()


if __name__ == "__main__":
    import slipway

    on, one = sys.argv[1], slipway.RunOptions(processes_per_node=1)
    if sys.argv[2] == "share":
        job = slipway.run(share, torch.tensor([1.0, 2.0]), factor=10, on=on, nodes=2, options=one)
        told = [[each["rank"], each["sum"].tolist()] for each in [job.result(), *job.results()]]
        print(json.dumps(told))
    else:
        try:
            slipway.run(fail_on, 1, on=on, nodes=2, options=one).result()
        except slipway.FunctionFailed as failed:
            print(json.dumps([failed.rank, failed.message.splitlines()]))
