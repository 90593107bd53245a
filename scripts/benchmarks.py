"""Measure whole commands side by side: run alternately, median CPU seconds, and the ratio of the medians.

To add one: write a function that returns rows and put it into BENCHMARKS. Ratios travel between machines;
seconds do not.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNS = 5
# One resource that does nothing: a template without any is refused by the validation.
EMPTY_APP = (
    "from aws_cdk import App, CfnResource, Stack; app = App(); "
    "CfnResource(Stack(app, 'empty'), 'Handle', type='AWS::CloudFormation::WaitConditionHandle'); app.synth()"
)
DRY_RUN = ["slipway", "submit", "bert_pretrain", "--on", "dl1", "--nodes", "2", "--dry-run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    what: str
    measured: str
    beside: str
    ratio: str = ""
    goal: str = ""


def start_up() -> list[Row]:
    """The commands that people wait for most often, beside importing boto3."""
    boto3 = [sys.executable, "-c", "import boto3"]
    helps, base = side_by_side(["slipway", "--help"], boto3, {})
    instances, base_too = side_by_side(["slipway", "instances"], boto3, {})
    return [
        compare("slipway --help", helps, "import boto3", base, goal="under 0.25 s"),
        compare("slipway instances", instances, "import boto3", base_too, goal="under 0.30 s"),
    ]


def synthesis() -> list[Row]:
    """All stacks beside an app with one empty stack, with the CDK's validation and without."""
    rows = []
    for setting in ("true", "false"):
        with tempfile.TemporaryDirectory() as folder:
            environment = {"CDK_VALIDATION": setting, "CDK_OUTDIR": folder, "CDK_CONTEXT_JSON": cdk_context()}
            ours, empty = side_by_side(
                [sys.executable, "-m", "slipway.infra.app"], [sys.executable, "-c", EMPTY_APP], environment
            )
        what = f"synth of all stacks, validation {setting}"
        rows.append(compare(what, ours, "an empty app", empty, goal="ratio under 1.5"))
    return rows


def yard() -> list[Row]:
    """Wall time, as felt: the yard up, then everything deployed into it by the CDK CLI."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "SLIPWAY_YARD_HOME": home}
        try:
            up = wall(["slipway", "yard", "up"], environment)
            environment |= yard_environment(environment)
            wall(["cdk", "bootstrap", "--app", "", "aws://123456789012/us-east-1"], environment)
            deploy = ["cdk", "deploy", "--all", "--require-approval", "never", "--concurrency", "4"]
            deployed = wall([*deploy, "--output", f"{home}/cdk.out"], environment)
            seconds, megabytes = cpu_and_memory(DRY_RUN, environment)
        finally:
            wall(["slipway", "yard", "down"], environment)
    return [
        Row(what="slipway yard up", measured=f"{up:.1f} s wall", beside="", goal="under 10 s"),
        Row(what="cdk deploy --all", measured=f"{deployed:.1f} s wall", beside="", goal="under 60 s"),
        Row(what="slipway submit --dry-run", measured=f"{seconds:.2f} s CPU", beside="", goal="under 0.5 s"),
        Row(what="slipway submit --dry-run", measured=f"{megabytes:.0f} MB", beside="", goal="under 60 MB"),
    ]


def data() -> list[Row]:
    """Preparing BERT's rows, beside the tokenizers library."""
    from scripts.benchmarks_data import data as measure

    return measure()


def training() -> list[Row]:
    """A training step, beside the transformers Trainer's."""
    from scripts.benchmarks_training import training as measure

    return measure()


def glue() -> list[Row]:
    """Fine-tuning on MRPC, beside the transformers Trainer's."""
    from scripts.benchmarks_glue import glue as measure

    return measure()


def estimate() -> list[Row]:
    """What is known before paying, beside importing boto3."""
    from scripts.benchmarks_estimate import estimate as measure

    return measure()


BENCHMARKS: Mapping[str, Callable[[], list[Row]]] = {
    "start-up": start_up,
    "synth": synthesis,
    "yard": yard,
    "data": data,
    "training": training,
    "estimate": estimate,
    "glue": glue,
}


def main(names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"error: unknown benchmark '{unknown[0]}'; allowed are {', '.join(BENCHMARKS)}")
    for name in names or BENCHMARKS:
        for row in BENCHMARKS[name]():
            show(row)


def show(row: Row) -> None:
    parts = [row.what, row.measured, row.beside, row.ratio, row.goal and f"(goal: {row.goal})"]
    padded = [part.ljust(width) for part, width in zip(parts, (42, 14, 26, 12, 0), strict=True)]
    print("  ".join(padded).rstrip(), flush=True)


def compare(what: str, ours: float, other: str, theirs: float, *, goal: str) -> Row:
    return Row(
        what=what,
        measured=f"{ours:.2f} s CPU",
        beside=f"{other} {theirs:.2f} s",
        ratio=f"ratio {ours / theirs:.2f}",
        goal=goal,
    )


def side_by_side(
    ours: Sequence[str], other: Sequence[str], environment: Mapping[str, str]
) -> tuple[float, float]:
    """Median CPU seconds of both, A B A B …, after one run of each that is not counted."""
    times: tuple[list[float], list[float]] = ([], [])
    for run in range(RUNS + 1):
        for command, kept in zip((ours, other), times, strict=True):
            seconds = cpu_seconds(command, {**os.environ, **environment})
            if run:
                kept.append(seconds)
    return statistics.median(times[0]), statistics.median(times[1])


def cpu_seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """User and system time of the command and of all that it started and waited for."""
    before = os.times()
    subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def cpu_and_memory(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Of the command itself, which starts no other: its user and system time, and its most memory."""
    quiet = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    started = os.posix_spawnp(command[0], list(command), environment, file_actions=quiet)
    _, status, used = os.wait4(started, 0)
    assert status == 0, f"{' '.join(command)} failed"
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def wall(command: Sequence[str], environment: Mapping[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return time.perf_counter() - start


def yard_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What `eval "$(slipway yard env)"` would export."""
    script = 'eval "$(slipway yard env)"; env -0'
    answer = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return dict(entry.split("=", 1) for entry in answer.stdout.split("\0") if "=" in entry)


def cdk_context() -> str:
    """The feature flags that the CDK CLI would hand to the app."""
    return json.dumps(json.loads((ROOT / "cdk.json").read_text())["context"])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit("\nerror: interrupted; only the rows above were measured")
