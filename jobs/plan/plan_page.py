"""Build the page of a plan: its drawing, the jobs that ran, if any are known, and a table of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from slipway.jobs.plan.search.diff import bound_words, clock, devices_by_node, dollars_of_job
from slipway.jobs.plan.search.model import Assignment, Objective, Plan, Pool
from slipway.jobs.report.page import Fact, Page, PageTable, Section, safe_text
from slipway.jobs.words.text import money, printable


def plan_page(plan: Plan, actual: Sequence[Assignment] = ()) -> Page:
    """Build the page; `actual` are the jobs that ran, with the real places and times."""
    names = {job.name for job in plan.jobs}
    ran = [each for each in actual if each.job in names]
    sections = [_drawn("The plan", plan, plan.assignments, 0)]
    if ran:
        sections.append(_drawn("What ran", plan, ran, 1))
    stopped = [f"The search stopped: {plan.stopped}."] if plan.stopped else []
    return Page(
        title=f"A plan of {len(plan.jobs)} jobs",
        lead="Each bar is a job on its devices; grey devices are idle, and hatched bars run on spot nodes.",
        facts=[
            Fact(value=clock(plan.makespan), what="until all jobs have ended (h:mm:ss)"),
            Fact(value=f"${money(plan.dollars)}", what=f"billed by {plan.goal.billing}"),
            Fact(
                value=f"{plan.gap:.1%}" if plan.bound.value > 0 else "unknown",
                what="at most above the best plan",
            ),
        ],
        sections=[*sections, Section(title="Job by job", table=_table(plan))],
        notes=[f"{bound_words(plan).capitalize()}.", "Times count from the start of the plan.", *stopped],
    )


def _drawn(title: str, plan: Plan, runs: Sequence[Assignment], number: int) -> Section:
    said = f"{title}: {len(runs)} jobs in {len(plan.pools)} pools"
    end, deadline = max([plan.makespan, *(each.end for each in runs), 1]), plan.goal.deadline
    # A deadline far behind all jobs is not drawn.
    horizon = deadline if deadline is not None and end < deadline <= 1.5 * end else end
    axes = (TimeAxis(name=name, left=left, width=width, horizon=horizon) for name, left, width in SCREENS)
    drawing = "".join(plan_drawing(plan, runs, said, f"{number}-{axis.name}", axis) for axis in axes)
    return Section(title=title, drawing=drawing, drawing_label=said)


def _table(plan: Plan) -> PageTable:
    return PageTable(
        caption="Job by job",
        headings=(
            "job",
            "technique",
            "type",
            "devices",
            "on node: devices",
            "start",
            "end",
            "USD",
            "estimate",
        ),
        rows=[
            (
                each.job,
                each.mode.technique,
                each.mode.type,
                str(each.mode.devices),
                devices_by_node(each, plan.pools[each.pool]),
                clock(each.start),
                clock(each.end),
                money(dollars_of_job(plan, each)),
                f"{each.mode.source} ± {each.mode.error:.0%}" if each.mode.error else each.mode.source,
            )
            for each in plan.assignments
        ],
    )


# Draw a plan: time from left to right, nodes and their devices from top to bottom, one colour per job. The
# SVG has no script: a browser shows a bar's title under the mouse. A pool of more than MOST_DEVICE_ROWS
# devices has one row per node, in which bars keep the height of their devices.
MOST_DEVICE_ROWS = 128
# A page has each drawing twice, for wide screens and for phones, and shows one: widths of labels and of time.
SCREENS = (("wide", 150, 1000), ("phone", 52, 290))
RIGHT = 20  # free pixels at the right edge
TICK = 100  # least pixels between two times
DEVICE_HEIGHTS = {32: 16, MOST_DEVICE_ROWS: 8}  # pixels of a row, by the most devices of a pool
NODE_HEIGHT = 12
HEAD, GAP = 34, 30  # pixels above the first pool, and between pools
_GOLDEN = 137.508  # degrees: neighbours in the list of jobs get very different colours
_LETTER = 6.2  # width of a letter of a bar's label, in pixels
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAxis:
    """Maps a time to its place in the drawing for one kind of screen."""

    name: str
    left: int
    width: int
    horizon: int

    def x(self, seconds: float) -> float:
        return self.left + self.width * seconds / self.horizon


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolBand:
    """Holds a pool's place in the drawing, and the height of its devices."""

    pool: Pool
    top: float
    device: float

    @property
    def node(self) -> float:
        return self.device * self.pool.devices_per_node

    @property
    def bottom(self) -> float:
        return self.top + self.node * self.pool.nodes


def plan_drawing(plan: Plan, runs: Sequence[Assignment], title: str, suffix: str, axis: TimeAxis) -> str:
    """Draw where and when jobs run, by the plan or in fact; `suffix` keeps the ids of a page apart."""
    bands, top = [], float(HEAD + GAP)
    for pool in plan.pools:
        fitting = [height for most, height in DEVICE_HEIGHTS.items() if pool.devices <= most]
        device = float(fitting[0]) if fitting else max(NODE_HEIGHT / pool.devices_per_node, 1.0)
        bands.append(PoolBand(pool=pool, top=top, device=device))
        top = bands[-1].bottom + GAP
    height = top
    width = axis.left + axis.width + RIGHT
    hues = {job.name: place * _GOLDEN % 360 for place, job in enumerate(plan.jobs)}
    bars = "".join(_bar(plan, each, bands[each.pool], axis, hues[each.job]) for each in runs)
    return (
        f'<svg class="plan {axis.name}" viewBox="0 0 {width} {height:g}" role="img" '
        f'aria-labelledby="plan-{suffix}" xmlns="http://www.w3.org/2000/svg">'
        f'<title id="plan-{suffix}">{safe_text(title)}; the table below says the same</title>'
        f'<defs><pattern id="hatch-{suffix}" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><path class="hatch" d="M0 0V6"/></pattern></defs>'
        f"{''.join(_band(band, axis) for band in bands)}{''.join(_ticks(axis, height))}"
        f"<g>{bars}</g>{''.join(_spot(plan, each, bands[each.pool], axis, suffix) for each in runs)}"
        f"{''.join(_limits(plan, axis, height))}</svg>"
    )


