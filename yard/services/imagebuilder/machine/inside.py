"""Runs one step of a bake in the machine's file tree: `python -S -m … PLAN`, a JSON file. Linux only.

It makes namespaces, uses the tree as /, runs the step's program or makes its files, and leaves nothing
running. Its exit code is the step's. The step has this machine's network, for downloads. Standard library
only.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from slipway.yard.machines.isolation import kernel, processes

OWN = kernel.NEW_MOUNTS | kernel.NEW_PIDS | kernel.NEW_IPC | kernel.NEW_HOSTNAME


def main(plan_file: str) -> NoReturn:
    plan: dict[str, Any] = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    os.setsid()
    kernel.die_with_parent()
    if not plan["is_root"]:
        kernel.become_root_of_own_users()
    kernel.unshare(OWN)
    first = os.fork()
    if first == 0:
        kernel.die_with_parent()
        _first_process(plan)
    os._exit(processes.shell_code(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])))


def _first_process(plan: Mapping[str, Any]) -> NoReturn:
    code = 1
    try:
        enter(plan)
        kernel.set_hostname(plan["hostname"])
        kernel.wait_for_no_disk()  # a bake need not survive a power failure
        kernel.give_up(GIVEN_UP)
        os.umask(0o022)
        for order in plan["files"]:
            SORTS[order["do"]](order)
        code = _run(plan) if plan["argv"] else 0
    except (OSError, LookupError, ValueError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)  # the kernel then kills all others in this PID namespace


def _run(plan: Mapping[str, Any]) -> int:
    argv: list[str] = list(plan["argv"])
    if plan["script"]:
        script = Path("/run/slipway/step.sh")
        script.write_text(plan["script"], encoding="utf-8")
        argv.append(str(script))
    child = os.fork()
    if child == 0:
        _execute(argv, plan["environment"], plan["directory"])
    while True:
        ended, status = os.wait()  # orphans end here, too
        if ended == child:
            return processes.shell_code(os.waitstatus_to_exitcode(status))


def _execute(argv: list[str], environment: dict[str, str], directory: str) -> NoReturn:
    code = processes.CANNOT_RUN
    try:
        os.setsid()
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        with contextlib.suppress(FileNotFoundError):
            os.chdir(directory)
        os.execvpe(argv[0], argv, environment)  # noqa: S606 - no shell reads it
    except OSError as error:
        code = processes.code_of(error, argv[0], environment.get("PATH", os.defpath))
        os.write(2, f"exec: {argv[0]!r}: {error.strerror}\n".encode())
    finally:
        os._exit(code)


# What a step sees besides the machine's own files: /proc, /sys, /dev, /run, /tmp, and this machine's network
# settings. None of it is in the image afterwards. To add something: a line in _fill.
# linux/capability.h: NET_ADMIN, SYS_MODULE, SYS_RAWIO, SYS_ADMIN, SYS_BOOT, SYS_TIME, MKNOD, SYSLOG. A step
# has root's rights on its files, but must not load modules into this machine's kernel or set its clock.
GIVEN_UP = (12, 16, 17, 21, 22, 25, 27, 34)
RESOLVER = Path("/etc/resolv.conf")
_READ_ONLY = kernel.BIND | kernel.REMOUNT | kernel.READ_ONLY


def enter(plan: Mapping[str, Any]) -> None:
    """Make the machine's tree the root of this process, which must have its own mount namespace."""
    root = Path(plan["root"])
    kernel.mount("none", Path("/"), flags=kernel.PRIVATE | kernel.RECURSIVE)
    if plan["upper"]:
        options = f"lowerdir={plan['root']},upperdir={plan['upper']},workdir={plan['work']}"
        options += "" if plan["is_root"] else ",userxattr"
        root = Path(plan["merged"])
        kernel.mount("machine", root, "overlay", options=options)
    else:
        kernel.mount(str(root), root, flags=kernel.BIND)
    _fill(root, plan)
    kernel.pivot_root(root)
    resolver = plan["resolver"]
    if RESOLVER.is_symlink():
        end = Path(os.path.realpath(RESOLVER))
        end.parent.mkdir(parents=True, exist_ok=True)
        end.write_text(Path(resolver).read_text(encoding="utf-8"), encoding="utf-8")
        return
    RESOLVER.touch()
    kernel.mount(resolver, RESOLVER, flags=kernel.BIND)
    kernel.mount("none", RESOLVER, flags=_READ_ONLY)


