"""Try whether this machine can make namespaces: `python -m … TIER`.

It ends with 0 where it can, and with CANNOT and a line that says why where it cannot. Any other end is a
fault of this program. Standard library only.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from slipway.yard.machines.isolation import kernel, namespaces

CANNOT = 77
_CRASHED = 1


def main(tier: str) -> NoReturn:
    _end_with(lambda: _make(tier))


def _end_with(attempt: Callable[[], int]) -> NoReturn:
    code = _CRASHED
    try:
        code = attempt()
    except (OSError, subprocess.CalledProcessError) as refusal:
        print(_in_words(refusal), flush=True)
        code = CANNOT
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)  # in a fork, nothing of its parent's is to be tidied up


def _in_words(refusal: OSError | subprocess.CalledProcessError) -> str:
    if isinstance(refusal, subprocess.CalledProcessError):
        return f"`ip` can make no network of its own (exit code {refusal.returncode})"
    if refusal.errno == errno.ENOSPC:  # so says unshare, of which nobody would guess it
        return "the limit of namespaces in /proc/sys/user is reached"
    return refusal.strerror or str(refusal)


def _make(tier: str) -> int:
    if tier == "user":
        kernel.become_root_of_own_users()
    kernel.unshare(namespaces.OF_A_MACHINE)
    child = os.fork()
    if child == 0:
        _end_with(_furnish)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _furnish() -> int:
    kernel.mount("none", Path("/"), flags=kernel.PRIVATE | kernel.RECURSIVE)
    kernel.mount("proc", Path("/proc"), "proc")
    kernel.set_hostname("trial")
    namespaces.ip("link set lo up", "link add br0 type bridge", "link add v0 type veth peer name p0")
    return 0


if __name__ == "__main__":
    main(sys.argv[1])
