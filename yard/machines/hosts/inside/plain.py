"""A host without isolation, as one process: `python -m … PLAN DESCRIPTOR`.

Its files are in a folder of its own; everything else is this machine's. Standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from slipway.yard.machines.hosts.inside import init, tree
from slipway.yard.machines.isolation import kernel, namespaces, processes


def main(plan_file: str, descriptor: str) -> NoReturn:
    yard = socket.socket(fileno=int(descriptor))
    os.set_inheritable(yard.fileno(), False)
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    kernel.adopt_orphans()
    tree.settle(plan)
    output, log = os.pipe()
    pidfd = os.pidfd_open(os.getpid())
    init.tell(yard, {"event": "up"}, [output])
    init.tell(yard, {"event": "first", "namespaces": {}}, [pidfd])
    for each in (output, pidfd):
        os.close(each)
    PlainInit(plan, yard, log).run(namespaces.wake_on_children())


class PlainInit(init.Init):
    def shut_down(self, _order: Mapping[str, Any], _descriptors: Sequence[int]) -> NoReturn:
        processes.kill_all(processes.descendants(os.getpid()), signal.SIGTERM)
        self._wait_for_all()
        self.end()

    def end(self) -> NoReturn:
        """Find and kill each process: there is no PID namespace to end them together."""
        while left := processes.descendants(os.getpid()):
            processes.kill_all(left)
            self._wait_for_all()
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
