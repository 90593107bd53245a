"""Holds the nodes of one attempt, as one process tree that ends as a whole: `python -m … PLAN DESCRIPTOR`.

It reports each node's start and end to the yard over a socket, and gets signals for nodes from it. When the
yard ends, so does everything here. Standard library only. To add an order: a branch of _obey.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from slipway.yard.machines.isolation import kernel, namespaces, processes
from slipway.yard.services.batch.isolation import node

Plan = Mapping[str, Any]

LARGEST_ORDER = 65536


def main(plan_file: str, descriptor: str) -> NoReturn:
    control = socket.socket(fileno=int(descriptor))
    os.set_inheritable(control.fileno(), False)
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    if plan["isolated"]:
        namespaces.enter_network(plan["tier"], control)
    else:
        kernel.adopt_orphans()
    awake = namespaces.wake_on_children()
    NodeProcesses(plan, control).run(awake)


class NodeProcesses:
    def __init__(self, plan: Plan, control: socket.socket) -> None:
        self.plan, self.control = plan, control
        self.holders: dict[int, int] = {}  # child process -> its node
        self.first: dict[int, int] = {}  # node -> its first process

    def run(self, awake: int) -> NoReturn:
        starts = [self._fork(node) for node in self.plan["nodes"]]
        if self.plan["isolated"]:
            lines: list[str] = []
            for holder, index in self.holders.items():
                lines += namespaces.cable(index, holder)
            namespaces.ip(*lines)
        for start in starts:
            os.write(start, b"g")
            os.close(start)
        control = self.control.fileno()
        while True:
            readable, _, _ = select.select([control, awake], [], [])
            if awake in readable:
                os.read(awake, 4096)
                self._reap()
            if control in readable:
                self._obey(self.control.recv(LARGEST_ORDER))

    def _fork(self, spec: Mapping[str, Any]) -> int:
        """Fork a node's holder; return the descriptor to write to when the node may continue."""
        (go, start), (up, told), (output, log) = os.pipe(), os.pipe(), os.pipe()
        holder = os.fork()
        if holder == 0:
            namespaces.sleep_through_children()
            os.close(output)
            code = 1
            with contextlib.suppress(OSError):
                code = self._hold(spec, go, told, log)
            os._exit(code)
        for descriptor in (go, told, log):
            os.close(descriptor)
        self.holders[holder] = spec["index"]
        self.first[spec["index"]] = int(os.read(up, 32) or b"0")
        os.close(up)
        event = json.dumps({"event": "forked", "node": spec["index"]}).encode()
        socket.send_fds(self.control, [event], [output])
        os.close(output)
        return start

    def _hold(self, spec: Mapping[str, Any], go: int, told: int, log: int) -> int:
        """Make the node's namespaces and its first process, which must be a child of their maker."""
        kernel.die_with_parent()
        if not self.plan["isolated"]:
            os.setsid()
            kernel.adopt_orphans()
            os.write(told, str(os.getpid()).encode())
            os.read(go, 1)
            node.run(self.plan, spec, self.control, log)
        kernel.unshare(namespaces.OF_A_MACHINE)
        first = os.fork()
        if first == 0:
            kernel.die_with_parent()
            os.read(go, 1)
            try:
                node.run(self.plan, spec, self.control, log)
            except BaseException as error:
                os.write(log, f"the yard cannot set up this node: {error!r}\n".encode())
                raise
            finally:
                os._exit(1)
        os.write(told, str(first).encode())
        os.close(log)
        self.control.close()
        return processes.shell_code(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]))

    def _reap(self) -> None:
        for ended, code in processes.ended_children():
            if ended in self.holders:
                index, shown = self.holders.pop(ended), processes.shell_code(code)
                self.control.send(json.dumps({"event": "exited", "node": index, "code": shown}).encode())

    def _obey(self, order: bytes) -> None:
        if not order:  # the yard is gone, or has closed this attempt
            while not self.plan["isolated"] and (left := processes.descendants(os.getpid())):
                processes.kill_all(left)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(-1, 0)
            os._exit(0)  # the kernel then kills all others in this PID namespace
        wanted = json.loads(order)
        for index in wanted["nodes"]:
            first = self.first[index] if index in self.holders.values() else 0
            if first and wanted["signal"] == signal.SIGKILL and not self.plan["isolated"]:
                processes.kill_all([first, *processes.descendants(first)])
            elif first:
                processes.kill_all([first], wanted["signal"])


if __name__ == "__main__":
    main(*sys.argv[1:])
