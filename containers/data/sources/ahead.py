"""Reads from far away: several at once, and before they are asked for. Neither changes what is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from slipway.containers.data.sources.sources import Source

# Large enough that S3's tens of milliseconds to the first byte do not count.
BLOCK_BYTES = 4 << 20
AHEAD_BYTES = 16 << 20
AHEAD_BLOCKS = 16  # of small files

Stretch = tuple[str, int, int]  # name, start, stop
Item = TypeVar("Item")
Answer = TypeVar("Answer")


def at_once(source: Source, work: Callable[[Item], Answer], items: Iterable[Item]) -> list[Answer]:
    """Return the answers in the order of the items."""
    if source.reads_at_once == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(source.reads_at_once) as pool:
        return list(pool.map(work, items))


@dataclass(slots=True)
class Block:
    name: str
    start: int
    stop: int
    found: Future[bytes]


class Ahead:
    """Read stretches ahead in this order, mostly once each; any other read goes to the source."""

    def __init__(self, source: Source, stretches: Iterable[Stretch]) -> None:
        self._source = source
        self._pool = ThreadPoolExecutor(source.reads_at_once)
        self._coming = _blocks(stretches)
        self._waiting: deque[Block] = deque()
        self._name, self._start, self._held = "", 0, b""
        self._fill()

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def read(self, name: str, start: int, length: int) -> bytes:
        if not self._goes_on(name, start):
            return self._source.read(name, start, length)
        parts = [self._held[start - self._start :]]
        missing = length - len(parts[0])
        while missing > 0:
            parts.append(self._next(name, start + length - missing))
            missing -= len(parts[-1])
        self._start, self._held = start, b"".join(parts)
        return self._held[:length]

    def _goes_on(self, name: str, start: int) -> bool:
        """Return True if the read continues the last one, or begins the next stretch."""
        if name == self._name and self._start <= start <= self._start + len(self._held):
            return True
        is_next = bool(self._waiting) and (self._waiting[0].name, self._waiting[0].start) == (name, start)
        if is_next:
            self._name, self._start, self._held = name, start, b""
        return is_next

    def _next(self, name: str, start: int) -> bytes:
        block = self._waiting.popleft()
        assert (block.name, block.start) == (name, start), f"{name} is read from {start} on, out of order"
        content = block.found.result()
        self._fill()
        return content

    def _fill(self) -> None:
        coming = sum(block.stop - block.start for block in self._waiting)
        while len(self._waiting) < AHEAD_BLOCKS and coming < AHEAD_BYTES:
            stretch = next(self._coming, None)
            if stretch is None:
                return
            name, start, stop = stretch
            coming += stop - start
            self._waiting.append(
                Block(name, start, stop, self._pool.submit(self._source.read, name, start, stop - start))
            )


def _blocks(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    for name, start, stop in stretches:
        for at in range(start, stop, BLOCK_BYTES):
            yield name, at, min(at + BLOCK_BYTES, stop)


def read_whole(source: Source, name: str) -> bytes:
    """Read one file of the source from its first byte to its last."""
    size = next(file.size_bytes for file in source.files if file.name == name)
    if source.reads_at_once == 1:
        return source.read(name, 0, size)
    with Ahead(source, [(name, 0, size)]) as reader:
        return reader.read(name, 0, size)
