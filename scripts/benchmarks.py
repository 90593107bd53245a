"""Measure whole commands side by side: run alternately, median CPU seconds, and the ratio of the medians.

To add one: write a function that returns rows and put it into BENCHMARKS. Ratios travel between machines;
seconds do not.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence

from scripts.benchmark_rows import (
    Row,
    compare,
    cpu_and_memory,
    show,
    side_by_side,
    wall,
    yard_environment,
)

DRY_RUN = ["slipway", "submit", "bert_pretrain", "--on", "dl1", "--nodes", "2", "--dry-run"]
TRAINING_DRY_RUN = ["slipway", "submit", "gptj_finetune", "--on", "sagemaker", "--nodes", "1", "--dry-run"]
# What any program needs that asks AWS one question.
ONE_CLIENT = [sys.executable, "-c", "import boto3; boto3.client('ssm', region_name='us-east-1')"]


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
    """Templates of all clusters and of a new project, beside bare resources."""
    from scripts.benchmarks_synth import synthesis as measure

    return measure()


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
            training, client = side_by_side(TRAINING_DRY_RUN, ONE_CLIENT, environment)
        finally:
            wall(["slipway", "yard", "down"], environment)
    return [
        Row(what="slipway yard up", measured=f"{up:.1f} s wall", beside="", goal="under 10 s"),
        Row(what="cdk deploy --all", measured=f"{deployed:.1f} s wall", beside="", goal="under 60 s"),
        Row(what="slipway submit --dry-run", measured=f"{seconds:.2f} s CPU", beside="", goal="under 0.5 s"),
        Row(what="slipway submit --dry-run", measured=f"{megabytes:.0f} MB", beside="", goal="under 60 MB"),
        compare("submit gptj_finetune --dry-run", training, "boto3 and a client", client, goal="under 0.5 s"),
    ]


def data() -> list[Row]:
    """Preparing BERT's rows, beside the tokenizers library."""
    from scripts.benchmarks_data import data as measure

    return measure()


def tokens() -> list[Row]:
    """Tokenising text for decoders, beside the libraries that encode."""
    from scripts.benchmarks_tokens import tokens as measure

    return measure()


def training() -> list[Row]:
    """A training step, beside the transformers Trainer's."""
    from scripts.benchmarks_training import training as measure

    return measure()


def decoder() -> list[Row]:
    """A decoder's training step, of one process and of two, beside its matrix products alone."""
    from scripts.benchmarks_decoder import decoder as measure
    from scripts.benchmarks_layouts import measure_layouts

    return [*measure(), *measure_layouts()]


def glue() -> list[Row]:
    """Fine-tuning on MRPC, beside the transformers Trainer's."""
    from scripts.benchmarks_glue import glue as measure

    return measure()


def gptj() -> list[Row]:
    """Tuning a GPT-J, beside the transformers Trainer's."""
    from scripts.benchmarks_gptj import gptj as measure

    return measure()


def checkpoints() -> list[Row]:
    """Measure how long a save holds up the training, and what memory saving and loading take."""
    from scripts.benchmarks_checkpoints import checkpoints as measure

    return measure()


def estimate() -> list[Row]:
    """Measure what is known before paying, beside importing boto3."""
    from scripts.benchmarks_estimate import estimate as measure

    return measure()


def plans() -> list[Row]:
    """Plan many jobs for a minute each, beside plans that need no search."""
    from scripts.benchmarks_plans import plans as measure

    return list(measure())


BENCHMARKS: Mapping[str, Callable[[], list[Row]]] = {
    "start-up": start_up,
    "synth": synthesis,
    "yard": yard,
    "data": data,
    "tokens": tokens,
    "training": training,
    "decoder": decoder,
    "estimate": estimate,
    "glue": glue,
    "gptj": gptj,
    "checkpoints": checkpoints,
    "plans": plans,
}


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
