"""Builds and runs images of containers/ with buildah in separate stores, on a base that is made here."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.jobs.words.images.containers import source_files
from slipway.yard.services.imagebuilder.machine.base import NoBase, base_archive, reason_for_no_base

CONTAINERS = Path(__file__).resolve().parents[3] / "containers"
BASE = "localhost/slipway-base:test"
_TORCH_WHEELS = "https://download.pytorch.org/whl/cpu/torch/"
_BUILD_SECONDS = 1200


def reason_not_to_build() -> str | None:
    """Try each way, the cheapest first."""
    if shutil.which("buildah") is None:
        return "buildah is not installed here"
    if sys.version_info[:2] != (3, 11) or platform.machine() != "x86_64":
        return "this Python fetches packages for itself, and the image wants those for 3.11 on x86-64"
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed here, and pip asks for it to fetch DeepSpeed"
    return reason_for_no_base() or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    builder: Builder
    container: str
    context: Path

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run as the image's user, in its folder, with its variables."""
        return self.builder.call("run", "--isolation", "chroot", self.container, "--", "sh", "-c", script)


class Builder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make_base(self) -> str | None:
        """Say why this machine cannot build, if so, after trying a build that reads Debian's archive."""
        try:
            archive = base_archive(lambda _: None)
        except NoBase as error:
            return str(error)
        (self._folder / "Dockerfile").write_text(
            "FROM scratch\nADD debian.tar /\nRUN apt-get update --error-on=any\n", encoding="utf-8"
        )
        shutil.copy(archive, self._folder / "debian.tar")
        tried = self.call("bud", "--isolation", "chroot", "--tag", BASE, str(self._folder))
        (self._folder / "debian.tar").unlink()
        return f"buildah cannot build here: {_last_line(tried)}" if tried.returncode else None

    def build(self, name: str) -> Image:
        context, wheels, settings = (self._folder / part for part in ("context", "wheels", "pip.conf"))
        for path in source_files(CONTAINERS, name):
            copy = context / path.relative_to(CONTAINERS)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
        _fetch(CONTAINERS / "images" / name, wheels)
        settings.write_text(
            "[global]\nno-index = true\nretries = 0\nfind-links = /run/wheels\n", encoding="utf-8"
        )
        mounts = [f"--volume={wheels}:/run/wheels:ro", f"--volume={settings}:/etc/pip.conf:ro"]
        file, tag = f"--file={context / 'images' / name / 'Dockerfile'}", f"localhost/slipway-{name}:test"
        built = self.call(
            "bud", "--isolation=chroot", f"--from={BASE}", *mounts, file, f"--tag={tag}", str(context)
        )
        assert built.returncode == 0, built.stdout[-4000:] + built.stderr[-4000:]
        container = self.call("from", "--pull-never", tag).stdout.strip()
        return Image(builder=self, container=container, context=context)

    def clear(self) -> None:
        self.call("rm", "--all")
        self.call("rmi", "--all", "--force")

    def call(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        stores = [f"--root={self._folder / 'store'}", f"--runroot={self._folder / 'run'}"]
        return _run(["buildah", *stores, command, *arguments])


def _fetch(folder: Path, wheels: Path) -> None:
    """Do not wait for torch's own index if it cannot be reached: another one may have the wheels."""
    options = ["--no-deps", "--require-hashes", "--no-build-isolation", "--retries=0", "--quiet"]
    for lock in sorted(folder.glob("*.txt")):
        command = [sys.executable, "-m", "pip", "download", *options, f"--find-links={_TORCH_WHEELS}"]
        fetched = _run([*command, f"--dest={wheels}", f"--requirement={lock}"])
        assert fetched.returncode == 0, fetched.stderr[-4000:]


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_BUILD_SECONDS)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip() or "it says nothing").splitlines()
    return lines[-1]
