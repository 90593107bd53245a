"""The packages that a user's command wants on top of the image's, installed once on a node and then kept.

An environment of its own holds them and sees the image's, so that a torch which fits stays the image's, and
a package of another version changes nothing for other jobs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from slipway.containers.recipes.command.held_folders import hold, sweep
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.named_files import read_bytes

PREFIX = "packages-"
_MOST_BYTES = 1 << 20
_KEPT_SECONDS = 7 * 24 * 3600.0  # after the last job that took them
_SHOWN = 16
_QUIET = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
_SITES = ("site-packages", "dist-packages")


def ensure_packages(root: Path, requirements: str, folder: Path) -> Path:
    """Return the environment with what the requirements of the folder name, installed if nobody has."""
    content = read_bytes(folder / requirements, _MOST_BYTES)
    own = f"{sys.executable}\0{sys.version}\0".encode()
    name = f"{PREFIX}{sha256(own + content).hexdigest()[:_SHOWN]}"

    def install(environment: Path) -> None:
        sweep(root, PREFIX, _KEPT_SECONDS)
        _install(environment, requirements, folder)

    return hold(root, name, install)


def with_packages(environment: Mapping[str, str], packages: Path) -> dict[str, str]:
    """Let programs of the image see the packages, too: torchrun's first line names the image's Python."""
    return {
        **environment,
        "VIRTUAL_ENV": str(packages),
        "PATH": os.pathsep.join((str(packages / "bin"), environment.get("PATH", os.defpath))),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(_site(packages)), environment.get("PYTHONPATH")))),
    }


def _install(environment: Path, requirements: str, folder: Path) -> None:
    _run([sys.executable, "-m", "venv", "--without-pip", str(environment)], folder, "make an environment")
    sites = [path for path in sys.path if Path(path).name in _SITES]
    # addsitedir, and no plain path: what the image has by way of .pth files counts as well.
    lines = [f"import site; site.addsitedir({path!r})\n" for path in sites]
    (_site(environment) / "_image.pth").write_text("".join(lines), encoding="utf-8")
    python = str(environment / "bin" / "python")
    print(f"installing {requirements}", file=sys.stderr, flush=True)
    _run([python, "-m", "pip", "install", "--requirement", requirements], folder, f"install {requirements}")


def _site(environment: Path) -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return environment / "lib" / version / "site-packages"


def _run(words: list[str], folder: Path, what: str) -> None:
    """Run a program whose words go to the log as it writes them."""
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **_QUIET}, stdout=sys.stderr.fileno(), check=False
    )
    if done.returncode:
        raise Refusal(
            f"this node could not {what}: {' '.join(words[1:4])} ended with exit code {done.returncode}",
            hint="its reason is above; nodes without a way to the internet need wheels in the folder, and "
            "--no-index and --find-links in the file",
        )
