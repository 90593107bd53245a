"""Estimates one workload on one place at one size: rate, memory, hours and dollars, and their uncertainty.

Another fact about a configuration is one field of Estimate. `estimate` refuses a size over which the workload
cannot be split or where it does not fit; `estimate_sizes` leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from slipway.containers.training.layout import at_most, steps_of_epoch
from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.evidence.calibrations import Asked, Known, find_calibration
from slipway.jobs.estimate.evidence.measurements import Measurement
from slipway.jobs.estimate.fitting import Fit, Ranges, band_of, difference, fit, ranges_of
from slipway.jobs.estimate.hardware import STARTUP_SECONDS, cluster_of
from slipway.jobs.estimate.prices import Item, Overheads, Rate, what_is_paid
from slipway.jobs.estimate.work.rate import Throughput, throughput
from slipway.jobs.estimate.work.shapes import Hardware, Layout
from slipway.jobs.estimate.work.work import executed_flops
from slipway.jobs.estimate.work.workloads import Workload
from slipway.jobs.words.catalogue.hardware import device_of
from slipway.jobs.words.catalogue.instances import InstanceType
from slipway.jobs.words.given import shown
from slipway.jobs.words.images.containers import LockedTorch
from slipway.jobs.words.run import SECONDS_PER_HOUR

_GIB = 2.0**30
MOST_NODES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedHardware:
    """Describe where a workload would run: a declared cluster, or an instance type by itself."""

    name: str
    instance: InstanceType
    rate: Rate | None
    region: str
    overheads: Overheads = field(default_factory=Overheads)
    most_nodes: int = MOST_NODES
    torch: LockedTorch | None = None  # of a declared cluster's image


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    place: str
    instance_type: str
    nodes: int
    devices: int
    sequences_per_second: float
    sequences_per_second_per_device: float
    predicted_sequences_per_second: float  # also predicted if a rate was measured
    predicted_band: float  # nine of ten such predictions are at most this far off
    efficiency: float  # rate for each node, over that of the smallest size that can run it
    tokens_per_second: float
    tokens_per_dollar: int | None
    memory_gib: float  # of one device
    usable_gib: float
    usd_per_hour: float | None  # of the nodes and everything around them with a price
    unpriced: tuple[str, ...]  # billed items of unknown price
    steps: int | None  # None: the job has no known end
    sequences_per_step: int
    sequences: int | None  # that the whole job trains; an epoch's last step may be smaller
    hours: float | None
    usd: float | None
    mfu: float
    word: str  # what the rate is based on, of calibrations.WORDS
    band: float  # nine of ten such rates are at most this far off: the farther end of the range
    ranges: Ranges
    basis: str
    nearness: str  # differences between the measured configuration and this one
    time_basis: str  # what the time is derived from, as nobody measured it
    layout: Layout
    changed: str  # in the requested layout, because that does not fit or cannot be split
    parts: Mapping[str, float]  # seconds of one step by part, as predicted; all are exposed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    cluster: Hardware
    known: Known
    model_rate: Throughput
    fits: Fit

    @property
    def rate(self) -> float:
        measured = self.known.measured
        return measured.sequences_per_second if measured else self.model_rate.sequences_per_second


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """Hold when a job ends; by default it has no known end."""

    steps: int | None = None
    sequences: int | None = None
    hours: float | None = None
    basis: str = ""


def estimate(workload: Workload, place: PricedHardware, nodes: int, rows: Sequence[Measurement]) -> Estimate:
    """Estimate one size; refuse a size that cannot work, and name the nearest layout that does."""
    refuse_size(nodes)
    if nodes > place.most_nodes:
        raise CannotEstimate(
            f"{nodes} nodes are more than the {place.most_nodes} that cluster {place.name} declares",
            hint=f"say at most {place.most_nodes}, or --on {place.instance.name}",
        )
    refuse_device(workload, place.instance)
    workload = _dealt(workload, place, nodes)
    made = _make(workload, place, nodes, rows)
    if not (found := made.fits).fits:
        total, usable = found.memory.total / _GIB, found.usable_bytes / _GIB
        largest = getattr(found.memory, found.memory.largest) / _GIB
        raise CannotEstimate(
            f"{workload.name} does not fit {nodes} × {place.instance.name}: a device needs {total:.1f} GiB "
            f"and {usable:.1f} can be used; most is {found.memory.largest}, {largest:.1f} GiB",
            hint=f"it fits with --set {found.change.replace(', ', ' --set ')}"
            if found.nearest
            else f"slipway compare {workload.name}",
        )
    return _estimate(workload, place, made, _base_rate(workload, place, nodes, rows), changed="")


def estimate_sizes(
    workload: Workload, place: PricedHardware, sizes: Iterable[int], rows: Sequence[Measurement]
) -> list[Estimate]:
    """Estimate each size that the place has, with the workload's layout or the nearest that fits, if any."""
    refuse_device(workload, place.instance)
    found: list[Estimate] = []
    base: dict[Layout, float] = {}
    for nodes in sorted(size for size in sizes if size <= place.most_nodes):
        asked = _dealt(workload, place, nodes)
        layout = next(_layouts(asked, place, nodes), None)
        if layout is None:
            continue
        own = replace(asked, layout=layout)
        made = _make(own, place, nodes, rows)
        alone = base.setdefault(layout, made.rate / nodes)
        changed = difference(asked.layout, layout)
        found.append(_estimate(own, place, made, alone, changed=changed))
    return found


