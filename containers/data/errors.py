"""The error that data preparation and the loader raise: one line, and what to do about it."""

from __future__ import annotations

from pathlib import Path


class DataError(Exception):
    """Something is wrong with the data, the arguments or the machine, and the user can fix it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.message = message
        self.hint = hint


def unwritable(
    path: Path, error: OSError, *, hint: str = "free some space, or name another place"
) -> DataError:
    return DataError(f"cannot write {path}: {error.strerror or error}", hint=hint)
