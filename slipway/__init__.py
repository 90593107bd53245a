"""Build and launch training clusters on AWS, and run all of it on one machine first.

From Python: `from slipway import Job, submit`; docs/python.md shows each name. A new one is a row of _HOMES,
and an import here for type checkers.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipway.jobs.estimate.inputs.asking import calibrate, estimate
    from slipway.jobs.plan.inputs.planning import plan
    from slipway.jobs.plan.tasks.library import deregister, register, retrieve
    from slipway.jobs.plan.tasks.orchestrating import orchestrate
    from slipway.jobs.plan.tasks.searching import search
    from slipway.jobs.plan.tasks.task import BaseTechnique, HParams, Task
    from slipway.jobs.submit.curve import curve
    from slipway.jobs.submit.find import find_run
    from slipway.jobs.submit.functions import FunctionFailed, RunOptions, run
    from slipway.jobs.submit.preparing import prepare
    from slipway.jobs.submit.submission import submit
    from slipway.jobs.words.errors import SlipwayError
    from slipway.jobs.words.job import Job

# The code of a job travels as slipway.containers alone: the rest of the package is the machine's own.
__path__ = pkgutil.extend_path(__path__, __name__)

# Loaded when first asked for: containers import this package, too, and have no jobs.
_HOMES = {
    "BaseTechnique": "slipway.jobs.plan.tasks.task",
    "FunctionFailed": "slipway.jobs.submit.functions",
    "HParams": "slipway.jobs.plan.tasks.task",
    "Job": "slipway.jobs.words.job",
    "RunOptions": "slipway.jobs.submit.functions",
    "SlipwayError": "slipway.jobs.words.errors",
    "Task": "slipway.jobs.plan.tasks.task",
    "calibrate": "slipway.jobs.estimate.inputs.asking",
    "curve": "slipway.jobs.submit.curve",
    "deregister": "slipway.jobs.plan.tasks.library",
    "estimate": "slipway.jobs.estimate.inputs.asking",
    "find_run": "slipway.jobs.submit.find",
    "orchestrate": "slipway.jobs.plan.tasks.orchestrating",
    "plan": "slipway.jobs.plan.inputs.planning",
    "prepare": "slipway.jobs.submit.preparing",
    "register": "slipway.jobs.plan.tasks.library",
    "retrieve": "slipway.jobs.plan.tasks.library",
    "run": "slipway.jobs.submit.functions",
    "search": "slipway.jobs.plan.tasks.searching",
    "submit": "slipway.jobs.submit.submission",
}
__all__ = [
    "BaseTechnique",
    "FunctionFailed",
    "HParams",
    "Job",
    "RunOptions",
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
    "run",
    "search",
    "submit",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from slipway.jobs.cli.version import installed_version

        return installed_version()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
