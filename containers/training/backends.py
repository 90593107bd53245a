"""Who carries gradients between processors: oneCCL where it is installed, else gloo; MPI if asked.

`auto` never takes MPI: torch's own needs every rank to be a process that mpirun started itself, and ranks are
started by our launcher, which mpirun started.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

from torch import distributed

from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal

CCL_MODULES = ("oneccl_bindings_for_pytorch", "torch_ccl")  # today's name, and the article's
_MISSING: Mapping[str, str] = {
    "mpi": "this PyTorch was built without MPI; set backend=gloo, or install one that was",
    "ccl": f"none of {', '.join(CCL_MODULES)} is installed; set backend=gloo, or install one",
    "gloo": "this PyTorch was built without gloo",
}


def choose_backend(wanted: str, present: Sequence[str]) -> str:
    """Return the wanted backend, or the first of `present` (in order of preference) for `auto`."""
    if wanted == "auto":
        wanted = next((name for name in present if name != "mpi"), "gloo")
    if wanted not in present:
        raise Refusal(f"backend {wanted} is not here: {_MISSING[wanted]}")
    return wanted


def present_backends() -> list[str]:
    return [name for name, is_present in _PROBES.items() if is_present()]


def prepare_backend(name: str) -> None:
    """Import oneCCL's bindings, which register themselves with torch."""
    if name == "ccl":
        importlib.import_module(next(module for module in CCL_MODULES if find_spec(module)))


def refuse_other_world(name: str, contract: LaunchContract) -> None:
    """Raise Refusal if MPI counts other processes than the launcher: one that mpirun did not start is
    alone."""
    world, rank = distributed.get_world_size(), distributed.get_rank()
    if (world, rank) != (contract.world, contract.rank):
        raise Refusal(
            f"backend {name} has this process as rank {rank} of {world}, and the launcher as rank "
            f"{contract.rank} of {contract.world}",
            hint="set backend=gloo",
        )


_PROBES: Mapping[str, Callable[[], bool]] = {
    "ccl": lambda: any(find_spec(name) for name in CCL_MODULES),
    "gloo": distributed.is_gloo_available,
    "mpi": distributed.is_mpi_available,
}
