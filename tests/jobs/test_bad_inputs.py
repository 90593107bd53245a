"""Bad input to `slipway submit` is refused in a line that says what is allowed, and nothing is sent.

A case is a row of CASES: its number in docs/bad-inputs.md, what is typed, words of the refusal.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from slipway.jobs.words.run import RETRY_RULES
from slipway.jobs.words.targets import BatchTarget
from tests.jobs.conftest import Slipway
from tests.jobs.deployed import job_names, record_target
from tests.yard.conftest import RunningYard

TRAIN = ("submit", "bert_pretrain", "--on", "dl1", "--nodes", "2")
PREPARE = ("submit", "prepare_bert", "--on", "dl1", "--nodes", "2", "--set", "vocabulary=vocab.txt")


def setting(text: str) -> tuple[str, ...]:
    return (*TRAIN, "--set", text)


def preparing(text: str) -> tuple[str, ...]:
    return (*PREPARE, "--set", text)


CASES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("BI-026", (*TRAIN[:-1], "0"), "--nodes: is 0; allowed is 1 to 1000"),
    ("BI-028", (*TRAIN[:-1], "1.5"), "'1.5' is not a valid integer"),
    ("BI-031", (*TRAIN[:-1], "NaN"), "'NaN' is not a valid integer"),
    ("BI-031", (*TRAIN, "--timeout-hours", "nan"), "nan hours are not allowed; write 0.017 (a minute) to"),
    ("BI-032", (*TRAIN, "--timeout-hours", "inf"), "inf hours are not allowed; write 0.017 (a minute) to"),
    ("BI-032", (*TRAIN, "--timeout-hours", "-1"), "-1 hours are not allowed; write 0.017 (a minute) to"),
    ("BI-032", (*TRAIN[:-1], "1000000000"), "--nodes: is 1000000000; allowed is 1 to 1000"),
    ("BI-043", (*TRAIN, "--attempts", "0"), "--attempts: is 0; allowed is 1 to 10; 1 is no retry"),
    ("BI-044", (*TRAIN, "--attempts", "11"), "--attempts: is 11; allowed is 1 to 10"),
    ("BI-064", setting("zero=4"), "zero is '4', and must be"),
    ("BI-064", setting("zero=-1"), "zero is '-1', and must be"),
    ("BI-064", setting("zero=two"), "zero is 'two', and must be"),
    ("BI-067", (*TRAIN, "--processes-per-node", "16"), "(dl1.24xlarge) has 8 Habana Gaudi HL-205 devices"),
    ("BI-068", setting("precision=fp16"), "precision=fp16 with engine=deepspeed: only native scales losses"),
    ("BI-068", setting("precision=fp8"), "precision is 'fp8', and must be auto or bf16 or fp16 or fp32"),
    ("BI-071", setting("steps=0"), "steps is '0', and must be"),
    ("BI-071", setting("warmup_share=1.5"), "warmup_share is '1.5', and must be"),
    ("BI-071", setting("checkpoint_every=0"), "checkpoint_every is '0', and must be"),
    ("BI-073", setting("keep=0"), "keep is '0', and must be"),
    ("BI-074", setting("seed=-1"), "seed is '-1', and must be"),
    ("BI-074", setting(f"seed={2**64}"), f"seed is '{2**64}', and must be"),
    ("BI-086", (*TRAIN, "--name", "n" * 129), "a name is 1 to 50 letters, digits"),
    ("BI-086", (*TRAIN, "--name", "bert.large"), "--name: 'bert.large' is not allowed"),
    ("BI-086", (*TRAIN, "--name", "bert large"), "--name: 'bert large' is not allowed"),
    ("BI-109", setting("dataset=../../etc/passwd"), "dataset is '../../etc/passwd', and must be"),
    ("BI-109", (*TRAIN, "--data", "../../etc"), "--data: '../../etc' climbs out of its folder"),
    ("BI-109", preparing("input=../../etc"), "input is '../../etc', and must be"),
    ("BI-110", preparing("input=s3://bucket/a//b"), "input is 's3://bucket/a//b', and must be"),
    ("BI-110", preparing("input=s3://bucket/../b"), "input is 's3://bucket/../b', and must be"),
    ("BI-128", preparing("output=/"), "output is '/', and must be"),
    ("BI-128", preparing("output=~"), "output is '~', and must be"),
    ("BI-142", (*TRAIN, "--name", "a; rm -rf /"), "--name: 'a; rm -rf /' is not allowed"),
    ("BI-143", (*TRAIN, "--name", "x\n#SBATCH --uid=0"), r"--name: 'x\n#SBATCH --uid=0' is not allowed"),
    ("BI-145", setting("--config=/etc/shadow"), "'--config' is no name of a setting"),
    ("BI-145", setting("a b=1"), "'a b' is no name of a setting"),
    ("BI-148", setting("size=a\nb"), "its value holds the control character U+000A"),
    ("BI-148", (*TRAIN, "--data", "a\x00b"), "holds the control character U+0000"),
    ("BI-163", setting("resume=perhaps"), "resume is 'perhaps', and must be auto or required or never"),
)


@pytest.mark.parametrize(("row", "typed", "said"), CASES, ids=[f"{row}-{said}" for row, _, said in CASES])
def test_it_is_refused_in_a_line_and_nothing_is_sent(
    row: str,
    typed: tuple[str, ...],
    said: str,
    yard_shell: RunningYard,
    target: BatchTarget,
    slipway: Slipway,
) -> None:
    err = slipway.refused(*typed, code=2)
    assert said in err
    assert "Traceback" not in err
    assert job_names(yard_shell, target) == []


def test_as_many_processes_as_processors_are_refused_on_no_node_without_devices(
    yard_shell: RunningYard, target: BatchTarget, slipway: Slipway
) -> None:
    """BI-067."""
    record_target(yard_shell, replace(target, instance_type="c6i.32xlarge"))
    slipway.told(*TRAIN, "--processes-per-node", "128", "--dry-run")
    err = slipway.told(*TRAIN, "--processes-per-node", "129", "--dry-run", code=2)
    assert "(c6i.32xlarge) has 128 vCPUs" in err


@pytest.mark.usefixtures("target")
def test_a_job_without_a_timeout_gets_the_clusters_and_its_cost_is_told(
    target: BatchTarget, slipway: Slipway
) -> None:
    """BI-049."""
    decided = slipway.json(*TRAIN, "--dry-run")
    seconds = decided["request"]["submit"]["timeout"]["attemptDurationSeconds"]
    assert seconds == target.job_timeout_seconds
    assert decided["ceiling"]["usd"] > 0


def test_a_star_stands_at_the_end_of_every_pattern_of_ends_that_are_tried_again() -> None:
    """BI-047: AWS Batch refuses one that stands elsewhere."""
    for rule in RETRY_RULES:
        for pattern in (rule.on_exit_code, rule.on_status_reason, rule.on_reason):
            assert "*" not in (pattern or "")[:-1]
