"""The marks of lines in a job's log, as containers/runtime/observe/log_pump.py and recipes write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

ERROR = "error: "  # launchers and recipes begin with it what a person should read
_RANK = re.compile(r"\[([0-9]{1,6})\] ")
# As a job on several nodes begins its log: mpi/node/mpirun.py and slurm/node/train.py of jobs/platforms.
_RANKS_EACH = re.compile(r"\[run\] [0-9]+ hosts, (?P<ranks>[1-9][0-9]{0,3}) ranks each: ")
# As such a job ends its log, in the same files.
_ENDED = re.compile(
    r"\[run\] .*ended with exit code [0-9]+, attempt (?P<number>[0-9]+) of (?P<allowed>[0-9]+)"
)
_MARK = re.compile(r"\[(?P<node>node )?(?P<number>[0-9]{1,6})\] ")


def rank_of(line: str) -> int | None:
    """Return the rank that wrote the line; None if a launcher did."""
    found = _RANK.match(line)
    return int(found[1]) if found else None


def last_error(lines: list[str]) -> str | None:
    """Return the last error, that of a rank if there is one: launchers only say that a rank ended."""
    errors = [line for line in lines if ERROR in line]
    of_ranks = [line for line in errors if rank_of(line) is not None]
    return next(reversed(of_ranks or errors), None)


def last_attempt(lines: Iterable[str]) -> tuple[int, int] | None:
    """Return the attempt with which a job on several nodes ended, and how many it had."""
    found = [match for line in lines if (match := _ENDED.match(line))]
    return (int(found[-1]["number"]), int(found[-1]["allowed"])) if found else None


def locator(*, launchers_per_node: bool) -> Callable[[int, str], int]:
    """Return a function that tells the node of a line from its stream's node and its text.

    A launcher marks its lines with its own number: that of its node, or of its rank where each rank has one.
    """
    ranks_each = [1]

    def locate(node: int, text: str) -> int:
        if begins := _RANKS_EACH.match(text):
            ranks_each[0] = int(begins["ranks"])
        mark = _MARK.match(text)
        if mark is None:
            return node
        is_node = launchers_per_node and mark["node"] is not None
        return int(mark["number"]) // (1 if is_node else ranks_each[0])

    return locate
