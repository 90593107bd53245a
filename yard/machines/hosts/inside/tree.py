"""A host's files: a machine image's, or this machine's own, and whatever the host changes is its own alone.

Standard library only. How a kind of tree is made is a line of _TREES; what every host mounts, one of _fill.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from slipway.yard.machines.isolation import home, kernel

Plan = Mapping[str, Any]

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
OWN = {"tmp": "1777", "var/tmp": "1777", "run": "755"}  # empty at boot
# No disk of this machine is one of the host's: user data makes file systems on what it finds here.
_DISKS = ("sys/block", "sys/class/block", "sys/dev/block")
_COPIED = ("etc",)
_EMPTY = ("root", "home", "opt", "srv", "mnt", "var/log", "var/lib", "var/spool", "var/tmp")
PROGRAMS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")


def enter(plan: Plan) -> None:
    """Make this process's tree the host's. Needs a mount namespace of its own."""
    base = Path(plan["folder"])
    kernel.mount("none", Path("/"), flags=kernel.PRIVATE | kernel.RECURSIVE)
    kernel.mount("host", base, "tmpfs", options="mode=755")
    root = _TREES[plan["tree"]](base, plan)
    home.hide(root, plan["home"], read_only=False)  # what is written there is the host's own
    _fill(root, plan)
    for source, target in plan["mounts"]:
        kernel.bind(source, home.folder_in(root, target))
    for path in plan["read_only"]:
        home.make_read_only(home.folder_in(root, path))
    kernel.pivot_root(root)
    settle(plan)


def prepare(plan: Plan) -> Path:
    """Make the host's tree, for systemd-nspawn to mount the rest of it and to enter it at each boot."""
    base = Path(plan["folder"])
    kernel.mount("none", Path("/"), flags=kernel.PRIVATE | kernel.RECURSIVE)
    kernel.mount("host", base, "tmpfs", options="mode=755")
    root = _TREES[plan["tree"]](base, plan)
    home.hide(root, plan["home"], read_only=True)
    settler = os.fork()
    if settler == 0:
        _settle_below(root, plan)
    if os.waitpid(settler, 0)[1]:
        raise OSError(f"cannot write the files of {root}")
    return root


def _settle_below(root: Path, plan: Plan) -> NoReturn:
    """A link in the tree may lead out of it, so nothing else of this machine is in sight."""
    code = 1
    try:
        os.chroot(root)
        os.chdir("/")
        settle(plan)
        code = 0
    except OSError:
        traceback.print_exc()
    finally:
        os._exit(code)


def _overlay(base: Path, plan: Plan) -> Path:
    for name in ("upper", "work", "root"):
        (base / name).mkdir()
    options = f"lowerdir={plan['lower']},upperdir={base / 'upper'},workdir={base / 'work'}"
    kernel.mount("host", base / "root", "overlay", options=options + plan["overlay_options"])
    return base / "root"


def _copied(base: Path, _plan: Plan) -> Path:
    """An ordinary user cannot lay an overlay over /: programs are this machine's, settings a copy."""
    root = base / "root"
    for name in _EMPTY:
        (root / name).mkdir(parents=True, exist_ok=True)
    kernel.mount(str(root), root, flags=kernel.BIND)  # pivot_root wants a mount
    for name in PROGRAMS:
        source = Path("/", name)
        target = root / name
        if source.is_symlink():
            target.symlink_to(source.readlink())
        elif source.is_dir():
            target.mkdir()
            try:
                _lay_over(base, source, target)
            except OSError:  # kernels before 5.11, and folders with mounts in them
                kernel.bind(str(source), target)
                home.make_read_only(target)
    for name in _COPIED:
        with contextlib.suppress(shutil.Error):  # of what only root may read
            shutil.copytree(Path("/", name), root / name, symlinks=True)
    return root


_TREES: Mapping[str, Callable[[Path, Plan], Path]] = {"overlay": _overlay, "copied": _copied}


def _lay_over(base: Path, source: Path, target: Path) -> None:
    """Make the folder again: no user of the host owns this machine's, so none could write there."""
    upper, work = base / "upper" / source.name, base / "work" / source.name
    for folder in (source, *_folders(source), *_folders(source / "local")):
        (upper / folder.relative_to(source)).mkdir(parents=True, exist_ok=True)
    work.mkdir(parents=True)
    options = f"lowerdir={source},upperdir={upper},workdir={work},userxattr"
    kernel.mount("programs", target, "overlay", options=options)


def _folders(path: Path) -> list[Path]:
    found = path.iterdir() if path.is_dir() else ()
    return [each for each in found if each.is_dir() and not each.is_symlink()]


def _fill(root: Path, plan: Plan) -> None:
    kernel.mount("proc", home.folder_in(root, "proc"), "proc")
    _settings(root, plan)
    dev = home.folder_in(root, "dev")
    kernel.mount("dev", dev, "tmpfs", options="mode=755")
    for name in DEVICES:
        (dev / name).touch()
        kernel.mount(f"/dev/{name}", dev / name, flags=kernel.BIND)
    for name, end in LINKS.items():
        (dev / name).symlink_to(end)
    kernel.mount("shm", home.folder_in(dev, "shm"), "tmpfs", options="mode=1777")
    kernel.mount("devpts", home.folder_in(dev, "pts"), "devpts", options=plan["terminals"])
    for name, mode in OWN.items():
        kernel.mount("own", home.folder_in(root, name), "tmpfs", options=f"mode={mode}")


def _settings(root: Path, plan: Plan) -> None:
    """This machine's, to look at: what a host writes there would be set for all of the machine."""
    kernel.bind("/sys", home.folder_in(root, "sys"))
    if not plan["is_root"]:
        return  # an ordinary user may write nothing there
    for path in (root / "proc/sys", root / "sys"):
        kernel.mount(str(path), path, flags=kernel.BIND | kernel.RECURSIVE)
        kernel.mount("none", path, flags=kernel.BIND | kernel.REMOUNT | kernel.READ_ONLY)
    for name in _DISKS:
        if (root / name).is_dir():
            kernel.mount("none", root / name, "tmpfs", flags=kernel.READ_ONLY)


def settle(plan: Plan) -> None:
    """Write the files that are there when the host begins to boot."""
    for path in plan["removed"]:
        _remove(Path(path))
    for path, mode in plan["modes"].items():
        Path(path).chmod(mode)
    for path, end in plan["links"].items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        _remove(Path(path))
        Path(path).symlink_to(end)
    for path, text in plan["appended"].items():
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    for path, given in plan["written"].items():
        _write(Path(path), given)
    for path, owner in plan["owned"].items():
        Path(path).mkdir(parents=True, exist_ok=True)
        os.chown(path, owner, owner)


def _write(path: Path, given: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove(path)  # a link would lead elsewhere
    path.write_text(given["text"], encoding="utf-8")
    path.chmod(given["mode"])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
