"""Throughput that other people published: other_rows.csv.

Estimates stand on the nearest of these rows (nearest.py), and are judged by other tables' (trials.py). A
further row is one line of the file; further hardware that is no instance type is one row of HARDWARE. A row's
`table` names where it was published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

from slipway.jobs.catalogue.accelerators import CPU, device_of
from slipway.jobs.catalogue.instances import instance_type
from slipway.jobs.estimate.csv_rows import read_rows
from slipway.jobs.estimate.evidence.asked import Asked
from slipway.jobs.estimate.hardware import cluster_of
from slipway.jobs.estimate.work.models import length_name
from slipway.jobs.estimate.work.shapes import Hardware, Layout, Model

_GIB = 2.0**30
_MOST_ROWS = 10_000


def _nvidia(*, tflops: float, memory_gib: float, link: float, network: float, kind: str) -> Hardware:
    """Describe a node of eight GPUs: NVLink in one direction and the node's network, in gigabytes per
    second."""
    return Hardware(
        nodes=1,
        devices_per_node=8,
        peak_flops=tflops * 1e12,
        memory_bytes=memory_gib * _GIB,
        intra_node_bytes_per_second=link * 1e9,
        inter_node_bytes_per_second=network * 1e9,
        network=kind,
    )


# Peaks are NVIDIA's, dense, 16 bit. Networks are what each table says of its own; llm-foundry names none for
# its H100 nodes: eight links of 400 Gbit/s are assumed.
# The processor's peak is that of c7i's sheet for its 32 cores at their higher clock.
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
_CHUNKS = 2  # of an interleaved schedule whose table does not say how many
_COLUMNS = (
    *("table", "hardware", "model", "layers", "hidden_size", "heads", "feed_forward", "vocabulary"),
    *("sequence_length", "causal", "gated", "key_value_heads", "head_share", "parameters", "nodes"),
    *(
        "devices",
        "micro_batch",
        "global_batch",
        "tensor",
        "pipeline",
        "sharding",
        "schedule",
        "checkpointing",
    ),
    *("gradient_bytes", "sequences_per_second"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Hold one published row: what ran, how fast it was, and which table printed it."""

    table: str
    device: str  # in the words of jobs/catalogue/accelerators.py
    asked: Asked
    sequences_per_second: float


@lru_cache(maxsize=1)
def other_rows() -> tuple[Published, ...]:
    text = files("slipway.jobs.estimate.evidence").joinpath("other_rows.csv").read_text(encoding="utf-8")
    return read_rows(text, "other_rows.csv", _COLUMNS, _decode, most=_MOST_ROWS)


def _decode(row: Mapping[str, str | None], _where: str) -> Published:
    text = {name: value or "" for name, value in row.items()}
    model = _model(text)
    return Published(
        table=text["table"],
        device=_device(text["hardware"]),
        asked=Asked(
            instance=text["hardware"],
            model_name=length_name(text["model"], model.sequence_length),
            model=model,
            cluster=_cluster(text["hardware"], int(text["nodes"]), int(text["devices"])),
            layout=_layout(text),
        ),
        sequences_per_second=float(text["sequences_per_second"]),
    )


def _device(hardware: str) -> str:
    known = HARDWARE.get(hardware)
    if known is None:
        return device_of(instance_type(hardware))
    return CPU if known.network == "cpu" else "cuda"


def _cluster(hardware: str, nodes: int, devices: int) -> Hardware:
    """Return the hardware of a row. `devices` may be fewer than the nodes have: a run on one device of
    eight."""
    known = HARDWARE.get(hardware)
    own = replace(known, nodes=nodes) if known else cluster_of(instance_type(hardware), nodes)
    return replace(own, devices_per_node=devices // nodes)


def _model(text: Mapping[str, str]) -> Model:
    shared = text["key_value_heads"]
    return Model(
        layers=int(text["layers"]),
        hidden_size=int(text["hidden_size"]),
        heads=int(text["heads"]),
        feed_forward=int(text["feed_forward"]),
        vocabulary=int(text["vocabulary"]),
        sequence_length=int(text["sequence_length"]),
        causal=text["causal"] == "yes",
        gated=text["gated"] == "yes",
        head_share=float(text["head_share"]),
        key_value_heads=int(shared) if shared else None,
        parameters=float(text["parameters"]),
    )


def _layout(text: Mapping[str, str]) -> Layout:
    return Layout(
        micro_batch=int(text["micro_batch"]),
        global_batch=int(text["global_batch"]),
        tensor=int(text["tensor"]),
        pipeline=int(text["pipeline"]),
        schedule=text["schedule"],
        chunks=_CHUNKS if text["schedule"] == "interleaved" else 1,
        sharding=text["sharding"],
        checkpointing=text["checkpointing"],
        gradient_bytes=float(text["gradient_bytes"]),
    )
