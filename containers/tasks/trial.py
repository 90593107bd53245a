"""Run one rank of a trial on a cluster: python -m slipway.containers.tasks.trial --set task=… --set steps=4

It trains a few batches and saves nothing; rank 0 prints the seconds of each batch as one line of its log.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import traceback
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.observe.telemetry import STEPS_NAME
from slipway.containers.tasks.config import UserTaskConfig, decode_arguments
from slipway.containers.tasks.description import FACTS_NAME
from slipway.containers.tasks.train import train_task
from slipway.containers.training.rank import run_rank

MODULE = "slipway.containers.tasks.trial"
_MARK = "trial: "
_LINE = re.compile(rf"(?:\[0\] )?{_MARK}(\{{.*\}})")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one rank; an error of the user's code ends with one line in the log."""
    try:
        return run_rank(MODULE, decode_arguments, _try, arguments, __doc__)
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        traceback.print_exc()
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return 1


def find_result(lines: Iterable[str]) -> dict[str, Json] | None:
    """Return what the last trial in a log found: `facts` of the model, and `seconds` of each batch."""
    found = [match[1] for line in lines if (match := _LINE.fullmatch(line))]
    return dict(json.loads(found[-1])) if found else None


def _try(config: UserTaskConfig, contract: LaunchContract, stack: ExitStack) -> None:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="slipway-trial-"))
    if not contract.rank:
        stack.callback(_tell, Path(folder))  # after all files there are closed, even if the training fails
    train_task(config, replace(contract, checkpoints=None, logs=folder), stack)


def _tell(folder: Path) -> None:
    facts, steps = folder / FACTS_NAME, folder / STEPS_NAME
    told = {
        "facts": json.loads(facts.read_text(encoding="utf-8")) if facts.is_file() else None,
        "seconds": [json.loads(line)["seconds"] for line in steps.read_text(encoding="utf-8").splitlines()]
        if steps.is_file()
        else [],
    }
    print(f"{_MARK}{json.dumps(told)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
