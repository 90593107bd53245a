"""Starts the command `slipway`: an interrupt while Python still imports it ends silently, with 130."""

from __future__ import annotations

import os
import signal
import sys

_INTERRUPTED = 130  # as in jobs/cli/failures.py, which is not imported yet


def main() -> None:
    if sys.platform == "win32":
        sys.exit("error: Slipway does not run on Windows itself; install and run it in WSL 2, which is Linux")
    try:
        from slipway.jobs.cli.cli import main as run

        run()
    except KeyboardInterrupt:  # the command itself handles those that come while it runs
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os._exit(_INTERRUPTED)
