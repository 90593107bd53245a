"""Measure the estimate: one configuration alone, and its commands beside importing boto3 in the same run."""

from __future__ import annotations

import sys
import time

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
        compare("slipway estimate, four sizes", ours, "import boto3", base, goal="under 0.30 s"),
        compare(
            f"slipway compare, {configurations()} rows", many, "import boto3", base_too, goal="under 1 s"
        ),
    ]


def one_configuration() -> Row:
    """The median of many: look-up, step, memory, hours and dollars."""
    from slipway.jobs.catalogue.instances import instance_type
    from slipway.jobs.estimate.estimates import estimate as estimate_one
    from slipway.jobs.estimate.evidence.measurements import our_measurements
    from slipway.jobs.estimate.prices import ON_DEMAND, known_rates
    from slipway.jobs.estimate.work.workloads import find_workload
    from slipway.jobs.estimate_inputs.places import alone

    workload, rows = find_workload("gpt-neox-20b"), our_measurements()
    place = alone(instance_type("trn1.32xlarge"), known_rates(), region=None, term=ON_DEMAND)
    taken = []
    for _ in range(CALLS):
        start = time.process_time()
        estimate_one(workload, place, 4, rows)
        taken.append(time.process_time() - start)
    milliseconds = sorted(taken)[CALLS // 2] * 1000
    return Row(what="one configuration", measured=f"{milliseconds:.2f} ms CPU", beside="", goal="under 1 ms")


def configurations() -> int:
    import json
    import subprocess

    answer = subprocess.run(COMPARE, capture_output=True, text=True, check=True)
    return len(json.loads(answer.stdout))
