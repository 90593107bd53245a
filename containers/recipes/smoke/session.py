"""Test that nodes can train together: each rank uses its device, then all reduce known numbers and compare.

Ranks tell each other what they found over TCP (gloo), so that a network of accelerators which carries it
wrong cannot hide whose it is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import distributed

from slipway.containers.recipes.smoke.config import SmokeConfig
from slipway.containers.runtime.checkpoint.tensor_file import torch_collective
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.linux import Machine
from slipway.containers.runtime.observe.telemetry import Telemetry
from slipway.containers.training.config import OLDEST, is_proved
from slipway.containers.training.devices import Device, control_group, joined_group, open_device

_MATRIX = 512
_WARM_UPS = 2
_REPLACE = "end that instance, so that another takes its place, and run this again"


class BadNode(Refusal):
    """A node computes or sends wrong numbers. Do not retry: another attempt might hide it."""

    exit_code = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Name a rank and its node, for the person who has to replace the machine."""

    rank: int
    node: int
    host: str

    def __str__(self) -> str:
        return f"node {self.node} ({self.host}), rank {self.rank}"


def smoke(config: SmokeConfig, contract: LaunchContract) -> None:
    own = Place(rank=contract.rank, node=contract.node, host=Machine().host())
    device = open_device(contract, config.device, "fp32")
    # It can allocate there, and compute a known result.
    ones = torch.ones(_MATRIX, _MATRIX, device=device.place)
    total = float((ones @ ones).sum().cpu())
    if total != float(_MATRIX**3):
        raise BadNode(f"{own}: its {device.kind} multiplies wrong: {total}, not {_MATRIX**3}", hint=_REPLACE)
    if contract.world == 1:
        _say(f"{own}: its {device.kind} computes; one rank has nobody to reduce with")
        return
    with joined_group(device, contract):
        talk = control_group(contract)
        _reduce(config, contract, device, own, talk)
        if config.layouts == "no":
            return
        if not is_proved("native", torch.__version__):
            if contract.rank == 0:
                oldest = OLDEST["native"]
                _say(f"no layout is tried: they need PyTorch {oldest}, and this is {torch.__version__}")
            return
        from slipway.containers.recipes.smoke.layouts import check_layouts

        telemetry = Telemetry.of(contract, tensorboard=False)
        if wrong := check_layouts(contract, device, torch_collective(talk), telemetry):
            raise BadNode("; ".join(wrong), hint="train in another layout, or without these nodes")


def _reduce(
    config: SmokeConfig,
    contract: LaunchContract,
    device: Device,
    own: Place,
    talk: distributed.ProcessGroup,
) -> None:
    places: list[Place] = [own] * contract.world
    distributed.all_gather_object(places, own, group=talk)
    if contract.rank == 0:
        hosts = len({place.node for place in places})
        _say(f"{contract.world} ranks of {hosts} nodes meet; all_reduce over {device.backend}")
    telemetry = Telemetry.of(contract, tensorboard=False)
    for count in sizes(config.largest_mib):
        telemetry.beat("all_reduce")  # or the launcher would take a long one for a hang
        seconds, wrong = _time(count, config.repeats, contract, device)
        found: list[tuple[float, Sequence[int]]] = [(seconds, wrong)] * contract.world
        distributed.all_gather_object(found, (seconds, wrong), group=talk)
        if blamed := sorted({rank for _, ranks in found for rank in ranks}):
            seen = sum(bool(ranks) for _, ranks in found)
            raise BadNode(
                f"bad numbers from {'; '.join(str(places[rank]) for rank in blamed)}: an all_reduce of "
                f"{_size(count)} over {device.backend} came out wrong on {seen} of {len(places)} ranks",
                hint=_REPLACE,
            )
        if contract.rank == 0:
            slowest = max(taken for taken, _ in found)
            # A bus carries what an all_reduce sends, whatever the number of ranks.
            rate = count * 4 / slowest / 1e9 * bus_share(contract.world)
            _say(f"all_reduce {_size(count):>9}  {slowest * 1e3:9.3f} ms  {rate:8.3f} GB/s a rank")


def _time(count: int, repeats: int, contract: LaunchContract, device: Device) -> tuple[float, list[int]]:
    """Reduce once and compare, then many times; return the seconds of one, and the wrong ranks."""
    tensor = given(count, contract.rank, contract.world).to(device.place)
    distributed.all_reduce(tensor)
    device.submit()
    wrong = wrong_ranks(tensor.cpu(), contract.world)
    tensor.zero_()  # its sum stays what it is, however often it is reduced
    _reduce_often(_WARM_UPS, tensor, device)
    begun = time.perf_counter()
    _reduce_often(repeats, tensor, device)
    return (time.perf_counter() - begun) / repeats, wrong


def _reduce_often(times: int, tensor: torch.Tensor, device: Device) -> None:
    for _ in range(times):
        distributed.all_reduce(tensor)
        device.submit()
    float(tensor[-1].cpu())  # a number of the result is there when all of it is done


def _size(count: int) -> str:
    size = count * 4
    return f"{size // MIB} MiB" if size >= MIB else f"{size // 1024} KiB"


def _say(line: str) -> None:
    print(line, flush=True)


# Numbers whose sum says who gave a wrong one: each element is one rank's alone, and nought of all others.
MIB = 1 << 20
_BYTES = 4  # of fp32
_SMALLEST_BYTES = 4096
_FACTOR = 16
_ABOVE_ZERO = 1.0


def sizes(largest_mib: int) -> list[int]:
    """Return the elements of the tensors, from 4 KiB up to the largest."""
    largest = largest_mib * MIB // _BYTES
    count, found = _SMALLEST_BYTES // _BYTES, []
    while count < largest:
        found.append(count)
        count *= _FACTOR
    return [*found, largest]


def given(count: int, rank: int, world: int) -> torch.Tensor:
    """Return a rank's tensor: its number at its own elements, which are every world-th, else 0."""
    tensor = torch.zeros(count)
    tensor[rank::world] = rank + _ABOVE_ZERO
    return tensor


def expected(count: int, world: int) -> torch.Tensor:
    return torch.arange(count).remainder(world).float() + _ABOVE_ZERO


def wrong_ranks(summed: torch.Tensor, world: int) -> list[int]:
    """Return the ranks whose elements have another value than they sent."""
    wrong = (summed != expected(summed.numel(), world)).nonzero().flatten()
    return sorted({int(rank) for rank in wrong.remainder(world).unique()})


def bus_share(world: int) -> float:
    """Return how much of its tensor each rank has to send, at least (nccl-tests, PERFORMANCE.md)."""
    return 2 * (world - 1) / world
