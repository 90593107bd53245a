"""Choose this process's device (Gaudi, Trainium, CUDA or the CPU) and its backend, and join the ranks.

A new kind is one entry of KINDS: neither the rest of this file nor the loop asks for the kind. The Habana
modules are imported in this file only.
"""

from __future__ import annotations

import importlib
import resource
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import distributed, nn

from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal

# Without one of these a processor emulates bf16: 16 times slower per step than fp32, measured on AVX2.
_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})

# Dense bf16, from the vendors' data sheets; the first that begins the device's name.
_PEAK_TFLOPS: Mapping[str, float] = {
    "NVIDIA H200": 989,
    "NVIDIA H100": 989,
    "NVIDIA A100": 312,
    "NVIDIA L40S": 362,
    "NVIDIA A10G": 70,
    "neuron": 95,  # of a core of Trainium1, which has two
}


# The kind that ranks use where the contract promises an accelerator.
_PROMISED: Mapping[str, str] = {"habana": "hpu", "neuron": "neuron", "nvidia": "cuda"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKind:
    backend: str
    is_present: Callable[[], bool]
    has_bf16: Callable[[], bool]
    has_fused_adam: bool
    traces: bool = False  # compiles a graph for each form of a step, which then must not depend on the data
    compiles: Callable[[], bool] = lambda: False  # layers run faster as torch.compile makes them here
    place: str = ""  # torch's own name for it, where that is another
    lost_peer: tuple[str, ...] = ()  # what its plain RuntimeErrors say when another rank is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    kind: str
    place: torch.device
    precision: torch.dtype
    backend: str
    has_fused_adam: bool
    traces: bool = False
    compiles: bool = False

    @property
    def name(self) -> str:
        return torch.cuda.get_device_name(self.place) if self.kind == "cuda" else self.kind

    @property
    def precision_name(self) -> str:
        return str(self.precision).removeprefix("torch.")

    @property
    def peak_tflops(self) -> float | None:
        """Return the published peak, or None if it is not known or fp32 runs."""
        if self.precision is not torch.bfloat16:
            return None
        return next((peak for name, peak in _PEAK_TFLOPS.items() if self.name.startswith(name)), None)

    def seed(self, number: int) -> None:
        """Seed this device's draws and the processor's: torch.manual_seed would also note down the seed, with
        a whole stack, for each kind of device that is not there, at half a millisecond a kind."""
        torch.default_generator.manual_seed(number)
        if self.kind == "cuda":
            torch.cuda.manual_seed(number)
        if self.kind == "hpu":
            importlib.import_module("habana_frameworks.torch.hpu.random").manual_seed_all(number)

    def compile_layers(self, model: nn.Module) -> None:
        """Let each layer run compiled, where this device is to: below all that hooks into the layers.

        Layers share their code, so that all of them are compiled once.
        """
        if self.compiles:
            for layer in model.get_submodule("layers").children():
                layer.forward = torch.compile(layer.forward)

    def submit(self) -> None:
        """Run the collected operations: Gaudi's lazy mode delays them until it is told to run."""
        if self.kind == "hpu":
            importlib.import_module("habana_frameworks.torch.core").mark_step()

    def memory_bytes(self) -> int:
        """Return the most memory that was held at once."""
        if self.kind in ("cpu", "neuron"):  # torch-xla does not tell: this is the host's part
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return int(getattr(torch, self.kind).max_memory_allocated())


def open_device(contract: LaunchContract, kind_name: str, precision: str) -> Device:
    """Return this process's own device; `auto` takes the first kind that is present."""
    present = [name for name, kind in KINDS.items() if kind.is_present()]
    name = present[0] if kind_name == "auto" else kind_name
    promised = _PROMISED.get(contract.accelerator or "")
    if kind_name == "auto" and promised not in (None, name):
        raise Refusal(
            f"{socket.gethostname()} was promised {contract.accelerator} devices, and torch "
            f"{torch.__version__} finds no {promised}",
            hint=f"its image and its driver must be of one release; device={name} trains without them",
        )
    if name not in present:
        raise Refusal(f"this machine has no {name} device", hint=f"set device=auto or {' or '.join(present)}")
    kind = KINDS[name]
    place = torch.device(name, contract.local_rank) if name == "cuda" else torch.device(kind.place or name)
    if name == "cuda":
        torch.cuda.set_device(place)
        torch.backends.cuda.matmul.allow_tf32 = False  # fp32 is asked for where numbers must agree
    if precision == "auto":
        precision = "bf16" if kind.has_bf16() else "fp32"
    return Device(
        kind=name,
        place=place,
        precision={"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[precision],
        backend=kind.backend,
        has_fused_adam=kind.has_fused_adam,
        traces=kind.traces,
    )


def with_layers(device: Device, wanted: str) -> Device:
    """Return the device with its layers compiled or not; `auto` compiles if that is faster on it."""
    return replace(device, compiles=KINDS[device.kind].compiles() if wanted == "auto" else wanted == "yes")


# Small messages (JSON, and sizes as whole numbers) go over gloo whatever carries the gradients: an
# accelerator's own backend may know no whole numbers, and each message would cross the device.
CONTROL_BACKEND = "gloo"
# The first PyTorch that frees the interpreter's lock while a group over gloo waits for its threads to end
# (pytorch/pytorch#154976). A thread that frees the last message's tensor needs it: a rank of 2.4.0 waited for
# ever in 6 of 150 tries. There a group is kept until the process ends, which a rank does without destructors.
_LETS_GO = (2, 8)
_KEPT: list[distributed.ProcessGroup] = []


@contextmanager
def joined_group(device: Device, contract: LaunchContract) -> Iterator[None]:
    """Join all ranks for the duration, with the contract's timeout: torch by itself waits 10 or 30 minutes
    for a lost peer."""
    distributed.init_process_group(
        device.backend,
        init_method=f"tcp://{contract.main_address}:{contract.main_port}",
        rank=contract.rank,
        world_size=contract.world,
        timeout=timedelta(seconds=contract.collective_seconds),
    )
    if device.backend == CONTROL_BACKEND:
        _keep(distributed.group.WORLD)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def control_group(contract: LaunchContract) -> distributed.ProcessGroup:
    """Return a new group of all ranks for small messages; all of them call it."""
    patience = timedelta(seconds=contract.collective_seconds)
    return _keep(distributed.new_group(backend=CONTROL_BACKEND, timeout=patience))


def _keep(group: distributed.ProcessGroup) -> distributed.ProcessGroup:
    if torch.__version__ < _LETS_GO:
        _KEPT.append(group)
    return group


def is_lost_peer(error: BaseException) -> bool:
    """Return True if the error means a lost rank; some backends raise a plain RuntimeError for it."""
    marks = (mark for kind in KINDS.values() for mark in kind.lost_peer)
    is_plain = isinstance(error, RuntimeError) and any(mark in str(error) for mark in marks)
    return is_plain or isinstance(error, distributed.DistError)


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if the device had too little memory; old torch has the error below torch.cuda alone."""
    return isinstance(error, getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError))


def _has_hpu() -> bool:
    try:
        importlib.import_module("habana_frameworks.torch.core")  # registers torch.hpu
        importlib.import_module("habana_frameworks.torch.distributed.hccl")
    except ImportError:
        return False
    return bool(torch.hpu.is_available())  # there since the import above


def _has_neuron() -> bool:
    """Return True on a node with Trainium and its packages, which register torch's devices and backend."""
    if not Path("/dev/neuron0").exists():
        return False
    try:
        importlib.import_module("torch_neuronx")
        importlib.import_module("torch_xla.distributed.xla_backend")
    except ImportError:
        return False
    return True


def _processor_has_bf16() -> bool:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    flags = next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")
    return not _BF16_FLAGS.isdisjoint(flags.split())


# In order of preference.
KINDS: Mapping[str, DeviceKind] = {
    "hpu": DeviceKind(
        backend="hccl",
        is_present=_has_hpu,
        has_bf16=lambda: True,
        has_fused_adam=False,
        traces=True,
        lost_peer=("Collective call returned error",),  # hccl_kernels.cpp of Habana's bridge; not tried
    ),
    "neuron": DeviceKind(
        backend="xla",
        is_present=_has_neuron,
        has_bf16=lambda: True,
        has_fused_adam=False,
        traces=True,
        place="xla",
    ),
    "cuda": DeviceKind(
        backend="nccl",
        is_present=torch.cuda.is_available,
        has_bf16=torch.cuda.is_bf16_supported,
        has_fused_adam=True,
        # Kernels for GPUs are made by Triton, which needs a C compiler beside it.
        compiles=lambda: find_spec("triton") is not None and any(map(shutil.which, ("cc", "gcc", "clang"))),
    ),
    "cpu": DeviceKind(
        backend="gloo",
        is_present=lambda: True,
        has_bf16=_processor_has_bf16,
        has_fused_adam=True,
        lost_peer=("/gloo/",),  # it names its own source file
    ),
}


# The backends that carry gradients between CPUs: oneCCL if installed, else gloo; MPI if asked for. `auto`
# never takes MPI: torch's own needs every rank to be a process that mpirun started itself, and ranks are
# started by our launcher, which mpirun started.
CCL_MODULES = ("oneccl_bindings_for_pytorch", "torch_ccl")  # today's name, and the article's
_MISSING: Mapping[str, str] = {
    "mpi": "this PyTorch was built without MPI",
    "ccl": f"none of {', '.join(CCL_MODULES)} is installed",
    "gloo": "this PyTorch was built without gloo",
}


def with_backend(device: Device, wanted: str) -> Device:
    """Return a processor with the backend that is wanted of those installed; accelerators have their own."""
    if device.kind != "cpu":
        return device
    present = [name for name, is_present in _PROBES.items() if is_present()]  # in order of preference
    if wanted == "auto":
        wanted = next((name for name in present if name != "mpi"), "gloo")
    if wanted not in present:
        hint = f"set backend to one of {', '.join(present)}" if present else "install a PyTorch that has one"
        raise Refusal(f"backend {wanted} is not here: {_MISSING[wanted]}", hint=hint)
    return replace(device, backend=wanted)


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
