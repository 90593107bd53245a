"""The first code of every rank: make it die with its launcher and print its stack when asked; run the module.

`python -m slipway.containers.runtime.launch.rank MODULE ARGUMENT…`; the launcher starts it.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import runpy
import signal
import sys
import threading
from contextlib import suppress
from typing import NoReturn

from slipway.containers.runtime import linux
from slipway.containers.runtime.contract import variables
from slipway.containers.runtime.errors import Refusal


def main() -> NoReturn:
    linux.die_with_parent()
    if str(os.getppid()) != os.environ.get(variables.LAUNCHER, str(os.getppid())):
        sys.exit(1)  # it died before we could ask
    faulthandler.enable()
    # faulthandler needs no interpreter lock, so a rank that hangs in a collective still answers.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    module, *arguments = sys.argv[1:]
    sys.argv = [module, *arguments]
    _leave(_run(module))


def _run(module: str) -> int:
    """Return the exit code that the interpreter would end with, once it has said what it would say."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except Refusal as refusal:
        _say(f"error: {refusal}")
        return refusal.exit_code
    except SystemExit as end:
        return _code_of(end)
    except Exception as error:  # noqa: BLE001  # it is said, and ends the rank, as without us
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _code_of(end: SystemExit) -> int:
    """Return the exit code as `sys.exit` documents it: None is success, and anything but a number is
    printed."""
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    _say(str(end.code))
    return 1


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _leave(code: int) -> NoReturn:
    """End the process without taking the interpreter and the libraries apart, once all is said and written.

    Threads of C++ libraries outlive a training. One that asks for the interpreter's lock while that is taken
    apart, or whose owner is destroyed before it, makes C++ abort: a training that had saved its model ended
    with SIGABRT. multiprocessing ends its children in this way too.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # private; waits for threads that are no daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # there is none, nobody reads it, it is closed
            stream.flush()
    linux.flush_c_streams()
    os._exit(code)


if __name__ == "__main__":
    main()
