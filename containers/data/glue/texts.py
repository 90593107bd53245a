"""One set of a GLUE task as texts and labels, by stretches of a TSV file here or in S3.

Its columns are those of GLUE's download, or of what Hugging Face's datasets writes: tabs apart, no quoting, a
line of headings or none. What is wrong with a file is said with its name and line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slipway.containers.data.corpus.documents import lines
from slipway.containers.data.corpus.parts import BLOCK_BYTES, UnpackedBlock
from slipway.containers.data.errors import DataError
from slipway.containers.data.glue.tasks import DATASETS_LABEL, Split, Task
from slipway.containers.data.sources.locations import is_remote, open_source, public
from slipway.containers.data.sources.pieces import Piece
from slipway.containers.data.sources.sources import Source, SourceFile

MARK = "\ufeff"  # some editors, and Microsoft's own MRPC files, begin with it
TRAIN = Split(name="train", tsv="train")
_TAIL_BYTES = 64 << 10  # read at once to complete a stretch's last line
_SHOWN = 60
_LAYOUT = (
    "give a task's folder as GLUE's download has it; a split of datasets becomes such a file by "
    'split.to_csv("train.tsv", sep="\\t", index=False, quoting=3)'
)


@dataclass(slots=True, kw_only=True)
class Texts:
    """Hold some rows of a split. `second` is empty for single sentences; labels count from 0, or are
    scores."""

    first: list[str] = field(default_factory=list)
    second: list[str] = field(default_factory=list)
    labels: list[float] = field(default_factory=list)
    left_out: int = 0  # rows that the official file is known to have damaged


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Locate the task's columns in a line."""

    columns: int
    texts: tuple[int, ...]
    label: int
    is_line: bool  # of the file


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTable:
    """Hold one split of a task as a file of rows that is read by stretches."""

    place: str  # in words
    task: Task
    split: Split
    source: Source
    file: SourceFile
    header: Header

    def pieces(self, size_bytes: int) -> list[Piece]:
        """Return the stretches of about this size that make up the file."""
        name, end = self.file.name, self.file.size_bytes
        return [Piece(name, at, min(at + size_bytes, end)) for at in range(0, end, size_bytes)]

    def line(self, start: int, number: int) -> str:
        """Return the name and number in the file of a line, counted from 1 in the stretch from `start`."""
        reads = (
            self.source.read(self.file.name, at, min(BLOCK_BYTES, start - at))
            for at in range(0, start, BLOCK_BYTES)
        )
        before = sum(read.count(b"\n") for read in reads)
        return f"{self.file.name}:{before + number + (1 if start else 0)}"


def open_table(place: str, task: Task, split: Split, *, bucket_owner: str | None = None) -> TaskTable:
    """Open one split of a task below `place`, a folder or s3://bucket/prefix, and read its first line."""
    if not is_remote(place) and not Path(place).is_dir():
        raise DataError(f"{place} is no folder", hint=_LAYOUT)
    source, name = open_source(place, bucket_owner=bucket_owner), f"{split.tsv}.tsv"
    file = next((file for file in source.files if file.name == name), None)
    if file is None:
        raise DataError(f"{public(place)} has no {name}", hint=_LAYOUT)
    if not file.size_bytes:
        raise DataError(f"{name} is empty", hint="download it again")
    first = _text(f"{name}:1", next(lines(name, _blocks(source, file, 0, 1), is_first=True)))
    header = _header(name, task, first.removeprefix(MARK).split("\t"))
    return TaskTable(place=public(place), task=task, split=split, source=source, file=file, header=header)


def read_texts(table: TaskTable, piece: Piece) -> Texts:
    """Read the rows whose lines begin in a stretch; one that begins right at it belongs to the one before."""
    task, header, found = table.task, table.header, Texts()
    for number, cells in _rows(table, piece):
        if len(cells) != header.columns and found.left_out < task.known_damaged:
            found.left_out += 1
            continue
        if len(cells) != header.columns:
            raise DataError(
                f"{table.line(piece.start, number)} has {len(cells)} columns, and {task.name} has "
                f"{header.columns}",
                hint=f"columns are set apart by tabs: {_wanted(task)}",
            )
        label = _label(task, cells[header.label])
        if label is None:
            raise DataError(
                f"{table.line(piece.start, number)} has the label {cells[header.label][:_SHOWN]!r}; "
                f"{task.name} has {_allowed(task)}",
                hint="is it the task's own file, and not its test set, which has no labels?",
            )
        found.labels.append(label)
        for texts, at in zip((found.first, found.second), header.texts, strict=False):
            texts.append(cells[at])
    return found


def _rows(table: TaskTable, piece: Piece) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each line of a stretch but for headings, with its number there."""
    blocks = _blocks(table.source, table.file, piece.start, piece.stop)
    for number, line in enumerate(lines(table.file.name, blocks, is_first=piece.start == 0), 1):
        is_first = piece.start == 0 and number == 1
        if is_first and table.header.is_line:
            continue
        try:
            text = line.decode()
        except UnicodeDecodeError:
            text = _text(table.line(piece.start, number), line)
        yield number, (text.removeprefix(MARK) if is_first else text).removesuffix("\r").split("\t")


def _blocks(source: Source, file: SourceFile, start: int, stop: int) -> Iterator[UnpackedBlock]:
    yield UnpackedBlock(source.read(file.name, start, stop - start), is_past=False)
    for at in range(stop, file.size_bytes, _TAIL_BYTES):
        yield UnpackedBlock(source.read(file.name, at, min(_TAIL_BYTES, file.size_bytes - at)), is_past=True)


def _text(where: str, line: bytes) -> str:
    try:
        return line.decode("utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: byte {error.start} of the line (0x{line[error.start]:02x}) is not UTF-8",
            hint="convert the file, for example: iconv -f LATIN1 -t UTF-8",
        ) from None


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


def _label(task: Task, text: str) -> float | None:
    if task.is_regression:
        is_number = text.isascii() and text.replace(".", "", 1).isdigit()
        return float(text) if is_number and float(text) <= task.highest_score else None
    if text in task.labels:
        return float(task.labels.index(text))
    return float(text) if text in map(str, range(task.outputs)) else None  # as datasets writes it


def _allowed(task: Task) -> str:
    return f"a number from 0 to {task.highest_score:g}" if task.is_regression else " or ".join(task.labels)


def _wanted(task: Task) -> str:
    return ", ".join(task.columns or (*task.texts, task.label))
