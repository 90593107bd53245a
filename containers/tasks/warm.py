"""Start processes without waiting for the import of torch: this process has imported it, and forks.

It reads a line of JSON for each process to start or to signal. It writes a line when it is ready, and one
when a process ends. It computes nothing itself, as threads do not survive a fork. Its forks end with it.
"""

from __future__ import annotations

import importlib
import json
import os
import selectors
import signal
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import NoReturn

from slipway.containers.runtime import linux
from slipway.containers.runtime.rendezvous.peers import STOP_SIGNALS, SignalPipe

PRELOADED = (
    "torch._dynamo",
    "torch.distributed.tensor",
    "slipway.containers.training.session",
    "slipway.containers.training.engines.gradients",
    "slipway.containers.training.engines.native.engine",
    "slipway.containers.tasks.start",
)
_CHUNK_BYTES = 1 << 16


class Forks:
    """Start processes by number, and report those that have ended."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}  # by process id

    def obey(self, order: Mapping[str, object]) -> None:
        number = int(str(order["number"]))
        if "signal" in order:
            for pid, its_number in self._numbers.items():
                if its_number == number:
                    os.kill(pid, int(str(order["signal"])))
            return
        pid = os.fork()
        if not pid:
            _become(order)
        self._numbers[pid] = number

    def reap(self) -> None:
        for pid, number in list(self._numbers.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                del self._numbers[pid]
                _say({"ended": number, "code": os.waitstatus_to_exitcode(status)})

    def kill(self) -> None:
        for pid in self._numbers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _become(order: Mapping[str, object]) -> NoReturn:
    """Run the module that was ordered in this fork, and end with its exit code."""
    code = 1
    try:
        linux.die_with_parent()
        signal.set_wakeup_fd(-1)
        for number in (*STOP_SIGNALS, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        file = os.open(str(order["output"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(file, 1)
        os.dup2(file, 2)
        environment = order["environment"]
        assert isinstance(environment, Mapping), "every order to start has one"
        os.environ.update(environment)
        import torch

        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        code = importlib.import_module(str(order["module"])).main(order["arguments"])
    except BaseException:  # noqa: BLE001 - the fork ends here after any error
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        linux.flush_c_streams()
        os._exit(code)


def _say(record: Mapping[str, object]) -> None:
    print(json.dumps(record), flush=True)


def main() -> int:
    linux.die_with_parent()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in PRELOADED:
        importlib.import_module(name)
    forks, signals, rest = Forks(), SignalPipe(), b""
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    selector.register(signals.fileno(), selectors.EVENT_READ)
    _say({"ready": os.getpid()})
    while True:
        for key, _ in selector.select():
            if key.fd != 0:
                signals.received()
                continue
            read = os.read(0, _CHUNK_BYTES)
            if not read:
                forks.kill()
                return 0
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                forks.obey(json.loads(line))
        forks.reap()


if __name__ == "__main__":
    sys.exit(main())
