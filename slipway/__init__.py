"""Build and launch training clusters on AWS, and run all of it on one machine first.

From Python: `from slipway import Job, submit`; docs/python.md shows each name. A new one is a row of _HOMES,
and an import here for type checkers.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipway.jobs.core.errors import SlipwayError
    from slipway.jobs.core.job import Job
    from slipway.jobs.estimate_inputs.asking import estimate
    from slipway.jobs.estimate_inputs.learning import calibrate
    from slipway.jobs.planner_inputs.planning import plan
    from slipway.jobs.runs.find import find_run
    from slipway.jobs.runs.waiting import curve
    from slipway.jobs.submit.submission import prepare, submit
    from slipway.jobs.tasks.base_technique import BaseTechnique
    from slipway.jobs.tasks.library import deregister, register, retrieve
    from slipway.jobs.tasks.orchestrating import orchestrate
    from slipway.jobs.tasks.searching import search
    from slipway.jobs.tasks.task import HParams, Task

# The code of a job travels as slipway.containers alone: the rest of the package is the machine's own.
__path__ = pkgutil.extend_path(__path__, __name__)

# Loaded when first asked for: containers import this package, too, and have no jobs.
_HOMES = {
    "BaseTechnique": "slipway.jobs.tasks.base_technique",
    "HParams": "slipway.jobs.tasks.task",
    "Job": "slipway.jobs.core.job",
    "SlipwayError": "slipway.jobs.core.errors",
    "Task": "slipway.jobs.tasks.task",
    "calibrate": "slipway.jobs.estimate_inputs.learning",
    "curve": "slipway.jobs.runs.waiting",
    "deregister": "slipway.jobs.tasks.library",
    "estimate": "slipway.jobs.estimate_inputs.asking",
    "find_run": "slipway.jobs.runs.find",
    "orchestrate": "slipway.jobs.tasks.orchestrating",
    "plan": "slipway.jobs.planner_inputs.planning",
    "prepare": "slipway.jobs.submit.submission",
    "register": "slipway.jobs.tasks.library",
    "retrieve": "slipway.jobs.tasks.library",
    "search": "slipway.jobs.tasks.searching",
    "submit": "slipway.jobs.submit.submission",
}
__all__ = [
    "BaseTechnique",
    "HParams",
    "Job",
    "SlipwayError",
    "Task",
    "calibrate",
    "curve",
    "deregister",
    "estimate",
    "find_run",
    "orchestrate",
    "plan",
    "prepare",
    "register",
    "retrieve",
    "search",
    "submit",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
