"""The C core as a library that Python can call: compiled on first use, kept under the digest of its source.

Nothing is locked: each process compiles under a name of its own and renames, and the last one wins with the
same content. A killed build leaves a file that nobody opens. An image compiles it with Python alone.
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
_HINT = "install one with its headers, as Debian's gcc and libc6-dev; images have it compiled already"


class CannotCompile(DataError):
    """There is no compiler here, or it does not accept our source."""


def library(extra_flags: tuple[str, ...] = ()) -> ctypes.CDLL:
    """Return the compiled library. SLIPWAY_DATA_FLAGS adds compiler flags: tests use it to find undefined
    behaviour."""
    flags = (*FLAGS, *extra_flags, *os.environ.get("SLIPWAY_DATA_FLAGS", "").split())
    kept = cache_folder() / f"core-{source_digest(flags)}.so"
    if kept.exists():
        try:
            return ctypes.CDLL(str(kept))
        except OSError:  # damaged, or made for another machine: made again below
            pass
    return build(kept, flags)


def build(kept: Path, flags: tuple[str, ...]) -> ctypes.CDLL:
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
        keep(made, kept)
        return ctypes.CDLL(str(made))


def keep(made: Path, kept: Path) -> None:
    """Keep the library for the next process. A home that cannot be written to costs one compilation per
    process."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=kept.parent, prefix=".core-", delete=False) as file:
            file.write(made.read_bytes())
        Path(file.name).replace(kept)
    except OSError:
        return


def find_compiler() -> str:
    wanted = os.environ.get("CC")
    found = shutil.which(wanted) if wanted else next(filter(None, map(shutil.which, COMPILERS)), None)
    if not found:
        raise CannotCompile(
            f"no C compiler ({wanted or ', '.join(COMPILERS)}) is on PATH, and text is prepared in C",
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
