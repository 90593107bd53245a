"""Turns a type of the catalogue into Hardware: its number of workers, and the priors of its class.

A family whose datasheet is read in its own way is one row of HABITS; new hardware is one row of ACCELERATORS
or NETWORKS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.work.shapes import Hardware
from slipway.jobs.words.catalogue.hardware import ranks_of, unusable
from slipway.jobs.words.catalogue.instances import SAGEMAKER, InstanceType

_GIB = 2.0**30
_BYTES_PER_GBIT = 1e9 / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """Describe how a family's datasheet is to be read."""

    link_share: float = 1.0  # share of the printed link that goes one way
    inside_bytes_per_second: float = 0.0  # between the workers of one device, if it is alone in its node
    has_fused_attention: bool = True
    network: str = "efa"


# The cores of one Trainium chip share its memory: 820 GiB/s (Neuron docs, Trn1 architecture).
_CHIP_MEMORY = 820 * _GIB

HABITS: Mapping[str, Habit] = {
    # The catalogue counts seven links of 100 Gbit/s, one way. Fused attention is new in Gaudi 2.
    "dl1": Habit(network="dl1", has_fused_attention=False),
    # The workers of a Trainium chip share it equally.
    "trn1": Habit(inside_bytes_per_second=_CHIP_MEMORY, network="trn1"),
    "trn1n": Habit(network="trn1"),
    # The HBM of a Trainium2 chip: 2.9 TB/s (Neuron docs, Trn2 architecture).
    "trn2": Habit(inside_bytes_per_second=2.9e12, network="trn1"),
    "trn2u": Habit(network="trn1"),
}
_NVIDIA = Habit(link_share=0.5)  # NVLink is printed as the sum of both directions
_PROCESSORS: Mapping[str, str] = {
    **dict.fromkeys(
        ("c6i", "c6id", "c6in", "m6i", "m6id", "m6in", "m6idn", "r6i", "r6id", "r6in", "r6idn"), "ice-lake"
    ),
    **dict.fromkeys(("c7i", "m7i", "r7i"), "sapphire-rapids-amx"),
}
_ANYTHING_ELSE = "unmeasured"


def family_of(name: str) -> str:
    """Return the family of a type of EC2's or SageMaker's: ml.p4d.24xlarge is of p4d, too."""
    return name.removeprefix(SAGEMAKER).partition(".")[0]


def cluster_of(instance: InstanceType, nodes: int) -> Hardware:
    if instance.accelerator is None:
        return _of_processors(instance, nodes)
    accelerator = instance.accelerator
    if unusable(instance):
        raise CannotEstimate(
            f"nothing of ours trains on {instance.name}: {accelerator.name}, {instance.peak_note}",
            hint="slipway compare lists types that can train",
        )
    if accelerator.peak_tflops is None:
        raise CannotEstimate(
            f"the peak of {instance.name}'s {accelerator.name} is not known ({instance.peak_note})",
            hint="add peak_tflops to its row of jobs/words/catalogue/devices.csv",
        )
    habit = HABITS.get(family_of(instance.name), _NVIDIA)
    peak, workers = accelerator.peak_tflops, ranks_of(instance) // accelerator.count
    link = accelerator.link_gb_s * 1e9 * habit.link_share or habit.inside_bytes_per_second
    return Hardware(
        nodes=nodes,
        devices_per_node=accelerator.count * workers,
        peak_flops=peak * 1e12 / workers,
        memory_bytes=accelerator.memory_gib * _GIB / workers,
        intra_node_bytes_per_second=link / workers,
        inter_node_bytes_per_second=instance.baseline_gbps * _BYTES_PER_GBIT,
        has_fused_attention=habit.has_fused_attention,
        network=habit.network,
        accelerator=told_from(peak * 1e12 / workers) or _ANYTHING_ELSE,
    )


