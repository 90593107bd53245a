"""Two ranks over a backend of floating-point numbers only, as accelerators have: `python -m …mesh_ranks`."""

from __future__ import annotations

import os
import socket
import sys
import traceback
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, distributed

from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.training.devices import open_device
from slipway.containers.training.engine import build_mesh, process_group
from slipway.containers.training.layout import DIMENSIONS, Layout
from slipway.containers.training.saving import summed


class FloatsOnly(distributed.ProcessGroup):  # type: ignore[misc]  # torch counts as untyped
    """Carry sums of floating-point numbers over gloo, and nothing else."""

    def __init__(self, store: Any, rank: int, size: int, timeout: Any) -> None:
        super().__init__(rank, size)
        self._gloo = distributed.ProcessGroupGloo(store, rank, size, timeout)

    def allreduce(self, tensors: list[Tensor], options: Any) -> Any:
        if not all(tensor.is_floating_point() for tensor in tensors):
            raise RuntimeError(f"no sums of {tensors[0].dtype}")
        return self._gloo.allreduce(tensors, options)

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        return "floats"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def be_rank(rank: int, ports: tuple[int, int]) -> None:
    alone = replace(read_contract({}), collective_seconds=60.0)
    contract = replace(alone, rank=rank, local_rank=rank, world=2, local_world=2, main_port=ports[0])
    device = replace(open_device(contract, "cpu", "fp32"), backend="floats")
    with process_group(device, contract) as collective:
        assert collective.gather({"rank": rank}) == [{"rank": 0}, {"rank": 1}]
        assert summed(torch.ones(2) * (rank + 1)) == [3.0, 3.0]
    with process_group(replace(device, backend="gloo"), replace(contract, main_port=ports[1])):
        mesh = build_mesh(Layout(tensor=2), device)
        assert mesh.mesh_dim_names == DIMENSIONS
        assert tuple(mesh.get_coordinate()) == Layout(tensor=2).coordinates(rank)


def main() -> int:
    distributed.Backend.register_backend("floats", FloatsOnly, devices=["cpu"])
    ports = free_port(), free_port()
    children = []
    for rank in range(2):
        if (child := os.fork()) == 0:
            try:
                be_rank(rank, ports)
            except BaseException:  # noqa: BLE001 - a fork ends here, whatever it was
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    print(f"{len(codes)} ranks ended with {codes}")
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
