"""Files that others read while we write: whole or not at all, and only when something changed."""

from __future__ import annotations

import os
from pathlib import Path

READABLE, PROGRAM, SECRET = 0o644, 0o755, 0o600


def write_whole(path: Path, text: str, mode: int = READABLE) -> bool:
    """Write atomically; return True if the content changed."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)
    return True


def write_through(path: Path, text: str) -> bool:
    """Write into the existing file (/etc/hosts may be a mount of its own); return True if it changed."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return True
