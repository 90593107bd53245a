"""Reads sessions of README and other pages, and compares what was typed and printed with a real run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.architecture.tracked import ROOT

_SESSION = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Values that differ from run to run: addresses, ids, times, rates and a training's results.
_VARYING = (
    (re.compile(r"(slipway \d+\.\d+\.\d+)\+g\w+(\.dirty)? "), r"\1 "),  # the page shows a release's
    (re.compile(r"\bami-[0-9a-f]{17}\b"), "AMI"),
    (re.compile(r"^\d+ +[12] +[\d.]+ +- *█*$"), "STEP ATTEMPT LOSS - BAR"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\bip-[\d-]+"), "HOST"),
    (re.compile(r"-[0-9a-f]{12}\b"), "-ID"),
    (re.compile(r"\d+:\d\d:\d\d"), "TIME"),
    (re.compile(r"(\bstep|loss|lr|\|g\|) [\d./e-]+"), r"\1 N"),
    (re.compile(r"[\d,.]+ (sequences/s|tokens/\$|MB/s|s\b)"), r"N \1"),
    (re.compile(r" \(no changes\)$"), ""),  # another test deployed it before
    (re.compile(r"^state +(waiting|starting)$"), "state BEFORE RUNNING"),  # as far as it was when asked
    (re.compile(r"\s+"), " "),  # columns are as wide as their widest row
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """Hold a command of a session, and the lines of its output that the page shows."""

    command: str
    lines: tuple[str, ...]


def session(page: str = "README.md") -> tuple[Typed, ...]:
    """Return the one session of a page, command by command."""
    (block,) = _SESSION.findall((ROOT / page).read_text(encoding="utf-8"))
    parts = (part.splitlines() for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:])
    return tuple(Typed(command=command, lines=tuple(lines)) for command, *lines in parts)


def shown_after(start: str, page: str) -> tuple[str, ...]:
    """Return the output that a page shows for the one command that begins with these words."""
    (found,) = [typed for typed in session(page) if typed.command.startswith(start)]
    return found.lines


def never_printed(shown: Sequence[str], text: str) -> list[str]:
    """Return the lines of a page that a real output lacks. A job and its nodes print in any order."""
    printed = {normalised(line) for line in text.splitlines()}
    return [line for line in shown if normalised(line) not in printed]


def printed_like(shown: Sequence[str], text: str) -> list[str]:
    """Return the line of a real run for each line of a page.

    If several lines are alike, such as the steps of a training, take the same one or the last. If the page
    shows several, such as rows of a table, take the first, the last, and evenly spaced ones between.
    """
    printed: dict[str, list[str]] = {}
    for line in text.splitlines():
        printed.setdefault(normalised(line), []).append(line.rstrip())
    asked = [normalised(line) for line in shown]
    found, seen = [], Counter[str]()
    for line, alike in zip(shown, asked, strict=True):
        lines, times = printed[alike], asked.count(alike)
        place = seen[alike] * (len(lines) - 1) // (times - 1) if times > 1 else len(lines) - 1
        found.append(line if times == 1 and line in lines else lines[place])
        seen[alike] += 1
    return found


def normalised(line: str) -> str:
    """Return a line without what differs from run to run."""
    for varying, constant in _VARYING:
        line = varying.sub(constant, line.strip())
    return line
