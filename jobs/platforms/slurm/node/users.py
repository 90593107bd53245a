"""Becomes the user that jobs run as, makes their folders, raises limits; Systems Manager runs us as root."""

from __future__ import annotations

import os
import pwd
import resource
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from slipway.jobs.platforms.slurm.node.neuron_environment import cache_root
from slipway.jobs.platforms.slurm.node.setting import USER, SlurmNodeFacts, SlurmNodePaths

ATTEMPTS_FOLDER = "slipway/attempts"  # for files that a container and its node exchange
_EVERYBODY_READS = 0o755
_EVERYBODY_WRITES = 0o1777  # as on /tmp: nobody can remove another user's files
_OPEN_FILES = 65_536  # sockets of collectives and files of graphs: the Neuron guides ask for 65,535


def become_job_user(folders: tuple[Path, ...]) -> None:
    """Make the folders of all jobs, give them to the jobs' user, and drop root for good."""
    user = _job_user()
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True, mode=_EVERYBODY_READS)
        if user and os.geteuid() == 0:
            shutil.chown(folder, user.pw_uid, user.pw_gid)
    if user is None or os.geteuid() != 0:
        return
    os.initgroups(user.pw_name, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    os.environ["HOME"] = user.pw_dir
    os.environ["USER"] = user.pw_name


def folders_of_all(where: SlurmNodePaths, facts: SlurmNodeFacts) -> tuple[Path, ...]:
    """Return the folders in which every job makes one of its own."""
    names = ("checkpoints", "data", "logs", ATTEMPTS_FOLDER, "slipway/compiling")
    cache = where.below(f"{cache_root(facts)}/neuron-cache")
    return (*(where.below(f"{facts.shared}/{name}") for name in names), cache)


def open_folders(folders: Iterable[Path]) -> None:
    """Let every user write into folders of the shared files, which root makes; the first caller does it."""
    for folder in folders:
        with suppress(PermissionError):  # somebody else's: it is open, or the job says what it cannot write
            folder.mkdir(parents=True, exist_ok=True)
            if stat.S_IMODE(folder.stat().st_mode) != _EVERYBODY_WRITES:
                folder.chmod(_EVERYBODY_WRITES)


def raise_limits() -> None:
    """Let this process and its ranks open many files and lock memory, as far as the machine allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    with suppress(ValueError, OSError):  # EFA locks memory
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _job_user() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(USER)
    except KeyError:  # a cluster that Slipway did not deploy: the caller
        return None
