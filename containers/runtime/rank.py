"""The first code of every rank: it dies with its launcher, prints its stack when asked, and runs the module.

`python -m containers.runtime.rank MODULE ARGUMENT…`; the launcher starts it.
"""

from __future__ import annotations

import faulthandler
import os
import runpy
import signal
import sys

from containers.runtime import linux
from containers.runtime.errors import Refusal

LAUNCHER_VARIABLE = "SLIPWAY_LAUNCHER"


def main() -> None:
    linux.die_with_parent()
    if str(os.getppid()) != os.environ.get(LAUNCHER_VARIABLE, str(os.getppid())):
        sys.exit(1)  # it died before we could ask
    faulthandler.enable()
    # In C, without the interpreter's lock: a rank that is stuck in a collective still answers.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    module, *arguments = sys.argv[1:]
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except Refusal as refusal:
        print(f"error: {refusal}", file=sys.stderr, flush=True)
        sys.exit(refusal.exit_code)


if __name__ == "__main__":
    main()
