"""Write the JSON files of a dataset whole or not at all, and check the type of every field when reading."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from slipway.containers.data.errors import DataError, unwritable
from slipway.containers.runtime.named_files import UnusableFile, read_text

Decoded = TypeVar("Decoded")
MOST_BYTES = 256 << 20  # a manifest has some 300 bytes per shard
TYPES: Mapping[str, type] = {"int": int, "str": str, "bool": bool}


def own_neighbour(path: Path) -> Path:
    """Return a hidden path beside this one that no other thread, process or node writes to."""
    writer = f"{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
    return path.with_name(f".{path.name}.{writer}")


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write JSON atomically: to a neighbour, synced, then renamed."""
    path.parent.mkdir(exist_ok=True)
    temporary = own_neighbour(path)
    try:
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(content, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise unwritable(
            path, error, hint="free some space, and run it again; finished parts are kept"
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_text(path, MOST_BYTES))
    except UnusableFile as error:
        raise DataError(error.message, hint="is it a prepared dataset?") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged: {error}", hint="run the same preparation again") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} is damaged: it is not an object", hint="run the same preparation again")
    return content


def decoded(kind: type[Decoded], content: object, folder: Path) -> Decoded:
    types = {field.name: TYPES[str(field.type)] for field in fields(kind)}  # type: ignore[arg-type]
    if (
        not isinstance(content, dict)
        or set(content) != set(types)
        or any(type(content[name]) is not wanted for name, wanted in types.items())
    ):
        raise DataError(
            f"{folder}: a {kind.__name__} is damaged or of another version", hint="prepare it again"
        )
    return kind(**content)


def digest_of(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
