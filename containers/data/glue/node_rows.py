"""Tokenise the rows of a GLUE task once per node: its ranks share the work, and then each maps the rows.

The text is read in stretches, so it may be larger than memory. The rows lie in the temporary folder of the
node, named by the digest of everything that decides them, so the next attempt there reuses them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slipway.containers.data.errors import DataError, unwritable
from slipway.containers.data.glue.texts import TaskTable, Texts, read_texts
from slipway.containers.data.preparation import Report, lone_process, make_parts
from slipway.containers.data.shared_folder import KEPT_SECONDS, changed_at, wait_for_all
from slipway.containers.data.sources.pieces import Piece
from slipway.containers.data.text.documents import digest_of, own_neighbour, read_json, write_json
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.node_folders import hold

FORMAT = 1
STRETCH_BYTES = 4 << 20  # of text; making its rows takes some hundred megabytes of memory
RECORD = "rows.json"  # written last
_PARTS = "parts"

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """Hold rows end to end in one array without padding, so a batch is only as long as its longest row."""

    ids: Ids
    begins: NDArray[np.int64]  # where each row begins in ids, and the end of the last one
    firsts: Ids  # how many tokens of each row belong to its first segment, or to its prompt
    labels: NDArray[np.float32]
    digest: str  # of the four arrays
    left_out: int = 0  # rows left out, because they are known to be damaged in the official file

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.begins)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRows:
    """Hold the rows of one stretch."""

    ids: Ids
    lengths: NDArray[np.int64]
    firsts: Ids
    labels: NDArray[np.float32]

    @classmethod
    def of(
        cls, rows: Sequence[Sequence[int] | Ids], firsts: Sequence[int], labels: Sequence[float]
    ) -> EncodedRows:
        return cls(
            ids=np.concatenate([np.empty(0, np.int32), *rows]).astype(np.int32),
            lengths=np.fromiter(map(len, rows), np.int64, len(rows)),
            firsts=np.array(firsts, dtype=np.int32),
            labels=np.array(labels, dtype=np.float32),
        )


class RowEncoder(Protocol):
    """Turn texts into rows of tokens."""

    @property
    def identity(self) -> list[Json]:
        """Return everything but the texts that decides the rows."""

    def encode(self, texts: Texts) -> EncodedRows: ...


def node_rows(table: TaskTable, encoder: RowEncoder, contract: LaunchContract) -> Examples:
    """Map the rows of a table; the ranks of the node make them first if they are missing."""
    file = table.file
    decides: list[Json] = [FORMAT, table.task.name, file.name, file.size_bytes, file.etag]
    decides += [STRETCH_BYTES, table.place, *changed_at(table.source), *encoder.identity]
    work = RowWork(
        table=table,
        encoder=encoder,
        folder=hold("rows-", digest_of(decides), unused_seconds=KEPT_SECONDS),
        pieces=table.pieces(STRETCH_BYTES),
    )
    if not work.record.exists():
        # Make this rank's share of the stretches, wait for the other ranks' shares, and join all.
        numbers = work.numbers
        mine = numbers[contract.local_rank :: contract.local_world]
        if len(numbers) > 1:
            make_parts(work, mine, 1, f"{table.task.name} {table.split.name}")
        elif mine and not work.is_made(0):
            work.make(0, lambda _: None)  # so quick that it needs no progress line
        wait_for_all(numbers, work.is_made, f"rows of {work.folder} are missing")
        with lone_process(work.folder / "join.lock"):
            if not work.record.exists():
                _join(work)
    record = read_json(work.record)
    ids, begins, firsts, labels = (np.load(_path(work, name), mmap_mode="r") for name in _KINDS)
    return Examples(
        ids=np.asarray(ids),
        begins=np.asarray(begins),
        firsts=np.asarray(firsts),
        labels=np.asarray(labels),
        digest=str(record["sha256"]),
        left_out=int(record["left_out"]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWork:
    """Make the rows of any stretch, once on this node."""

    table: TaskTable
    encoder: RowEncoder
    folder: Path
    pieces: Sequence[Piece]

    @property
    def record(self) -> Path:
        return self.folder / RECORD

    @property
    def numbers(self) -> range:
        return range(len(self.pieces))

    def bytes_of(self, number: int) -> int:
        return self.pieces[number].stop - self.pieces[number].start

    def is_made(self, number: int) -> bool:
        return self.record.exists() or self.part(number).exists()

    def make(self, number: int, report: Report) -> None:
        path, texts = self.part(number), read_texts(self.table, self.pieces[number])
        rows, temporary = self.encoder.encode(texts), own_neighbour(path)
        try:
            path.parent.mkdir(exist_ok=True)
            with temporary.open("wb") as file:
                np.savez(
                    file,
                    ids=rows.ids,
                    lengths=rows.lengths,
                    firsts=rows.firsts,
                    labels=rows.labels,
                    left_out=texts.left_out,
                )
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            if not self.record.exists():  # if it exists, another rank has joined and removed the parts
                hint = "free some disk space, or set TMPDIR, and run again; finished parts are kept"
                raise unwritable(path, error, hint=hint) from error
        report(self.bytes_of(number))

    def part(self, number: int) -> Path:
        return self.folder / _PARTS / f"{number:05}.npz"


def _join(work: RowWork) -> None:
    """Write the rows of all stretches end to end, one stretch at a time, and remove the stretches."""
    table, running = work.table, hashlib.sha256()
    lengths = np.concatenate([_column(work, number, "lengths") for number in work.numbers])
    left_out = sum(int(_column(work, number, "left_out")) for number in work.numbers)
    if not len(lengths):
        raise DataError(
            f"{table.place}: {table.split.name} of {table.task.name} has no rows",
            hint="give the task's official file, which has rows",
        )
    if left_out > table.task.known_damaged:
        raise DataError(
            f"{table.file.name} has {left_out} lines that lack columns, but {table.task.name} is known to "
            f"have only {table.task.known_damaged}",
            hint="download it again",
        )
    begins = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    sizes = {"ids": int(begins[-1]), "begins": len(begins), "firsts": len(lengths), "labels": len(lengths)}
    for name, size in sizes.items():
        whole, at = np.lib.format.open_memmap(_path(work, name), "w+", _KINDS[name], (size,)), 0
        for part in (
            [begins] if name == "begins" else (_column(work, number, name) for number in work.numbers)
        ):
            whole[at : at + len(part)] = part
            running.update(part.data)
            at += len(part)
        whole.flush()
    write_json(work.record, {"sha256": running.hexdigest(), "left_out": left_out})
    shutil.rmtree(work.folder / _PARTS, ignore_errors=True)


_KINDS: dict[str, type[np.generic]] = {
    "ids": np.int32,
    "begins": np.int64,
    "firsts": np.int32,
    "labels": np.float32,
}


def _column(work: RowWork, number: int, name: str) -> NDArray[Any]:
    with np.load(work.part(number)) as part:
        column: NDArray[Any] = part[name]
    return column


def _path(work: RowWork, name: str) -> Path:
    return work.folder / f"{name}.npy"
