"""Measure the estimate: one configuration alone, and its commands beside importing boto3 in the same run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from scripts.benchmark_rows import Row, compare, side_by_side

BOTO3 = [sys.executable, "-c", "import boto3"]
ESTIMATE = ["slipway", "estimate", "bert_pretrain", "--on", "dl1", "--nodes", "1,2,4,8"]
# Five hundred configurations: every type that can train it, at as many sizes.
SIZES = ",".join(str(nodes) for nodes in range(1, 22))
COMPARE = ["slipway", "compare", "mrpc", "--nodes", SIZES, "--json"]
CALLS = 200


def estimate() -> list[Row]:
    ours, base = side_by_side(ESTIMATE, BOTO3, {})
    many, base_too = side_by_side(COMPARE, BOTO3, {})
    return [
        one_configuration(),
        one_throughput(),
        compare("slipway estimate, four sizes", ours, "import boto3", base, goal=judged(0.3, ours, "s")),
        compare(
            f"slipway compare, {configurations()} rows",
            many,
            "import boto3",
            base_too,
            goal=judged(0.6, many, "s"),
        ),
    ]


def judged(most: float, measured: float, unit: str) -> str:
    return f"under {most:g} {unit}, {'met' if measured < most else 'not met'}"


def one_throughput() -> Row:
    """Measure the model alone, with a calibration, beside as many copies of its layout as take as long."""
    from dataclasses import replace

    from slipway.jobs.estimate import Calibration, throughput
    from slipway.jobs.estimate.evidence.tables import TABLES

    table = TABLES["trn1/gpt-neox-20b"]
    model, cluster, layout = table.shape, table.cluster(4), table.layout
    known = Calibration(utilisation=0.3, network_efficiency=0.3)
    ours = microseconds(lambda: throughput(model, cluster, layout, known))
    copy = microseconds(lambda: replace(layout, micro_batch=1))
    return Row(
        what="one throughput()",
        measured=f"{ours:.0f} us CPU",
        beside=f"a copy of its layout {copy:.0f} us",
        ratio=f"ratio {ours / copy:.1f}",
        goal=judged(50, ours, "us"),
    )


def microseconds(call: Callable[[], object]) -> float:
    """Return the median of many calls, timed fifty at a time: one is shorter than a tick of the clock."""
    taken = []
    for _ in range(CALLS):
        start = time.process_time()
        for _ in range(50):
            call()
        taken.append((time.process_time() - start) / 50)
    return sorted(taken)[CALLS // 2] * 1e6


def one_configuration() -> Row:
    """The median of many: look-up, step, memory, hours and dollars."""
    from slipway.jobs.estimate.estimates import estimate as estimate_one
    from slipway.jobs.estimate.evidence.measurements import our_measurements
    from slipway.jobs.estimate.inputs.places import alone
    from slipway.jobs.estimate.prices import ON_DEMAND, known_rates
    from slipway.jobs.estimate.work.workloads import find_workload
    from slipway.jobs.words.catalogue.instances import instance_type

    workload, rows = find_workload("gpt-neox-20b"), our_measurements()
    place = alone(instance_type("trn1.32xlarge"), known_rates(), region=None, term=ON_DEMAND)
    taken = []
    for _ in range(CALLS):
        start = time.process_time()
        estimate_one(workload, place, 4, rows)
        taken.append(time.process_time() - start)
    milliseconds = sorted(taken)[CALLS // 2] * 1000
    return Row(
        what="one configuration",
        measured=f"{milliseconds:.2f} ms CPU",
        beside="",
        goal=judged(1, milliseconds, "ms"),
    )


def configurations() -> int:
    import json
    import subprocess

    answer = subprocess.run(COMPARE, capture_output=True, text=True, check=True)
    return len(json.loads(answer.stdout))