def refuse_device(workload: Workload, instance: InstanceType) -> None:
    device = device_of(instance)
    if workload.devices and device not in workload.devices:
        raise CannotEstimate(
            f"{workload.name} cannot train on {device}, which is what {instance.name} has; "
            f"it can on {', '.join(workload.devices)}",
            hint=f"slipway compare {workload.name}",
        )


def _dealt(workload: Workload, place: PricedHardware, nodes: int) -> Workload:
    """Return the workload with the micro-batch that its job uses on this many nodes."""
    layout = workload.layout
    if not workload.deals_batch or layout.global_batch is None:
        return workload
    share, rest = divmod(layout.global_batch, cluster_of(place.instance, nodes).devices)
    sizes = range(min(layout.micro_batch, share), 0, -1)
    size = next((size for size in sizes if share % size == 0 and not rest), 1)  # 1: refused by its share
    return replace(workload, layout=replace(layout, micro_batch=size))


def _make(workload: Workload, place: PricedHardware, nodes: int, rows: Sequence[Measurement]) -> _Made:
    cluster = cluster_of(place.instance, nodes)
    asked = Asked(
        instance=place.instance.name,
        model_name=workload.model_name,
        model=workload.model,
        cluster=cluster,
        layout=workload.layout,
        workload=workload.task or workload.name,
    )
    known = find_calibration(rows, asked)
    return _Made(
        cluster=cluster,
        known=known,
        model_rate=throughput(workload.model, cluster, workload.layout, known.calibration),
        fits=fit(workload.model, cluster, workload.layout),
    )


def _estimate(
    workload: Workload, place: PricedHardware, made: _Made, alone: float, *, changed: str
) -> Estimate:
    nodes, rate = made.cluster.nodes, made.rate
    paid = what_is_paid(place.overheads, place.region, nodes)
    per_hour = _usd_per_hour(place, nodes, paid)
    end = _end(workload, made)
    spread = made.known.spread_of(made.model_rate.spread, made.cluster)
    return Estimate(
        place=place.name,
        instance_type=place.instance.name,
        nodes=nodes,
        devices=made.cluster.devices,
        sequences_per_second=rate,
        sequences_per_second_per_device=rate / made.cluster.devices,
        predicted_sequences_per_second=made.model_rate.sequences_per_second,
        predicted_band=band_of(made.model_rate.spread),
        efficiency=rate / nodes / alone,
        tokens_per_second=rate * workload.model.sequence_length,
        tokens_per_dollar=tokens_per_dollar(rate, workload.model.sequence_length, per_hour),
        memory_gib=made.fits.memory.total / _GIB,
        usable_gib=made.fits.usable_bytes / _GIB,
        usd_per_hour=per_hour,
        unpriced=tuple(f"{item.name}: {item.note}" for item in paid if item.usd_per_hour is None),
        steps=end.steps,
        sequences_per_step=made.model_rate.sequences_per_step,
        sequences=end.sequences,
        hours=end.hours,
        usd=None if end.hours is None or per_hour is None else end.hours * per_hour,
        mfu=made.model_rate.mfu * rate / made.model_rate.sequences_per_second,
        word=made.known.word,
        band=band_of(spread),
        ranges=ranges_of(rate, spread, end.hours, per_hour),
        basis=made.known.basis,
        nearness=made.known.nearness,
        time_basis=end.basis,
        layout=workload.layout,
        changed=changed,
        parts=_parts(workload, made),
    )


# The keys of Estimate.parts, in words.
PARTS: Mapping[str, str] = {
    "matrices": "products of matrices, at the device's peak",
    "beside": "beside them: norms, kernels' starts, what is below the peak",
    "bubble": "a pipeline's stages wait for the first and the last",
    "tensor": "sums of activations between the parts of a layer",
    "pipeline": "stages send activations to their neighbours",
    "data": "gradients and weights between replicas, as far as nothing hides them",
    "optimizer": "the optimizer, and what each step takes once",
    "wait": "all wait for the slowest node",
}


