"""Runs several nodes on one machine, each a real launcher with Batch's environment."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]
_LIMIT_SECONDS = 40.0
# Variables that a developer's shell, or a platform that runs the tests, may have set.
_NOT_OURS = ("SLIPWAY_", "AWS_BATCH_", "SLURM_", "OMPI_", "PMI_", "SM_", "RANK", "WORLD_SIZE", "LOCAL_")


class Node:
    """A launcher that runs, and what it has printed."""

    def __init__(self, environment: Mapping[str, str], arguments: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "slipway.containers.runtime.launch", *arguments],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self._output = bytearray()

    @property
    def text(self) -> str:
        return self._output.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def until(self, text: str, times: int = 1) -> None:
        """Reads until `text` was printed this often."""
        ends = time.monotonic() + _LIMIT_SECONDS
        while self.text.count(text) < times:
            assert self._read(ends), f"ended without {text!r} {times} time(s):\n{self.text}"

    def end(self) -> int:
        """The exit code, when it has ended and all its output is read."""
        ends = time.monotonic() + _LIMIT_SECONDS
        while self._read(ends):
            pass
        return self.process.wait(timeout=_LIMIT_SECONDS)

    def _read(self, ends: float) -> bool:
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            assert selector.select(max(0.0, ends - time.monotonic())), (
                f"nothing more came after:\n{self.text}"
            )
        data = os.read(self.process.stdout.fileno(), 1 << 20)
        self._output += data
        return bool(data)


def ready(nodes: list[Node], ranks: int = 1) -> None:
    for node in nodes:
        node.until("ready", times=ranks)


class Cluster:
    """Starts nodes of one job, and says afterwards what is left of them."""

    def __init__(self, folder: Path) -> None:
        self.run = f"test-{uuid.uuid4().hex}"
        self.checkpoints = folder / "checkpoints"
        self.checkpoints.mkdir(exist_ok=True)
        self.nodes: list[Node] = []

    def environment(self, node: int, nodes: int, **variables: object) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_OURS)}
        own |= {
            "AWS_BATCH_JOB_ID": self.run if node == 0 else f"{self.run}#{node}",
            "AWS_BATCH_JOB_ATTEMPT": "1",
            "SLIPWAY_JOB": "tiny",
            "SLIPWAY_CHECKPOINTS": str(self.checkpoints),
            "SLIPWAY_RENDEZVOUS_SECONDS": "30",
        }
        if nodes > 1:
            own |= {"AWS_BATCH_JOB_NODE_INDEX": str(node), "AWS_BATCH_JOB_NUM_NODES": str(nodes)}
            own |= {"AWS_BATCH_JOB_MAIN_NODE_INDEX": "0"}
        if node > 0:
            own |= {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": "127.0.0.1"}
        return own | {name: str(value) for name, value in variables.items()}

    def start(
        self,
        words: Mapping[str, Sequence[str]],
        *arguments: str,
        node: int = 0,
        nodes: int = 1,
        **variables: object,
    ) -> Node:
        module = ["--module", "tests.containers.runtime.worker", "--", json.dumps(words), *arguments]
        started = Node(self.environment(node, nodes, **variables), module)
        self.nodes.append(started)
        return started

    def all(self, nodes: int, words: Mapping[str, Sequence[str]], **variables: object) -> list[Node]:
        return [self.start(words, node=node, nodes=nodes, **variables) for node in range(nodes)]

    def left_running(self) -> list[str]:
        """List this job's processes that live a moment after its end: all have inherited its id."""
        ends = time.monotonic() + 5.0
        while (left := self._living()) and time.monotonic() < ends:
            os.sched_yield()
        return left

    def saved(self) -> list[str]:
        return sorted(path.name for path in self.checkpoints.iterdir())

    def end(self) -> None:
        for node in self.nodes:
            if node.process.poll() is None:
                node.process.send_signal(signal.SIGCONT)
                node.process.kill()
            node.process.wait()
            assert node.process.stdout is not None
            node.process.stdout.close()

    def _living(self) -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if self.run.encode() in (path / "environ").read_bytes():
                    found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except (OSError, UnicodeDecodeError):
                continue
        return found
