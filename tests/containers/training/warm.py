"""Ranks that are forked from a process that has imported torch: that takes each three seconds otherwise."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import TextIO

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
    """A process that runs a module's `main` as `python -m` would, spoken to as one of subprocess's."""

    def __init__(self, module: str, words: Sequence[str], environment: Mapping[str, str]) -> None:
        # Threads that a library starts while it is imported would not be there after a fork.
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

    def kill(self) -> None:
        self._process.kill()

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process.pid is not None, "it was started"
        os.kill(self._process.pid, number)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Return what it has still to say, once it has ended."""
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
