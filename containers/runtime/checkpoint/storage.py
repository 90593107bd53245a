"""Where checkpoints lie: what saving and resuming ask of a folder, a bucket or another place.

A new place is one class with these methods (folder.py is one). All raise OSError where the place fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from slipway.containers.runtime.checkpoint.pieces import Parts

LARGEST_STEP = 10**10 - 1


class Unreachable(OSError):
    """The place does not answer, which says nothing about what lies there."""


@dataclass(frozen=True, slots=True)
class UnpublishedStep:
    """Identify a checkpoint that is being written, which nobody finds before it is published."""

    step: int
    attempt: int
    token: str


class LeaseFile(Protocol):
    """Hold the words of who may publish. Each method sees or changes them in one step."""

    def read(self) -> bytes | None:
        """Return what it holds, or None if there is no lease."""

    def stamp(self) -> Hashable:
        """Return what changes with every renewal; None if there is no lease."""

    def create(self, content: bytes, token: str) -> bool:
        """Write the first lease; return False if there is one."""

    def replace(self, content: bytes, token: str) -> None: ...

    def renew(self) -> None:
        """Change the stamp, and never the words: a newer holder's must stay as they are."""

    def remove(self) -> None: ...


class Storage(Protocol):
    """Keep the checkpoints of one training. Its `str` is the place in words."""

    def open(self) -> LeaseFile:
        """Make the place if need be; return its lease."""

    def sweep(self) -> None:
        """Remove what ended attempts left half-written. For the holder of the lease only."""

    def steps(self) -> list[int]:
        """Return the published steps, newest first."""

    def manifest(self, step: int) -> bytes: ...

    def sizes(self, where: UnpublishedStep | int) -> Mapping[str, int]:
        """Return the bytes of each file of a draft or a published step, by the manifest's names."""

    def file_name(self, draft: UnpublishedStep, rank: int) -> str:
        """Return the manifest's name of a rank's file."""

    def read(self, step: int, name: str, stretches: Sequence[tuple[int, int]]) -> Iterator[bytearray]:
        """Yield bytes `start` to `stop` of a file for each stretch."""

    def write(self, draft: UnpublishedStep, rank: int, parts: Parts, moved: Callable[[], None]) -> None:
        """Write a rank's file so that it lasts; `moved` is called whenever a piece is taken."""

    def publish(self, draft: UnpublishedStep, manifest: bytes, check: Callable[[], None]) -> None:
        """Make a draft the checkpoint of its step in one action, right after `check`; replace what is
        there."""

    def abandon(self, draft: UnpublishedStep) -> None: ...

    def discard(self, step: int) -> None: ...

    def beside(self) -> AbstractContextManager[Path]:
        """Give a folder on this machine; what is written there lies beside the checkpoints afterwards."""


def step_name(step: int) -> str:
    return f"step-{step:010d}"


def place_of(storage: Storage, step: int) -> str:
    """Return where a step lies, in words."""
    return f"{storage}/{step_name(step)}"


def reason(error: OSError) -> str:
    """Say why a place failed."""
    if error.errno is None:
        return str(error)
    return os.strerror(error.errno) + (f" ({error.filename})" if error.filename else "")
