"""Where checkpoints go, as people write it: a folder that all nodes share, or s3://bucket/prefix.

Another kind of place is a class with storage.py's methods, and one row of SCHEMES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from slipway.containers.runtime import disk
from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
from slipway.containers.runtime.checkpoint.storage import Storage
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown


def open_storage(address: str) -> Storage:
    """Return the storage at an address; nothing is asked of it yet."""
    scheme, separator, _ = address.partition("://")
    if not separator:
        return CheckpointFolder(Path(address))
    if scheme not in SCHEMES:
        raise Refusal(
            f"the checkpoints are at {shown(address)}",
            hint="give a folder that all nodes share, or s3://bucket/prefix",
        )
    return SCHEMES[scheme](address)


def address_beside(address: str, job: str) -> str:
    """Return where another job of the same place keeps its checkpoints."""
    if "://" in address:
        return f"{address.rstrip('/').rpartition('/')[0]}/{job}"
    return str(disk.folder_within(str(Path(address).parent), *job.split("/")))


def _open_bucket(address: str) -> Storage:
    from slipway.containers.training.bucket import open_bucket

    return open_bucket(address)


SCHEMES: Mapping[str, Callable[[str], Storage]] = {"s3": _open_bucket}
