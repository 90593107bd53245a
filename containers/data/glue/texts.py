"""Read one set of a GLUE task as texts and labels, in stretches of a local TSV file or one in S3.

The columns are those of GLUE's official download, or those that Hugging Face's datasets writes: separated by
tabs, without quoting, with or without a line of headings. Errors name the file and the line.
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

MARK = "\ufeff"  # a byte order mark: some editors write one, and Microsoft's MRPC files have one
TRAIN = Split(name="train", tsv="train")
_TAIL_BYTES = 64 << 10  # read at a time to complete the last line of a stretch
_SHOWN_LETTERS = 60
_LAYOUT = (
    "give a task's folder as in GLUE's download; to write a split of datasets as such a file: "
    'split.to_csv("train.tsv", sep="\\t", index=False, quoting=3)'
)


@dataclass(slots=True, kw_only=True)
class Texts:
    """Hold some rows of a split."""

    first: list[str] = field(default_factory=list)
    second: list[str] = field(default_factory=list)  # empty for single sentences
    labels: list[float] = field(default_factory=list)  # numbers of classes, from 0, or scores
    left_out: int = 0  # rows left out, because they are known to be damaged in the official file


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Locate the task's columns in a line."""

    columns: int
    texts: tuple[int, ...]
    label: int
    is_line: bool  # False if the file has no line of headings


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTable:
    """Hold one split of a task as a file of rows that is read in stretches."""

    place: str  # the folder or address, for messages
    task: Task
    split: Split
    source: Source
    file: SourceFile
    header: Header

    def pieces(self, size_bytes: int) -> list[Piece]:
        """Cut the file into stretches of this size; the last one may be shorter."""
        name, end = self.file.name, self.file.size_bytes
        return [Piece(name, at, min(at + size_bytes, end)) for at in range(0, end, size_bytes)]

    def line(self, start: int, number: int) -> str:
        """Return FILE:LINE for line `number`, counted from 1, of the stretch from byte `start`."""
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
    """Read the rows of the lines that the stretch owns, as `lines` of corpus/documents.py decides."""
    task, header, found = table.task, table.header, Texts()
    for number, cells in _rows(table, piece):
        if len(cells) != header.columns and found.left_out < task.known_damaged:
            found.left_out += 1
            continue
        if len(cells) != header.columns:
            raise DataError(
                f"{table.line(piece.start, number)} has {len(cells)} columns, but {task.name} has "
                f"{header.columns}",
                hint=f"separate the columns by tabs: {_wanted(task)}",
            )
        label = _label(task, cells[header.label])
        if label is None:
            scores = f"a number from 0 to {task.highest_score:g}"
            raise DataError(
                f"{table.line(piece.start, number)} has the label {cells[header.label][:_SHOWN_LETTERS]!r}; "
                f"{task.name} has {scores if task.is_regression else ' or '.join(task.labels)}",
                hint="give train.tsv or dev.tsv of the task; its test set has no labels",
            )
        found.labels.append(label)
        for texts, at in zip((found.first, found.second), header.texts, strict=False):
            texts.append(cells[at])
    return found


def _rows(table: TaskTable, piece: Piece) -> Iterator[tuple[int, list[str]]]:
    """Yield each line of a stretch except the headings: its number in the stretch, and its cells."""
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
    columns = first
    if task.columns and not {*task.datasets_texts, DATASETS_LABEL} <= {*first}:
        columns = task.columns  # the official file has no headings
    layouts = ((task.texts, task.label), (task.datasets_texts, DATASETS_LABEL))
    texts, label = next((found for found in layouts if {*found[0], found[1]} <= {*columns}), layouts[0])
    missing = [wanted for wanted in (*texts, label) if wanted not in columns]
    if missing:
        raise DataError(
            f"{name}:1 has no column {', '.join(missing)}; it has {', '.join(columns)[:_SHOWN_LETTERS]!r}",
            hint=f"{task.name} has {_wanted(task)}",
        )
    return Header(
        columns=len(columns),
        texts=tuple(columns.index(text) for text in texts),
        label=columns.index(label),
        is_line=columns is first,
    )


def _label(task: Task, text: str) -> float | None:
    if task.is_regression:
        is_number = text.isascii() and text.replace(".", "", 1).isdigit()
        return float(text) if is_number and float(text) <= task.highest_score else None
    if text in task.labels:
        return float(task.labels.index(text))
    return float(text) if text in map(str, range(task.outputs)) else None  # datasets writes numbers


def _wanted(task: Task) -> str:
    return ", ".join(task.columns or (*task.texts, task.label))
