"""One rank of a node reads a shard to check it, for all ranks of that node and attempt.

The others wait for that one shard. A file among the machine's temporary ones holds a byte for each shard,
which whoever reads that shard locks; where there can be no such file, each rank checks for itself.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slipway.containers.runtime.contract.contract import LaunchContract

_WHOLE = b"1"


@dataclass(frozen=True, slots=True)
class NodeChecks:
    """Remember which shards of a dataset were found whole; `path` None: by this rank alone."""

    path: Path | None = None

    @classmethod
    def of(cls, contract: LaunchContract, digest: str) -> NodeChecks:
        """Share what is found between the ranks of one attempt that train on the dataset of this digest."""
        if contract.local_world == 1:
            return cls()
        named = f"{contract.job}/{contract.run}/{contract.attempt}/{contract.main_port}/{digest}"
        name = f"slipway-shards-{os.getuid()}-{hashlib.sha256(named.encode()).hexdigest()[:32]}"
        return cls(Path(tempfile.gettempdir()) / name)

    def is_whole(self, shard: int, check: Callable[[], bool]) -> bool:
        """Return what `check` says of a shard, or True at once if it said so to another rank."""
        descriptor = self._open()
        if descriptor is None:
            return check()
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, shard)
            if os.pread(descriptor, 1, shard) == _WHOLE:
                return True
            found = check()
            if found:
                os.pwrite(descriptor, _WHOLE, shard)
            return found
        finally:
            os.close(descriptor)

    def _open(self) -> int | None:
        """Open the file, and trust it only if it is this user's own."""
        if self.path is None:
            return None
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except OSError:
            return None
        found = os.fstat(descriptor)
        if found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) == 0o600:
            return descriptor
        os.close(descriptor)
        return None
