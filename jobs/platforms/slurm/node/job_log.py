"""The log of a job: every line in the file that Slurm keeps on shared files, and in CloudWatch Logs."""

from __future__ import annotations

import sys
from typing import Any

from slipway.jobs.platforms.slurm.node.log_shipping import LogShipping
from slipway.jobs.platforms.slurm.node.setting import SlurmNodeFacts


class JobLog:
    def __init__(self, facts: SlurmNodeFacts, stream: str) -> None:
        self._shipping: LogShipping | None = None
        if facts.log_group and facts.region:
            region = facts.region
            self._shipping = LogShipping(lambda: _client(region), facts.log_group, stream, _print)

    def say(self, line: str) -> None:
        _print(line)
        if self._shipping is not None:
            self._shipping.ship(line)

    def close(self) -> None:
        if self._shipping is not None:
            self._shipping.close()


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")  # one write, or two threads' lines would mix
    sys.stdout.flush()


def _client(region: str) -> Any:
    from slipway.jobs.cloud.aws import client

    return client("logs", region)
