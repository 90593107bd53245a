"""Starts real training processes, one for each rank, as the launcher does."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import TextIO

from tests.containers.forks import free_port

# Ranks are forks of a process that has imported torch, which would otherwise take three seconds for each.
FORKS = multiprocessing.get_context("forkserver")
IMPORTED = (
    "torch._dynamo",
    "torch.distributed.tensor",
    "deepspeed",
    "deepspeed.runtime.zero.muon.muon_optimizer",  # of deepspeed.initialize; imports torch's compiler
    "deepspeed.runtime.zero.stage3",
    "slipway.containers.recipes.bert_pretrain.model",
    "slipway.containers.recipes.glue_finetune.model",
    "slipway.containers.training.session",
)
FORKS.set_forkserver_preload(list(IMPORTED))


class WarmRank:
    """A process that runs a module's `main` as `python -m` would, with the interface of subprocess.Popen."""

    def __init__(self, module: str, words: Sequence[str], environment: Mapping[str, str]) -> None:
        # Threads that a library starts when it is imported do not survive a fork.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        forkserver.ensure_running()
        output, its_output = FORKS.Pipe(duplex=False)
        errors, its_errors = FORKS.Pipe(duplex=False)
        told = (module, list(words), dict(environment), its_output, its_errors)
        self._process = FORKS.Process(target=_run, args=told)
        self._process.start()
        its_output.close()
        its_errors.close()
        self.stdout, self._stderr = _read(output), _read(errors)

    @property
    def returncode(self) -> int:
        assert self._process.exitcode is not None, "it is asked for once the process has ended"
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait_for(self, begin: str) -> None:
        """Read its output up to a line that begins so."""
        assert any(line.startswith(begin) for line in iter(self.stdout.readline, "")), (
            f"it printed no {begin}"
        )

    def kill(self) -> None:
        self._process.kill()

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process.pid is not None, "it was started"
        os.kill(self._process.pid, number)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait until it has ended, and return the rest of its output."""
        with self.stdout, self._stderr, ThreadPoolExecutor(1) as beside:
            errors = beside.submit(self._stderr.read)
            output = self.stdout.read()
            self._process.join(timeout)
            return output, errors.result()


def _read(connection: Connection) -> TextIO:
    with connection:
        return os.fdopen(os.dup(connection.fileno()), encoding="utf-8")


def _run(
    module: str, words: Sequence[str], environment: Mapping[str, str], output: Connection, errors: Connection
) -> None:
    os.dup2(output.fileno(), 1)
    os.dup2(errors.fileno(), 2)
    output.close()
    errors.close()
    os.environ.update(environment)
    sys.exit(importlib.import_module(module).main(words))


MOST_SECONDS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    checkpoints: Path
    logs: Path
    codes: tuple[int, ...]
    output: str  # of rank 0
    errors: str  # likewise

    def losses(self) -> dict[int, float]:
        """Return records by step; those of a later attempt replace earlier ones."""
        lines = (self.logs / "steps.jsonl").read_text().splitlines()
        return {record["step"]: record["loss"] for record in map(json.loads, lines)}

    def saved(self, step: int) -> list[bytes]:
        """Return the weights and moments of every rank as they are on the disk."""
        return [
            path.read_bytes()
            for path in sorted((self.checkpoints / f"step-{step:010}").glob("*.safetensors"))
        ]


class Ranks:
    def __init__(self, data: Path, folder: Path, recipe: str = "bert_pretrain") -> None:
        self._data, self._folder, self._recipe = data, folder, recipe
        self._started: list[WarmRank] = []

    def __enter__(self) -> Ranks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate(MOST_SECONDS)

    def continue_from(self, run: Run, name: str, *, without: Sequence[int] = ()) -> None:
        """Make a new folder with the checkpoints of another run, as if that had ended earlier."""
        shutil.copytree(run.checkpoints, self.checkpoints(name))
        shutil.copytree(run.logs, self.logs(name))
        for step in without:
            shutil.rmtree(self.checkpoints(name) / f"step-{step:010}")

    def checkpoints(self, name: str) -> Path:
        return self._folder / "checkpoints" / name

    def logs(self, name: str) -> Path:
        return self._folder / "logs" / name

    def finish(self, name: str, *, world: int, settings: Mapping[str, str], attempt: int = 1) -> Run:
        return self.wait(name, self.start(name, world=world, settings=settings, attempt=attempt))

    def start(
        self, name: str, *, world: int, settings: Mapping[str, str], attempt: int = 1
    ) -> list[WarmRank]:
        port = free_port()
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        processes = [
            WarmRank(
                f"slipway.containers.recipes.{self._recipe}.train",
                words,
                self.environment(name, rank, world, port, attempt),
            )
            for rank in range(world)
        ]
        self._started += processes
        return processes

    def wait(self, name: str, processes: Sequence[WarmRank]) -> Run:
        (output, errors), *_ = [process.communicate(MOST_SECONDS) for process in processes]
        return Run(
            checkpoints=self.checkpoints(name),
            logs=self.logs(name),
            codes=tuple(process.returncode for process in processes),
            output=output,
            errors=errors,
        )

    def environment(self, name: str, rank: int, world: int, port: int, attempt: int) -> dict[str, str]:
        return rank_variables(
            (rank, world, port),
            SLIPWAY_RUN=name,
            SLIPWAY_ATTEMPT=attempt,
            SLIPWAY_DATA=self._data,
            SLIPWAY_CHECKPOINTS=self.checkpoints(name),
            SLIPWAY_LOGS=self.logs(name),
            SLIPWAY_COLLECTIVE_SECONDS=60,
            OMP_NUM_THREADS=1,
        )


def rank_variables(place: tuple[int, int, int], **variables: object) -> dict[str, str]:
    """Return the variables that the launcher sets for a rank on one node, such as rank, world and port."""
    rank, world, port = place
    told: dict[str, object] = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": world,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "SLIPWAY_NODE": 0,
        "SLIPWAY_NODES": 1,
        "SLIPWAY_JOB": "test",
    }
    return {key: str(value) for key, value in {**told, **variables}.items()}
