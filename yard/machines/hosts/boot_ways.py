"""Decides how a host boots: with its own systemd and cloud-init, or by an imitation of both.

A real boot needs root, systemd-nspawn, and a root file system with systemd and cloud-init. `slipway yard
status` and the list of hosts say what is missing.
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

BOOT_VARIABLE = "SLIPWAY_YARD_BOOT"  # for tests and users: boot this way if possible
SYSTEMD, IMITATED = "systemd", "imitated"
WAYS = (SYSTEMD, IMITATED)
TRIAL_SECONDS = 40.0
MEND = "python3 scripts/set_up.py machine (as root) installs it"
BAKE = "bake the image again: slipway image bake"
# What a real boot needs in a root file system -> the Debian package that has it.
_PROGRAMS = {
    "usr/lib/systemd/systemd": "systemd",
    "usr/sbin/init": "systemd-sysv",
    "usr/bin/cloud-init": "cloud-init",
}


class NoSuchBoot(SlipwayError):
    """Raised for an unknown way to boot."""


def way_of(image: str) -> str:
    """Return how a host of this AMI starts here."""
    return IMITATED if obstacle(image) else SYSTEMD


def obstacle(image: str) -> str:
    """Return why a host of this AMI cannot boot for real; "" if it can."""
    wanted = os.environ.get(BOOT_VARIABLE, "")
    if wanted and wanted not in WAYS:
        raise NoSuchBoot(
            f"{BOOT_VARIABLE} is '{wanted}'; allowed are {', '.join(WAYS)}", hint=f"unset {BOOT_VARIABLE}"
        )
    if wanted == IMITATED:
        return f"{BOOT_VARIABLE} asks for it"
    root = image_store.root_of(image)
    places = {(root or Path("/")) / path: package for path, package in _PROGRAMS.items()}
    # A link counts even if its target exists only at run time.
    lacking = [package for path, package in places.items() if not (path.is_symlink() or path.exists())]
    if lacking:
        what = "the machine image" if root else "this machine"
        return f"{what} lacks {', '.join(lacking)}; {BAKE if root else MEND}"
    return obstacle_here()


def described() -> str:
    """Describe how hosts boot that have this machine's files."""
    if why := obstacle(""):
        return f"boot: by an imitation of systemd and cloud-init: {why}"
    return "boot: systemd and cloud-init, in systemd-nspawn"


@lru_cache(maxsize=1)
def obstacle_here() -> str:
    """Return why no host can boot for real on this machine; "" if one can."""
    if best_tier().name != "root":
        return "only root can start systemd-nspawn with a host's network"
    if shutil.which("systemd-nspawn", path=programs()) is None:
        return f"this machine lacks systemd-container; {MEND}"
    # Try to start a shell in systemd-nspawn as a host is started.
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


# The isolation of hosts. Without root, hosts of AWS PCS are plain processes even where namespaces work:
# Slurm's daemons start jobs as other users, which an ordinary user's namespace does not allow.


def tier_of(tags: Mapping[str, str]) -> Tier:
    """Return the isolation tier of a host with these tags."""
    best = best_tier()
    if best.name != "root" and slurm.CLUSTER_TAG in tags:
        return next(tier for tier in TIERS if not tier.isolated)
    return best
