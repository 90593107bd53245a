"""One step in the file tree of a machine that is baked: `python -S -m … PLAN`, a JSON file. Linux only.

Namespaces of its own, the tree as /, the step's program or files, and nothing left running. Its exit code is
the step's. The machine's network is this machine's: a bake has to download. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from slipway.yard.machines.isolation import kernel, processes
from slipway.yard.services.imagebuilder.machine import file_orders, mounts

OWN = kernel.NEW_MOUNTS | kernel.NEW_PIDS | kernel.NEW_IPC | kernel.NEW_HOSTNAME


def main(plan_file: str) -> NoReturn:
    plan: dict[str, Any] = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    os.setsid()
    kernel.die_with_parent()
    if not plan["is_root"]:
        kernel.become_root_of_own_users()
    kernel.unshare(OWN)
    first = os.fork()
    if first == 0:
        kernel.die_with_parent()
        _first_process(plan)
    code = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


def _first_process(plan: Mapping[str, Any]) -> NoReturn:
    code = 1
    try:
        mounts.enter(plan)
        kernel.set_hostname(plan["hostname"])
        kernel.wait_for_no_disk()  # a bake that a power cut ends starts again
        kernel.give_up(mounts.GIVEN_UP)
        os.umask(0o022)
        for order in plan["files"]:
            file_orders.carry_out(order)
        code = _run(plan) if plan["argv"] else 0
    except (OSError, LookupError, ValueError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)  # the first process of a PID namespace takes all others with it


def _run(plan: Mapping[str, Any]) -> int:
    argv: list[str] = list(plan["argv"])
    if plan["script"]:
        script = Path("/run/slipway/step.sh")
        script.write_text(plan["script"], encoding="utf-8")
        argv.append(str(script))
    child = os.fork()
    if child == 0:
        _execute(argv, plan["environment"], plan["directory"])
    while True:
        ended, status = os.wait()  # whoever lost its parent ends here too
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _execute(argv: list[str], environment: dict[str, str], directory: str) -> NoReturn:
    code = processes.CANNOT_RUN
    try:
        os.setsid()
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        with contextlib.suppress(FileNotFoundError):
            os.chdir(directory)
        os.execvpe(argv[0], argv, environment)  # noqa: S606 - no shell reads it
    except OSError as error:
        code = processes.code_of(error, argv[0], environment.get("PATH", os.defpath))
        os.write(2, f"exec: {argv[0]!r}: {error.strerror}\n".encode())
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1])
