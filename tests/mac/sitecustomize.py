"""Makes Python look as it does on a Mac, if this folder is on PYTHONPATH: what only Linux has is gone.

Its programs, its disk that ignores case and its network stay Linux's.
"""

from __future__ import annotations

import ctypes
import errno
import multiprocessing
import os
import platform
import posix
import select
import signal
import socket
import sys
import time
from types import ModuleType
from typing import cast

# Names of the standard library that are available on Linux alone.
_LINUX = {
    os: "sched_getaffinity sched_setaffinity pidfd_open memfd_create eventfd setns unshare copy_file_range "
    "splice posix_fadvise posix_fallocate getrandom getxattr setxattr O_PATH O_TMPFILE ST_NODEV ST_NOEXEC",
    signal: "pidfd_send_signal SIGRTMIN SIGRTMAX SIGPWR sigwaitinfo sigtimedwait",
    socket: "AF_NETLINK AF_PACKET AF_VSOCK SO_PEERCRED SO_BINDTODEVICE SOCK_CLOEXEC SOCK_NONBLOCK",
    time: "CLOCK_BOOTTIME CLOCK_TAI",
    select: "epoll",
}
_CALLS = {"prctl", "unshare", "setns", "pivot_root", "syscall", "sched_setaffinity"}
_FOLDERS = ("/proc/", "/sys/", "/dev/shm/", "/run/")

for module, names in _LINUX.items():
    for holder in (module, posix) if module is os else (module,):
        for name in names.split():
            vars(holder).pop(name, None)

proxies = ModuleType("_scproxy")  # urllib asks macOS for its proxies
vars(proxies).update(_get_proxies=dict, _get_proxy_settings=dict)
sys.modules["_scproxy"] = proxies
cast(dict[str, object], sys.modules).update(numba=None)  # its library here is Linux's, and it is optional

_found_in_library = ctypes.CDLL.__getattr__


def find_in_library(library: ctypes.CDLL, name: str) -> object:
    if name in _CALLS:
        raise AttributeError(f"dlsym(RTLD_DEFAULT, {name}): symbol not found")
    return _found_in_library(library, name)


def hide_folders(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and f"{arguments[0]}/".startswith(_FOLDERS):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), arguments[0])


ctypes.CDLL.__getattr__ = find_in_library  # type: ignore[method-assign, assignment]  # the loader's own
sys.addaudithook(hide_folders)
sys.platform = "darwin"
platform.system = lambda: "Darwin"
platform.machine = lambda: "arm64"
os.uname = lambda: os.uname_result(("Darwin", "mac", "25.0.0", "Darwin Kernel Version 25.0.0", "arm64"))
multiprocessing.set_start_method("spawn", force=True)
