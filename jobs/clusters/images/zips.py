"""The sources of an image as one zip: the same files make the same bytes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_OLDEST_TIME_OF_ZIP = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZipEntry:
    name: str
    content: bytes
    is_program: bool = False

    @classmethod
    def read(cls, name: str, path: Path) -> ZipEntry:
        return cls(name=name, content=path.read_bytes(), is_program=bool(path.stat().st_mode & 0o100))


def zip_entries(entries: Iterable[ZipEntry]) -> bytes:
    """Pack the files reproducibly: with a fixed time, and only the executable bit of their modes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in entries:
            info = zipfile.ZipInfo(entry.name, _OLDEST_TIME_OF_ZIP)
            info.external_attr = (0o100755 if entry.is_program else 0o100644) << 16
            archive.writestr(info, entry.content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
