"""The one place that prints: data to stdout (tables, records, JSON), everything else to stderr.

A command declares its columns once; `--json` prints the same rows with every field, shown in a column or not.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from datetime import date
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal, TextIO

import click

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import padded, printable, terminal_columns, words

if TYPE_CHECKING:
    from rich.console import Console

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON with every field.")

Row = Mapping[str, object]

GAP = 2  # spaces between columns
_LONG_WORD = 24  # columns; what is longer is an address or a part of a command, and may be cut
STYLES = {"error": "31;1", "warning": "33;1", "hint": "36", "title": "1"}

# Consoles with a live line: a line printed meanwhile goes above it.
_live: list[Console] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Describes one column of a table, or one line of a record."""

    name: str  # the row's field; "price.region" reads a nested one
    title: str = ""  # "": the field's name, with spaces
    unit: str = ""
    align: Literal["left", "right"] = "left"
    format: Callable[[object], str] = words
    absent: str = "unknown"  # shown for a field that is None or missing

    @property
    def label(self) -> str:
        return self.title or self.name.replace("_", " ").replace(".", " ")

    @property
    def heading(self) -> str:
        return f"{self.label} [{self.unit}]" if self.unit else self.label

    def cell(self, row: Row) -> str:
        value: object = row
        for part in self.name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return printable(self.absent if value is None else self.format(value))


def print_table(title: str, columns: Sequence[Column], rows: Sequence[Row], *, as_json: bool) -> None:
    """Print rows under headings; as JSON, an array of the complete rows. An empty title prints none."""
    if as_json:
        print_json(list(rows))
    elif not rows:
        say(f"{title or 'rows'}: none")
    elif is_terminal(sys.stdout):
        _print_rich_table(title, columns, rows)
    else:
        _write("\n".join(_plain_table(title, columns, rows)) + "\n")


def print_record(columns: Sequence[Column], record: Row, *, as_json: bool) -> None:
    """Print one record, a line for each non-empty column; as JSON, the complete record as one object."""
    if as_json:
        print_json(record)
        return
    _write(_record(columns, record))


def print_json(value: object) -> None:
    """Print JSON in ASCII, so that no text in it can steer a terminal and every locale can print it."""
    _write(json.dumps(value, indent=2, default=_as_json, allow_nan=False) + "\n")


def print_text(text: str) -> None:
    """Print text that is itself the data (a script, a log line, a rendered file) to stdout, unchanged.

    Flush at once: `--follow` into a pipe would otherwise arrive in pieces of 8 KiB.
    """
    _write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Print one line to the person on stderr. Control characters and line breaks are escaped."""
    _say(printable(text))


def warn(text: str) -> None:
    _say(styled("warning", "warning:", sys.stderr) + " " + printable(text))


def complain(error: str, hint: str = "") -> None:
    """Print what went wrong, and the hint, on stderr."""
    _say(styled("error", "error:", sys.stderr) + " " + printable(error))
    if hint:
        _say(styled("hint", "hint:", sys.stderr) + " " + printable(hint))


@contextmanager
def progress(title: str) -> Iterator[Callable[[str], None]]:
    """Report the progress of long work: `with progress("building gaudi") as now: now("pushing")`.

    A terminal shows one live line, other outputs one plain line for each new state; a last line says how it
    ended.
    """
    started = time.monotonic()
    ended = "failed"
    show = _live_status if is_terminal(sys.stderr) else _plain_status
    try:
        with show(title) as now:
            yield now
        ended = "done"
    finally:
        say(f"{title}: {ended} after {time.monotonic() - started:.0f} s")


def can_ask() -> bool:
    """Tell whether a person is there who can read a question and answer it."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def refuse_unasked(what: str, command: str) -> None:
    """Refuse to go on where nobody can be asked; `command` needs no answer."""
    if not can_ask():
        raise SlipwayError(f"{what}, and without a terminal nobody can be asked", hint=command)


def ask(question: str) -> bool:
    """Return True on yes and False if nobody is there to answer; a no ends the command."""
    return can_ask() and click.confirm(question, abort=True, err=True)


def refuse_unwritable(path: Path) -> None:
    """Refuse a path that write_file could not write, before the work whose result it is to hold."""
    try:
        place = path if path.exists() else path.parent
        if path.is_dir():
            why = "is a folder"
        elif not place.exists():
            why = f"cannot be written: there is no folder {path.parent}"
        else:
            why = "" if os.access(place, os.W_OK) else "cannot be written"
    except OSError as error:
        why = f"cannot be written: {error.strerror}"
    if why:
        raise SlipwayError(f"{path} {why}", hint="name a file that you can write")


