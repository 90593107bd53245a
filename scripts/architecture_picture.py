"""The picture of docs/architecture.md, drawn from data: a box is a row of BOXES, an arrow one of ARROWS.

A test holds each box's folder to the tree. The page's own colours follow the reader's light or dark scheme.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 1000, 580
_TITLE_Y, _LINE_HEIGHT, _GAP = 25, 18, 4
_STYLE = """
  .paper { fill: #ffffff; }
  .room { fill: #eef3fa; stroke: #9db2cf; }
  .inner { fill: #ffffff; stroke: #c3d0e2; }
  .zone { fill: none; stroke: #8a94a3; stroke-dasharray: 5 4; }
  .arrow { fill: none; stroke: #3b6ea8; stroke-width: 2; }
  .back { stroke: #3f8f5b; stroke-dasharray: 6 4; }
  .tip { fill: #3b6ea8; }
  .tip.back { fill: #3f8f5b; stroke: none; }
  text { fill: #1c2733; font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; }
  .title { font-weight: 600; font-size: 15px; }
  .folder { font-family: ui-monospace, "SFMono-Regular", Menlo, monospace; font-size: 12px; fill: #52616f; }
  .said { font-size: 12px; fill: #2f5c90; }
  .said.back { fill: #2f7047; stroke: none; }
  .whose { font-size: 12px; fill: #66717e; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117; }
    .room { fill: #17202b; stroke: #3d5068; }
    .inner { fill: #0f1720; stroke: #33445a; }
    .zone { stroke: #6b7683; }
    .arrow { stroke: #6ea8e5; }
    .back { stroke: #6fc08c; }
    .tip { fill: #6ea8e5; }
    .tip.back { fill: #6fc08c; }
    text { fill: #e3e9f0; }
    .folder, .whose { fill: #9fabb8; }
    .said { fill: #93c0f0; }
    .said.back { fill: #8fd3a7; }
  }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Shows a room of the house, or a shelf in one."""

    x: int
    y: int
    width: int
    height: int
    title: str
    folder: str = ""
    lines: tuple[str, ...] = ()
    look: str = "room"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """Goes through its points; the words stand at `at`."""

    points: tuple[tuple[int, int], ...]
    words: str
    at: tuple[int, int]
    look: str = ""  # "back" is what comes back


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """Frames the boxes that run on the same machines."""

    x: int
    y: int
    width: int
    height: int
    words: str


ZONES = (
    Zone(x=16, y=40, width=290, height=524, words="your machine"),
    Zone(x=394, y=40, width=270, height=524, words="AWS, or the yard in its place"),
    Zone(x=752, y=40, width=232, height=524, words="the nodes"),
)
BOXES = (
    Box(
        x=30,
        y=56,
        width=262,
        height=148,
        title="Clusters",
        folder="infra/",
        lines=(
            "declare: what we want, checked",
            "stacks, patterns: the CDK",
            "verify: rules on templates",
            "components: what AMIs contain",
        ),
    ),
    Box(
        x=30,
        y=236,
        width=262,
        height=184,
        title="Jobs",
        folder="jobs/",
        lines=(
            "catalogue: what hardware is",
            "estimate: time and cost",
            "platforms: a job as a request",
            "submit: exactly once",
            "runs, report: what became of it",
            "commands: the command line",
        ),
    ),
    Box(
        x=30,
        y=452,
        width=262,
        height=96,
        title="Notebooks",
        folder="slipway/",
        lines=("from slipway import Job, submit",),
    ),
    Box(
        x=408,
        y=56,
        width=242,
        height=92,
        title="AWS",
        lines=("CloudFormation, Batch,", "Systems Manager, S3 …"),
    ),
    Box(
        x=408,
        y=180,
        width=242,
        height=368,
        title="The yard",
        folder="yard/",
        lines=("an AWS on your machine",),
    ),
    *(
        Box(x=422, y=y, width=214, height=60, title=title, folder=folder, look="inner")
        for y, title, folder in (
            (256, "A request's way in", "yard/gateway/"),
            (328, "CloudFormation", "yard/cloudformation/"),
            (400, "The other services", "yard/services/"),
            (472, "Hosts and nodes", "yard/machines/"),
        )
    ),
    Box(
        x=766,
        y=56,
        width=204,
        height=220,
        title="What runs there",
        folder="containers/",
        lines=(
            "runtime: launch, resume",
            "data: rows from text",
            "training: loop, saving",
            "recipes: one a folder",
            "images: Dockerfiles and",
            "  locked versions",
        ),
    ),
    Box(
        x=766,
        y=308,
        width=204,
        height=240,
        title="Where it runs",
        lines=(
            "AWS Batch: containers",
            "MPI: hosts, over ssh",
            "the yard: processes in",
            "  their own namespaces",
            "",
            "Everywhere the same",
            "request, the same launch",
            "contract and the same",
            "entrypoint.",
        ),
    ),
)
ARROWS = (
    Arrow(points=((292, 92), (408, 92)), words="templates", at=(316, 84)),
    Arrow(points=((338, 92), (338, 278), (422, 278)), words="", at=(0, 0)),
    Arrow(points=((292, 330), (366, 330), (366, 120), (408, 120)), words="requests", at=(310, 348)),
    Arrow(points=((366, 298), (422, 298)), words="", at=(0, 0)),
    Arrow(points=((408, 396), (292, 396)), words="what is deployed", at=(302, 388), look="back"),
    Arrow(points=((650, 92), (766, 92)), words="starts ranks", at=(668, 84)),
    Arrow(points=((650, 490), (766, 490)), words="starts ranks", at=(668, 482)),
    Arrow(points=((766, 526), (650, 526)), words="logs, exit codes", at=(659, 518), look="back"),
)


def architecture_picture() -> str:
    """Return the picture as SVG."""
    size = f'width="{WIDTH}" height="{HEIGHT}"'
    spoken = (
        'role="img" aria-label="Clusters and jobs on your machine, AWS or the yard, and nodes that train"'
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {size} {spoken}>',
            f"<style>{_STYLE}</style>",
            f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
            *(line for zone in ZONES for line in _zone(zone)),
            *(line for box in BOXES for line in _box(box)),
            *(line for arrow in ARROWS for line in _arrow(arrow)),
            "</svg>",
            "",
        ]
    )


def _zone(zone: Zone) -> Iterator[str]:
    yield _rectangle("zone", zone.x, zone.y, zone.width, zone.height)
    yield _text("whose", zone.x + 4, zone.y - 8, zone.words)


def _box(box: Box) -> Iterator[str]:
    yield _rectangle(box.look, box.x, box.y, box.width, box.height)
    left, line = box.x + 14, box.y + _TITLE_Y
    yield _text("title", left, line, box.title)
    if box.folder:
        line += _LINE_HEIGHT + 2
        yield _text("folder", left, line, box.folder)
    line += _GAP
    for words in box.lines:
        line += _LINE_HEIGHT
        yield _text("", left + 12 * words.startswith("  "), line, words.strip())


def _arrow(arrow: Arrow) -> Iterator[str]:
    """Draw the line, its tip at the last point (arrows end level), and its words."""
    path = " ".join(f"{x},{y}" for x, y in arrow.points)
    (before, _), (x, y) = arrow.points[-2:]
    back = 9 if before < x else -9
    yield f'<polyline class="{_classes("arrow", arrow.look)}" points="{path}"/>'
    yield f'<path class="{_classes("tip", arrow.look)}" d="M{x} {y}l{-back} -5v10z"/>'
    if arrow.words:
        yield _text(_classes("said", arrow.look), *arrow.at, arrow.words)


def _classes(*names: str) -> str:
    return " ".join(name for name in names if name)


def _rectangle(look: str, x: int, y: int, width: int, height: int) -> str:
    return f'<rect class="{look}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'


def _text(look: str, x: int, y: int, words: str) -> str:
    kind = f' class="{look}"' if look else ""
    return f'<text{kind} x="{x}" y="{y}">{escape(words)}</text>'
