"""Whose turn it is on a cluster that runs one job at a time: a new job runs now, or after all others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slipway.jobs.platforms.mpi.runs import find_unfinished, read_request
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.run import Listed
from slipway.jobs.words.targets import MpiTarget

# That run or wait. The main node's agent carries out five commands at a time (amazon-ssm-agent, README,
# Mds.CommandWorkersLimit), a job that waits is one of them, and so is what `slipway cancel` sends.
MOST_UNFINISHED = 4


class Busy(SlipwayError):
    """The cluster runs one job at a time."""


def refuse_out_of_turn(name: str, waits_for: Iterable[str], target: MpiTarget) -> None:
    """Refuse a job that waits for some of the cluster's unfinished jobs and not for others.

    The nodes refuse a second job too; asking here saves a start of machines.
    """
    others = [job for job in find_unfinished(target) if job.name != name]
    ahead = _ahead(waits_for, {job.id: job for job in others}, target)
    for other in others:
        if other.id not in ahead:
            last = others[-1].name
            raise Busy(
                f"cluster '{target.name}' runs {other.name}, and one job at a time",
                hint=f"to run it afterwards: --depends-on {last}; to wait for that: slipway logs {last} "
                f"--follow; to end it: slipway cancel {other.name}",
            )
    if len(others) >= MOST_UNFINISHED:
        raise Busy(
            f"{len(others)} jobs run or wait on cluster '{target.name}'; at most {MOST_UNFINISHED} can",
            hint=f"wait for one: slipway logs {others[0].name} --follow",
        )


def _ahead(waits_for: Iterable[str], unfinished: Mapping[str, Listed], target: MpiTarget) -> set[str]:
    """Return the unfinished jobs that are over when all of these are: what they wait for themselves, too."""
    left, ahead = list(waits_for), set[str]()
    while left:
        job_id = left.pop()
        if job_id in unfinished and job_id not in ahead:
            ahead.add(job_id)
            request = read_request(unfinished[job_id].name, target)
            left += request.waits_for if request else ()
    return ahead
