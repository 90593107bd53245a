"""Runs small trainings for the checkpoint tests, in which a step's tensors depend only on step and rank."""

from __future__ import annotations

import json
import os
import socket
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import pytest

from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, Resumed, Training
from slipway.containers.runtime.checkpoint.folder import CheckpointFolder, Lease
from slipway.containers.runtime.checkpoint.storage import FilePiece
from slipway.containers.runtime.checkpoint.tensor_file import TensorData
from slipway.containers.runtime.collective import ALONE, Collective, Json

WRONG, FAILED, NONE = 200, 201, 0


def training(attempt: int = 1, **changes: object) -> Training:
    config: dict[str, Json] = {"hidden": 8, "layers": 2}
    return Training(**{"job": "bert", "run": "r1", "attempt": attempt, "config": config, **changes})  # type: ignore[arg-type]  # tests change single fields


def piece(name: str, values: array[float] | array[int], box: Box, dtype: str) -> FilePiece:
    data = TensorData(dtype=dtype, shape=box.shape, data=memoryview(values).cast("B"))
    return FilePiece(name=name, box=box, tensor=data)


def expected(step: int, rank: int = 0, count: int = 1000) -> array[float]:
    return array("f", (step * 1000.0 + rank * 100.0 + index for index in range(count)))


def weights(step: int, rank: int = 0, count: int = 1000) -> list[FilePiece]:
    """Return the rows that this rank holds of one matrix, and a tensor of its own."""
    rows = count // 4
    return [
        piece("layer.weight", expected(step, rank, count), Box((rank * rows, 0), (rows, 4)), "F32"),
        piece(f"count.{rank}", array("h", [step, rank, -1]), Box.whole((3,)), "I16"),
    ]


def stored(found: Resumed, name: str, rank: int) -> bytes:
    """Return what a rank saved of a tensor."""
    held = next(part for part in found.manifest.tensors[name].pieces if part.file == rank)
    return bytes(found.read(name, held, 0, held.box.elements))


def is_right(found: Resumed, rank: int = 0, count: int = 1000) -> bool:
    return (
        stored(found, "layer.weight", rank) == expected(found.step, rank, count).tobytes()
        and stored(found, f"count.{rank}", rank) == array("h", [found.step, rank, -1]).tobytes()
        and found.manifest.cursor == found.step * 64
    )


def save(checkpoints: Checkpoints, step: int, rank: int = 0, count: int = 1000) -> None:
    checkpoints.save(step, weights(step, rank, count), cursor=step * 64)


def opened(folder: Path, attempt: int = 1, *, lease_seconds: float = 0.0, **options: Any) -> Checkpoints:
    """Return the checkpoints of this training in a folder, which print nothing."""
    made = Checkpoints(CheckpointFolder(folder), training(attempt), **{"say": quiet, **options})
    made.lease_seconds = lease_seconds or made.lease_seconds
    return made


def save_together(world: int, folder: Path, *steps: int) -> list[int]:
    """Save these steps on this many ranks in real processes; return their exit statuses."""

    def body(collective: Collective) -> int:
        with opened(folder, collective=collective) as checkpoints:
            for step in steps:
                save(checkpoints, step, collective.rank)
        return 0

    return in_processes(world, body)


def saved(folder: Path, *steps: int, attempt: int = 1, **options: Any) -> None:
    with opened(folder, attempt, **options) as checkpoints:
        for step in steps:
            save(checkpoints, step)


def resumed(folder: Path, attempt: int = 9) -> Resumed | None:
    with opened(folder, attempt) as checkpoints:
        return checkpoints.resume("auto")


def newest(folder: Path) -> int | None:
    """Return the step that a training would resume from."""
    found = resumed(folder)
    return None if found is None else found.step


def steps(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def quiet(line: str) -> None:
    pass


def in_processes(world: int, body: Callable[[Collective], int]) -> list[int]:
    """Run `body` in one real process for each rank, connected by sockets; return their exit statuses."""
    pairs = [socket.socketpair() for _ in range(world)]
    pids = []
    for rank in range(world):
        if (pid := os.fork()) == 0:
            os._exit(_as_rank(rank, world, pairs, body))
        pids.append(pid)
    for pair in pairs:
        pair[0].close()
        pair[1].close()
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def _as_rank(
    rank: int, world: int, pairs: list[tuple[socket.socket, socket.socket]], body: Callable[[Collective], int]
) -> int:
    for other, (main, child) in enumerate(pairs):
        if rank != 0:
            main.close()
        if other != rank or rank == 0:
            child.close()
    if world == 1:
        return body(ALONE)
    ends = [main for main, _ in pairs[1:]] if rank == 0 else [pairs[rank][1]]
    wires = [end.makefile("rw") for end in ends]

    def gather(value: Json) -> list[Json]:
        if rank != 0:
            _send(wires[0], value)
            told = _receive(wires[0])
            assert isinstance(told, list)
            return told
        values = [value, *(_receive(wire) for wire in wires)]
        for wire in wires:
            _send(wire, values)
        return values

    return body(Collective(rank=rank, world=world, gather=gather))


def _send(wire: TextIO, value: Json) -> None:
    wire.write(json.dumps(value) + "\n")
    wire.flush()


def _receive(wire: TextIO) -> Json:
    line = wire.readline()
    if not line:
        raise ConnectionError("a peer is gone")
    return json.loads(line)  # type: ignore[no-any-return]  # JSON it is


def stall_after_check(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
    """Let the next check of a lease pass, and `meanwhile` happen before its attempt publishes."""
    real = Lease.check

    def check_then_sleep_long(lease: Lease) -> None:
        real(lease)
        monkeypatch.setattr(Lease, "check", real)
        meanwhile()

    monkeypatch.setattr(Lease, "check", check_then_sleep_long)


def take_over(newer: Checkpoints) -> None:
    """Open the storage as a newer attempt, which removes what older ones have not published."""
    with newer:
        pass
