"""What a step of training takes before anything is paid for. Pure: no SDK, no clock, no randomness.

from dataclasses import replace
from slipway.jobs.estimate import Hardware, Layout, Model, fit_utilisation, throughput

bert = Model(layers=24, hidden_size=1024, heads=16, feed_forward=4096, vocabulary=30522,
             sequence_length=128, causal=False, head_share=20 / 128)
node = Hardware(nodes=1, devices_per_node=8, peak_flops=116e12, memory_bytes=32 * 2**30,
               intra_node_bytes_per_second=87.5e9, inter_node_bytes_per_second=50e9, network="dl1")
split = Layout(micro_batch=64, global_batch=65536, gradient_bytes=4)
fitted = fit_utilisation(bert, node, split, sequences_per_second=1379.76)
throughput(bert, replace(node, nodes=8), split, fitted).sequences_per_second
"""

from __future__ import annotations

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.work.rate import Throughput, fit_network_efficiency, fit_utilisation, throughput
from slipway.jobs.estimate.work.shapes import Calibration, Hardware, Layout, Model

__all__ = [
    "Calibration",
    "CannotEstimate",
    "Hardware",
    "Layout",
    "Model",
    "Throughput",
    "fit_network_efficiency",
    "fit_utilisation",
    "throughput",
]
