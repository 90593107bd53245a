"""Runs two ranks over a backend for floating-point numbers only, as accelerators have: `-m …mesh_ranks`."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, distributed

from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.training import devices
from slipway.containers.training.devices import Device, open_device
from slipway.containers.training.engine import build_mesh, process_group
from slipway.containers.training.layout import DIMENSIONS, Layout
from slipway.containers.training.saving import summed
from tests.containers.forks import fork_each, free_port


class FloatsOnly(distributed.ProcessGroup):  # type: ignore[misc]  # torch counts as untyped
    """Sum floating-point numbers over gloo, and refuse everything else."""

    def __init__(self, store: Any, rank: int, size: int, timeout: Any) -> None:
        super().__init__(rank, size)
        self._gloo = distributed.ProcessGroupGloo(store, rank, size, timeout)

    def allreduce(self, tensors: list[Tensor], options: Any) -> Any:
        if not all(tensor.is_floating_point() for tensor in tensors):
            raise RuntimeError(f"no sums of {tensors[0].dtype}")
        return self._gloo.allreduce(tensors, options)

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        return "floats"


def be_rank(rank: int, ports: Sequence[int]) -> None:
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
    on_gloo = replace(device, backend="gloo")
    assert outlives_its_end(on_gloo, replace(contract, main_port=ports[2])) == (torch.__version__ < (2, 8))
    devices._LETS_GO = (99, 0)  # as if this release had the fault
    assert outlives_its_end(on_gloo, replace(contract, main_port=ports[3]))


def outlives_its_end(device: Device, contract: LaunchContract) -> bool:
    with process_group(device, contract):
        group = weakref.ref(distributed.group.WORLD)
    gc.collect()
    return group() is not None


def main() -> int:
    distributed.Backend.register_backend("floats", FloatsOnly, devices=["cpu"])
    ports = [free_port() for _ in range(4)]
    codes = fork_each(2, lambda rank: be_rank(rank, ports))
    print(f"{len(codes)} ranks ended with {codes}")
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
