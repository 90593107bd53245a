"""One set of a GLUE task as texts and labels, from TSV files or datasets' Arrow files, here or in S3.

Another layout is one row of LAYOUTS. What is wrong with a file is said with its name and line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.containers.data.errors import DataError
from slipway.containers.data.glue.arrow_file import read_arrow
from slipway.containers.data.glue.tasks import ARROW_LABEL, Split, Task
from slipway.containers.data.glue.tsv import parse_tsv
from slipway.containers.data.sources.ahead import read_whole
from slipway.containers.data.sources.inputs import open_source
from slipway.containers.data.sources.locations import is_remote, public
from slipway.containers.data.sources.sources import Source

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
