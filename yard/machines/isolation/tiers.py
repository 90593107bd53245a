"""How well this machine can isolate nodes and hosts, found by trying once.

A tier is a row of TIERS, the best first; `slipway yard status` shows its `words`. Only the yard's server
asks; it tells other programs which tier it used.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

from slipway.jobs.words.errors import SlipwayError
from slipway.yard.machines.isolation import kernel, namespaces
from slipway.yard.machines.settings import CHECKOUT

# A trial if this machine can make namespaces: `python -m … TIER`.
# It exits with 0 if it can, or with CANNOT and a line that says why not. Any other exit code is a
# bug of this program. Standard library only.
CANNOT = 77
_CRASHED = 1


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
        os._exit(code)  # a fork must not run its parent's clean-up


def _in_words(refusal: OSError | subprocess.CalledProcessError) -> str:
    if isinstance(refusal, subprocess.CalledProcessError):
        return f"`ip` cannot set up a network (exit code {refusal.returncode})"
    if refusal.errno == errno.ENOSPC:  # "No space left on device" would mislead
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


TIER_VARIABLE = "SLIPWAY_YARD_TIER"  # for tests and users: use only this tier
TRIAL_SECONDS = 40.0  # it takes a tenth of a second on an idle machine
_OWN = "own network, hostname, process tree, /tmp and /dev/shm"


class NoTier(SlipwayError):
    """Raised if the requested tier does not work, or a trial gave no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    name: str
    isolated: bool
    words: str
    obstacle: Callable[[], str]  # returns why it does not work on this machine; "" if it does

    def works(self) -> bool:
        return not self.obstacle()


TIERS = (
    Tier(
        name="root",
        isolated=True,
        obstacle=lambda: "this user is not root" if os.geteuid() != 0 else _try("root"),
        words=f"namespaces made as root: {_OWN} for each node",
    ),
    Tier(
        name="user",
        isolated=True,
        obstacle=lambda: _try("user"),
        words=f"namespaces of an ordinary user: {_OWN} for each node",
    ),
    Tier(
        name="plain",
        isolated=False,
        obstacle=str,
        words="plain processes on 127.0.0.x: nodes share network, hostname, processes, /tmp and /dev/shm",
    ),
)


@lru_cache(maxsize=1)
def best_tier() -> Tier:
    if wanted := os.environ.get(TIER_VARIABLE):
        return _tier_named(wanted)
    obstacle = ""
    for tier in TIERS[:-1]:
        obstacle = tier.obstacle()
        if not obstacle:
            return tier
    # The last tier always works; its words say why no better one does.
    return replace(TIERS[-1], words=f"{TIERS[-1].words}; nothing better works here: {obstacle}")


def programs() -> str:
    """Return the PATH for `ip` and `nft`: an ordinary user's lacks the sbin folders."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _tier_named(name: str) -> Tier:
    """Return this tier, or raise NoTier: another tier might isolate less than requested."""
    found = next((tier for tier in TIERS if tier.name == name), None)
    if found is None:
        allowed = ", ".join(tier.name for tier in TIERS)
        raise NoTier(f"{TIER_VARIABLE} is '{name}'; allowed are {allowed}", hint=f"unset {TIER_VARIABLE}")
    if obstacle := found.obstacle():
        raise NoTier(
            f"{TIER_VARIABLE} asks for tier '{name}', which this machine does not allow: {obstacle}",
            hint=f"unset {TIER_VARIABLE} to use the best tier that this machine allows",
        )
    return found


def _try(tier: str) -> str:
    """Make everything that a cluster needs, in a separate process; return why that fails, or "".

    Any other end of the trial is a bug, and tells nothing about the machine.
    """
    if not sys.platform.startswith("linux"):
        return "namespaces are Linux's"
    if not shutil.which("ip", path=programs()):
        return "the program `ip` is missing; install the package iproute2"
    command = [sys.executable, "-S", "-m", "slipway.yard.machines.isolation.tiers", tier]
    environment = {**os.environ, "PATH": programs(), "PYTHONPATH": str(CHECKOUT)}
    try:
        tried = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=TRIAL_SECONDS, env=environment
        )
    except subprocess.TimeoutExpired as error:
        raise NoTier(
            f"the trial of isolation tier '{tier}' took longer than {TRIAL_SECONDS:.0f} s",
            hint=f"start the yard when this machine is less busy, or choose a tier with {TIER_VARIABLE}",
        ) from error
    if tried.returncode not in (0, CANNOT):
        raise NoTier(
            f"the trial of isolation tier '{tier}' crashed (exit code {tried.returncode}): "
            f"{_last_line(tried.stderr)}",
            hint=f"this is a bug in Slipway; to start a yard without isolation, set {TIER_VARIABLE}=plain",
        )
    return _last_line(tried.stdout) if tried.returncode else ""


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2] or "it said nothing"


if __name__ == "__main__":
    _end_with(lambda: _make(sys.argv[1]))