def _fill(root: Path, plan: Mapping[str, Any]) -> None:
    kernel.mount("proc", _folder(root, "proc"), "proc")
    # Without the mounts below /sys (control groups); an ordinary user must include them.
    whole = 0 if plan["is_root"] else kernel.RECURSIVE
    kernel.mount("/sys", _folder(root, "sys"), flags=kernel.BIND | whole)
    kernel.mount_devices(_folder(root, "dev"), "newinstance,ptmxmode=0666")
    for source, target in ((plan["run"], "run"), (plan["tmp"], "tmp"), (plan["tmp"], "var/tmp")):
        kernel.mount(source, _folder(root, target), flags=kernel.BIND)
    for source, target in plan["shared"]:
        kernel.mount(source, _folder(root, target), flags=kernel.BIND)
    for source, target in plan["readable"]:
        kernel.mount(source, _folder(root, target), flags=kernel.BIND)
        if plan["is_root"]:
            kernel.mount("none", root / target, flags=_READ_ONLY)
    if plan["is_root"]:
        settings = root / "proc/sys"
        kernel.mount(str(settings), settings, flags=kernel.BIND)
        for path in (settings, root / "sys"):
            kernel.mount("none", path, flags=_READ_ONLY)


def _folder(root: Path, name: str) -> Path:
    """Return a folder in the tree; refuse a link, which would lead out of it."""
    path = root / name
    if path.is_symlink():
        raise ValueError(
            f"/{name} of the image is a symbolic link; the yard cannot mount there, so make it a folder"
        )
    path.mkdir(parents=True, exist_ok=True)
    return path


# Actions on files and folders, inside the machine's file tree, where this machine's files are not visible.
# To add an action: a line of SORTS.
Order = Mapping[str, Any]


def _create_file(order: Order) -> None:
    path = _free(order)
    path.write_text(str(order.get("content", "")), encoding=order.get("encoding", "utf-8"))
    _own(path, order)


def _append_file(order: Order) -> None:
    path = Path(order["path"])
    with path.open("a", encoding=order.get("encoding", "utf-8")) as file:
        file.write(str(order.get("content", "")))
    _own(path, order)


def _create_folder(order: Order) -> None:
    path = Path(order["path"])
    path.mkdir(parents=True, exist_ok=order.get("overwrite", True))
    _own(path, order)


def _create_symlink(order: Order) -> None:
    path = Path(order["path"])
    if order.get("force"):
        path.unlink(missing_ok=True)
    path.symlink_to(order["target"])


def _copy_file(order: Order) -> None:
    target = _free(order, "destination")
    shutil.copy2(order["source"], target)
    _own(target, order)


def _move_file(order: Order) -> None:
    shutil.move(order["source"], _free(order, "destination"))


def _place(order: Order) -> None:
    path = _free(order)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(order["source"], path)


def _delete_folder(order: Order) -> None:
    if order.get("force"):
        shutil.rmtree(order["path"])
    else:
        Path(order["path"]).rmdir()


def _free(order: Order, member: str = "path") -> Path:
    path = Path(order[member])
    if path.exists() and not order.get("overwrite", True):
        raise FileExistsError(f"{path} is there already, and overwrite is false")
    return path


def _own(path: Path, order: Order) -> None:
    if order.get("permissions") is not None:
        mode = order["permissions"]
        path.chmod(int(str(mode), 8) if isinstance(mode, str) else mode)
    user = _number("/etc/passwd", order.get("owner"))
    group = _number("/etc/group", order.get("group"))
    if (user, group) != (-1, -1):
        os.chown(path, user, group)


def _number(table: str, name: object) -> int:
    """Read an id from a table in /etc: the C library would load modules of this tree. -1: no change."""
    if name is None:
        return -1
    if str(name).isdigit():
        return int(str(name))
    for line in Path(table).read_text(encoding="utf-8").splitlines():
        fields = line.split(":")
        if fields[0] == name:
            return int(fields[2])
    raise LookupError(f"{table} has no '{name}'")


SORTS: Mapping[str, Callable[[Order], None]] = {
    "append_file": _append_file,
    "copy_file": _copy_file,
    "create_file": _create_file,
    "create_folder": _create_folder,
    "create_symlink": _create_symlink,
    "delete_file": lambda order: Path(order["path"]).unlink(),
    "delete_folder": _delete_folder,
    "move_file": _move_file,
    "place": _place,
    "set_owner": lambda order: _own(Path(order["path"]), order),
    "set_permissions": lambda order: _own(Path(order["path"]), order),
}


if __name__ == "__main__":
    main(sys.argv[1])
