"""Start processes on this machine without a wait for torch: containers/tasks/warm.py forks them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from slipway.jobs.words.errors import SlipwayError

_MODULE = "slipway.containers.tasks.warm"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOrder:
    """Say which module's `main` runs, with what, and where its output goes."""

    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    output: Path


class WarmProcesses:
    """Hold the process that has imported torch; its forks end with it."""

    def __init__(self) -> None:
        self._numbers = 0
        self._ends: dict[int, Future[int]] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> WarmProcesses:
        self._process = subprocess.Popen(
            [sys.executable, "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_import_path())},
            start_new_session=True,  # Ctrl-C is for us: we ask each rank to save
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "likewise"
        self._process.stdin.close()
        self._reader.join()
        self._process.stdout.close()
        self._process.wait()

    def start(self, order: ProcessOrder) -> tuple[int, Future[int]]:
        """Start a process; return its number and its exit code to come."""
        end: Future[int] = Future()
        with self._lock:
            self._numbers += 1
            number = self._numbers
            self._ends[number] = end
        self._say(
            {
                "number": number,
                "module": order.module,
                "arguments": list(order.arguments),
                "environment": dict(order.environment),
                "output": str(order.output),
            }
        )
        return number, end

    def signal(self, number: int, what: int) -> None:
        self._say({"number": number, "signal": what})

    def _say(self, order: Mapping[str, object]) -> None:
        assert self._process.stdin is not None, "it is a pipe"
        try:
            with self._lock:
                self._process.stdin.write(json.dumps(order) + "\n")
                self._process.stdin.flush()
        except OSError:
            raise _died() from None

    def _read(self) -> None:
        assert self._process.stdout is not None, "it is a pipe"
        for line in self._process.stdout:
            told = json.loads(line)
            if "ended" in told:
                with self._lock:
                    end = self._ends.pop(told["ended"])
                end.set_result(told["code"])
        with self._lock:
            left = list(self._ends.values())
        for end in left:
            end.set_exception(_died())


def _died() -> SlipwayError:
    return SlipwayError(
        "the process that starts the ranks on this machine has ended", hint="install the extra 'training'"
    )


def _import_path() -> list[str]:
    """Return where this process imports from: the user's modules are found by others, too."""
    return [entry or str(Path.cwd()) for entry in sys.path]
