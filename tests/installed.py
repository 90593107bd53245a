"""Builds the wheel from a copy of this checkout, and installs it into clean environments, without a network.

The wheel's requirements are linked from the tests' environment, package by package as metadata names them, so
an environment holds what the wheel and its extras need, and nothing else.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"""\bextra *== *["']([^"']+)["']""")
_OWN = ("AWS_", "SLIPWAY_", "PYTHONPATH", "VIRTUAL_ENV", "CDK_")
# Otherwise the first synthesis in each home unpacks the CDK for five seconds. This is jsii's cache in our
# home.
_UNPACKED = Path.home() / ".cache" / "aws" / "jsii" / "package-cache"
_PROGRAMS = ("cdk", "node")  # in the checkout: what `npm install aws-cdk` brings


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A virtual environment, in which the checkout cannot be imported."""

    folder: Path
    home: Path

    @property
    def packages(self) -> Path:
        (found,) = self.folder.glob("lib/python3*/site-packages")
        return found

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment of a shell in which this one is active, and no other."""
        programs = [str(self.folder / "bin"), str(self.home / "bin"), "/usr/local/bin", "/usr/bin", "/bin"]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
        own = {
            "HOME": str(self.home),
            "PATH": os.pathsep.join(programs),
            "AWS_EC2_METADATA_DISABLED": "true",
            "CDK_VALIDATION": "false",
            "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(_UNPACKED),
            "XDG_STATE_HOME": str(self.home / "state"),
        }
        return {**kept, **own}

    def run(
        self, *command: str, cwd: Path, more: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = {**self.variables, **(more or {})}
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def build_once(folder: Path) -> Path:
    """Build the wheel below the folder, unless another worker of the same tests has done so."""
    with (folder / "wheel.lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = list((folder / "build" / "wheel").glob("*.whl"))
        return built[0] if built else build_wheel(folder / "build")


def build_wheel(folder: Path) -> Path:
    source, target = folder / "source", folder / "wheel"
    copy_checkout(source)
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    _ran(sys.executable, "-m", "pip", "wheel", *options, f"--wheel-dir={target}", str(source))
    (wheel,) = target.iterdir()
    return wheel


def copy_checkout(source: Path) -> None:
    """Copy the files that git tracks here into a new repository with one commit and no tag."""
    listed = _ran("git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if os.path.lexists(ROOT / name):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
    git(source, "init", "--quiet")
    git(source, "add", "--all")
    git(source, "commit", "--quiet", "--message=one")


def git(folder: Path, *arguments: str) -> str:
    """Run git as an author, whatever this machine's settings are; return what it prints."""
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return _ran("git", "-C", str(folder), *author, *arguments).strip()


def make_environment(folder: Path, wheel: Path, extras: Sequence[str] = ()) -> Environment:
    home = folder / "home"
    (home / "bin").mkdir(parents=True)
    for program in _PROGRAMS:
        (home / "bin" / program).symlink_to(shutil.which(program) or program)
    _ran(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"))
    made = Environment(folder=folder / "venv", home=home)
    uv, python = str(Path(sys.executable).parent / "uv"), str(made.folder / "bin" / "python")
    _ran(uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python, str(wheel))
    packages = made.packages
    for name in sorted(_closure(set(_requirements("slipway", extras)))):
        # The top level of its files: folders, modules and metadata.
        package = metadata.distribution(name)
        for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            if not os.path.lexists(packages / top):
                (packages / top).symlink_to(str(package.locate_file(top)))
    return made


def _closure(names: set[tuple[str, tuple[str, ...]]]) -> set[str]:
    """Name every package installed here that one of `names` needs, including `names`."""
    seen: set[tuple[str, tuple[str, ...]]] = set()
    waiting = list(names)
    while waiting:
        wanted = waiting.pop()
        if wanted not in seen and _is_installed(wanted[0]):
            seen.add(wanted)
            waiting += _requirements(*wanted)
    return {name for name, _ in seen}


def _requirements(name: str, extras: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each requirement with its extras, as in moto[all,server]==5.2.5; extra == "yard"."""
    for line in metadata.requires(name) or ():
        needed, _, marker = line.partition(";")
        extra = _EXTRA.search(marker)
        if extra is None or extra[1] in extras:
            found = _NAME.match(needed)
            assert found, line
            also = re.search(r"\[([^]]+)\]", needed)
            yield found[0], tuple(part.strip() for part in also[1].split(",")) if also else ()


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _ran(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
