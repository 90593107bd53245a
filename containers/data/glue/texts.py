"""One set of a GLUE task as texts and labels, from TSV files here or in S3.

Their columns are those of GLUE's download, or of what Hugging Face's datasets writes. What is wrong with a
file is said with its name and line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from slipway.containers.data.errors import DataError
from slipway.containers.data.glue.tasks import DATASETS_LABEL, Split, Task
from slipway.containers.data.sources.locations import is_remote, open_source, public
from slipway.containers.data.sources.sources import Source, read_whole

# A TSV file of GLUE: tabs apart, no quoting, a line of headings or none; strict, by file and line.
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
    is_line: bool  # of the file


def parse_tsv(name: str, data: bytes, task: Task) -> Rows:
    lines = _lines(name, data)
    first = next(lines)
    header = _header(name, task, first[1].split("\t"))
    rows = Rows()
    for number, line in lines if header.is_line else chain([first], lines):
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


def _header(name: str, task: Task, first: Sequence[str]) -> Header:
    there = first
    if task.columns and not {*task.datasets_texts, DATASETS_LABEL} <= {*first}:
        there = task.columns  # the official file has no headings
    named = ((task.texts, task.label), (task.datasets_texts, DATASETS_LABEL))
    texts, label = next((found for found in named if {*found[0], found[1]} <= {*there}), named[0])
    missing = [wanted for wanted in (*texts, label) if wanted not in there]
    if missing:
        raise DataError(
            f"{name}:1 has no column {', '.join(missing)}; it has {', '.join(there)[:_SHOWN]!r}",
            hint=f"{task.name} has {_wanted(task)}",
        )
    return Header(
        columns=len(there),
        texts=tuple(there.index(text) for text in texts),
        label=there.index(label),
        is_line=there is first,
    )


def _label(name: str, number: int, task: Task, text: str) -> float:
    if not task.is_regression:
        if text in task.labels:
            return float(task.labels.index(text))
        if text in map(str, range(task.outputs)):  # as datasets writes it
            return float(text)
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


TRAIN = Split(name="train", tsv="train")


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Hold the rows of one split. `second` is empty for single sentences; labels count from 0, or are
    scores."""

    first: Sequence[str]
    second: Sequence[str]
    labels: Sequence[float]
    left_out: int = 0  # rows that the official file is known to have damaged


def read_texts(place: str, task: Task, split: Split, *, bucket_owner: str | None = None) -> Texts:
    """Read one split of a task from `place`, a folder or s3://bucket/prefix."""
    source, name = _open(place, bucket_owner), f"{split.tsv}.tsv"
    if all(file.name != name for file in source.files):
        raise DataError(f"{public(place)} has no {name}", hint=_LAYOUT)
    rows = parse_tsv(name, read_whole(source, name), task)
    if not rows.labels:
        raise DataError(f"{public(place)}: {split.name} of {task.name} has no rows", hint=_LAYOUT)
    columns = list(zip(*rows.texts, strict=True))
    return Texts(
        first=columns[0],
        second=columns[1] if len(columns) > 1 else (),
        labels=rows.labels,
        left_out=rows.left_out,
    )


_LAYOUT = (
    "give a task's folder as GLUE's download has it; a split of datasets becomes such a file by "
    'split.to_csv("train.tsv", sep="\\t", index=False, quoting=3)'
)


def _open(place: str, bucket_owner: str | None) -> Source:
    if not is_remote(place) and not Path(place).is_dir():
        raise DataError(f"{place} is no folder", hint=_LAYOUT)
    return open_source(place, bucket_owner=bucket_owner)
