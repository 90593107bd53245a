"""Reads measured rates from calibration.csv, one row for each; `slipway calibrate` writes the user's file.

Another fact of a measurement is one field here, and one column of the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.hardware import family_of
from slipway.jobs.estimate.prices import read_rows, written_rows
from slipway.jobs.estimate.work.shapes import Calibration, Hardware, Layout, Model, accumulation, replicas

_LARGEST_FILE = 10_000  # rows: in a longer file, the user has named the wrong one


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Hold one row: what ran, its rate, and the two numbers fitted on it (None: not fitted)."""

    name: str  # of its table or run
    instance: str
    model: str
    nodes: int
    sequences_per_second: float
    micro_batch: int
    global_batch: int  # sequences in a whole step
    tensor: int
    pipeline: int
    sharding: str
    gradient_bytes: float
    peak_tflops: float  # of one worker; the utilisation is a share of it
    utilisation: float | None
    network_efficiency: float | None
    date: str
    source: str
    # "": the row is older than the column
    checkpointing: str = ""
    fused: str = ""  # yes or no, as in the next field
    sequence_parallel: str = ""

    def __post_init__(self) -> None:
        Calibration(utilisation=self.utilisation, network_efficiency=self.network_efficiency)
        counts = ("nodes", "micro_batch", "global_batch", "tensor", "pipeline")
        for each in (*counts, "sequences_per_second", "gradient_bytes", "peak_tflops"):
            value = getattr(self, each)
            if not 0 < value < math.inf:
                raise CannotEstimate(f"{each} is {value:g}; it must be more than 0")
        for each in ("fused", "sequence_parallel"):
            if getattr(self, each) not in ("", "yes", "no"):
                raise CannotEstimate(f"{each} is {getattr(self, each)!r}; allowed are yes and no")

    @property
    def family(self) -> str:
        return family_of(self.instance)

    @property
    def run(self) -> tuple[str, str]:
        """Return name and id, the last word of the source, of the run that `slipway calibrate` read.

        An id alone is not enough: each Slurm cluster counts its jobs from 1.
        """
        return self.name, self.source.rpartition(" ")[2]

    def is_like(self, layout: Layout) -> bool:
        """Return True if the noted facts of its layout, besides its configuration, equal this layout's."""
        return (
            self.checkpointing in ("", layout.checkpointing)
            and self.fused in ("", _yes_or_no(layout.fused))
            and self.sequence_parallel in ("", _yes_or_no(layout.sequence_parallel))
        )

    @property
    def configuration(self) -> tuple[int, int, int, int, str]:
        return self.micro_batch, self.global_batch, self.tensor, self.pipeline, self.sharding


@lru_cache(maxsize=1)
def our_measurements() -> tuple[Measurement, ...]:
    text = Path(__file__).with_name("calibration.csv").read_text(encoding="utf-8")
    return decode_measurements(text, "calibration.csv")


def decode_measurements(text: str, where: str) -> tuple[Measurement, ...]:
    """Decode a CSV of measurements; every mistake names the file and the line."""
    required = [field.name for field in fields(Measurement) if field.default is MISSING]
    return read_rows(text, where, required, _decode, most=_LARGEST_FILE)


def encode_measurements(rows: Iterable[Measurement]) -> str:
    written = (
        {key: f"{value:.10g}" if isinstance(value, float) else value for key, value in asdict(row).items()}
        for row in rows
    )
    return written_rows([field.name for field in fields(Measurement)], written)


def _decode(row: Mapping[str, str | None], where: str) -> Measurement:
    kinds = get_type_hints(Measurement)
    values = {name: _value(where, name, kind, (row.get(name) or "").strip()) for name, kind in kinds.items()}
    try:
        return Measurement(**values)
    except CannotEstimate as error:
        raise CannotEstimate(f"{where}: {error.message}", hint=error.hint or "correct the row") from None


def _value(where: str, name: str, kind: Any, text: str) -> Any:
    options = get_args(kind)
    if not text and NoneType in options:
        return None
    own = options[0] if options else kind
    try:
        return own(text)
    except ValueError:
        raise CannotEstimate(
            f"{where}: {name} is {text!r}, which is no {'whole ' if own is int else ''}number",
            hint="correct the row",
        ) from None


def unfitted(asked: Asked, *, name: str, sequences_per_second: float, date: str, source: str) -> Measurement:
    """Return the rate of a configuration as a measurement, without the two fitted numbers."""
    micro_batch, batch, tensor, pipeline, sharding = asked.configuration
    return Measurement(
        name=name,
        instance=asked.instance,
        model=asked.model_name,
        nodes=asked.cluster.nodes,
        sequences_per_second=sequences_per_second,
        micro_batch=micro_batch,
        global_batch=batch,
        tensor=tensor,
        pipeline=pipeline,
        sharding=sharding,
        gradient_bytes=asked.layout.gradient_bytes,
        peak_tflops=asked.cluster.peak_flops / 1e12,
        utilisation=None,
        network_efficiency=None,
        date=date,
        source=source,
        checkpointing=asked.layout.checkpointing,
        fused=_yes_or_no(asked.layout.fused),
        sequence_parallel=_yes_or_no(asked.layout.sequence_parallel),
    )


def _yes_or_no(truth: bool) -> str:
    return "yes" if truth else "no"


# The key of a calibration: one model on one cluster, split one way.


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Name the configuration that is asked for. Among equal rows, those of `workload` are preferred."""

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
