"""The error that data preparation and the loader raise: one line, and what to do about it."""

from __future__ import annotations

from pathlib import Path

from slipway.containers.runtime.errors import RESUMABLE_EXIT_CODE, Refusal


class DataError(Refusal):
    """Something is wrong with the data, the arguments or the machine, and the user can fix it."""


class PassingError(DataError):
    """A service failed that may work again: another attempt may succeed."""

    exit_code = RESUMABLE_EXIT_CODE


def unwritable(
    path: Path, error: OSError, *, hint: str = "free some space, or name another place"
) -> DataError:
    return DataError(f"cannot write {path}: {error.strerror or error}", hint=hint)
