"""Makes a root file system with a few programs of this machine, so that most bakes in tests take a moment."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
from pathlib import Path

# fmt: off
PROGRAMS = (
    "bash", "cat", "env", "hostname", "id", "ls", "mkdir", "rm", "sleep", "stat", "sync", "touch", "true",
)
# fmt: on
MERGED = ("bin", "sbin", "lib", "lib64")  # links into /usr, as Debian has them
_LIBRARY = re.compile(r"(/\S+\.so\S*)")


def write_root(archive: Path, folder: Path) -> Path:
    """Make a tar file of it; `folder` is for temporary files."""
    for name in ("etc/ssh", "root/.ssh", "tmp", "usr/bin", "usr/lib", "usr/lib64", "usr/sbin", "var/log"):
        (folder / name).mkdir(parents=True)
    for name in MERGED:
        (folder / name).symlink_to(f"usr/{name}")
    for name in PROGRAMS:
        program = shutil.which(name)
        assert program, f"this machine has no {name}"
        _copy(Path(program), folder / "usr/bin" / name)
        linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for library in _LIBRARY.findall(linked):
            _copy(Path(library), folder / library.lstrip("/"))
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/:/bin/false\n")
    (folder / "etc/group").write_text("root:x:0:\ndaemon:x:1:\n")
    (folder / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    with tarfile.open(archive, "w") as tar:
        tar.add(folder, arcname=".")
    return archive


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.copy(source, target)
