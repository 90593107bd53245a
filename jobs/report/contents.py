"""Writes what the page of a job says, and of a run compared with its estimate.

Pure: estimates and measurements are arguments. Another section is one function here and a line in `job_page`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slipway.jobs.estimate.estimates import PARTS, Estimate, PricedHardware
from slipway.jobs.estimate.pareto import BEATEN, BEST, UNDECIDED, Scale, scale_of
from slipway.jobs.estimate.work.workloads import Workload
from slipway.jobs.report.charts import cost_against_time, over_steps, scaling
from slipway.jobs.report.page import Fact, Page, PageTable, Section
from slipway.jobs.submit.curve import Point as Step
from slipway.jobs.words.text import duration, money

_DRAWN_TIMES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Hold the estimates of all places and sizes, with the verdict on each (pareto.verdicts)."""

    estimates: Sequence[Estimate]
    verdicts: Sequence[str]
    priced_at: dict[str, str]  # by place: region and day

    @property
    def priced(self) -> list[tuple[Estimate, str]]:
        pairs = zip(self.estimates, self.verdicts, strict=True)
        return [(each, verdict) for each, verdict in pairs if each.usd_per_hour is not None]

    @property
    def unbeaten(self) -> list[tuple[Estimate, str]]:
        """Return the estimates that no other surely beats, the fastest first."""
        scale = scale_of(self.estimates)
        found = [(each, verdict) for each, verdict in self.priced if verdict != BEATEN]
        return sorted(found, key=lambda pair: scale.time(pair[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBesideEstimate:
    """Hold a finished run and what the estimate predicted for the same job and nodes."""

    name: str
    nodes: int
    measured: float
    steps: int
    curve: Sequence[Step]
    predicted: float
    predicted_word: str  # what the estimate is based on
    predicted_band: float | None
    devices: int  # that the run used
    instance_type: str
    is_of_the_yard: bool


def job_page(
    workload: Workload,
    place: PricedHardware,
    sizes: Sequence[Estimate],
    compared: Comparison,
    run: RunBesideEstimate | None,
) -> Page:
    sections = [] if run is None else [_run_section(run)]
    sections.append(_scaling_section(workload, place, sizes, run))
    sections += [_parts_section(sizes), _cost_section(place, compared)]
    model = "" if workload.model_name == workload.name else f", {workload.model_name}"
    steps = f", {workload.steps:,} steps" if workload.steps else ""
    named = f"{workload.name}{model}{steps} on {place.name}"
    until = f" to the end of {workload.until}" if workload.until else ", a job without a known end"
    kind = "" if place.name == place.instance.name else f" ({place.instance.name})"
    return Page(
        title=named if run is None else f"{run.name} beside its estimate",
        lead=f"Throughput, time and dollars{until}, on {place.name}{kind}.",
        facts=_facts(compared, sizes),
        sections=sections,
        notes=_notes(workload, place, sizes, run),
    )


def _facts(compared: Comparison, sizes: Sequence[Estimate]) -> list[Fact]:
    scale, unbeaten = scale_of(compared.estimates), compared.unbeaten
    facts = []
    if unbeaten:
        cheapest = min(unbeaten, key=lambda pair: scale.cost(pair[0]))
        fastest = min(unbeaten, key=lambda pair: scale.time(pair[0]))
        for (estimate, verdict), value, what in (
            (cheapest, _dollars(cheapest[0].usd), "at the least"),
            (fastest, _time(fastest[0].hours), "at the fastest"),
        ):
            doubt = f", {UNDECIDED} from others" if verdict == UNDECIDED else ""
            facts.append(Fact(value=value, what=f"{what}: {_where(estimate)}{doubt}"))
    here = min(sizes, key=scale.cost)
    facts.append(
        Fact(value=_dollars(here.usd), what=f"at the least here: {_where(here)}, {_time(here.hours)}")
    )
    return facts


def _scaling_section(
    workload: Workload, place: PricedHardware, sizes: Sequence[Estimate], run: RunBesideEstimate | None
) -> Section:
    measured = [{"nodes": e.nodes, "rate": e.sequences_per_second} for e in sizes if e.word == "measured"]
    if run is not None and not run.is_of_the_yard:
        measured.append({"nodes": run.nodes, "rate": run.measured})
    first = sizes[0].predicted_sequences_per_second / sizes[0].nodes
    line = [
        {
            "nodes": size.nodes,
            "rate": size.predicted_sequences_per_second,
            "ideal": first * size.nodes,
            # The ends of the band around the prediction.
            "low": size.predicted_sequences_per_second / (1 + size.predicted_band),
            "high": size.predicted_sequences_per_second * (1 + size.predicted_band),
        }
        for size in sizes
    ]
    return Section(
        title=f"How {place.name} scales",
        text="The shade should hold nine of ten such rates. "
        "The dashed line is the rate of the smallest size for every node.",
        chart=scaling(f"{workload.name} on {place.name}: rate by nodes", line, measured),
        table=PageTable(
            caption="by size",
            headings=(
                *("nodes", "devices", "seq/s", "a device", "efficiency", "memory, GiB"),
                *("time", "USD", "tokens/USD", "basis"),
            ),
            rows=[
                (
                    str(size.nodes),
                    str(size.devices),
                    f"{size.sequences_per_second:,.2f}",
                    f"{size.sequences_per_second_per_device:,.2f}",
                    f"{size.efficiency:.1%}",
                    f"{size.memory_gib:.1f} of {size.usable_gib:.1f}",
                    _time(size.hours),
                    _dollars(size.usd),
                    "unknown" if size.tokens_per_dollar is None else f"{size.tokens_per_dollar:,}",
                    f"{size.word}, {_band(size.band)}",
                )
                for size in sizes
            ],
        ),
    )


def _parts_section(sizes: Sequence[Estimate]) -> Section:
    shown = [sizes[at] for at in dict.fromkeys((0, len(sizes) // 2, len(sizes) - 1))]
    rows = [
        (words, *(f"{estimate.parts[part] / sum(estimate.parts.values()):.1%}" for estimate in shown))
        for part, words in PARTS.items()
        if any(estimate.parts[part] for estimate in shown)
    ]
    return Section(
        title="Where a step's time goes",
        text="Predicted, even where a rate was measured. Time that computing hides is in no part.",
        table=PageTable(
            caption="parts of a step", headings=("part", *(_where(estimate) for estimate in shown)), rows=rows
        ),
    )


def _cost_section(place: PricedHardware, compared: Comparison) -> Section:
    scale, priced, unbeaten = scale_of(compared.estimates), compared.priced, compared.unbeaten
    if not priced:
        return Section(title="Cost against time", text="No price is known, so there is nothing to weigh.")
    front = [each for each, _ in unbeaten]
    most = _DRAWN_TIMES * min(scale.cost(each) for each, _ in priced)
    points = [
        {
            "group": _GROUPS.get(verdict, "chosen" if _is_of(each, place) else "other"),
            "label": _label(each, front, scale) if verdict != BEATEN else "",
            "time": scale.time(each),
            "cost": scale.cost(each),
        }
        for each, verdict in priced
        if scale.cost(each) <= most or _is_of(each, place)
    ]
    left_out = len(priced) - len(points)
    return Section(
        title="Cost against time",
        text="Each point is one type at one size. A diamond is surely unbeaten: wherever in the ranges the "
        "truth lies, no other is both cheaper and faster; a triangle is "
        f"{UNDECIDED} from others, because ranges overlap."
        + (f" {left_out} that cost over {_DRAWN_TIMES} times the least are not drawn." if left_out else ""),
        chart=cost_against_time("Cost against time", points, units=scale.units, chosen=place.name),
        table=PageTable(
            caption="sizes that no other surely beats",
            headings=(
                *("where", "nodes", "verdict", "seq/s", "time", "nine of ten", "USD", "nine of ten"),
                *("basis", "price of"),
            ),
            rows=[_front_row(each, verdict, compared.priced_at) for each, verdict in unbeaten],
        ),
    )


_UNITS = (("h", 1), ("min", 60), ("s", 3600))
_GROUPS = {BEST: "front", UNDECIDED: "open"}


def _is_of(estimate: Estimate, place: PricedHardware) -> bool:
    return place.name in (estimate.place, estimate.instance_type)


def _label(estimate: Estimate, front: Sequence[Estimate], scale: Scale) -> str:
    """Label only the fastest point and the cheapest of each place: more labels find no room."""
    same = [each for each in front if each.place == estimate.place]
    is_end = estimate is front[0] or estimate is min(same, key=scale.cost)
    return f"{estimate.nodes} × {estimate.place}" if is_end else ""


def _run_section(run: RunBesideEstimate) -> Section:
    share = run.measured / run.predicted
    text = (
        f"{run.steps} steps on {run.nodes} nodes ({run.devices} devices) trained {run.measured:,.1f} "
        f"sequences a second; the estimate is {run.predicted:,.1f} "
        f"({run.predicted_word}, {_band(run.predicted_band)}): the run is at {share:.2%} of it."
    )
    if run.is_of_the_yard:
        text += f" It ran in the yard, on this machine, and says nothing about a {run.instance_type}."
    curve = [{"step": each.step, "rate": each.sequences_per_second or 0.0} for each in run.curve]
    return Section(
        title="Measured beside estimated",
        text=text,
        chart=over_steps("Rate over the run", curve, run.predicted),
    )


def _front_row(estimate: Estimate, verdict: str, priced_at: dict[str, str]) -> tuple[str, ...]:
    return (
        estimate.place,
        str(estimate.nodes),
        "beaten by none" if verdict == BEST else verdict,
        f"{estimate.sequences_per_second:,.2f}",
        _time(estimate.hours),
        _ends(estimate.ranges.hours, _about),
        "unknown" if estimate.usd is None else money(estimate.usd),
        _ends(estimate.ranges.usd, _two_digits),
        f"{estimate.word}, {_band(estimate.band)}",
        priced_at.get(estimate.place, "unknown"),
    )


def _notes(
    workload: Workload, place: PricedHardware, sizes: Sequence[Estimate], run: RunBesideEstimate | None
) -> tuple[str, ...]:
    rate = place.rate
    price = (
        f"Prices of {place.instance.name}: {rate.usd_per_hour} USD an hour {rate.term} in {rate.region} on "
        f"{rate.date}; {rate.source}."
        if rate
        else f"No price of {place.instance.name} is known."
    )
    notes = [price, *(f"Utilisation: {basis}." for basis in dict.fromkeys(size.basis for size in sizes))]
    if workload.assumed:
        notes.append(f"Assumed: {workload.assumed}.")
    notes += [f"Not counted: {each}." for each in sizes[0].unpriced]
    if run is not None:
        notes.append("The first steps of every attempt are left out of a run's rate.")
    return tuple(notes)


def _where(estimate: Estimate) -> str:
    return f"{estimate.nodes} × {estimate.place}"


def _band(band: float | None) -> str:
    return "no band" if band is None else f"± {band:.0%}"


def _ends(ends: tuple[float, float] | None, words: Callable[[float], str]) -> str:
    return "" if ends is None else f"{words(ends[0])} to {words(ends[1])}"


def _two_digits(value: float) -> str:
    """Return an end of a range, rounded to two digits: no more of them mean anything."""
    return f"{float(f'{value:.2g}'):,.10g}"


def _about(hours: float) -> str:
    unit, of_an_hour = next((each for each in _UNITS if hours * each[1] >= 1), _UNITS[-1])
    return f"{_two_digits(hours * of_an_hour)} {unit}"


def _dollars(usd: float | None) -> str:
    return "unknown" if usd is None else f"{money(usd)} USD"


def _time(hours: float | None) -> str:
    return "unknown" if hours is None else duration(hours)
