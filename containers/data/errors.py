"""What data preparation and the loader say when they will not go on: one line, and what to do about it."""

from __future__ import annotations


class DataError(Exception):
    """The data, the arguments or the machine have a mistake that their owner can mend."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.message = message
        self.hint = hint
