"""A search in a process of its own: it is given an order, and its answers are read line by line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress

from slipway.jobs.plan.inputs.worker_messages import SearchOrder, encode_order

WORKER = (sys.executable, "-P", "-m", "slipway.jobs.plan.inputs.worker")
# Each process has one core; a library's own threads would only take it from the other one.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


class SearchProcess:
    """Starts a search; `answers` is what to wait for."""

    def __init__(self, order: SearchOrder) -> None:
        # In a session of its own, Ctrl-C reaches the parent alone, which then has the best plan to return.
        self._process = subprocess.Popen(
            WORKER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | ONE_THREAD,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.answers = self._process.stdout
        self._rest = b""
        # A large order fills the pipe until the process has started: nobody waits for that.
        self._speaker = threading.Thread(target=self._say, args=(encode_order(order),), daemon=True)
        self._speaker.start()

    def read(self) -> list[Mapping[str, object]] | None:
        """Return the answers that have arrived, or None when there will be no more."""
        arrived = os.read(self.answers.fileno(), 1 << 20)
        if not arrived:
            return None
        *lines, self._rest = (self._rest + arrived).split(b"\n")
        return [json.loads(line) for line in lines]

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        """End the process; it holds nothing that would be lost."""
        self._process.kill()
        self._process.wait()
        self._speaker.join()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self.answers.close()

    def _say(self, order: str) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):
            self._process.stdin.write(order.encode() + b"\n")
            self._process.stdin.flush()
