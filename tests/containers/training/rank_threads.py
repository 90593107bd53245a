"""Runs ranks as threads of one process, for tests that need no torch between them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from slipway.containers.runtime.collective import Collective, Json


def in_threads(world: int, body: Callable[[Collective], None]) -> None:
    """Run `body` as each rank of a world."""
    barrier = threading.Barrier(world, timeout=60)
    told: list[Json] = [None] * world
    failures: list[BaseException] = []

    def run(rank: int) -> None:
        def gather(value: Json) -> list[Json]:
            told[rank] = value
            barrier.wait()
            answers = list(told)
            barrier.wait()
            return answers

        try:
            body(Collective(rank=rank, world=world, gather=gather))
        except BaseException as error:  # noqa: BLE001  # told by the test's own thread
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
