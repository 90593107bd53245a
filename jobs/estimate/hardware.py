"""An instance type of the catalogue as Hardware: how many workers train on it, and in which class it falls.

A family with a habit of its own is one row of HABITS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.priors import told_from
from slipway.jobs.estimate.work.shapes import Hardware
from slipway.jobs.words.catalogue.accelerators import unusable
from slipway.jobs.words.catalogue.instances import SAGEMAKER, Accelerator, InstanceType

_GIB = 2.0**30
_BYTES_PER_GBIT = 1e9 / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """Say how a family's datasheet is to be read."""

    workers_per_device: int = 1
    link_share: float = 1.0  # of the printed link that goes one way
    inside_bytes_per_second: float = 0.0  # between the workers of a device that is alone in its node
    has_fused_attention: bool = True
    network: str = "efa"


# The cores of one Trainium chip meet in its memory: 820 GiB/s (Neuron docs, Trn1 architecture).
_CHIP_MEMORY = 820 * _GIB

HABITS: Mapping[str, Habit] = {
    # The catalogue counts seven links of 100 Gbit/s, one way. Fused attention came with Gaudi 2.
    "dl1": Habit(network="dl1", has_fused_attention=False),
    # A Trainium chip has two NeuronCores, each one a worker with half of everything.
    "trn1": Habit(workers_per_device=2, inside_bytes_per_second=_CHIP_MEMORY, network="trn1"),
    "trn1n": Habit(workers_per_device=2, network="trn1"),
    # The HBM of a Trainium2 chip: 2.9 TB/s (Neuron docs, Trn2 architecture).
    "trn2": Habit(workers_per_device=2, inside_bytes_per_second=2.9e12, network="trn1"),
    "trn2u": Habit(workers_per_device=2, network="trn1"),
}
_NVIDIA = Habit(link_share=0.5)  # NVLink is printed with both directions added up
_PROCESSORS: Mapping[str, str] = {
    **dict.fromkeys(
        ("c6i", "c6id", "c6in", "m6i", "m6id", "m6in", "m6idn", "r6i", "r6id", "r6in", "r6idn"), "ice-lake"
    ),
    **dict.fromkeys(("c7i", "m7i", "r7i"), "sapphire-rapids-amx"),
}
_ANYTHING_ELSE = "unmeasured"


def family_of(name: str) -> str:
    """Return the family of a type, as EC2 or SageMaker calls it: ml.p4d.24xlarge is of p4d, too."""
    return name.removeprefix(SAGEMAKER).partition(".")[0]


def cluster_of(instance: InstanceType, nodes: int) -> Hardware:
    if instance.accelerator is None:
        return _of_processors(instance, nodes)
    habit = HABITS.get(family_of(instance.name), _NVIDIA)
    accelerator, workers = instance.accelerator, habit.workers_per_device
    peak = _peak_of(instance, accelerator)
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


def _peak_of(instance: InstanceType, accelerator: Accelerator) -> float:
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
    return accelerator.peak_tflops


def _of_processors(instance: InstanceType, nodes: int) -> Hardware:
    """Describe nodes of CPUs. The node is the device: its cores share one memory and one network card."""
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
