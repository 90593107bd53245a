"""What a calibration is looked up for: one model on one cluster, split one way."""

from __future__ import annotations

from dataclasses import dataclass

from slipway.jobs.estimate.work.shapes import Hardware, Layout, Model, accumulation, replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Name what a calibration is looked up for. `workload` prefers rows of its name among equals."""

    instance: str
    model_name: str  # by which calibrations are found
    model: Model
    cluster: Hardware
    layout: Layout
    workload: str = ""

    @property
    def configuration(self) -> tuple[int, int, int, int, str]:
        layout = self.layout
        own = replicas(self.model, self.cluster, layout) * layout.micro_batch
        batch = own * accumulation(self.model, self.cluster, layout)
        return layout.micro_batch, batch, layout.tensor, layout.pipeline, layout.sharding
