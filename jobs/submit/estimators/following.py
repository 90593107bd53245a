"""What a notebook shows of a training job: its log until it ends, and after Ctrl-C that it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slipway.jobs.submit.estimators.training import SdkTraining
from slipway.jobs.submit.find import refresh
from slipway.jobs.submit.logs import Wanted, follow_lines, mark_of, new_words
from slipway.jobs.words.targets import SageMakerTarget


def print_log(name: str, target: SageMakerTarget) -> None:
    """Print the job's states and all lines of its log until it ends, as `slipway logs --follow` does."""
    found = refresh(name, target)
    for line in follow_lines(found, Wanted(), to_end=True, seen=new_words(print)):
        print(mark_of(line, found.run.nodes) + line.text, flush=True)


@contextmanager
def waiting_for(training: SdkTraining, name: str) -> Iterator[None]:
    """Say at Ctrl-C how to end the job: it goes on, and is billed."""
    try:
        yield
    except KeyboardInterrupt:
        by_name = f"aws sagemaker stop-training-job --region {training.region} --training-job-name {name}"
        command = f"slipway cancel {name}" if training.is_ours else by_name
        print(f"{name} keeps running; end it: {command}", flush=True)
        raise
