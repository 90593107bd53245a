"""A user's folder as it arrives on a node: proved by its digest, and unpacked below one folder."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import zlib
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, cast

from slipway.containers.data.sources.inputs import open_source
from slipway.containers.data.sources.sources import Source
from slipway.containers.runtime.errors import Refusal

MOST_BYTES = 6 << 30  # more than slipway run sends
_STRETCH_BYTES = 8 << 20
_GZIP = 16 + zlib.MAX_WBITS
_AGAIN = "delete the object and run slipway run again"


class DamagedSource(Refusal):
    """The archive of a user's folder is damaged, so nothing of it is run."""


def unpack_source(place: str, digest: str, folder: Path, account: str | None) -> None:
    """Bring the archive and unpack it into the folder; `account` must own the bucket."""
    source = open_source(place, bucket_owner=account)
    with tempfile.TemporaryFile(dir=folder.parent) as plain:
        found = _decompress(source, cast(BinaryIO, plain), place)
        if found != digest:
            raise DamagedSource(f"{place} has the digest {found}", hint=_AGAIN)
        plain.seek(0)
        with tarfile.open(fileobj=plain) as tar:
            for member in tar:
                _extract(tar, member, folder)


def _decompress(source: Source, plain: BinaryIO, place: str) -> str:
    """Write the archive as it was before it was compressed; return its digest."""
    reader, running = zlib.decompressobj(_GZIP), sha256()
    (file,) = source.files
    for start in range(0, file.size_bytes, _STRETCH_BYTES):
        packed = source.read(file.name, start, min(_STRETCH_BYTES, file.size_bytes - start))
        while packed:
            try:
                content = reader.decompress(packed, _STRETCH_BYTES)
            except zlib.error as error:
                raise DamagedSource(f"{place} is not gzip ({error})", hint=_AGAIN) from None
            running.update(content)
            if plain.tell() + plain.write(content) > MOST_BYTES:
                raise DamagedSource(f"{place} unpacks to more than {MOST_BYTES} bytes", hint=_AGAIN)
            packed = reader.unconsumed_tail
    return running.hexdigest()


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write one file or link below the folder, without extractall(): Python 3.10 lacks its filters."""
    target = folder / member.name
    target.parent.mkdir(parents=True, exist_ok=True)
    if not _is_below(target, folder) or (folder.resolve() / member.name).parent != target.parent.resolve():
        raise DamagedSource(f"the archive holds {member.name!a}, which leads out of its folder", hint=_AGAIN)
    if member.issym():
        if not _is_below(Path(os.path.normpath(target.parent / member.linkname)), folder):
            raise DamagedSource(f"link {member.name!a} leads out of its folder", hint=_AGAIN)
        target.symlink_to(member.linkname)
        return
    source = tar.extractfile(member) if member.isfile() else None
    if source is None:
        raise DamagedSource(f"the archive holds {member.name!a}, which is no file", hint=_AGAIN)
    with source, target.open("xb") as copy:
        shutil.copyfileobj(source, copy)
    target.chmod(member.mode & 0o755)


def _is_below(target: Path, folder: Path) -> bool:
    return ".." not in target.parts and target.is_relative_to(folder)
