"""What mpirun starts, once a rank: the launcher, whose exit code rank 0 writes down as well.

MPIs differ in what they make of exit codes: MPICH joins those of all ranks by a bitwise or.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from slipway.containers.runtime.contract import variables
from slipway.containers.runtime.contract.launchers import read_position
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.launch import launcher


def main() -> int:
    code = launcher.main(sys.argv[1:])
    path = os.environ.get(variables.EXIT_FILE)
    if path and _is_first():
        Path(path).write_text(str(code), encoding="ascii")
    return code


def _is_first() -> bool:
    try:
        return read_position(os.environ).rank == 0
    except Refusal:
        return False


if __name__ == "__main__":
    sys.exit(main())
