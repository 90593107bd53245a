"""PyTorch's tensors as what checkpoints store, and the wire between ranks over torch.

The only module of the runtime that knows a framework, and it loads it on use.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from typing import Any

from slipway.containers.runtime.checkpoint.tensor_file import TensorData
from slipway.containers.runtime.collective import Collective, Json
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown

_TORCH_TYPES: Mapping[str, str] = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I16": "int16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "F32": "float32",
    "I64": "int64",
    "F64": "float64",
}


def encode_tensor(name: str, tensor: Any) -> TensorData:
    """Return a tensor as bytes; `name` is for messages. A contiguous one of the CPU is not copied."""
    torch = importlib.import_module("torch")
    dtype = next(
        (code for code, known in _TORCH_TYPES.items() if getattr(torch, known) is tensor.dtype), None
    )
    if dtype is None:
        raise Refusal(f"tensor {shown(name)} has the dtype {tensor.dtype}, which cannot be stored")
    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    data = memoryview(flat.view(torch.uint8).numpy()) if flat.numel() else memoryview(b"")
    return TensorData(dtype=dtype, shape=tuple(tensor.shape), data=data)


def torch_type(code: str) -> Any:
    """Return PyTorch's type for a safetensors one; raise Refusal where it has none."""
    if code not in _TORCH_TYPES:
        raise Refusal(f"PyTorch has no {code} tensors to read into")
    return getattr(importlib.import_module("torch"), _TORCH_TYPES[code])


def torch_collective(group: Any = None) -> Collective:
    """Send JSON through a process group (torch's own gather of objects would unpickle what peers send).

    Its timeout is the group's: give init_process_group the contract's `collective_seconds`.
    """
    distributed = importlib.import_module("torch.distributed")
    if not distributed.is_available() or not distributed.is_initialized():
        return Collective(rank=0, world=1, gather=lambda value: [value])
    return Collective(
        rank=distributed.get_rank(group),
        world=distributed.get_world_size(group),
        gather=lambda value: _gather(distributed, group, value),
    )


def _gather(distributed: Any, group: Any, value: Json) -> list[Json]:
    torch = importlib.import_module("torch")
    device = _device(torch, distributed, group)
    world = distributed.get_world_size(group)
    encoded = json.dumps(value).encode()
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(world)]
    distributed.all_gather(sizes, torch.tensor([len(encoded)], dtype=torch.int64, device=device), group=group)
    widest = max(int(size.item()) for size in sizes)
    own = torch.frombuffer(bytearray(encoded.ljust(widest)), dtype=torch.uint8).to(device)
    parts = [torch.empty(widest, dtype=torch.uint8, device=device) for _ in range(world)]
    distributed.all_gather(parts, own, group=group)
    return [json.loads(bytes(part.cpu().numpy())) for part in parts]  # JSON does not mind the padding


def _device(torch: Any, distributed: Any, group: Any) -> Any:
    """Choose where collectives need their tensors: on the accelerator for its own backend, in memory for
    gloo and MPI."""
    kinds = {"nccl": "cuda", "hccl": "hpu", "xla": "xla", "neuron": "xla"}
    backend = str(distributed.get_backend(group))
    return torch.device(next((kind for name, kind in kinds.items() if name in backend), "cpu"))
