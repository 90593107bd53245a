"""How a host starts: with systemd and cloud-init of its own, or by an imitation of both.

The better way wants root, systemd-nspawn, and a root file system that holds systemd and cloud-init. What
stands in its way is said in `slipway yard status` and of each host.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from slipway.jobs.words import slurm
from slipway.jobs.words.errors import SlipwayError
from slipway.yard.machines import image_store
from slipway.yard.machines.isolation.tiers import TIERS, Tier, best_tier, programs
from slipway.yard.machines.settings import CHECKOUT

BOOT_VARIABLE = "SLIPWAY_YARD_BOOT"  # for tests and for people: this way, where nothing stands in its way
SYSTEMD, IMITATED = "systemd", "imitated"
WAYS = (SYSTEMD, IMITATED)
TRIAL_SECONDS = 40.0
MEND = "python3 scripts/set_up.py machine (as root) installs it"
BAKE = "bake the image again: slipway image bake"
# What the better way wants of a root file system, and which package of Debian has it.
_PROGRAMS = {
    "usr/lib/systemd/systemd": "systemd",
    "usr/sbin/init": "systemd-sysv",
    "usr/bin/cloud-init": "cloud-init",
}


class NoSuchBoot(SlipwayError):
    """The way to boot that was asked for cannot be had."""


def way_of(image: str) -> str:
    """Return how a host of this AMI starts here."""
    return IMITATED if obstacle(image) else SYSTEMD


def obstacle(image: str) -> str:
    """Say why a host of this AMI cannot boot for real; "" where it can."""
    wanted = os.environ.get(BOOT_VARIABLE, "")
    if wanted and wanted not in WAYS:
        raise NoSuchBoot(
            f"{BOOT_VARIABLE} is '{wanted}'; allowed are {', '.join(WAYS)}", hint=f"unset {BOOT_VARIABLE}"
        )
    if wanted == IMITATED:
        return f"{BOOT_VARIABLE} asks for it"
    root = image_store.root_of(image)
    lacking = _lacking(root or Path("/"))
    if lacking:
        what = "the machine image" if root else "this machine"
        return f"{what} lacks {lacking}; {BAKE if root else MEND}"
    return obstacle_here()


def described() -> str:
    """Say in words how hosts start that have this machine's files."""
    if why := obstacle(""):
        return f"boot: by an imitation of systemd and cloud-init: {why}"
    return "boot: systemd and cloud-init, in systemd-nspawn"


@lru_cache(maxsize=1)
def obstacle_here() -> str:
    """Say why no host can boot for real on this machine."""
    if best_tier().name != "root":
        return "only root can start systemd-nspawn with a host's network"
    if shutil.which("systemd-nspawn", path=programs()) is None:
        return f"this machine lacks systemd-container; {MEND}"
    # Start a program in systemd-nspawn as a host is started; say what nspawn says where it cannot.
    command = [sys.executable, "-S", "-m", "slipway.yard.machines.hosts.inside.boot_trial"]
    environment = {"PATH": programs(), "PYTHONPATH": str(CHECKOUT)}
    try:
        tried = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=TRIAL_SECONDS, env=environment
        )
    except subprocess.TimeoutExpired:
        return f"systemd-nspawn did not end within {TRIAL_SECONDS:.0f} s"
    said = (tried.stderr + tried.stdout).strip().rpartition("\n")[2]
    return f"systemd-nspawn cannot start: {said}" if tried.returncode else ""


def _lacking(root: Path) -> str:
    return ", ".join(package for path, package in _PROGRAMS.items() if not _is_there(root, path))


def _is_there(root: Path, path: str) -> bool:
    """A link of the root leads from its own top, and may end at a file that is there only when it runs."""
    return (root / path).is_symlink() or (root / path).exists()


# Which hosts have namespaces of their own, and which are plain processes of this machine. Without root a
# cluster of AWS PCS is plain processes even where namespaces can be made: Slurm's daemons start jobs as other
# users, which a namespace of an ordinary user does not allow.


def tier_of(tags: Mapping[str, str]) -> Tier:
    """Return how a host with these tags is kept apart."""
    best = best_tier()
    if best.name != "root" and slurm.CLUSTER_TAG in tags:
        return next(tier for tier in TIERS if not tier.isolated)
    return best
