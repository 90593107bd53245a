"""Measure whole commands side by side: run alternately, median CPU seconds, and the ratio of the medians.

To add one, write a function that returns rows, here or in a module of its name, and add it to _NAMES.
Ratios can be compared between machines; seconds cannot.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module

from scripts.benchmark_rows import (
    Row,
    compare,
    medians,
    output_of,
    seconds_of,
    show,
    side_by_side,
    take_turns,
    wall,
    yard_environment,
)

ESTIMATE = ["slipway", "estimate", "bert_pretrain", "--on", "dl1", "--nodes", "1,2,4,8"]
# Five hundred configurations: every type that can train it, on 1 to 21 nodes.
SIZES = ",".join(str(nodes) for nodes in range(1, 22))
COMPARE = ["slipway", "compare", "mrpc", "--nodes", SIZES, "--json"]
CALLS = 200


def yard() -> list[Row]:
    """Measure wall time: start the yard, then deploy everything into it with the CDK CLI."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "SLIPWAY_YARD_HOME": home}
        try:
            up = wall(["slipway", "yard", "up"], environment)
            environment |= yard_environment(environment)
            wall(["cdk", "bootstrap", "--app", "", "aws://123456789012/us-east-1"], environment)
            deploy = ["cdk", "deploy", "--all", "--require-approval", "never", "--concurrency", "4"]
            deployed = wall([*deploy, "--output", f"{home}/cdk.out"], environment)
        finally:
            wall(["slipway", "yard", "down"], environment)
    return [
        Row(what="slipway yard up", measured=f"{up:.1f} s wall", goal="under 10 s"),
        Row(what="cdk deploy --all", measured=f"{deployed:.1f} s wall", goal="under 60 s"),
    ]


def estimate() -> list[Row]:
    """Measure `slipway estimate` and `slipway compare` against importing boto3."""
    boto3 = [sys.executable, "-c", "import boto3"]
    ours, base = side_by_side(ESTIMATE, boto3, {})
    many, base_too = side_by_side(COMPARE, boto3, {})
    rows = len(json.loads(output_of(COMPARE)))
    return [
        one_configuration(),
        one_throughput(),
        compare("slipway estimate, four sizes", ours, "import boto3", base, goal=judged(0.3, ours, "s")),
        compare(f"slipway compare, {rows} rows", many, "import boto3", base_too, goal=judged(0.6, many, "s")),
    ]


def judged(most: float, measured: float, unit: str) -> str:
    return f"under {most:g} {unit}, {'met' if measured < most else 'not met'}"


def one_throughput() -> Row:
    """Measure the model alone, with a calibration, against copying its layout."""
    from slipway.jobs.estimate import Calibration, throughput
    from slipway.jobs.estimate.evidence.tables import TABLES

    table = TABLES["trn1/gpt-neox-20b"]
    model, cluster, layout = table.shape, table.cluster(4), table.layout
    known = Calibration(utilisation=0.3, network_efficiency=0.3)
    # Fifty at a time: a single one is shorter than a tick of the clock.
    ours = 1e6 * typical_seconds(lambda: throughput(model, cluster, layout, known), at_a_time=50)
    copy = 1e6 * typical_seconds(lambda: replace(layout, micro_batch=1), at_a_time=50)
    return Row(
        what="one throughput()",
        measured=f"{ours:.0f} us CPU",
        beside=f"a copy of its layout {copy:.0f} us",
        ratio=f"ratio {ours / copy:.1f}",
        goal=judged(50, ours, "us"),
    )


def one_configuration() -> Row:
    """Measure look-up, step, memory, hours and dollars."""
    from slipway.jobs.estimate.estimates import estimate as estimate_one
    from slipway.jobs.estimate.evidence.measurements import our_measurements
    from slipway.jobs.estimate.inputs.places import alone
    from slipway.jobs.estimate.prices import ON_DEMAND, known_rates
    from slipway.jobs.estimate.work.workloads import find_workload
    from slipway.jobs.words.catalogue.instances import instance_type

    workload, rows = find_workload("gpt-neox-20b"), our_measurements()
    place = alone(instance_type("trn1.32xlarge"), known_rates(), region=None, term=ON_DEMAND)
    milliseconds = 1e3 * typical_seconds(lambda: estimate_one(workload, place, 4, rows))
    return Row(
        what="one configuration",
        measured=f"{milliseconds:.2f} ms CPU",
        goal=judged(1, milliseconds, "ms"),
    )


def typical_seconds(call: Callable[[], object], at_a_time: int = 1) -> float:
    """Return the median seconds of a call, timed `at_a_time` calls together."""

    def some() -> None:
        for _ in range(at_a_time):
            call()

    return medians(take_turns(lambda: seconds_of(some, time.process_time), turns=CALLS))[0] / at_a_time


def part(name: str) -> Callable[[], Iterable[Row]]:
    """Return a benchmark that is imported only when it runs, since its module imports heavy packages."""

    def measure() -> Iterable[Row]:
        rows: Iterable[Row] = getattr(import_module(f"scripts.benchmarks_{name}"), name)()
        return rows

    return measure


# In the order in which they run; those of other modules are imported only then.
_NAMES = "synth yard data tokens training decoder estimate glue gptj gpu checkpoints plans"
_HERE: Mapping[str, Callable[[], Iterable[Row]]] = {"yard": yard, "estimate": estimate}
BENCHMARKS = {name: _HERE.get(name) or part(name) for name in _NAMES.split()}


def main(names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"error: unknown benchmark '{unknown[0]}'; allowed are {', '.join(BENCHMARKS)}")
    for name in names or BENCHMARKS:
        for row in BENCHMARKS[name]():
            show(row)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit("\nerror: interrupted; only the rows above were measured")
