"""One set of a GLUE task as texts and labels, from TSV files or datasets' Arrow files, here or in S3.

Another layout is one row of LAYOUTS. What is wrong with a file is said with its name and line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slipway.containers.data.errors import DataError
from slipway.containers.data.glue.arrow_file import read_arrow
from slipway.containers.data.glue.tasks import ARROW_LABEL, Split, Task
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


TRAIN = Split(name="train", tsv="train", arrow="train")


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
    source = _open(place, bucket_owner)
    for read in LAYOUTS:
        if (texts := read(source, task, split)) is not None:
            if not texts.labels:
                raise DataError(f"{public(place)}: {split.name} of {task.name} has no rows", hint=_LAYOUT)
            return texts
    raise DataError(
        f"{public(place)} has neither {split.tsv}.tsv nor Arrow files of {split.arrow}", hint=_LAYOUT
    )


_LAYOUT = "give a task's folder as GLUE's download or datasets' save_to_disk writes it"


def _open(place: str, bucket_owner: str | None) -> Source:
    if not is_remote(place) and not Path(place).is_dir():
        raise DataError(f"{place} is no folder", hint=_LAYOUT)
    return open_source(place, bucket_owner=bucket_owner)


def _from_tsv(source: Source, task: Task, split: Split) -> Texts | None:
    name = f"{split.tsv}.tsv"
    if all(file.name != name for file in source.files):
        return None
    rows = parse_tsv(name, read_whole(source, name), task)
    columns = list(zip(*rows.texts, strict=True)) or [(), ()]
    return Texts(
        first=columns[0],
        second=columns[1] if len(task.texts) > 1 else (),
        labels=rows.labels,
        left_out=rows.left_out,
    )


def _from_arrow(source: Source, task: Task, split: Split) -> Texts | None:
    """Read what save_to_disk wrote (train/data-00000-of-00001.arrow), or the cache (glue-train.arrow and
    its shards)."""
    names = [file.name for file in source.files if _is_arrow_of(file.name, split)]
    if not names:
        return None
    wanted = (*task.arrow_texts, ARROW_LABEL)
    columns: dict[str, list[object]] = {name: [] for name in wanted}
    for name in names:
        found = read_arrow(name, read_whole(source, name), wanted)
        _check_arrow(name, found, task)
        for column, values in found.items():
            columns[column] += values
    texts = [columns[name] for name in task.arrow_texts]
    return Texts(
        first=[str(text) for text in texts[0]],
        second=[str(text) for text in texts[1]] if len(texts) > 1 else (),
        labels=[float(str(each)) for each in columns[ARROW_LABEL]],
    )


def _is_arrow_of(name: str, split: Split) -> bool:
    folder, _, file = name.rpartition("/")
    stem = file.removesuffix(".arrow")
    if stem == file:
        return False
    if folder.rpartition("/")[2] == split.arrow:
        return True
    return stem == split.arrow or stem.endswith(f"-{split.arrow}") or f"-{split.arrow}-0" in stem


def _check_arrow(name: str, found: Mapping[str, Sequence[object]], task: Task) -> None:
    allowed = f"0 to {task.highest_score:g}" if task.is_regression else f"0 to {task.outputs - 1}"
    for row, label in enumerate(found[ARROW_LABEL]):
        if not isinstance(label, int | float) or not _fits(label, task):
            raise DataError(
                f"{name}: row {row + 1} has the label {label!r}; {task.name} has {allowed}",
                hint="is it the task's own file, and not its test set, which has no labels?",
            )
    for column in task.arrow_texts:
        for row, text in enumerate(found[column]):
            if not isinstance(text, str):
                raise DataError(f"{name}: row {row + 1} has no text in {column}", hint="give the whole file")


def _fits(label: float, task: Task) -> bool:
    return 0 <= label <= task.highest_score if task.is_regression else label in range(task.outputs)


LAYOUTS: tuple[Callable[[Source, Task, Split], Texts | None], ...] = (_from_tsv, _from_arrow)
