"""Compile the C core on first use, and keep the library in the user's cache under the digest of its source.

There are no locks: each process compiles to a name of its own and renames the file, and all compile the same
content. A killed build leaves a file that nobody opens. Container images are built with the library in them.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from slipway.containers.data.errors import DataError

SOURCE = Path(__file__).with_name("native")
FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-shared")
COMPILERS = ("cc", "gcc", "clang")
_HINT = "install a compiler with its headers, such as Debian's gcc and libc6-dev; images hold the library"


class CannotCompile(DataError):
    """There is no compiler, or it rejects our source."""


def library(extra_flags: tuple[str, ...] = ()) -> ctypes.CDLL:
    """Return the compiled library. SLIPWAY_DATA_FLAGS adds compiler flags, such as a sanitizer for tests."""
    flags = (*FLAGS, *extra_flags, *os.environ.get("SLIPWAY_DATA_FLAGS", "").split())
    cached = cache_folder() / f"core-{source_digest(flags)}.so"
    if cached.exists():
        try:
            return ctypes.CDLL(str(cached))
        except OSError:  # damaged, or made for another machine: compile it again
            pass
    return build(cached, flags)


def build(cached: Path, flags: tuple[str, ...]) -> ctypes.CDLL:
    compiler = find_compiler()
    sources = sorted(str(path) for path in SOURCE.glob("*.c"))
    with tempfile.TemporaryDirectory(prefix="slipway-data-") as folder:
        made = Path(folder) / "core.so"
        answer = subprocess.run(
            [compiler, *flags, "-o", str(made), *sources], capture_output=True, text=True, check=False
        )
        if answer.returncode:
            first = (answer.stderr.strip() or "no message").splitlines()[0]
            raise CannotCompile(f"{compiler} cannot compile {SOURCE}: {first}", hint=_HINT)
        keep(made, cached)
        return ctypes.CDLL(str(made))


def keep(made: Path, cached: Path) -> None:
    """Copy the library to the cache. If the cache is not writable, each process compiles again."""
    try:
        cached.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=cached.parent, prefix=".core-", delete=False) as file:
            file.write(made.read_bytes())
        Path(file.name).replace(cached)
    except OSError:
        return


def find_compiler() -> str:
    wanted = os.environ.get("CC")
    found = shutil.which(wanted) if wanted else next(filter(None, map(shutil.which, COMPILERS)), None)
    if not found:
        raise CannotCompile(
            f"no C compiler ({wanted or ', '.join(COMPILERS)}) is on PATH, and preparing text needs one",
            hint=_HINT,
        )
    return found


def source_digest(flags: tuple[str, ...]) -> str:
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()} {flags}".encode())
    for path in sorted(SOURCE.glob("*.[ch]")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "slipway" / "data"