def _band(band: PoolBand, axis: TimeAxis) -> str:
    pool = band.pool
    spot = ", spot" if pool.is_spot else ""
    name = f"{pool.type} × {pool.nodes}, {pool.devices_per_node} devices each{spot}"
    step = max(1, round(14 / band.node))
    height = band.bottom - band.top
    parts = [
        f'<text class="pool" x="{axis.left}" y="{band.top - 8:g}">{safe_text(name)}</text>',
        f'<rect class="idle" x="{axis.left}" y="{band.top:g}" width="{axis.width}" height="{height:g}"/>',
    ]
    for node in range(pool.nodes):
        y = band.top + node * band.node
        parts.append(f'<path class="row" d="M{axis.left} {y:g}h{axis.width}"/>')
        if node % step == 0:
            middle = y + min(band.node, 20) / 2 + 4
            parts.append(f'<text class="row" x="{axis.left - 8}" y="{middle:g}">node {node}</text>')
    return "".join(parts)


def _ticks(axis: TimeAxis, height: float) -> Iterator[str]:
    horizon, most = axis.horizon, axis.width / TICK
    longest = 86_400 * max(1, round(horizon / most / 86_400))
    step = next((step for step in _STEPS if horizon / step <= most), longest)
    for seconds in range(0, horizon + 1, step):
        x = axis.x(seconds)
        yield f'<path class="tick" d="M{x:.1f} {HEAD}V{height - 10:g}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{HEAD - 8}">{clock(seconds)}</text>'


def _bar(plan: Plan, each: Assignment, band: PoolBand, axis: TimeAxis, hue: float) -> str:
    boxes = list(_boxes(each, band))
    left, right = axis.x(each.start), axis.x(each.end)
    fill = f'fill="hsl({hue:.0f} 55% 62%)"'
    rects = "".join(
        f'<rect {fill} x="{left:.2f}" y="{top:g}" width="{max(right - left, 0.5):.2f}" height="{high:g}"/>'
        for top, high in boxes
    )
    top, high = max(boxes, key=lambda box: box[1])
    name = printable(each.job)
    letters = int((right - left - 6) / _LETTER)
    label = ""
    if high >= 8 and letters >= 3:
        cut = name if len(name) <= letters else f"{name[: letters - 1]}…"
        label = f'<text class="job" x="{left + 3:.1f}" y="{top + high / 2 + 4:g}">{escape(cut)}</text>'
    shown = (  # while the mouse is over the bar
        f"{each.job}: {each.mode.technique} on {each.mode.devices} × {each.mode.type}, node "
        f"{devices_by_node(each, plan.pools[each.pool])}, {clock(each.start)} to {clock(each.end)}, "
        f"${money(dollars_of_job(plan, each))}"
    )
    return f"<g><title>{safe_text(shown)}</title>{rects}{label}</g>"


def _boxes(each: Assignment, band: PoolBand) -> Iterator[tuple[float, float]]:
    """Yield top and height of each run of neighbouring devices; adjacent whole nodes are one run."""
    per_node = band.pool.devices_per_node
    numbers = sorted(share.node * per_node + device for share in each.placement for device in share.devices)
    first = last = numbers[0]
    for number in [*numbers[1:], -1]:
        if number != last + 1:
            yield band.top + first * band.device, (last - first + 1) * band.device
            first = number
        last = number


def _spot(plan: Plan, each: Assignment, band: PoolBand, axis: TimeAxis, suffix: str) -> str:
    if not plan.pools[each.pool].is_spot:
        return ""
    left, right = axis.x(each.start), axis.x(each.end)
    return "".join(
        f'<rect class="spot" fill="url(#hatch-{suffix})" x="{left:.2f}" y="{top:g}" '
        f'width="{right - left:.2f}" height="{high:g}"/>'
        for top, high in _boxes(each, band)
    )


def _limits(plan: Plan, axis: TimeAxis, height: float) -> Iterator[str]:
    has_bound = plan.goal.objective is Objective.MAKESPAN and plan.bound.value > 0
    for kind, what, seconds, lift in (
        ("bound", "no plan ends before", plan.bound.value if has_bound else None, 4),
        ("deadline", "deadline", plan.goal.deadline, 16),
    ):
        if seconds is None or seconds > axis.horizon:
            continue
        x, y, words = axis.x(seconds), height - lift, f"{what} {clock(seconds)}"
        side, gap = ("end", -4) if len(words) * _LETTER < x else ("start", 4)  # none begins outside
        yield (
            f'<path class="{kind}" d="M{x:.1f} {HEAD}V{height - 10:g}"/>'
            f'<text class="{kind}" text-anchor="{side}" x="{x + gap:.1f}" y="{y:g}">{words}</text>'
        )
