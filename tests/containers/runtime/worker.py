"""A tiny training for the launcher's tests: each rank runs the commands that the first argument has for it.

`{"0": ["print", "exit 3"], "*": ["wait"]}`: rank 0's commands, and those of all others.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, Training
from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
from slipway.containers.runtime.checkpoint.storage import FilePiece
from slipway.containers.runtime.checkpoint.tensor_file import TensorData
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.observe.telemetry import StepRecord, Telemetry

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
TALKS: list[socket.socket] = []  # connections that stay open until the rank ends


def show(word: str) -> None:
    contract = LaunchContract.from_environment(os.environ)
    seen: dict[str, object] = {
        "rank": contract.rank,
        "local_rank": contract.local_rank,
        "world": contract.world,
    }
    seen |= {"node": contract.node, "port": contract.main_port, "argv": sys.argv[2:]}
    print(json.dumps(seen))


def wait(word: str) -> None:
    print("ready", flush=True)
    while True:
        time.sleep(0.5)  # Python may miss a signal that comes right before it sleeps, until it wakes


def save(word: str) -> None:
    """Write a checkpoint when asked to stop, which takes `word` seconds."""

    def stop(number: int, frame: FrameType | None) -> None:
        time.sleep(float(word or 0))
        Path(os.environ["SLIPWAY_CHECKPOINTS"], os.environ["RANK"]).write_text("saved")
        sys.exit(85)

    signal.signal(signal.SIGTERM, stop)
    wait("")


def ignore(word: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    wait("")


def finish(word: str) -> None:
    """End when asked to stop: with 0, or with the code `word`."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(int(word or 0)))
    wait("")


def kill(word: str) -> None:
    os.kill(os.getpid(), getattr(signal, word))
    time.sleep(600)


def memory(word: str) -> None:
    """Do as the kernel does: count, then kill."""
    Path(os.environ["SLIPWAY_ROOT"], "sys/fs/cgroup/memory.events").write_text("low 0\noom_kill 1\n")
    kill("SIGKILL")


def refuse(word: str) -> None:
    raise Refusal("micro_batch is 0, and must be at least 1")


def explode(word: str) -> None:
    raise ZeroDivisionError(word)


def library(word: str) -> None:
    ctypes.CDLL(word)


def meet(word: str) -> None:
    """Meet the other ranks at the contract's port, and hang up."""
    for connection in _meet(0):
        connection.close()


def greet(word: str) -> None:
    """Meet the other ranks at the port `word` above the contract's, and send nothing more."""
    TALKS.extend(_meet(int(word)))


def talk(word: str) -> None:
    """Meet the other ranks in the same way, and send something to each."""
    greet(word)
    for connection in TALKS:
        connection.sendall(bytes(1000))


def _meet(above: int) -> list[socket.socket]:
    contract = LaunchContract.from_environment(os.environ)
    port = contract.main_port + above
    if contract.rank != 0:
        return [_reached((contract.main_address, port))]
    with socket.create_server(("", port)) as door:
        return [door.accept()[0] for _ in range(1, contract.world)]


def _reached(place: tuple[str, int]) -> socket.socket:
    while True:
        with suppress(ConnectionRefusedError):
            return socket.create_connection(place)


def leave_open(word: str) -> None:
    """End with work that only the interpreter's shutdown does: none of it may be lost."""

    def late() -> None:
        threading.main_thread().join(0.2)
        (Path(word) / "thread").write_text("done")

    atexit.register(lambda: (Path(word) / "atexit").write_text("done"))
    threading.Thread(target=late).start()
    ctypes.CDLL(None).printf(b"of C\n")
    print("of Python")


def children(word: str) -> None:
    """Start a child, one in a session of its own, one whose parent has gone, and one that ends at once."""
    subprocess.Popen(SLEEPER)
    subprocess.Popen(SLEEPER, start_new_session=True)
    orphan = "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True)"
    subprocess.run([sys.executable, "-c", orphan, *SLEEPER], check=True)
    subprocess.run([sys.executable, "-c", orphan, sys.executable, "-c", ""], check=True)


def beat(word: str) -> None:
    Telemetry.of(LaunchContract.from_environment(os.environ)).beat(word)


def steps(word: str) -> None:
    """Do steps of `word` seconds, one after the other, until asked to stop."""

    def stop(number: int, frame: FrameType | None) -> None:
        sys.exit(85)

    signal.signal(signal.SIGTERM, stop)
    with Telemetry.of(LaunchContract.from_environment(os.environ)) as telemetry:
        for number in itertools.count(1):
            time.sleep(float(word))
            telemetry.record(StepRecord(step=number, loss=1.0, learning_rate=0.1, seconds=float(word)))


def checkpoint(word: str) -> None:
    """Resume, and save the steps that `word` lists."""
    contract = LaunchContract.from_environment(os.environ)
    training = Training.of(contract, topology={}, config={})
    with Checkpoints(CheckpointFolder(Path(os.environ["SLIPWAY_CHECKPOINTS"])), training) as checkpoints:
        found = checkpoints.resume("auto")
        print(f"begins after step {found.step if found else 0}", flush=True)
        for step in word.split():
            data = TensorData(dtype="U8", shape=(4,), data=memoryview(b"abcd"))
            checkpoints.save(int(step), [FilePiece(name="w", box=Box.whole((4,)), tensor=data)])


def pause(word: str) -> None:
    time.sleep(float(word))


def say(word: str) -> None:
    print(word)


def record(word: str) -> None:
    """Append a line to a file, as a training that keeps a record of its metrics."""
    path, _, line = word.partition(" ")
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def variable(word: str) -> None:
    print(f"{word}={os.environ.get(word)}")


def raw(word: str) -> None:
    """Write bytes, given in hexadecimal, to both outputs."""
    for descriptor in (1, 2):
        os.write(descriptor, bytes.fromhex(word))


def flood(word: str) -> None:
    """Write many lines to both outputs at once, in pieces that end anywhere."""
    text = "".join(f"{number:06d} {'x' * (number % 200)}|\n" for number in range(int(word))).encode()
    for start in range(0, len(text), 1777):
        os.write(1, text[start : start + 1777])
        os.write(2, text[start : start + 1777])


def long(word: str) -> None:
    os.write(1, b"y" * int(word) + b"end\nnext\n")


DOES: dict[str, Callable[[str], None]] = {
    each.__name__: each
    for each in (
        pause,
        show,
        wait,
        save,
        ignore,
        finish,
        kill,
        memory,
        refuse,
        explode,
        library,
        leave_open,
        meet,
        greet,
        talk,
        children,
        beat,
        steps,
        checkpoint,
        say,
        variable,
        record,
        raw,
        flood,
    )
}
DOES |= {"long": long, "exit": lambda word: sys.exit(int(word))}

if __name__ == "__main__":
    words = json.loads(sys.argv[1])
    for entry in words.get(os.environ["RANK"], words.get("*", [])):
        name, _, rest = entry.partition(" ")
        DOES[name](rest)
