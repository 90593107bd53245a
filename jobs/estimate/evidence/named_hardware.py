"""Finds the hardware that a published row names: a type of the catalogue, or a row of HARDWARE; at a
precision.

Other hardware that is no instance type is one row of HARDWARE; another precision one of PRECISIONS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.hardware import ACCELERATORS, cluster_of, prior
from slipway.jobs.estimate.work.shapes import Hardware
from slipway.jobs.words.catalogue.hardware import CPU, device_of
from slipway.jobs.words.catalogue.instances import find_instance_type, instance_type

_GIB = 2.0**30


def _nvidia(*, tflops: float, memory_gib: float, link: float, network: float, kind: str) -> Hardware:
    """Describe a node of eight GPUs; `link` (NVLink, one way) and `network` are in gigabytes a second."""
    return Hardware(
        nodes=1,
        devices_per_node=8,
        peak_flops=tflops * 1e12,
        memory_bytes=memory_gib * _GIB,
        intra_node_bytes_per_second=link * 1e9,
        inter_node_bytes_per_second=network * 1e9,
        network=kind,
    )


# Peaks are NVIDIA's, dense, 16 bit. Networks are those that each table names; llm-foundry names none for its
# H100 nodes, so eight links of 400 Gbit/s are assumed. The processor's peak is from c7i's data sheet, for its
# 32 cores at their higher clock.
HARDWARE: Mapping[str, Hardware] = {
    "dgx-1": _nvidia(tflops=125, memory_gib=32, link=150, network=50, kind="infiniband"),
    "dgx-1-fp32": _nvidia(tflops=15.7, memory_gib=32, link=150, network=50, kind="infiniband"),
    "dgx-a100-tf32": _nvidia(tflops=156, memory_gib=80, link=300, network=200, kind="infiniband"),
    "h100-80gb-fp8": _nvidia(tflops=1979, memory_gib=80, link=450, network=400, kind="infiniband"),
    "h100-96gb-fp8": _nvidia(tflops=1979, memory_gib=96, link=450, network=400, kind="roce"),
    "h200-fp8": _nvidia(tflops=1979, memory_gib=141, link=450, network=400, kind="infiniband"),
    "r7iz.metal-16xl": Hardware(
        nodes=1,
        devices_per_node=1,
        peak_flops=85e12,
        memory_bytes=512 * _GIB,
        intra_node_bytes_per_second=0.0,
        inter_node_bytes_per_second=25e9 / 8,
        latency_seconds=50e-6,
        network="cpu",
        accelerator="sapphire-rapids-amx",
    ),
    "a100-40gb-roce": _nvidia(tflops=312, memory_gib=40, link=300, network=200, kind="roce"),
    "a100-80gb-roce": _nvidia(tflops=312, memory_gib=80, link=300, network=200, kind="roce"),
    "dgx-a100": _nvidia(tflops=312, memory_gib=80, link=300, network=200, kind="infiniband"),
    "h100-80gb": _nvidia(tflops=989, memory_gib=80, link=450, network=400, kind="infiniband"),
    "h100-96gb": _nvidia(tflops=989, memory_gib=96, link=450, network=400, kind="roce"),
}

_SIXTEEN_BITS = ("bf16", "fp16")
_OF_32_BITS = ("fp32", "tf32")
# By accelerator and precision, the row of hardware.py that has the peak.
PRECISIONS: Mapping[str, Mapping[str, str]] = {
    "v100": {"fp16": "v100", "fp32": "v100-fp32"},
    "v100-fp32": {"fp32": "v100-fp32"},
    "a100": {**dict.fromkeys(_SIXTEEN_BITS, "a100"), "tf32": "a100-tf32"},
    "a100-tf32": {"tf32": "a100-tf32"},
    "h100": {**dict.fromkeys(_SIXTEEN_BITS, "h100"), "fp8": "h100-fp8"},
    "h100-fp8": {"fp8": "h100-fp8"},
    "gaudi": {"bf16": "gaudi"},
    "gaudi2": {"bf16": "gaudi2"},
    "trainium": {"bf16": "trainium"},
    "trainium2": {"bf16": "trainium2"},
    "ice-lake": {"fp32": "ice-lake"},
    "sapphire-rapids-amx": {"bf16": "sapphire-rapids-amx"},
}


def is_hardware(name: str) -> bool:
    return name in HARDWARE or find_instance_type(name) is not None


def device_named(hardware: str) -> str:
    known = HARDWARE.get(hardware)
    if known is None:
        return device_of(instance_type(hardware))
    return CPU if known.network == "cpu" else "cuda"


def hardware_named(name: str, nodes: int) -> Hardware:
    known = HARDWARE.get(name)
    return replace(known, nodes=nodes) if known else cluster_of(instance_type(name), nodes)


def at_precision(cluster: Hardware, precision: str) -> Hardware:
    """Return the hardware with its peak at this precision; "" is its usual one."""
    own = prior(cluster).accelerator
    # The printed peak of an unmeasured device may be meant at any of the usual precisions.
    usual = ("fp32",) if cluster.network.startswith("cpu") else _SIXTEEN_BITS
    known = PRECISIONS.get(own) or dict.fromkeys(usual, own)
    if precision and precision not in known:
        raise CannotEstimate(
            f"column precision is {precision!r}; allowed are {', '.join(known)}, whose peak is known here"
        )
    named = known.get(precision, own)
    if named == own:
        return cluster
    return replace(cluster, peak_flops=ACCELERATORS[named].peak_flops, accelerator=named)


def usual_gradient_bytes(cluster: Hardware, precision: str) -> float:
    """Return the usual bytes of one gradient at this precision, if a row does not say them."""
    own = prior(cluster).accelerator
    is_wide = precision in _OF_32_BITS or (not precision and own.endswith((*_OF_32_BITS, "ice-lake")))
    return 4.0 if is_wide else 2.0
