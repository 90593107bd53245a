"""The machine that a bake builds: a root file system in a folder, in which steps run one after the other.

inside.py isolates steps from this machine, and decides what else they see. Downloads are here, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.yard.endpoint import HIDDEN_VARIABLES, own_client
from slipway.yard.machines.isolation.tiers import best_tier
from slipway.yard.machines.settings import CHECKOUT
from slipway.yard.permissions import keys
from slipway.yard.permissions.keys import RoleSession
from slipway.yard.services.imagebuilder.components.actions import Download, Order
from slipway.yard.services.imagebuilder.machine import base, network_settings
from slipway.yard.state import remove_tree

LONGEST_OUTPUT = 64 * 1024  # of a step's output, for references in later steps
LOOK_SECONDS = 0.1
ARCHIVES = "var/cache/apt/archives"
AROUND = ("run", "tmp", "upper", "work", "merged")  # folders that a machine needs while it runs
HOSTNAME = "image-builder"
# Files that Image Builder's sanitising removes from an image: secrets, and identities of machines.
SECRETS = (
    "etc/ssh/ssh_host_*",
    "root/.bash_history",
    "root/.ssh/authorized_keys",
    "var/lib/cloud/*",
    "var/log/*.log",
)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    code: int
    output: str
    timed_out: bool = False


class BakedMachine:
    """A machine in `folder`; at the end everything but the root is deleted."""

    def __init__(self, folder: Path, region: str, directory: str, cancelled: threading.Event) -> None:
        self.folder, self.root = folder, folder / "root"
        self._region, self._directory, self._cancelled = region, directory, cancelled
        self.session: RoleSession | None = None  # of the instance's role, for downloads from S3
        self._is_test = False
        self._readable: list[tuple[str, str]] = []
        self._environment = network_settings.environment()

    def boot(self, say: Say) -> None:
        if not best_tier().isolated:
            raise base.NoBase(
                "this machine makes no namespaces for this user, so nothing is baked: run the yard as root"
            )
        self._prepare()
        archive = base.base_archive(say)
        base.unpack(archive, self.root)
        say(f"a root file system of {archive.name} stands in for the parent image")

    def run(self, order: Order, timeout_seconds: float, say: Say) -> Done:
        """Run the order, and pass its program's output to `say` line by line."""
        s3 = keys.client(self.session, "s3", self._region) if self.session else own_client("s3", self._region)
        fetch(order.downloads, self.folder / "run/slipway/downloads", s3)
        with self._archives() as shared:
            plan = {
                "root": str(self.root),
                **{name: str(self.folder / name) for name in ("run", "tmp", "work", "merged")},
                "upper": str(self.folder / "upper") if self._is_test else "",
                "resolver": "/run/slipway/resolv.conf",
                "readable": self._readable,
                "shared": shared,
                "is_root": best_tier().name == "root",
                "hostname": HOSTNAME,
                "environment": self._environment,
                "directory": self._directory,
                "argv": order.argv,
                "script": order.script,
                "files": order.files,
            }
            file = self.folder / "plan.json"
            file.write_text(json.dumps(plan), encoding="utf-8")
            return self._follow(file, timeout_seconds, say)

    def seal(self) -> None:
        """Remove secrets, and files that every machine makes at its first boot."""
        for pattern in SECRETS:
            for path in self.root.glob(pattern):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        resolver, machine_id = self.root / "etc/resolv.conf", self.root / "etc/machine-id"
        if resolver.is_file() and not resolver.is_symlink() and resolver.stat().st_size == 0:
            resolver.unlink()
        if machine_id.is_file() and not machine_id.is_symlink():
            machine_id.write_text("", encoding="ascii")

    def start_test(self, say: Say) -> None:
        """Freeze the root: test steps write to an overlay, which is deleted with the machine."""
        self._is_test = True
        self._prepare()
        if (self.root / "usr/bin/ssh-keygen").exists():  # on AWS cloud-init makes the keys
            self.run(Order(argv=("/usr/bin/ssh-keygen", "-A")), 60, say)

    def clear(self) -> None:
        """Delete all but the root."""
        for name in AROUND:
            remove_tree(self.folder / name)
        (self.folder / "plan.json").unlink(missing_ok=True)

    def _prepare(self) -> None:
        for name in AROUND:
            (self.folder / name).mkdir(parents=True)
        (self.folder / "tmp").chmod(0o1777)
        self._readable = network_settings.prepare(self.folder / "run")

    @contextmanager
    def _archives(self) -> Iterator[list[tuple[str, str]]]:
        """Let apt reuse the downloads of earlier bakes, whose hashes it checks.

        Each step has its own folder of links, since two bakes at once would compete for apt's lock.
        """
        if not (self.root / ARCHIVES).is_dir():
            yield []
            return
        cached = base.cache() / "apt"
        mine = base.cache() / f"apt-{uuid.uuid4().hex}"
        for folder in (cached, mine / "partial"):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            _link(cached, mine)
            yield [(str(mine), ARCHIVES)]
            _link(mine, cached)
        finally:
            shutil.rmtree(mine, ignore_errors=True)

    def _follow(self, plan: Path, timeout_seconds: float, say: Say) -> Done:
        # inside.py learns where our code is, but no secret of the yard.
        inherited = {name: value for name, value in os.environ.items() if name not in HIDDEN_VARIABLES}
        process = subprocess.Popen(
            [sys.executable, "-S", "-m", "slipway.yard.services.imagebuilder.machine.inside", str(plan)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=CHECKOUT,
            env={**inherited, "PYTHONPATH": str(CHECKOUT)},
        )
        ended, late = threading.Event(), threading.Event()
        watch = threading.Thread(
            target=self._watch, args=(process, timeout_seconds, ended, late), daemon=True
        )
        watch.start()
        assert process.stdout is not None
        printed = ""
        for line in process.stdout:
            text = line.decode(errors="replace").rstrip("\r\n")
            if len(printed) < LONGEST_OUTPUT:
                printed += text + "\n"
            say(text)
        process.stdout.close()
        output = printed.strip()
        code = process.wait()
        ended.set()
        watch.join()
        return Done(code=code, output=output, timed_out=late.is_set())

    def _watch(
        self,
        process: subprocess.Popen[bytes],
        timeout_seconds: float,
        ended: threading.Event,
        late: threading.Event,
    ) -> None:
        """Kill the process when its time is over, or when the bake is cancelled."""
        deadline = time.monotonic() + timeout_seconds
        while not ended.wait(LOOK_SECONDS):
            if time.monotonic() > deadline:
                late.set()
            if late.is_set() or self._cancelled.is_set():
                process.kill()  # then the kernel kills all processes inside
                return


def _link(source: Path, target: Path) -> None:
    for package in source.glob("*.deb"):
        with suppress(FileExistsError, FileNotFoundError):
            os.link(package, target / package.name)


# Downloads of a step (WebDownload, S3Download): the yard fetches them and checks their checksums.
# To add an algorithm: hashlib's name in ALGORITHMS.
ALGORITHMS = ("md5", "sha1", "sha256", "sha512")
TIMEOUT_SECONDS = 60  # without any data


class WrongDownload(Exception):
    """Says that a download does not have the component's checksum."""


def fetch(downloads: Sequence[Download], folder: Path, s3: Any) -> None:
    """Download into the folder; `s3` is a boto3 client with the machine's role."""
    for download in downloads:
        path = folder / download.place
        path.unlink(missing_ok=True)
        if download.source.startswith("s3://"):
            bucket, _, key = download.source.removeprefix("s3://").partition("/")
            s3.download_file(bucket, key, str(path))
        else:
            with (
                urllib.request.urlopen(download.source, timeout=TIMEOUT_SECONDS) as answer,  # noqa: S310 - actions.py takes http and https only
                path.open("wb") as file,
            ):
                shutil.copyfileobj(answer, file)
        if not download.checksum:
            continue
        if download.algorithm not in ALGORITHMS:
            allowed = ", ".join(ALGORITHMS)
            raise WrongDownload(
                f"'{download.algorithm}' is no algorithm for a checksum; allowed are {allowed}"
            )
        with path.open("rb") as file:
            found = hashlib.file_digest(file, download.algorithm).hexdigest()
        if found != download.checksum.lower():
            raise WrongDownload(
                f"{download.source} has the {download.algorithm} {found}, but must have {download.checksum}"
            )