def write_file(path: Path, text: str) -> None:
    """Write a file that the user asked for, and say so."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SlipwayError(f"{path}: {error.strerror}", hint="name a file that you can write") from None
    say(f"written to {path}, {len(text) >> 10} KiB")


def is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def styled(style: str, text: str, stream: TextIO) -> str:
    if not is_terminal(stream) or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m"


@contextmanager
def _plain_status(title: str) -> Iterator[Callable[[str], None]]:
    last = [""]

    def now(text: str) -> None:
        if text != last[-1]:
            last.append(text)
            say(f"{title}: {text}")

    say(f"{title} …")
    yield now


@contextmanager
def _live_status(title: str) -> Iterator[Callable[[str], None]]:
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    with console.status(Text(printable(title))) as status:
        _live.append(console)
        try:
            yield lambda text: status.update(Text(printable(f"{title}: {text}")))
        finally:
            _live.remove(console)


def _say(line: str) -> None:
    if _live:
        from rich.text import Text

        _live[-1].print(Text.from_ansi(line))
    elif sys.stderr is not None:
        try:
            print(line, file=sys.stderr, flush=True)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            # Its terminal was closed. What runs on without one has nobody to tell.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _write(text: str) -> None:
    if sys.stdout is None:
        raise SlipwayError("there is nowhere to print to: standard output is closed", hint="leave out '>&-'")
    sys.stdout.write(text)


def _print_rich_table(title: str, columns: Sequence[Column], rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    lines = _lines(columns, rows)
    widths = _widths(lines, console.width)
    if not widths:
        print_text(
            "\n".join(
                [*([f"{printable(title)}\n"] if title else []), *(_record(columns, row) for row in rows)]
            )
        )
        return
    table = Table(
        title=Text(printable(title)) if title else None,
        title_justify="left",
        box=None,
        padding=(0, GAP, 0, 0),
        pad_edge=False,
    )
    for column, width in zip(columns, widths, strict=True):
        table.add_column(Text(column.heading), justify=column.align, overflow="fold", width=width)
    for line in lines[1:]:
        table.add_row(*map(Text, line))
    console.print(table)


def _widths(lines: Sequence[Sequence[str]], room: int) -> list[int]:
    """Choose column widths at which cells wrap between words, or cut long ones; none in too small a room."""
    columns = list(zip(*lines, strict=True))
    widths = [
        max(terminal_columns(word) for cell in cells for word in [*cell.split(), ""]) for cells in columns
    ]
    if sum(widths) + GAP * (len(widths) - 1) > room:
        widths = [min(each, _LONG_WORD) for each in widths]
    spare = room - sum(widths) - GAP * (len(widths) - 1)
    if spare < 0:
        return []
    for index, cells in enumerate(columns):
        more = min(spare, max(map(terminal_columns, cells)) - widths[index])
        widths[index] += more
        spare -= more
    return widths


def _record(columns: Sequence[Column], row: Row) -> str:
    """Write a line for each column of the row that is not empty."""
    widest = max(terminal_columns(column.label) for column in columns)
    lines = []
    for column in columns:
        cell = column.cell(row)
        unit = f" {column.unit}" if column.unit and cell != column.absent else ""
        if cell:
            lines.append(f"{padded(column.label, widest + GAP)}{cell}{unit}\n")
    return "".join(lines)


def _lines(columns: Sequence[Column], rows: Sequence[Row]) -> list[list[str]]:
    headings = [column.heading for column in columns]
    return [headings, *([column.cell(row) for column in columns] for row in rows)]


def _plain_table(title: str, columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    """Align columns by spaces, as wide as the cells need: a pipe has no width."""
    lines = _lines(columns, rows)
    widths = [max(map(terminal_columns, cells)) for cells in zip(*lines, strict=True)]
    text = [
        (" " * GAP)
        .join(
            padded(cell, width, column.align)
            for cell, width, column in zip(line, widths, columns, strict=True)
        )
        .rstrip()
        for line in lines
    ]
    return [printable(title), *text] if title else text


def _as_json(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, date):  # datetime is a date, too
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"cannot print {type(value).__name__} as JSON")


_BAR = 40  # characters of the longest bar


def bar(value: float, highest: float) -> str:
    """Draw a bar from zero, so that a third less is a bar a third shorter; NaN draws nothing."""
    share = value / highest if highest > 0 and value == value else 0.0
    return "█" * round(_BAR * min(max(share, 0.0), 1.0))
