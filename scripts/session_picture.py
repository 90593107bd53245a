"""Draw README's session like a terminal, from the output of a real run by scripts/record_session.

To show another part of the session, change LEFT_OUT; tests/test_session_picture.py compares with README.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

LEFT_OUT = (
    "slipway --version",
    "slipway cluster quota",
    "cdk bootstrap",
    "cdk diff",
    "cdk deploy my-training -c",
)
END = "slipway cluster destroy"
COLUMNS = 106
ROW, LETTER, MARGIN, BAR = 19, 8, 18, 34  # pixels: a row, a letter of 13 pixels, the margin, the window's bar
PROMPT = "$ "
# The first pattern that matches a line decides its look.
LOOKS = (
    ("bad", re.compile(r"error:|^killed")),
    ("good", re.compile(r"^✅|: succeeded$|resuming from")),
    ("curve", re.compile(r"█")),
)
_COMMENT = re.compile(r"\s{2,}#.*$")
_ROW = re.compile(r'<text class="(?P<look>[a-z ]+)"[^>]*>(?P<words>.*?)</text>')
_TAG = re.compile(r"<[^>]+>")
STYLE = """
  text { font: 13px ui-monospace, 'DejaVu Sans Mono', Menlo, monospace; white-space: pre; fill: #24292f; }
  .paper { fill: #ffffff; stroke: #c5ccd3; } .bar { fill: #eef1f4; } .dot { fill: #c5ccd3; }
  .typed { font-weight: 600; } .faint { fill: #5a636e; font-weight: 400; }
  .bad { fill: #b3400a; } .good { fill: #1a7040; } .curve { fill: #1f5fa8; }
  @media (prefers-color-scheme: dark) {
    text { fill: #d7dde4; }
    .paper { fill: #0d1117; stroke: #343c45; } .bar { fill: #1d232a; } .dot { fill: #4a545f; }
    .faint { fill: #a3adb8; } .bad { fill: #f0a04b; } .good { fill: #56d48f; } .curve { fill: #6cb6ff; }
  }"""


def is_shown(command: str) -> bool:
    """Return True if the picture shows this command of the session."""
    return not command.startswith((*LEFT_OUT, END))


def session_picture(session: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Return the picture of commands, each with the shown lines of its output."""
    rows = [row for command, lines in session for row in _rows(command, lines)]
    width, height = 2 * MARGIN + COLUMNS * LETTER, BAR + 2 * MARGIN + len(rows) * ROW
    texts = [_text(row, BAR + MARGIN + place * ROW + 13) for place, row in enumerate(rows)]
    dots = [f'<circle class="dot" cx="{MARGIN + 6 + 18 * each}" cy="{BAR // 2}" r="5"/>' for each in range(3)]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>A session of Slipway</title>\n<style>{STYLE}\n</style>",
        f'<rect class="paper" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        f'<path class="bar" d="M1 {BAR}V9a8 8 0 0 1 8-8H{width - 9}a8 8 0 0 1 8 8V{BAR}z"/>',
    ]
    return "\n".join([*parts, *dots, *texts, "</svg>\n"])


def pictured(picture: str) -> list[str]:
    """Return the lines of a picture, with wrapped lines joined again."""
    lines: list[str] = []
    for row in _ROW.finditer(picture):
        words = _TAG.sub("", row["words"])
        words = words.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        if "more" in row["look"].split():
            lines[-1] += words
        else:
            lines.append(words)
    return lines


def _rows(command: str, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the look and the words of each row, wrapped as a terminal wraps."""
    looks = [next((look for look, found in LOOKS if found.search(line)), "said") for line in lines]
    for look, line in [("typed", PROMPT + command), *zip(looks, lines, strict=True)]:
        for start in range(0, max(len(line), 1), COLUMNS):
            yield f"{look} more" if start else look, line[start : start + COLUMNS]


def _text(row: tuple[str, str], y: int) -> str:
    look, words = row
    comment = _COMMENT.search(words) if look.startswith("typed") else None
    shown, faint = (words[: comment.start()], comment[0]) if comment else (words, "")
    inner = _escaped(shown) + (f'<tspan class="faint">{_escaped(faint)}</tspan>' if faint else "")
    return f'<text class="{look}" x="{MARGIN}" y="{y}">{inner}</text>'


def _escaped(text: str) -> str:
    return escape(text, quote=False)
