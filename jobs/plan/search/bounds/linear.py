"""Small linear programs that grow row by row, solved by HiGHS on one thread."""

from __future__ import annotations

import highspy
import numpy as np

from slipway.jobs.plan.search.bounds.table import Numbers

ENOUGH = 1e-7  # as a share: two values so near to each other are the same
MOST_CUTS = 200


def new_program(costs: Numbers, uppers: Numbers) -> highspy.Highs:
    """Build a program of columns from nought to their upper limits that wants the least cost."""
    program = highspy.Highs()  # type: ignore[no-untyped-call] # its class has no annotations
    program.setOptionValue("output_flag", False)
    program.setOptionValue("threads", 1)
    for cost, upper in zip(costs, uppers, strict=True):
        program.addCol(float(cost), 0.0, float(upper), 0, [], [])
    return program


def add_row(program: highspy.Highs, values: Numbers, lower: float, upper: float) -> None:
    columns = np.flatnonzero(values).astype(np.int32)
    program.addRow(lower, upper, len(columns), columns, values[columns])


def solve(program: highspy.Highs) -> tuple[Numbers, float] | None:
    """Return the columns' values and the cost, or nothing where there is no best."""
    program.run()
    if program.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return np.array(program.getSolution().col_value), float(program.getObjectiveValue())
