"""The charts of a training from the lines that its first rank prints, as TensorBoard reads them.

For a machine that does not see the job's own files: the tags are those that telemetry.py writes beside a job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.containers.runtime.observe import telemetry
from slipway.jobs.submit.logs import LogLine

_NUMBER = r"[-+0-9.,e]+|nan|inf"
_STEP = re.compile(r"(?:\[0\] )?step ([0-9]+)/[0-9]+  ")
_MEASURES: Mapping[str, re.Pattern[str]] = {
    "train/loss": re.compile(rf"  loss ({_NUMBER})  "),
    "train/learning_rate": re.compile(rf"  lr ({_NUMBER})  "),
    "train/gradient_norm": re.compile(rf"  \|g\| ({_NUMBER})  "),
    "train/sequences_per_second": re.compile(rf"  ({_NUMBER}) sequences/s"),
    "train/tokens_per_dollar": re.compile(rf"  ({_NUMBER}) tokens/\$"),
}


@dataclass(slots=True)
class ScalarFile:
    """Write the charts of one job into one file, line after line."""

    path: Path
    seen: int = 0  # lines
    _has_begun: bool = False

    def add_new(self, lines: Sequence[LogLine]) -> None:
        """Write what lines measure; of all that a job printed, those that were not yet seen."""
        for line in lines[self.seen :]:
            self._add(line)
        self.seen = max(self.seen, len(lines))

    def _add(self, line: LogLine) -> None:
        step = _STEP.match(line.text)
        if step is None:
            return
        scalars = {
            tag: float(found[1].replace(",", ""))
            for tag, pattern in _MEASURES.items()
            if (found := pattern.search(line.text))
        }
        now = line.time.timestamp()
        with self.path.open("ab") as file:
            if not self._has_begun:
                file.write(telemetry.first_record(now))
                self._has_begun = True
            file.write(telemetry.scalars_record(now, int(step[1]), scalars))
