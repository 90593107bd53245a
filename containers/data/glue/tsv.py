"""A TSV file of GLUE: tabs apart, no quoting, a line of headings or none; strict, by file and line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from slipway.containers.data.errors import DataError
from slipway.containers.data.glue.tasks import Task

MARK = "\ufeff"  # some editors, and Microsoft's own MRPC files, begin with it
_SHOWN = 60


@dataclass(slots=True)
class Rows:
    texts: list[tuple[str, ...]] = field(default_factory=list)
    labels: list[float] = field(default_factory=list)
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Header:
    """Locate the task's columns in a line."""

    columns: int
    texts: tuple[int, ...]
    label: int


def parse_tsv(name: str, data: bytes, task: Task) -> Rows:
    lines = _lines(name, data)
    header = _header(name, task, next(lines, (0, "")) if not task.columns else None)
    rows = Rows()
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != header.columns and rows.left_out < task.known_damaged:
            rows.left_out += 1
            continue
        if len(cells) != header.columns:
            raise DataError(
                f"{name}:{number} has {len(cells)} columns, and {task.name} has {header.columns}",
                hint=f"columns are set apart by tabs: {_wanted(task)}",
            )
        rows.labels.append(_label(name, number, task, cells[header.label]))
        rows.texts.append(tuple(cells[at] for at in header.texts))
    return rows


def _lines(name: str, data: bytes) -> Iterator[tuple[int, str]]:
    """Split at line feeds alone: other Unicode separators occur in texts."""
    if not data.strip():
        raise DataError(f"{name} is empty", hint="download it again")
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), start=1):
        try:
            text = line.decode("utf-8").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}:{number}: byte {error.start} of the line (0x{line[error.start]:02x}) is not UTF-8",
                hint="convert the file, for example: iconv -f LATIN1 -t UTF-8",
            ) from None
        yield number, text.removeprefix(MARK) if number == 1 else text


def _header(name: str, task: Task, first: tuple[int, str] | None) -> Header:
    columns: Sequence[str] = task.columns if first is None else first[1].split("\t")
    missing = [wanted for wanted in (*task.texts, task.label) if wanted not in columns]
    if missing:
        raise DataError(
            f"{name}:1 has no column {', '.join(missing)}; it has {', '.join(columns)[:_SHOWN]!r}",
            hint=f"{task.name} has {_wanted(task)}",
        )
    return Header(
        columns=len(columns),
        texts=tuple(columns.index(text) for text in task.texts),
        label=columns.index(task.label),
    )


def _label(name: str, number: int, task: Task, text: str) -> float:
    if not task.is_regression:
        if text in task.labels:
            return float(task.labels.index(text))
        allowed = " or ".join(task.labels)
    else:
        if text.isascii() and text.replace(".", "", 1).isdigit() and float(text) <= task.highest_score:
            return float(text)
        allowed = f"a number from 0 to {task.highest_score:g}"
    raise DataError(
        f"{name}:{number} has the label {text[:_SHOWN]!r}; {task.name} has {allowed}",
        hint="is it the task's own file, and not its test set, which has no labels?",
    )


def _wanted(task: Task) -> str:
    return ", ".join(task.columns or (*task.texts, task.label))