def _of_processors(instance: InstanceType, nodes: int) -> Hardware:
    """Describe nodes of CPUs. A node is one device: its cores share one memory and one network card."""
    if instance.peak_tflops is None:
        raise CannotEstimate(
            f"the peak of {instance.name} is not known ({instance.peak_note or 'nobody wrote it down'})",
            hint="slipway compare lists types whose peak is known; --all-types, all of them",
        )
    return Hardware(
        nodes=nodes,
        devices_per_node=1,
        peak_flops=instance.peak_tflops * 1e12,
        memory_bytes=instance.memory_gib * _GIB,
        intra_node_bytes_per_second=0.0,
        inter_node_bytes_per_second=instance.baseline_gbps * _BYTES_PER_GBIT,
        latency_seconds=20e-6 if instance.has_efa else 50e-6,
        has_fused_attention=False,  # torch's kernel for processors has no dropout
        network="cpu-efa" if instance.has_efa else "cpu",
        accelerator=_PROCESSORS.get(family_of(instance.name), _ANYTHING_ELSE),
    )


# Assumptions for hardware on which nothing was measured. New hardware is one row of ACCELERATORS or NETWORKS.
# A utilisation is the median of the rows named as its source, fitted through the model of step.py, from
# other_rows.csv and the articles. Without a source the number is a guess between the others.


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePrior:
    """Hold what a device reaches of its peak while it computes layers of REFERENCE_WIDTH."""

    peak_flops: float  # identifies the device if nobody named it
    utilisation: float
    memory_bytes_per_second: float
    in_node_efficiency: float = 0.75  # of what a device sends to the others of its node
    network: str = ""  # class of its nodes' network, if nobody named one
    launches: bool = True  # a host starts kernels, which takes time for each layer and step
    has_shape: bool = True  # the layers' shape counts; False: norms and scores run on separate engines
    score_cost: float = 1.0  # of a FLOP of attention's scores: 2 if they are computed at half this peak
    source: str = ""  # of its utilisation; "": nobody measured one


_FOUNDRY = "llm-foundry's tables of MPT"
_NVIDIAS_TABLES = "NVIDIA's tables of BERT-Large"
_TITAN = "torchtitan's tables of Llama 3"
_OPTIMUM = "optimum-habana's baselines"
_ARTICLES = "the articles' tables"
_SAPPHIRE = "Hugging Face on Sapphire Rapids"

ACCELERATORS: Mapping[str, DevicePrior] = {
    "v100": DevicePrior(
        peak_flops=125e12, utilisation=0.63, memory_bytes_per_second=0.9e12, source=_NVIDIAS_TABLES
    ),
    "v100-fp32": DevicePrior(
        peak_flops=15.7e12, utilisation=0.8, memory_bytes_per_second=0.9e12, source=_NVIDIAS_TABLES
    ),
    "a100": DevicePrior(
        peak_flops=312e12,
        utilisation=0.7,
        memory_bytes_per_second=1.9e12,
        source=f"{_FOUNDRY}, {_NVIDIAS_TABLES}",
    ),
    "a100-tf32": DevicePrior(
        peak_flops=156e12, utilisation=0.65, memory_bytes_per_second=1.9e12, source=_NVIDIAS_TABLES
    ),
    "h100": DevicePrior(
        peak_flops=989e12,
        utilisation=0.5,
        memory_bytes_per_second=3.35e12,
        source=f"{_FOUNDRY}, {_TITAN}",
    ),
    "h100-fp8": DevicePrior(
        peak_flops=1979e12,
        utilisation=0.4,
        memory_bytes_per_second=3.35e12,
        score_cost=2.0,  # in 16 bit
        source=f"{_FOUNDRY}, {_TITAN}",
    ),
    # Gaudi of the first generation sends through the host's memory between nodes (libfabric, SynapseAI 1.5).
    "gaudi": DevicePrior(
        peak_flops=116e12,
        utilisation=0.36,
        memory_bytes_per_second=1e12,
        in_node_efficiency=0.28,
        network="dl1",
        has_shape=False,
        source=f"{_OPTIMUM}, {_ARTICLES}",
    ),
    "gaudi2": DevicePrior(
        peak_flops=432e12,
        utilisation=0.4,
        memory_bytes_per_second=2.45e12,
        in_node_efficiency=0.28,
        has_shape=False,
    ),
    "trainium": DevicePrior(  # one NeuronCore, half a chip
        peak_flops=95e12,
        utilisation=0.31,
        memory_bytes_per_second=0.41e12,
        network="trn1",
        has_shape=False,
        source=_ARTICLES,
    ),
    "trainium2": DevicePrior(  # a logical core, a quarter of a chip; assumed to be used as Trainium is
        peak_flops=166.75e12,
        utilisation=0.31,
        memory_bytes_per_second=0.725e12,
        network="trn1",
        has_shape=False,
    ),
    "ice-lake": DevicePrior(
        peak_flops=3.3e12,
        utilisation=0.5,
        memory_bytes_per_second=0.2e12,
        network="cpu",
        launches=False,
        has_shape=False,
        source=f"{_ARTICLES}, {_SAPPHIRE}",
    ),
    "sapphire-rapids-amx": DevicePrior(
        peak_flops=98e12,
        utilisation=0.1,
        memory_bytes_per_second=0.3e12,
        network="cpu",
        launches=False,
        has_shape=False,
        source=_SAPPHIRE,
    ),
}
_GUESSED_UTILISATION = 0.4
_FLOPS_A_BYTE = 200.0  # of an unknown device: between A100's and H100's
_SAME_PEAK = 0.03  # relative: datasheets round

