"""System calls for namespaces that Python 3.11 lacks. Linux only.

To add a call: a function that passes the result to _check. Numbers: Linux's sched.h, mount.h and prctl.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

NEW_TIME = 0x00000080
NEW_MOUNTS = 0x00020000
NEW_CGROUP = 0x02000000
NEW_HOSTNAME = 0x04000000
NEW_IPC = 0x08000000
NEW_USER = 0x10000000
NEW_PIDS = 0x20000000
NEW_NETWORK = 0x40000000

READ_ONLY = 1
NO_SETUID = 2
NO_DEVICES = 4
NO_PROGRAMS = 8
REMOUNT = 32
BIND = 4096
RECURSIVE = 16384
PRIVATE = 1 << 18
DETACH = 2

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
_DIE_WITH_PARENT = 1
_DROP_FROM_BOUND = 24
_ADOPT_ORPHANS = 36
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}  # libc has no function for it
_SECCOMP, _FILTER = 22, 2
# The processor's number in audit.h; then fsync, fdatasync, sync, syncfs and sync_file_range in unistd.h.
_SYNCS: Mapping[str, tuple[int, tuple[int, ...]]] = {
    "x86_64": (0xC000003E, (74, 75, 162, 306, 277)),
    "aarch64": (0xC00000B7, (82, 83, 81, 267, 84)),
}
# filter.h and seccomp.h: load a word, jump if equal, return; then the results "error 0" and "allow".
_LOAD, _EQUAL, _END = 0x20, 0x15, 0x06
_DONE, _ALLOWED = 0x00050000, 0x7FFF0000
_NUMBER_AT, _PROCESSOR_AT = 0, 4  # in struct seccomp_data


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    _check("unshare", _libc().unshare(flags))


def join(namespace: str, flag: int) -> None:
    """Enter a namespace of another process: a file like /proc/<pid>/ns/net."""
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check("setns", _libc().setns(descriptor, flag))
    finally:
        os.close(descriptor)


def join_all(process: int, flags: int) -> None:
    """Enter several namespaces of the process behind a pidfd: all of them, or none."""
    _check("setns", _libc().setns(process, flags))


def become_root_of_own_users() -> None:
    """Enter a new user namespace in which this user is root and owns all namespaces made from now on."""
    _enter_own_users(0)


def _enter_own_users(user: int) -> None:
    """Enter a new user namespace in which this process's user and group are `user`."""
    own_user, own_group = os.getuid(), os.getgid()
    unshare(NEW_USER)
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {own_user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{user} {own_group} 1", encoding="ascii")


def restart_clocks() -> None:
    """Let processes that this one starts from now on see an uptime that begins now (time_namespaces(7)).

    Raise OSError on kernels without such namespaces, before Linux 5.6.
    """
    unshare(NEW_TIME)
    clocks = {"monotonic": time.CLOCK_MONOTONIC, "boottime": time.CLOCK_BOOTTIME}
    lines = [f"{name} {-int(time.clock_gettime(clock))} 0" for name, clock in clocks.items()]
    Path("/proc/self/timens_offsets").write_text("\n".join(lines), encoding="ascii")


def keep_users(file: Path, user: int) -> None:
    """Make a user namespace in which this process's user is `user`; it lasts as long as its file.

    Processes that enter it can signal each other, which they could not from different user namespaces.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    (ready, tell), (go, leave) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(leave)
        try:
            _enter_own_users(user)
            os.write(tell, b"m")
            os.read(go, 1)
        finally:
            os._exit(0)
    os.close(tell)
    os.close(go)
    made = os.read(ready, 1)
    if made:
        mount(f"/proc/{child}/ns/user", file, flags=BIND)
    os.close(leave)
    os.close(ready)
    os.waitpid(child, 0)
    if not made:
        raise OSError(errno.EPERM, "a user namespace inside the host's cannot be made")


def mount(source: str, target: Path, kind: str = "", flags: int = 0, options: str = "") -> None:
    arguments = (source.encode(), bytes(target), kind.encode() or None)
    done = _libc().mount(*arguments, ctypes.c_ulong(flags), options.encode() or None)
    _check(f"mount {source} at {target}", done)


def bind(source: str, target: Path) -> None:
    """Make a folder or file, with the mounts below it, visible at another place, too."""
    mount(source, target, flags=BIND | RECURSIVE)


def mount_devices(dev: Path, terminals: str) -> None:
    """Make a tree's /dev, whose terminals are its own. `terminals`: the options of its devpts."""
    mount("dev", dev, "tmpfs", options="mode=755")
    for name in _DEVICES:
        (dev / name).touch()
        mount(f"/dev/{name}", dev / name, flags=BIND)
    for name, end in _LINKS.items():
        (dev / name).symlink_to(end)
    for kind, name, options in (("tmpfs", "shm", "mode=1777"), ("devpts", "pts", terminals)):
        (dev / name).mkdir()
        mount(kind, dev / name, kind, options=options)


def pivot_root(new: Path) -> None:
    """Make `new` the root of this process, and unmount the old one."""
    old = new / ".old"
    old.mkdir()
    _check("pivot_root", _libc().syscall(_PIVOT_ROOT[os.uname().machine], bytes(new), bytes(old)))
    os.chdir("/")
    _check("umount", _libc().umount2(b"/.old", DETACH))
    Path("/.old").rmdir()


def set_hostname(name: str) -> None:
    _check("sethostname", _libc().sethostname(name.encode(), len(name)))


def give_up(capabilities: Sequence[int]) -> None:
    """Drop these capabilities for everything that this process starts, root or not."""
    for capability in capabilities:
        _check("prctl", _libc().prctl(_DROP_FROM_BOUND, capability, 0, 0, 0))


def wait_for_no_disk() -> None:
    """Make fsync and its kin return at once in this process and all that it starts.

    This is what `systemd-nspawn --suppress-sync` does, for a tree that need not survive a crash. It needs
    CAP_SYS_ADMIN in the user namespace.
    """
    processor, numbers = _SYNCS[os.uname().machine]
    last = len(numbers)
    steps = [
        (_LOAD, 0, 0, _PROCESSOR_AT),
        (_EQUAL, 0, last + 1, processor),  # programs for another processor are not affected
        (_LOAD, 0, 0, _NUMBER_AT),
        *((_EQUAL, last - place, 0, number) for place, number in enumerate(numbers)),
        (_END, 0, 0, _ALLOWED),
        (_END, 0, 0, _DONE),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(code)))
    _check("prctl", _libc().prctl(_SECCOMP, _FILTER, program, 0, 0))


def die_with_parent() -> None:
    _check("prctl", _libc().prctl(_DIE_WITH_PARENT, 9, 0, 0, 0))


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, so that it can find them."""
    _check("prctl", _libc().prctl(_ADOPT_ORPHANS, 1, 0, 0, 0))


def _check(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
