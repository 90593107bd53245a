"""input.json: which versions of which objects a dataset is made from. Local files have none.

A shard's record holds its digest, so that a repeated run reads only the text of what it makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.sources import Source
from slipway.containers.data.text.documents import decoded, digest_of, read_json, write_json

NAME = "input.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOrigin:
    """Record what the manifest says of the input; both fields are empty for local files."""

    location: str = ""
    version: str = ""
    """The digest of the names, sizes and ETags that input.json lists."""


def origin_of(source: Source) -> InputOrigin:
    if not any(file.etag for file in source.files):
        return InputOrigin()
    return InputOrigin(location=source.location, version=input_digest(source))


def write_origin(folder: Path, source: Source) -> None:
    origin = origin_of(source)
    path = folder / NAME
    if not origin.version:
        path.unlink(missing_ok=True)
    elif read_origin(folder) != origin:
        write_json(path, {"location": origin.location, "version": origin.version, "files": _files(source)})


def read_origin(folder: Path) -> InputOrigin:
    path = folder / NAME
    if not path.exists():
        return InputOrigin()
    content = read_json(path)
    if digest_of(content.pop("files", None)) != content.get("version"):
        raise DataError(f"{path} is damaged", hint="remove it and run the same preparation again")
    return decoded(InputOrigin, content, folder)


def input_digest(source: Source) -> str:
    """Return a digest of the names, lengths and ETags of what a source holds."""
    return digest_of(_files(source))


def _files(source: Source) -> list[list[object]]:
    return [[file.name, file.size_bytes, file.etag] for file in source.files]