# The share of a node's network rate that collectives of gradients reach in training.
NETWORKS: Mapping[str, float] = {
    "infiniband": 0.7,
    "roce": 0.7,
    "efa": 0.6,
    "cpu": 0.35,
    "cpu-efa": 0.6,
    "dl1": 0.08,
    "trn1": 0.3,
}
_NARROW_WIDTH = 20.0  # fitted; for each FLOP that a device computes while its memory moves a byte
REFERENCE_WIDTH = 4096  # of the layers to which utilisations apply
WAIT = 0.003  # of a step: one node's time varies by it, and all wait for the slowest
STARTUP_SECONDS = 10.0  # processes, libraries, data: what a short job pays before its first step
_SLOW_BYTES_PER_SECOND = 5e9  # 40 Gbit/s: nodes with one processor each have slower networks than that


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    accelerator: str  # a key of ACCELERATORS; "": none of them
    utilisation: float
    network_efficiency: float
    in_node_efficiency: float
    memory_bytes_per_second: float
    # The width of layers that spend as long between matrices as in them; None: the shape does not count.
    narrow_width: float | None
    launches: bool
    score_cost: float
    is_measured: bool = True  # False: its utilisation is a guess


def prior(cluster: Hardware) -> Prior:
    is_slow = cluster.inter_node_bytes_per_second < _SLOW_BYTES_PER_SECOND and cluster.devices_per_node == 1
    return _prior(cluster.accelerator, cluster.network, cluster.peak_flops, is_slow)


@lru_cache(maxsize=1024)
def _prior(accelerator: str, network: str, peak_flops: float, is_slow: bool) -> Prior:
    name = accelerator or told_from(peak_flops)
    if network and network not in NETWORKS:
        raise CannotEstimate(
            f"network is {network!r}; known classes are {', '.join(NETWORKS)}",
            hint='or leave it "": the class is told from the numbers',
        )
    is_cpu = (network or ("cpu" if is_slow else "")).startswith("cpu")
    known = ACCELERATORS.get(name) or DevicePrior(
        peak_flops=peak_flops,
        utilisation=_GUESSED_UTILISATION,
        memory_bytes_per_second=peak_flops / _FLOPS_A_BYTE,
        launches=not is_cpu,
        has_shape=not is_cpu,
    )
    kind = network or known.network or ("cpu" if is_slow else "infiniband")
    narrow = _NARROW_WIDTH * peak_flops / known.memory_bytes_per_second
    return Prior(
        accelerator=name if name in ACCELERATORS else "",
        utilisation=known.utilisation,
        network_efficiency=NETWORKS[kind],
        in_node_efficiency=known.in_node_efficiency,
        memory_bytes_per_second=known.memory_bytes_per_second,
        narrow_width=narrow if known.has_shape else None,
        launches=known.launches,
        score_cost=known.score_cost,
        is_measured=bool(known.source),
    )


def told_from(peak_flops: float) -> str:
    """Return the accelerator with this peak; "" if none has it."""
    for name, known in ACCELERATORS.items():
        if abs(peak_flops / known.peak_flops - 1) <= _SAME_PEAK:
            return name
    return ""
