"""Errors: a user's mistake is a SlipwayError, a broken invariant an assert.

The message says what, the value and what is allowed; the hint says what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


class SlipwayError(Exception):
    """Reports a mistake that the user can correct: one line with its hint, and no traceback."""

    exit_code = 1
    passes = False  # True: it may go by, though nobody changes anything

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NoAnswer(SlipwayError):
    """AWS did not answer, and the caller cannot go on; `code` is AWS's error code, or botocore's name."""

    def __init__(self, message: str, *, code: str, hint: str = "", passes: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.passes = passes


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Describes one problem of a declaration: where it is, what is wrong, and what to do."""

    where: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" + (f"; {self.hint}" if self.hint else "")


class InvalidConfig(SlipwayError):
    """Reports all problems of the declared clusters at once, before anything is created."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        assert problems, "InvalidConfig needs at least one problem"
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def in_lines(error: SlipwayError) -> str:
    """Format an error as the command line prints it, for other programs of ours."""
    lines = [f"error: {line}" for line in error.message.splitlines()]
    return "\n".join([*lines, f"hint: {error.hint}"] if error.hint else lines)


# Makes the hint for a name that does not exist: the nearest ones that do.


def did_you_mean(word: str, known: Iterable[str], *, otherwise: str, most: int = 1) -> str:
    """Suggest the known names nearest to the word, or return `otherwise` if none is near."""
    close = get_close_matches(word, list(known), n=most)
    return f"did you mean {' or '.join(close)}?" if close else otherwise