def _parts(workload: Workload, made: _Made) -> Mapping[str, float]:
    """Divide the computing of a step into what its matrices take at the peak, and the rest."""
    step, peak = made.model_rate.step, made.cluster.devices * made.cluster.peak_flops
    executed = executed_flops(workload.model, workload.layout) * made.model_rate.sequences_per_step
    at_peak = min(executed / peak, step.compute)
    seconds = asdict(step)
    return {"matrices": at_peak, "beside": seconds.pop("compute") - at_peak, **seconds}


def _usd_per_hour(place: PricedHardware, nodes: int, paid: Sequence[Item]) -> float | None:
    """Return the hourly price; None without the nodes' price; leave out and name fees without a price."""
    if place.rate is None:
        return None
    overheads = sum(item.usd_per_hour for item in paid if item.usd_per_hour is not None)
    return nodes * place.rate.usd_per_hour + overheads


def _end(workload: Workload, made: _Made) -> _End:
    """Count whole steps: an epoch's last one may be smaller, and takes as long."""
    per_step = made.model_rate.sequences_per_step
    steps = steps_of_workload(workload, per_step)
    if steps is None:
        return _End()
    trained = steps * per_step
    return _End(
        steps=steps,
        sequences=min(trained, workload.sequences or trained),
        hours=(STARTUP_SECONDS + trained / made.rate) / SECONDS_PER_HOUR,
        basis=f"derived: {steps:,} steps of {per_step:,} sequences at this rate, "
        f"and {STARTUP_SECONDS:g} s to start",
    )


def _base_rate(workload: Workload, place: PricedHardware, nodes: int, rows: Sequence[Measurement]) -> float:
    """Return a node's rate at the smallest size (1, 2, 4, …) that can run the same layout."""
    size = 1
    while size < nodes:
        try:
            made = _make(_dealt(workload, place, size), place, size, rows)
        except CannotEstimate:
            made = None
        if made is not None and made.fits.fits:
            return made.rate / size
        size *= 2
    return _make(workload, place, nodes, rows).rate / nodes


def _layouts(workload: Workload, place: PricedHardware, nodes: int) -> Iterator[Layout]:
    """Yield the requested layout; then one that this place can split; then the nearest that fits."""
    cluster = cluster_of(place.instance, nodes)
    own = workload.layout
    tensor = min(own.tensor, cluster.devices_per_node)
    candidates = (own, replace(own, tensor=tensor, pipeline=1), replace(own, tensor=1, pipeline=1))
    for layout in dict.fromkeys(candidates):
        try:
            found = fit(workload.model, cluster, layout)
            throughput(workload.model, cluster, found.nearest or layout)
        except CannotEstimate:
            continue
        if found.fits or found.nearest is not None:
            yield found.nearest or layout


def refuse_size(nodes: int) -> None:
    if not 1 <= nodes <= MOST_NODES:
        raise CannotEstimate(
            f"{shown(nodes)} nodes cannot be; allowed are 1 to {MOST_NODES:,}", hint="say --nodes 1,2,4,8"
        )


# From a rate to a job: seconds, dollars, tokens per dollar. An unknown price is None, never zero.


def steps_of(examples: int, epochs: int, sequences_per_step: int) -> int:
    """Return the steps of the epochs; an epoch's last step may be smaller, and takes as long."""
    return steps_of_epoch(examples, sequences_per_step, keeps_rest=True) * epochs


def steps_of_workload(workload: Workload, sequences_per_step: int) -> int | None:
    """Return a job's steps, counted as its recipe counts them; None if it has no known end."""
    if workload.sequences is None:
        return workload.steps
    whole = steps_of(workload.sequences // workload.epochs, workload.epochs, sequences_per_step)
    return at_most(whole, workload.steps)


def job_seconds(rate: Throughput, steps: int) -> float:
    return STARTUP_SECONDS + steps * rate.step.seconds


def tokens_per_dollar(
    sequences_per_second: float, sequence_length: int, usd_per_hour: float | None
) -> int | None:
    """Return the tokens that a dollar buys. `usd_per_hour` is the price of the whole cluster."""
    if usd_per_hour is None:
        return None
    if usd_per_hour <= 0:
        raise CannotEstimate(f"a price of {usd_per_hour} dollars an hour cannot be", hint="give what is paid")
    return round(sequences_per_second * sequence_length * SECONDS_PER_HOUR / usd_per_hour)
