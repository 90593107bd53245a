"""How far nodes are kept apart on this machine: found out by trying, once.

A tier is a row of TIERS, the best first; what it leaves together is what `yard status` says of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

TIER_VARIABLE = "SLIPWAY_YARD_TIER"  # for tests and for people: take this one, or none above it
_OWN = "own network, hostname, process tree, /tmp and /dev/shm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    name: str
    isolated: bool
    words: str
    works: Callable[[], bool]


def _root_works() -> bool:
    return os.geteuid() == 0 and _try("root")


def _user_works() -> bool:
    return _try("user")


TIERS = (
    Tier(
        name="root", isolated=True, works=_root_works, words=f"namespaces made as root: {_OWN} for each node"
    ),
    Tier(
        name="user",
        isolated=True,
        works=_user_works,
        words=f"namespaces of an ordinary user: {_OWN} for each node",
    ),
    Tier(
        name="plain",
        isolated=False,
        works=lambda: True,
        words="plain processes on 127.0.0.x: nodes share network, hostname, processes, /tmp and /dev/shm",
    ),
)


@lru_cache(maxsize=1)
def best_tier() -> Tier:
    wanted = os.environ.get(TIER_VARIABLE)
    allowed = [tier for tier in TIERS if wanted in (None, tier.name)] or [TIERS[-1]]
    return next((tier for tier in allowed if tier.works()), TIERS[-1])


def programs() -> str:
    """Where `ip` and `nft` are looked for: an ordinary user's PATH lacks the second half."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _try(tier: str) -> bool:
    """Make all that a cluster is made of, in a process of its own."""
    if not sys.platform.startswith("linux") or not shutil.which("ip", path=programs()):
        return False
    command = [sys.executable, "-S", "-m", "jobs.yard.isolation.trial", tier]
    tried = subprocess.run(
        command, capture_output=True, check=False, timeout=20, env={**os.environ, "PATH": programs()}
    )
    return tried.returncode == 0
