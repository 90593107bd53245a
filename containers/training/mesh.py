"""The ranks of a layout as torch sees them: process groups, a device mesh, and a wire for small messages.

Small messages (JSON, and sizes as whole numbers) go over gloo whatever carries the gradients: an
accelerator's own backend may know no whole numbers, and each message would cross the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from torch import distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from slipway.containers.runtime.checkpoint.tensors import torch_collective
from slipway.containers.runtime.collective import Collective
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.backends import (
    choose_backend,
    prepare_backend,
    present_backends,
    refuse_other_world,
)
from slipway.containers.training.devices import Device, join_group
from slipway.containers.training.layout import DIMENSIONS, Layout

CONTROL_BACKEND = "gloo"


def with_backend(device: Device, wanted: str) -> Device:
    """Return a processor with the backend that is wanted of those installed; accelerators have their own."""
    if device.kind != "cpu":
        return device
    return replace(device, backend=choose_backend(wanted, present_backends()))


@contextmanager
def process_group(
    device: Device, contract: LaunchContract, *, alone_too: bool = False
) -> Iterator[Collective]:
    """Join all ranks for the duration; yield the wire for small messages. One rank joins if `alone_too`."""
    if contract.world == 1 and not alone_too:
        yield torch_collective()
        return
    prepare_backend(device.backend)
    join_group(device, contract)
    try:
        refuse_other_world(device.backend, contract)
        yield torch_collective(_control_group(device, contract))
    finally:
        distributed.destroy_process_group()


def checkpoint_wire(contract: LaunchContract) -> Collective:
    """Return a wire for saves alone: they talk in the background, while the training uses all others."""
    if not distributed.is_initialized():
        return torch_collective()
    return torch_collective(_gloo_group(contract))


def _control_group(device: Device, contract: LaunchContract) -> distributed.ProcessGroup | None:
    return None if device.backend == CONTROL_BACKEND else _gloo_group(contract)


def _gloo_group(contract: LaunchContract) -> distributed.ProcessGroup:
    patience = timedelta(seconds=contract.collective_seconds)
    return distributed.new_group(backend=CONTROL_BACKEND, timeout=patience)


def build_mesh(layout: Layout, device: Device) -> DeviceMesh:
    """Return the mesh with a process group along each of DIMENSIONS; all ranks call it."""
    return init_device_mesh(device.kind, tuple(layout.degrees.values()), mesh_dim_names=DIMENSIONS)
