"""The Debian root file system that a bake starts from, instead of a parent image: debootstrap makes it once.

It is kept in the user's cache (XDG_CACHE_HOME), named after its release and its packages.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

BASE_VARIABLE = "SLIPWAY_YARD_MACHINE_BASE"  # the user's own tar file, instead of Debian's
SUITE = "bookworm"
# Packages of Debian's AMI that components may rely on.
PACKAGES = (
    "ca-certificates",
    "curl",
    "dbus",
    "gpg",
    "kmod",
    "procps",
    "python3",
    "sudo",
    "systemd-sysv",
    "udev",
    "xz-utils",
)
# Boot and set-up on AWS. Installed by apt, since debootstrap cannot order cloud-init's dependencies.
ADDED = ("cloud-init", "openssh-server")
_NOTHING_IS_STARTED = "#!/bin/sh\nexit 101\n"  # policy-rc.d: see invoke-rc.d(8)
# Left out of the archive: this machine's host name and name servers, devices, and apt's downloads.
_LEFT_OUT = (
    "./dev/*",
    "./etc/hostname",
    "./etc/resolv.conf",
    "./var/cache/apt/*.bin",
    "./var/cache/apt/archives/*.deb",
    "./var/lib/apt/lists/*",
)
_TAIL_LINES = 3


class NoBase(Exception):
    """Says why there is no base, and what to do."""


def cache() -> Path:
    """Return the cache folder, following the XDG specification."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "slipway" / "machine-images"


def name() -> str:
    given = os.environ.get(BASE_VARIABLE)
    return Path(given).name if given else f"debian-{SUITE}"


def base_archive(say: Callable[[str], None]) -> Path:
    """Return the tar file of a root file system. The first caller makes it; others wait."""
    if given := os.environ.get(BASE_VARIABLE):
        if not Path(given).is_file():
            raise NoBase(
                f"{BASE_VARIABLE} names {given}, which is not a file; name a tar file of a root file system"
            )
        return Path(given)
    archive = kept_archive()
    if not archive.exists():
        if reason := reason_for_no_base():
            raise NoBase(reason)
        cache().mkdir(parents=True, exist_ok=True)
        with archive.with_suffix(".lock").open("w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not archive.exists():
                _bootstrap(archive, say)
    return archive


def reason_for_no_base() -> str:
    """Return why this machine has no base and cannot make one; "" if it has or can."""
    what = f"a base for machine images is made by debootstrap, as root; or name a tar file in {BASE_VARIABLE}"
    if os.environ.get(BASE_VARIABLE) or kept_archive().exists():
        return ""
    if os.geteuid() != 0:
        return f"the yard runs as user {os.geteuid()}, and {what}"
    if shutil.which("debootstrap") is None:
        return f"debootstrap is not installed, and {what}; python3 scripts/set_up.py machine installs it"
    return ""


def kept_archive() -> Path:
    """Return where the base is kept, once it is made."""
    digest = sha256(" ".join((*PACKAGES, *ADDED)).encode()).hexdigest()[:12]
    return cache() / f"debian-{SUITE}-{digest}.tar"


def _bootstrap(archive: Path, say: Callable[[str], None]) -> None:
    """Make the archive, or nothing; after an interruption the next attempt reuses debootstrap's downloads."""
    say(f"making a Debian {SUITE} with debootstrap, once: it is kept in {archive}")
    packages = cache() / "debootstrap"
    packages.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="debootstrap-", dir=cache()) as folder:
        root, partial = Path(folder) / "root", Path(folder) / "root.tar"
        options = ["--variant=minbase", f"--include={','.join(PACKAGES)}", f"--cache-dir={packages}"]
        _call(["debootstrap", *options, SUITE, str(root)])
        _add(root)
        excluded = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
        _call(["tar", "-C", str(root), "--numeric-owner", *excluded, "-cf", str(partial), "."])
        partial.replace(archive)
    shutil.rmtree(packages)


def _add(root: Path) -> None:
    policy = root / "usr/sbin/policy-rc.d"
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text(_NOTHING_IS_STARTED, encoding="ascii")
    policy.chmod(0o755)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    inside = [
        "chroot",
        str(root),
        "env",
        "--unset=TMPDIR",  # the yard's folder does not exist inside
        "--unset=PYTHONPATH",
        "DEBIAN_FRONTEND=noninteractive",
        "SYSTEMD_OFFLINE=1",
        "apt-get",
        "-qq",
    ]
    _call([*inside, "update"])
    _call([*inside, "install", "--no-install-recommends", *ADDED])
    policy.unlink()


def unpack(archive: Path, root: Path) -> None:
    root.mkdir(parents=True)
    owner = "--numeric-owner" if os.geteuid() == 0 else "--no-same-owner"
    _call(["tar", "-C", str(root), owner, "-xpf", str(archive)])


def _call(command: list[str]) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        said = " / ".join(done.stdout.strip().splitlines()[-_TAIL_LINES:]) or "it says nothing"
        raise NoBase(f"{command[0]} ended with {done.returncode}: {said}")
