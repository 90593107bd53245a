"""What is assumed of a class of clusters when nothing was measured on it. A new class is one row of PRIORS.

Network efficiency is the share of what a node injects that collectives of gradients reach in training. Rows
that name instance families are rounded from the tables of calibration.csv; the others are round numbers for
NVIDIA devices, chosen with published rows of Megatron-LM (2021) and MegaScale (2024) in view.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.work.shapes import Hardware


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    utilisation: float
    network_efficiency: float
    overlap: float  # share of a backward pass under which gradients travel unseen
    narrow_width: (
        float  # of layers that spend as long between their matrices as in them; 0: engines of their own
    )


PRIORS: Mapping[str, Prior] = {
    "infiniband": Prior(utilisation=0.45, network_efficiency=0.7, overlap=0.6, narrow_width=600),
    "roce": Prior(utilisation=0.4, network_efficiency=0.65, overlap=0.6, narrow_width=600),
    "efa": Prior(utilisation=0.4, network_efficiency=0.6, overlap=0.6, narrow_width=600),
    # A processor sends with the cores that compute: little travels unseen.
    "cpu": Prior(utilisation=0.5, network_efficiency=0.3, overlap=0.25, narrow_width=0),
    "cpu-efa": Prior(utilisation=0.5, network_efficiency=0.6, overlap=0.25, narrow_width=0),
    # Gaudi of the first generation crosses the host's memory between nodes (libfabric, SynapseAI 1.5).
    "dl1": Prior(utilisation=0.36, network_efficiency=0.08, overlap=0.6, narrow_width=0),
    "trn1": Prior(utilisation=0.3, network_efficiency=0.25, overlap=0.6, narrow_width=0),
}
IN_NODE_EFFICIENCY = 0.75  # of what a device sends to the others of its node
REFERENCE_WIDTH = 4096  # of the layers that a utilisation is of
WAIT = 0.006  # of a step: how far one node's time strays from the mean, and all wait for the slowest
STARTUP_SECONDS = 10.0  # processes, libraries, data: what a short job pays before its first step
_SLOW_BYTES_PER_SECOND = 5e9  # 40 Gbit/s: what one processor a node is slower than


def prior(cluster: Hardware) -> Prior:
    if cluster.network:
        if cluster.network not in PRIORS:
            raise CannotEstimate(
                f"network is {cluster.network!r}; known classes are {', '.join(PRIORS)}",
                hint='or leave it "": the class is told from the numbers',
            )
        return PRIORS[cluster.network]
    is_slow = cluster.inter_node_bytes_per_second < _SLOW_BYTES_PER_SECOND
    return PRIORS["cpu" if is_slow and cluster.devices_per_node == 1 else "infiniband"]
