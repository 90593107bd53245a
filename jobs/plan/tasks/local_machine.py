"""Run groups of ranks on this machine's devices, side by side, each group on its own devices."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from slipway.containers.runtime import linux
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.contract.settings import ACCELERATOR_FILES
from slipway.containers.runtime.errors import RESUMABLE_EXIT_CODE
from slipway.containers.tasks.description import TaskDescription
from slipway.jobs.words.errors import SlipwayError

# Start processes without waiting for torch to load: containers/tasks/warm.py forks them.
_MODULE = "slipway.containers.tasks.warm"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOrder:
    """Hold which module's `main` to run, its arguments, and where its output goes."""

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
        path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)  # of the user's modules, too
        self._process = subprocess.Popen(
            [sys.executable, "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C comes only to us: we ask each rank to save
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
        """Start a process; return its pid and a future of its exit code."""
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


_SAVE_SECONDS = 60.0  # that the other ranks have once one has saved and left
_TAIL_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RankGang:
    """Hold what a group of ranks trains, on which devices, how it is spread, and where its files lie."""

    task: TaskDescription
    devices: Sequence[int]
    settings: Mapping[str, str]
    folder: Path  # of logs
    checkpoints: Path | None = None  # None: nothing is kept
    steps: int | None = None  # the most steps, for a trial
    most_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GangEnd:
    code: int
    reason: str  # empty if all went well
    seconds: float


@dataclass(frozen=True, slots=True)
class LocalDevices:
    kind: str  # cuda or cpu
    names: tuple[str, ...]  # as in CUDA_VISIBLE_DEVICES; numbers for processors


def find_devices(most: int | None = None) -> LocalDevices:
    """Return this machine's NVIDIA devices, or else its processors, at most `most` of them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    files = sorted(
        path.name.removeprefix("nvidia")
        for path in Path("/dev").glob("nvidia*")
        if re.fullmatch(ACCELERATOR_FILES["nvidia"], path.name)
    )
    names = [name for name in visible.split(",") if name] if visible is not None and files else files
    if names:
        return LocalDevices("cuda", tuple(names[:most]))
    processors = linux.count_processors()
    return LocalDevices("cpu", tuple(str(number) for number in range(processors if most is None else most)))


@dataclass(slots=True)
class LocalMachine:
    """Run groups of ranks on this machine: `with LocalMachine(find_devices()) as machine`."""

    devices: LocalDevices
    processes: WarmProcesses = field(default_factory=WarmProcesses)
    _free: list[int] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _running: set[int] = field(default_factory=set)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> LocalMachine:
        self._free = list(range(self.count))
        self._stack.enter_context(self.processes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.stop()
        self._stack.close()

    @property
    def count(self) -> int:
        return len(self.devices.names)

    def stop(self) -> None:
        """Ask every rank to save and leave, and wait for them, at most as long as saving may take."""
        for number in list(self._running):
            self.processes.signal(number, signal.SIGTERM)
        with self._changed:
            self._changed.wait_for(lambda: not self._running, timeout=_SAVE_SECONDS)

    @contextmanager
    def taken(self, count: int) -> Iterator[tuple[int, ...]]:
        """Yield `count` devices once they are free; the first to ask gets them first."""
        with self._turn, self._changed:
            self._changed.wait_for(lambda: len(self._free) >= count)
            taken = tuple(self._free[:count])
            del self._free[:count]
        try:
            yield taken
        finally:
            with self._changed:
                self._free = sorted([*self._free, *taken])
                self._changed.notify_all()

    def run(self, gang: RankGang) -> GangEnd:
        """Train on all ranks of a group until they end; a rank that fails ends the others."""
        gang.folder.mkdir(parents=True, exist_ok=True)
        task = gang.folder / "task.json"
        gang.task.write(task)
        settings = {"device": self.devices.kind, **gang.settings, "task": str(task)}
        if gang.steps is not None:
            settings["steps"] = str(gang.steps)
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        orders = [
            ProcessOrder(
                module="slipway.containers.tasks.train",
                arguments=words,
                environment=self.environment(gang.devices) | contract.to_environment(),
                output=gang.folder / f"rank-{contract.rank}.log",
            )
            for contract in _contracts(gang)
        ]
        return self.run_orders(orders, gang.most_seconds)

    def environment(self, devices: Sequence[int]) -> dict[str, str]:
        """Return the environment that limits a process to its devices."""
        if self.devices.kind == "cuda":
            return {"CUDA_VISIBLE_DEVICES": ",".join(self.devices.names[number] for number in devices)}
        threads = max(1, linux.count_processors() // self.count)
        return {"OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": ""}

    def run_orders(self, orders: Sequence[ProcessOrder], most_seconds: float | None = None) -> GangEnd:
        """Run processes that belong together; return the first failure, or a GangEnd without a reason."""
        began = time.monotonic()
        started = [self.processes.start(order) for order in orders]
        outputs = {end: order.output for (_, end), order in zip(started, orders, strict=True)}
        numbers = [number for number, _ in started]
        self._running.update(numbers)
        try:
            code, reason = self._wait(numbers, outputs, most_seconds)
        finally:
            with self._changed:
                self._running.difference_update(numbers)
                self._changed.notify_all()
        return GangEnd(code=code, reason=reason, seconds=time.monotonic() - began)

    def _wait(
        self, numbers: Sequence[int], outputs: Mapping[Future[int], Path], most_seconds: float | None
    ) -> tuple[int, str]:
        left, first, patience = set(outputs), (0, ""), most_seconds
        while left:
            done, left = wait(left, timeout=patience, return_when=FIRST_COMPLETED)
            failed = [end for end in done if end.result()]
            if failed and not first[0]:
                first = failed[0].result(), _reason(outputs[failed[0]], failed[0].result())
            if not done and not first[0]:
                first = 1, f"it took more than {most_seconds:g} s"
            if first[0] == RESUMABLE_EXIT_CODE and done:
                patience = _SAVE_SECONDS  # the others save, too
            elif first[0]:
                for number in numbers:
                    self.processes.signal(number, signal.SIGKILL)
                patience = None
        return first


def _contracts(gang: RankGang) -> Iterator[LaunchContract]:
    world = len(gang.devices)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for rank in range(world):
        yield LaunchContract(
            job=gang.task.name,
            run=gang.task.name,
            attempt=1,
            rank=rank,
            local_rank=rank,
            local_world=world,
            world=world,
            node=0,
            nodes=1,
            main_address="127.0.0.1",
            main_port=port,
            checkpoints=None if gang.checkpoints is None else str(gang.checkpoints),
            logs=str(gang.folder),
        )


def _reason(output: Path, code: int) -> str:
    """Return why a process failed: its last line, or the signal that killed it."""
    try:
        text = output.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
    except OSError:
        text = ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = next(
        (line for line in reversed(lines) if line.startswith("error: ")), lines[-1] if lines else ""
    )
    if code < 0:
        killed = f"it was killed by {signal.Signals(-code).name}"
        return f"{killed}: too little memory?" if code == -signal.SIGKILL else f"{killed}; {reason}"
    return reason.removeprefix("error: ") or f"it ended with exit code {code}"


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder for trials, which is deleted after them."""
    return tempfile.TemporaryDirectory(prefix="slipway-trials-")
