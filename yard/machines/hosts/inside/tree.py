"""Makes a host's file tree, from an AMI or from this machine's files; the host's changes stay in the host.

Standard library only. To add a kind of tree: a line of _TREES; a mount of every host: a line of _fill.
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

OWN = {"tmp": "1777", "var/tmp": "1777", "run": "755"}  # empty at boot
# Hides this machine's disks: user data would make file systems on disks that it finds here.
_DISKS = ("sys/block", "sys/class/block", "sys/dev/block")
_EMPTY = ("root", "home", "opt", "srv", "mnt", "var/log", "var/lib", "var/spool", "var/tmp")
PROGRAMS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")


def enter(plan: Plan) -> None:
    """Make the host's tree the root of this process, which must have its own mount namespace."""
    base = Path(plan["folder"])
    kernel.mount("none", Path("/"), flags=kernel.PRIVATE | kernel.RECURSIVE)
    kernel.mount("host", base, "tmpfs", options="mode=755")
    root = _TREES[plan["tree"]](base, plan)
    home.hide(root, plan["home"], read_only=False)  # writes there stay in the host
    _fill(root, plan)
    for source, target in plan["mounts"]:
        kernel.bind(source, home.folder_in(root, target))
    for path in plan["read_only"]:
        home.make_read_only(home.folder_in(root, path))
    kernel.pivot_root(root)
    settle(plan)


def prepare(plan: Plan) -> Path:
    """Make the host's tree for systemd-nspawn, which mounts the rest and enters it at each boot."""
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
    """Write the host's files within a chroot: a link in the tree must not lead out of it."""
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
    """Make the tree for an ordinary user, who cannot overlay /: share programs and copy settings."""
    root = base / "root"
    for name in _EMPTY:
        (root / name).mkdir(parents=True, exist_ok=True)
    kernel.mount(str(root), root, flags=kernel.BIND)  # pivot_root needs a mount point
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
    with contextlib.suppress(shutil.Error):  # some files only root may read
        shutil.copytree("/etc", root / "etc", symlinks=True)
    return root


_TREES: Mapping[str, Callable[[Path, Plan], Path]] = {"overlay": _overlay, "copied": _copied}


def _lay_over(base: Path, source: Path, target: Path) -> None:
    """Mount an overlay whose folders the host's user owns: nobody there could write into this machine's."""
    upper, work = base / "upper" / source.name, base / "work" / source.name
    for folder in (source, *_folders(source), *_folders(source / "local")):
        (upper / folder.relative_to(source)).mkdir(parents=True, exist_ok=True)
    work.mkdir(parents=True)
    options = f"lowerdir={source},upperdir={upper},workdir={work},userxattr"
    kernel.mount("programs", target, "overlay", options=options)


def _folders(path: Path) -> list[Path]:
    found = path.iterdir() if path.is_dir() else ()
    return [entry for entry in found if entry.is_dir() and not entry.is_symlink()]


def _fill(root: Path, plan: Plan) -> None:
    kernel.mount("proc", home.folder_in(root, "proc"), "proc")
    _settings(root, plan)
    kernel.mount_devices(home.folder_in(root, "dev"), plan["terminals"])
    for name, mode in OWN.items():
        kernel.mount("own", home.folder_in(root, name), "tmpfs", options=f"mode={mode}")


def _settings(root: Path, plan: Plan) -> None:
    """Mount this machine's /sys and /proc/sys, read-only: a host's writes would change the whole machine."""
    kernel.bind("/sys", home.folder_in(root, "sys"))
    if not plan["is_root"]:
        return  # an ordinary user cannot write there anyway
    for path in (root / "proc/sys", root / "sys"):
        kernel.mount(str(path), path, flags=kernel.BIND | kernel.RECURSIVE)
        kernel.mount("none", path, flags=kernel.BIND | kernel.REMOUNT | kernel.READ_ONLY)
    for name in _DISKS:
        if (root / name).is_dir():
            kernel.mount("none", root / name, "tmpfs", flags=kernel.READ_ONLY)


def settle(plan: Plan) -> None:
    """Write the files that exist before the host boots."""
    for path in plan["removed"]:
        _remove(Path(path))
    for path, mode in plan["modes"].items():
        Path(path).chmod(mode)
    for path, end in plan["links"].items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        _remove(Path(path))
        Path(path).symlink_to(end)
    for path, text in plan["appended"].items():
        with Path(path).open("a", encoding="utf-8") as appended:
            appended.write(text)
    for path, given in plan["written"].items():
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        _remove(file)  # do not write through a link
        file.write_text(given["text"], encoding="utf-8")
        file.chmod(given["mode"])
    for path, owner in plan["owned"].items():
        Path(path).mkdir(parents=True, exist_ok=True)
        os.chown(path, owner, owner)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
